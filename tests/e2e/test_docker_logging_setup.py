"""Docker's logging is set up by the program itself: a real dockerd under a real systemd, with restarts and a roll-back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, Said, look, runbook
from tests.support.systemd_host import boot

pytestmark = [pytest.mark.real("docker", "systemd")]

UNIT = """[Unit]
DefaultDependencies=no
StartLimitBurst=3
StartLimitIntervalSec=60
[Service]
Type=notify
ExecStart=/usr/sbin/dockerd --data-root {folder}/data --exec-root /run/dx --pidfile /run/docker.pid -H unix:///run/docker.sock --bridge=none --iptables=false --ip6tables=false --exec-opt native.cgroupdriver=cgroupfs {flags}
ExecReload=/bin/kill -s HUP $MAINPID
Restart=always
RestartSec=1
KillMode=process
[Install]
WantedBy=tiny.target
"""
CONFIG = "/etc/docker/daemon.json"
OLD = '{\n    "dns": ["192.0.2.1"],\n    "userland-proxy": false,\n  "log-opts": {"labels": "run"}\n}\n'


class Docker:
    """A dockerd that systemd runs, in namespaces of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.systemd = boot()
        (folder / "data").mkdir()
        (folder / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
        Path("/etc/docker").mkdir(exist_ok=True)
        self.sh(f"mount -t tmpfs none {folder}/data; mount -t tmpfs none /etc/docker")

    def sh(self, text: str, **keys) -> str:
        return self.systemd.run("sh", "-c", text, **keys)

    def start(self, config: str | None, flags: str = "") -> None:
        """Again, with that configuration."""
        self.sh("systemctl stop docker; systemctl reset-failed docker; rm -f /etc/docker/daemon.json*", check=False)
        if config is not None:
            self.systemd.write(CONFIG, config)
        self.systemd.unit("docker.service", UNIT.format(folder=self.folder, flags=flags))
        self.sh("systemctl start docker; docker version")

    def run(self, *argv: str) -> Said:
        where = ("-i", str(self.folder / "hosts.yaml"), "--hosts", "here", "--output", "json")
        words = (*self.systemd.within, *PROGRAM, "run", "docker-logging-setup", *where, "--yes", *argv)
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
        assert done.stdout, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    @property
    def config(self) -> dict:
        return json.loads(self.sh(f"cat {CONFIG}"))

    @property
    def pid(self) -> str:
        return self.systemd.show("docker.service", "MainPID")

    def files(self) -> list[str]:
        return sorted(self.sh("ls /etc/docker").split())


@pytest.fixture(scope="module")
def docker():
    folder = Path(tempfile.mkdtemp(prefix="rb-dls-"))
    made = Docker(folder)
    yield made
    made.sh("systemctl stop docker; docker ps -q", check=False)
    made.systemd.stop()
    shutil.rmtree(folder, ignore_errors=True)


def container(docker: Docker) -> str:
    """A container that runs, and its id."""
    busybox = shutil.which("busybox") or "/bin/busybox"
    docker.sh(
        f"mkdir -p {docker.folder}/i/bin; cp {busybox} {docker.folder}/i/bin/sleep; tar -C {docker.folder}/i -c . | docker import - b:1"
    )
    return docker.sh("docker run -d --network none b:1 sleep 600").strip().splitlines()[-1]


def test_keys_are_merged_and_docker_restarted_once_while_containers_go_on(docker):
    """Mutants: the file overwritten; a restart without live-restore read in; a restart on the second run."""
    docker.start(OLD)
    key, pid = container(docker), docker.pid
    began = docker.sh(f"docker inspect --format '{{{{.State.StartedAt}}}} {{{{.State.Running}}}}' {key}")
    plan = docker.run("--dry-run")
    assert plan.host("here")["verdict"] == "planned"
    assert '+  "live-restore": true' in plan.step("here", "write")["diff"].replace("    ", "  ")
    assert (docker.sh(f"cat {CONFIG}"), docker.pid) == (OLD, pid)
    said = docker.run()
    assert said.host("here")["verdict"] == "resolved", said.out
    assert docker.config == {
        "dns": ["192.0.2.1"],
        "userland-proxy": False,
        "log-driver": "json-file",
        "log-opts": {"labels": "run", "max-size": "100m", "max-file": "5", "compress": "true"},
        "live-restore": True,
    }
    assert said.step("here", "live_restore")["status"] == "changed"
    assert said.step("here", "restart")["status"] == "changed"
    assert said.step("here", "put_back")["status"] == "skipped"
    assert docker.pid != pid
    assert docker.sh(f"docker inspect --format '{{{{.State.StartedAt}}}} {{{{.State.Running}}}}' {key}") == began
    assert docker.sh("docker info --format '{{.LiveRestoreEnabled}}'").strip() == "true"
    (kept,) = [it for it in docker.files() if ".backup-" in it]
    assert docker.sh(f"cat /etc/docker/{kept}") == OLD
    pid = docker.pid
    again = docker.run()
    assert again.host("here")["verdict"] == "healthy", again.out
    assert again.writes() == []
    assert docker.pid == pid
    docker.sh(f"docker rm -f {key}")


@pytest.mark.soak
def test_a_missing_file_is_made(docker):
    docker.start(None)
    said = docker.run()
    assert said.host("here")["verdict"] == "resolved", said.out
    assert docker.config["log-opts"]["max-file"] == "5"
    assert docker.sh(f"stat -c %a {CONFIG}").strip() == "644"


@pytest.mark.soak
def test_where_docker_does_not_come_back_the_old_file_is_put_back_and_docker_runs(docker):
    """Mutants: no put_back; any old backup taken."""
    docker.start(OLD)
    docker.systemd.write(f"{CONFIG}.backup-20990101-000000", '{"debug": true}')
    said = docker.run("-e", 'settings={"storage-driver": "nonsense"}')
    assert said.code == 1
    assert said.step("here", "restart")["status"] == "failed", said.out
    assert said.step("here", "put_back")["status"] == "changed"
    assert said.step("here", "restart_again")["status"] == "changed"
    assert said.host("here")["verdict"] == "failed"
    assert docker.sh(f"cat {CONFIG}") == OLD
    assert any(".refused-" in it for it in docker.files())
    assert docker.sh("docker version --format '{{.Server.Version}}'").strip()
    assert docker.systemd.show("docker.service", "ActiveState") == "active"


@pytest.mark.soak
def test_containers_that_run_outlive_a_restart_that_docker_refuses_and_its_start_with_the_old_file(docker):
    """Mutants: the state of before put back without live-restore."""
    docker.start(None)
    key = container(docker)
    began = docker.sh(f"docker inspect --format '{{{{.State.StartedAt}}}} {{{{.State.Running}}}}' {key}")
    said = docker.run("-e", 'settings={"live-restore": true, "storage-driver": "nonsense"}')
    assert said.step("here", "live_restore")["status"] == "changed", said.out
    assert said.step("here", "restart")["status"] == "failed"
    assert said.step("here", "keep_live_restore")["status"] == "changed"
    assert said.step("here", "restart_again")["status"] == "changed"
    assert said.host("here")["verdict"] == "failed"
    assert docker.config == {"live-restore": True}
    assert docker.sh(f"docker inspect --format '{{{{.State.StartedAt}}}} {{{{.State.Running}}}}' {key}") == began
    docker.sh(f"docker rm -f {key}")


@pytest.mark.soak
def test_a_file_that_is_no_json_is_left_to_a_person(docker):
    docker.start(None)
    docker.systemd.write(CONFIG, '{"debug": true,}\n')
    pid = docker.pid
    said = docker.run()
    assert said.host("here")["verdict"] == "unknown", said.out
    assert "daemon.json" in said.step("here", "config")["why"]
    assert said.writes() == []
    assert docker.pid == pid


@pytest.mark.soak
def test_without_a_restart_the_change_waits_for_the_next_start(docker):
    docker.start(OLD)
    pid = docker.pid
    said = docker.run("-e", "restart=false")
    assert said.host("here")["verdict"] == "resolved", said.out
    assert docker.pid == pid
    late = docker.run()
    assert late.host("here")["verdict"] == "unresolved"
    assert late.writes() == []
    assert "runs without" in late.finding("here", "not_in_effect")["say"]


def here(tmp_path, *argv, **env):
    """Run it on this machine, where no systemd is, with a file of our own."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json", "--yes")
    return runbook("run", "docker-logging-setup", *where, "-e", f"config={tmp_path}/daemon.json", *argv, **env)


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs this machine")
@pytest.mark.soak
def test_without_systemd_the_file_is_written_and_the_restart_is_told_to_a_person(engine, tmp_path):
    said = here(tmp_path, DOCKER_HOST=engine.host)
    assert said.step("here", "write")["status"] == "changed", said.out
    assert said.step("here", "restart")["status"] == "skipped"
    assert "systemd does not run this host" in said.step("here", "restart")["why"]
    assert said.host("here")["verdict"] == "unresolved"
    again = here(tmp_path, DOCKER_HOST=engine.host)
    assert again.writes() == []
    assert "systemctl restart docker" in again.finding("here", "not_in_effect")["advise"][0]


@pytest.mark.parametrize(
    ("there", "settings", "words"),
    [
        ({"max-file": "1"}, {"log-opts": {"compress": "true", "max-size": "1m"}}, "compress=true without a max-file"),
        ({"max-file": 1}, {"log-driver": "local"}, "compress=true without a max-file"),
        ({"max-size": "foo"}, {"live-restore": False}, "max-size=foo"),
    ],
)
@pytest.mark.soak
def test_options_that_no_new_container_would_start_with_are_not_written(engine, tmp_path, there, settings, words):
    """Mutants: `not_set` beside it; the options of the settings alone."""
    (tmp_path / "daemon.json").write_text(old := json.dumps({"log-opts": there}))
    said = here(tmp_path, "-e", f"settings={json.dumps(settings)}", "-e", "restart=false", DOCKER_HOST=engine.host)
    assert said.host("here")["verdict"] == "unresolved", said.out
    assert words in said.finding("here", "no_container_could_start")["say"]
    assert said.writes() == []
    assert (tmp_path / "daemon.json").read_text() == old


@pytest.mark.soak
def test_the_options_that_are_refused_are_those_that_docker_refuses(engine):
    """Each with the engine's own word: a container is started with it."""
    script = look("docker-logging-setup", "refused").args["script"]
    cases = (
        *(
            "",
            "max-size=-1",
            "max-size=0",
            "max-size=foo",
            "max-size=1.5g",
            "max-size=10 MB",
            "max-size=",
            "max-file=0",
        ),
        *("max-file=1", "max-file=x", "compress=true", "compress=yes", "compress=true max-size=1m", "compress=false"),
        *("compress=true max-file=2", "compress=T max-file=10 max-size=1m", "compress=1 max-file=01 max-size=1m"),
    )
    for driver in ("json-file", "local"):
        for case in cases:
            words = re.findall(r"[a-z-]+=(?:[^ ]| (?=MB))*", case)
            said = subprocess.run(["sh", "-c", script, "sh", driver, *words], capture_output=True, check=True)
            options = [it for word in words for it in ("--log-opt", word)]
            argv = ("run", "--rm", "--network", "none", "--log-driver", driver, *options, "base:1", "true")
            done = engine.run(*argv, check=False)
            assert bool(said.stdout) == ("failed to initialize logging driver" in done.stderr), (driver, case, said)


@pytest.mark.parametrize(
    ("there", "settings", "words"),
    [
        (
            {"max-size": "1m"},
            {"log-driver": "journald"},
            "log option max-size: log driver journald does not support it",
        ),
        ({"max-file": 5}, {"live-restore": False}, "log option max-file: must be a text in quotes"),
        ({}, {"log-opts": {"nonsense": "1"}}, "log option nonsense: log driver"),
        ({}, {"log-driver": "jsonfile"}, "log driver jsonfile: this Docker has no such driver"),
        ({}, {"dns": "192.0.2.1"}, "dns: must be a list, but is a text"),
    ],
)
@pytest.mark.soak
def test_a_file_that_docker_would_not_start_with_is_refused_in_the_plan(engine, tmp_path, there, settings, words):
    """Mutants: `not_set` beside it; `write` without `would`."""
    (tmp_path / "daemon.json").write_text(old := json.dumps({"log-opts": there}))
    said = here(tmp_path, "-e", f"settings={json.dumps(settings)}", "--dry-run", DOCKER_HOST=engine.host)
    assert said.host("here")["verdict"] == "unresolved", said.out
    assert words in said.finding("here", "docker_would_not_start")["say"]
    assert said.finding("here", "not_set")["status"] == "absent"
    assert not any(it["status"] == "would_change" for it in said.host("here")["steps"])
    assert (tmp_path / "daemon.json").read_text() == old


@pytest.mark.soak
def test_a_dry_run_on_a_host_that_has_it_all_says_healthy(engine, tmp_path):
    """Mutants: what a plan says of a later turn taken for something that was sent."""
    (tmp_path / "daemon.json").write_text('{"log-driver": "json-file"}')
    said = here(tmp_path, "-e", 'settings={"log-driver": "json-file"}', "--dry-run", DOCKER_HOST=engine.host)
    assert said.host("here")["verdict"] == "healthy", said.out
    assert "changes something" not in said.out


@pytest.mark.soak
def test_a_newer_dockerd_is_asked_before_anything_is_written(engine, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dockerd").write_text(
        "#!/bin/sh\ncase $1 in --help) echo '      --validate'; exit;; esac\n"
        f"[ \"$1 $2\" = '--validate --config-file' ] && cp \"$3\" {tmp_path}/asked\necho 'unknown key' >&2; exit 1\n"
    )
    (tmp_path / "bin/dockerd").chmod(0o755)
    (tmp_path / "daemon.json").write_text('{"nonsense": 1}')
    said = here(tmp_path, DOCKER_HOST=engine.host, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    found = said.finding("here", "docker_would_not_start")
    assert (found["status"], said.host("here")["verdict"]) == ("present", "unresolved"), said.out
    assert "dockerd --validate: unknown key" in found["say"]
    assert said.step("here", "write")["status"] == "skipped"
    assert said.writes() == []
    assert (tmp_path / "daemon.json").read_text() == '{"nonsense": 1}'
    assert json.loads((tmp_path / "asked").read_text())["nonsense"] == 1
    assert said.step("here", "restart")["status"] in ("skipped", "blocked")


def test_a_docker_that_is_down_is_unknown_and_nothing_is_written(tmp_path):
    said = here(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert said.host("here")["verdict"] == "unknown"
    assert said.writes() == []
    assert not (tmp_path / "daemon.json").exists()


@pytest.mark.soak
def test_an_undo_restores_the_settings_and_says_that_docker_was_not_restarted_with_them(docker):
    docker.start(OLD)
    said = docker.run()
    assert said.code == 0, said.out + said.err
    assert docker.config["live-restore"] is True
    where = ("-i", str(docker.folder / "hosts.yaml"), "--output", "json", "--yes")
    words = (*docker.systemd.within, *PROGRAM, "undo", "last", *where)
    undone = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert docker.sh(f"cat {CONFIG}").strip() == OLD.strip()
    assert "what is restored counts after its next one" in undone.stderr
