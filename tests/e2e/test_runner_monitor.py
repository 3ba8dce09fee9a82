"""A host writes pictures of itself: as a service of a real systemd, in a real tmux session, and under a busybox alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, Said, runbook
from tests.support.systemd_host import boot
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "playbooks/files/runner-monitor.sh"
NO_SYSTEMD = pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs this machine")
SHELLS = [("dash",), ("bash", "--posix"), pytest.param(("busybox", "sh"), marks=pytest.mark.real("busybox"))]


def argv(place, *more):
    (place / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(place / "hosts.yaml"), "--hosts", "here", "--output", "json", "--yes")
    return ("run", "runner-monitor", *where, "-e", f"folder={place}/runner-monitoring", "-e", "every=1", *more)


def logs(place):
    return sorted((place / "runner-monitoring").glob("runner-*.log"))


def grows(place):
    """Wait for a second picture in the newest log."""
    until(lambda: logs(place) and logs(place)[-1].read_text().count("=====") >= 2, "a second picture")
    return logs(place)[-1].read_text()


@pytest.mark.real("systemd")
@pytest.mark.soak
def test_a_service_that_survives_and_a_second_run_that_sends_nothing():
    """Mutants: the unit without its user, or with a folder that systemd reads % in."""
    systemd = boot()
    place = Path(tempfile.mkdtemp(prefix="rb 100%-"))

    def run(*more):
        words = (*systemd.within, *PROGRAM, *argv(place, *more))
        done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
        assert done.stdout, done.stderr
        return Said(done.returncode, done.stdout, done.stderr)

    try:
        # a unit with the default dependencies: where the machine's own units were known, they would be started too
        assert systemd.run("systemctl", "cat", "systemd-tmpfiles-setup.service", check=False) == ""
        assert systemd.run("ls", "/usr/lib/tmpfiles.d") == ""
        plan = run("--dry-run")
        assert plan.host("here")["verdict"] == "planned", plan.out
        assert logs(place) == []
        said = run()
        assert said.host("here")["verdict"] == "resolved", said.out
        unit = systemd.run("cat", "/etc/systemd/system/runner-monitor.service")
        for it in ("After=docker.service", "Type=simple", "User=root", "Restart=always", "RestartSec=10", "WantedBy="):
            assert it in unit
        assert systemd.show("runner-monitor.service", "ActiveState") == "active"
        assert systemd.run("systemctl", "is-enabled", "runner-monitor").strip() == "enabled"
        assert "--- memory" in grows(place)
        again = run()
        assert again.host("here")["verdict"] == "healthy", again.out
        assert again.writes() == []
        pid = systemd.show("runner-monitor.service", "MainPID")
        (place / "runner-monitoring/runner-monitor.sh").write_text("#!/bin/sh\nexec sleep 100\n")
        mended = run()
        assert mended.host("here")["verdict"] == "resolved", mended.out
        assert mended.step("here", "again")["status"] == "changed"
        assert systemd.show("runner-monitor.service", "MainPID") != pid
        systemd.run("systemctl", "stop", "runner-monitor")
        assert run("--dry-run").finding("here", "not_watched")["status"] == "present"
    finally:
        systemd.run("systemctl", "stop", "runner-monitor", check=False)
        systemd.stop()
        shutil.rmtree(place)


@pytest.mark.real("tmux")
@NO_SYSTEMD
@pytest.mark.soak
def test_without_systemd_a_tmux_session(tmp_path):
    tmux = tempfile.mkdtemp(prefix="rb-tmux-")
    env = {"TMUX_TMPDIR": tmux}
    try:
        said = runbook(*argv(tmp_path), timeout=60, **env)
        assert said.host("here")["verdict"] == "resolved", said.out
        assert "--- disks" in grows(tmp_path)
        again = runbook(*argv(tmp_path), timeout=60, **env)
        assert again.host("here")["verdict"] == "healthy", again.out
        assert again.writes() == []
    finally:
        subprocess.run(["tmux", "kill-server"], env={**os.environ, **env}, check=False, capture_output=True, timeout=20)
        shutil.rmtree(tmux)


@pytest.mark.real("busybox")
@NO_SYSTEMD
def test_a_host_with_a_busybox_alone_is_told_what_is_missing(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    subprocess.run(["busybox", "--install", "-s", str(tools)], check=True)
    said = runbook(*argv(tmp_path, "-e", "how=tmux"), PATH=str(tools), timeout=60)
    assert said.host("here")["verdict"] != "healthy", said.out
    assert said.finding("here", "not_watched")["status"] == "present", said.out
    assert "tmux is not installed on this host" in said.step("here", "start_session")["why"]
    assert "nohup sh" in said.finding("here", "not_watched")["advise"][0]


def picture(tmp_path, *shell, path=None, samples="1"):
    folder = tmp_path / f"out-{len(list(tmp_path.iterdir()))}"
    env = {**os.environ, **({"PATH": path} if path else {})}
    words = [*shell, str(SCRIPT), str(folder), "1", samples]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (log,) = folder.glob("runner-*.log")
    return log.read_text()


@pytest.mark.parametrize("shell", SHELLS)
def test_a_picture_has_every_part_and_says_what_it_cannot_know(shell, tmp_path):
    seen = picture(tmp_path, *shell)
    for part in (
        "memory",
        "processes that take most of the CPU",
        "GPUs",
        "containers",
        "disks",
        "killed for memory since",
    ):
        assert f"--- {part}" in seen
    assert re.search(r"--- killed for memory since this log began\n(\d|unknown)", seen)


@pytest.mark.real("busybox")
def test_a_picture_under_a_busybox_alone_says_unknown_and_never_nothing(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    subprocess.run(["busybox", "--install", "-s", str(tools)], check=True)
    seen = picture(tmp_path, str(tools / "sh"), path=str(tools))
    assert "unknown: no docker command on this host" in seen
    assert "Mem:" in seen
    assert "COMMAND" in seen


def test_a_secret_on_a_command_line_stays_out_of_the_log(tmp_path):
    with subprocess.Popen(["sh", "-c", "while :; do :; done # token=hunter2"]) as busy:
        try:
            assert "hunter2" not in picture(tmp_path, "sh")
        finally:
            busy.kill()


def test_kills_since_the_beginning_are_counted_whatever_their_letters(tmp_path):
    """Mutants: a search for "killed process" that knows no capitals; `grep -c` with a second 0."""
    tools, ring = tmp_path / "tools", tmp_path / "ring"
    tools.mkdir()
    ring.write_text("[1.0] Killed process 7 (old)\n")
    for name, text in (
        ("awk", "exit 1"),  # a kernel without that counter
        ("dmesg", f"cat {ring}"),
        ("sleep", f"echo '[2.0] Out of memory: Killed process 8 (python3)' >>{ring}"),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    seen = picture(tmp_path, "dash", path=path, samples="2")
    first, second = re.findall(r"--- killed for memory since this log began\n((?:(?!---).+\n)*)", seen)
    assert first == "0\n"
    assert second.splitlines()[0] == "1"
    assert "python3" in second
    (tools / "dmesg").write_text("#!/bin/sh\nexit 1\n")
    assert "unknown: neither /proc/vmstat nor dmesg tells" in picture(tmp_path, "dash", path=path)


def test_the_newest_ten_logs_stay(tmp_path):
    folder, name = tmp_path / "logs", os.uname().nodename
    folder.mkdir()
    for it in range(15):
        (folder / f"runner-{name}-20260101-0000{it:02}.log").write_text("old")
    (folder / "runner-other-20260101-000000.log").write_text("of another host")
    subprocess.run(["sh", str(SCRIPT), str(folder), "1", "1"], check=True, timeout=60)
    mine = sorted(it.name for it in folder.glob(f"runner-{name}-*.log"))
    assert len(mine) == 10
    assert mine[0].endswith("000006.log")
    assert (folder / "runner-other-20260101-000000.log").exists()


def test_the_package_brings_all_that_lies_beside_the_playbooks():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["force-include"]["playbooks"] == "runbook/playbooks", "the folder, with its files"
    assert "exclude" not in build
    assert "exclude" not in build["targets"]["wheel"]


def test_the_package_installs_the_program_under_its_own_name_and_nothing_else():
    """Mutants: ``packages = ["engine"]``; a distribution by the name that is another project's on PyPI."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["engine/runbook"]
    assert settings["project"]["name"] == "runbook-engine"
    from_pypi = re.compile(r"pip install ['\"]?runbook(?![-\w])")
    pages = [
        path
        for end in ("md", "py", "yaml", "sh", "toml")
        for path in ROOT.rglob(f"*.{end}")
        if ".venv" not in path.parts
    ]
    assert [path for path in pages if from_pypi.search(path.read_text()) and path != Path(__file__)] == []
