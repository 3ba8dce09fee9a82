"""A run that was forked is a run of the program: its answer, its exit code, its environment, its end."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests import forked_program
from tests.program import PROGRAM, runbook

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


def test_what_the_interpreter_reads_when_it_starts_is_read():
    """Mutants: conftest.py forking whatever the environment."""
    assert runbook("list", PYTHONHOME="/nowhere").code != 0
