"""A run that was forked is a run of the program: its answer, its exit code, its environment, its end."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import forked_program
from tests.support.program import PROGRAM, begun, on_terminal, runbook
from tests.support.waiting import until

HOSTS = "hosts:\n  here: {transport: local, gpu: none}\n"


@pytest.fixture
def server():
    made = forked_program.Server.start()
    yield made
    made.stop()
    assert made.process.returncode == 0


@pytest.mark.parametrize(
    "argv",
    [
        ("run", "nosuch", "--hosts", "here"),
        ("actions",),
        pytest.param(("--help",), marks=pytest.mark.slow),
        pytest.param(("hosts", "-i", "hosts.yaml"), marks=pytest.mark.slow),
    ],
)
def test_it_says_and_returns_what_a_process_of_its_own_does(server, tmp_path, argv):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    plain = subprocess.run((*PROGRAM, *argv), capture_output=True, text=True, cwd=tmp_path, check=False)
    assert server.run(argv, dict(os.environ), str(tmp_path), 60) == (plain.returncode, plain.stdout, plain.stderr)


def test_runs_share_nothing_but_what_was_imported(server, tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    argv = (
        "exec",
        "here",
        "--read",
        "-i",
        f"{tmp_path}/hosts.yaml",
        "--output",
        "json",
        "--",
        "sh",
        "-c",
        'echo "$$ $PPID $ODD"; pwd',
    )
    said = [server.run(argv, {**os.environ, "ODD": odd}, str(tmp_path), 60)[1] for odd in ("one", "two")]
    assert ["one" in it for it in said] == [True, False]
    assert ["two" in it for it in said] == [False, True]


def test_one_that_takes_too_long_is_killed(server, tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    argv = ("exec", "here", "-i", f"{tmp_path}/hosts.yaml", "--yes", "--", "sleep", "600")
    with pytest.raises(subprocess.TimeoutExpired):
        server.run(argv, dict(os.environ), str(tmp_path), 1)
    assert server.run(("hosts", "-i", "hosts.yaml"), dict(os.environ), str(tmp_path), 60)[0] == 0


def test_one_on_a_terminal_reads_what_was_typed(tmp_path):
    """Mutants: a run that is given no stdin; one whose stdin is the next one's, too."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    argv = ("exec", "here", "-i", "hosts.yaml", "--", "touch", str(tmp_path / "mark"))
    refused, said = on_terminal(argv, "n\n", cwd=tmp_path)
    assert (refused, "[y/N]" in said, (tmp_path / "mark").exists()) == (130, True, False), said
    assert (on_terminal(argv, "y\n", cwd=tmp_path)[0], (tmp_path / "mark").exists()) == (0, True)
    assert "there is no terminal to ask on" in runbook(*argv, cwd=tmp_path).out


def writers(pipe: Path) -> list[int]:
    """Our end of *pipe*, once somebody has opened the other one."""
    with suppress(OSError):
        return [os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)]
    return []


def test_one_beside_the_test_is_told_from_others_and_ended_by_its_own_signals(tmp_path):
    """Mutants: a server that waits for each run before the next; one that tells the end of another run."""
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    pipes = [tmp_path / "killed", tmp_path / "interrupted"]
    for pipe in pipes:
        os.mkfifo(pipe)
    argv = ("exec", "here", "--read", "-i", "hosts.yaml", "--", "cat")
    slow = [begun(*argv, str(pipe), cwd=tmp_path) for pipe in pipes]
    held = [until(lambda pipe=pipe: writers(pipe), str(pipe), within=20) for pipe in pipes]
    assert begun(*argv, "hosts.yaml", cwd=tmp_path).wait() == 0
    assert [run.poll() for run in slow] == [None, None]
    slow[0].kill()
    slow[1].send_signal(signal.SIGINT)
    assert [run.wait() for run in slow] == [-signal.SIGKILL, 130]
    for (end,) in held:
        os.close(end)


def test_what_the_interpreter_reads_when_it_starts_is_read():
    """Mutants: conftest.py forking whatever the environment."""
    assert runbook("list", PYTHONHOME="/nowhere").code != 0
