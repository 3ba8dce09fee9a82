"""A Docker that is not there, down, deaf, or not for us: each is reported apart, and none is an empty answer."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.library.docker import docker_prune
from runbook.library.docker.facts import disk_usage
from runbook.library.docker.facts.engine import amount, bytes_of, epoch, when
from runbook.protocols import Absent
from tests.support.probe_driver import drive
from tests.support.program import runbook
from tests.support.real_processes import NOBODY, Machine

DEAD = "the Docker daemon is not running, or does not listen at unix:///run/docker.sock"


def test_the_words_for_a_dead_docker_lead_to_its_playbook():
    """Mutant: the symptom left out."""
    assert "docker-recover" in runbook("find", DEAD).out


SHELLS = [
    "dash",
    pytest.param("bash", marks=pytest.mark.soak),
    pytest.param("busybox sh", marks=pytest.mark.real("busybox")),
]


def look(machine):
    return drive(docker_prune.probe(docker_prune.Args()), machine)


def fake(folder: Path, text: str) -> Path:
    """A docker command of our own."""
    folder.mkdir()
    (folder / "docker").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "docker").chmod(0o755)
    return folder


def hidden(*more: str) -> tuple[str, ...]:
    """A host without the docker command and without other processes."""
    lines = ["mount -t tmpfs none /mnt"]
    for place in {
        str(Path(it).resolve()) for it in ("/usr/local/bin", "/usr/bin", "/bin") if Path(it, "docker").exists()
    }:
        gone = f"/mnt/{place.replace('/', '_')}"  # a device 0:0 in an upper layer hides what is below it
        lines += [
            f"mkdir {gone}",
            f"mknod {gone}/docker c 0 0",
            f"mount -t overlay -o lowerdir={gone}:{place} none {place}",
        ]
    lines += ["mount -t tmpfs none /run", *more]
    return ("unshare", "-m", "-p", "--fork", "--mount-proc", "sh", "-ec", "\n".join([*lines, 'exec "$@"']), "sh")


@pytest.mark.real("lab")
@pytest.mark.parametrize("name", SHELLS)
def test_no_command_no_socket_and_no_daemon_is_proven_absence(name):
    seen = look(Machine(shell=tuple(name.split()), before=hidden()))
    assert isinstance(seen, Absent)
    assert seen.why.startswith("no Docker on this host")
    assert seen.state.reclaimable == 0


@pytest.mark.real("lab")
@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("mount --bind $SOCKETS /run", "found the socket /var/run/docker.sock, but no docker command"),
        (
            "cp $(command -v sleep) /run/dockerd; /run/dockerd 60 & until grep -qx dockerd /proc/$!/comm; do sleep 0.02; done",
            "found a dockerd process, but no docker command",
        ),
    ],
)
def test_a_socket_or_a_daemon_without_the_command_is_no_absence(name, there, words, tmp_path):
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "docker.sock"))
        machine = Machine(shell=tuple(name.split()), before=hidden(there.replace("$SOCKETS", str(tmp_path))))
        with pytest.raises(ProbeError, match=words):
            look(machine)


@pytest.mark.real("docker")
@pytest.mark.parametrize("name", SHELLS)
def test_a_daemon_that_is_down_is_named_with_what_to_look_at(name, tmp_path):
    machine = Machine(shell=tuple(name.split()), before=("env", f"DOCKER_HOST=unix://{tmp_path}/docker.sock"))
    with pytest.raises(
        ProbeError,
        match=f"the Docker daemon is not running, or does not listen at unix://{tmp_path}/docker.sock; .*journalctl",
    ):
        look(machine)


@pytest.mark.real("docker")
def test_a_daemon_that_accepts_and_never_answers_hangs(tmp_path):
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "docker.sock"))
        deaf.listen(20)
        machine = Machine(before=("env", f"DOCKER_HOST=unix://{tmp_path}/docker.sock"), timeout=2)
        with pytest.raises(ProbeError, match=r"does not answer \(nothing in \d+(\.\d)? s\): its daemon hangs"):
            look(machine)


@pytest.mark.real("docker", "setpriv")
def test_a_socket_that_is_not_for_us_asks_for_become(engine):
    engine.folder.chmod(0o755)
    machine = Machine(before=("env", f"DOCKER_HOST={engine.host}", *NOBODY))
    with pytest.raises(ProbeError, match="no permission to talk to Docker: give the step `become: true`"):
        look(machine)


def test_podman_that_answers_for_docker_is_told_apart(tmp_path):
    podman = fake(tmp_path / "bin", 'echo "Emulate Docker CLI using podman." >&2; echo "podman version 4.3.1"')
    with pytest.raises(ProbeError, match="the docker command on this host is podman"):
        look(Machine(path=podman))


def test_an_answer_that_is_cut_off_is_no_answer(tmp_path):
    noise = fake(tmp_path / "bin", "echo 'engine {\"version\":'")
    with pytest.raises(ProbeError, match="the output of docker could not be parsed"):
        look(Machine(path=noise))


def test_a_docker_that_says_nothing_is_no_healthy_host(tmp_path):
    with pytest.raises(ProbeError, match="the output of docker is incomplete"):
        look(Machine(path=fake(tmp_path / "bin", "exit 0")))
    with pytest.raises(ProbeError, match="exit code 1 and no message"):
        look(Machine(path=fake(tmp_path / "silent", "exit 5")))


def test_times_and_sizes_are_read_as_docker_writes_them():
    assert (
        epoch("2026-11-21T21:12:14.300512353Z") == epoch("2026-11-21 21:12:14.300512353 +0000 UTC") == 1795295534.300512
    )
    assert epoch("2026-11-21T22:12:14.3+01:00") == epoch("2026-11-21T21:12:14.3Z")
    assert (epoch("0001-01-01T00:00:00Z"), epoch(""), epoch("soon")) == (0, 0, 0)
    assert when("0001-01-01T00:00:00Z") == "never"
    assert [bytes_of(it) for it in ("0B", "13.5MB", "185.7kB", "1.982MB", "2TB", "1e+03kB")] == [
        0,
        13_500_000,
        185_700,
        1_982_000,
        2 * 10**12,
        10**6,
    ]
    assert [amount(it) for it in (0, 999, 1_000, 13_500_000, 2 * 10**12)] == ["0 B", "999 B", "1 kB", "13.5 MB", "2 TB"]
    with pytest.raises(ProbeError, match="a size that docker printed could not be parsed"):
        bytes_of("13.5 parsecs")


@pytest.mark.real("docker")
def test_another_count_at_the_same_time_is_waited_for(engine, tmp_path):
    """Engines up to 20.10 refuse a second count while one is running."""
    real = shutil.which("docker")
    count = tmp_path / "count"
    wrapper = fake(
        tmp_path / "bin",
        f'''case "$1 $2" in "system df") echo x >>{count}
        [ "$(wc -l <{count})" -gt 2 ] || {{ echo "Error response from daemon: a disk usage operation is already running" >&2; exit 1; }};; esac
        exec {real} "$@"''',
    )
    state = drive(docker_prune.probe(docker_prune.Args()), engine.machine(path=str(wrapper)))
    assert state.build_cache == ()
    assert len(count.read_text().splitlines()) == 3


@pytest.mark.real("docker")
def test_a_count_that_hangs_leaves_the_rest_known(engine, tmp_path):
    real = shutil.which("docker")
    slow = fake(tmp_path / "bin", f'case "$1 $2" in "system df") exec sleep 60;; esac\nexec {real} "$@"')
    engine.dies(name="old")
    machine = engine.machine(path=str(slow))
    machine.timeout = 5
    made = docker_prune.Args(older_than=0, keep_dead=0)
    state = drive(docker_prune.probe(made), machine)
    assert [it.name for it in state.dead] == ["old"]
    assert "its daemon hangs" in state.build_cache.why
    assert "build cache and volumes could not be listed" in docker_prune.decide(made, state).summary


@pytest.mark.real("docker")
def test_the_older_client_is_understood_too(engine):
    old = Path("/usr/bin/docker")
    if not old.exists():
        pytest.skip("left out: only one docker command here")
    engine.dies(name="old")
    engine.build("k:1", "echo k >/k", kit=True)
    made = docker_prune.Args(older_than=0, keep_dead=0, images="unused")
    machine = engine.machine(path=str(old.parent))
    state = drive(docker_prune.probe(made), machine)
    machine.run(*docker_prune.decide(made, state).commands)
    assert (engine.names(), engine.images()) == (set(), set())
    assert subprocess.run([old, "--version"], check=True, capture_output=True).returncode == 0


THINGS = disk_usage.Things(
    version="28.0", root="/var/lib/docker", now=0.0, endpoint="", snapshots=False,
    containers=(), images=(), only=None, keep=frozenset(),
)  # fmt: skip


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("broken", ["*--filter*", "'volume ls -q'", "'volume inspect'*"])
def test_a_volume_listing_that_fails_is_a_fault_and_no_volume_without_labels(name, broken, tmp_path):
    """Mutants: disk_usage.py ``_VOLUMES`` going on where docker does not answer."""
    text = f"""
case $1 in version) echo 'engine {{"version":"28.0"}}'; exit 0 ;; esac
case $* in {broken}) echo 'the engine is ill' >&2; exit 1 ;; esac
case $* in
    'volume ls'*) echo kept ;;
    'volume inspect'*) echo 'named {{"name":"kept","created":"2026-01-01T00:00:00Z"}}' ;;
esac"""
    machine = Machine(shell=tuple(name.split()), path=fake(tmp_path / "bin", text))
    asked = disk_usage.ask_volumes((), ("keep=me",))
    with pytest.raises(ProbeError, match="the engine is ill"):
        disk_usage.with_volumes(THINGS, (), machine.run(asked)[0], ())
    (tmp_path / "bin/docker").write_text((tmp_path / "bin/docker").read_text().replace(broken, "no-such-words"))
    things, _ = disk_usage.with_volumes(THINGS, (), machine.run(asked)[0], ())
    assert things.keep == {"kept"}
