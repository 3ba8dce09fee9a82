"""Ctrl-C before anything has begun, and a reader that has gone: the program ends without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import PROGRAM

SLOW = "import os, time\nos.write(1, b'importing')\nos.close(1)\ntime.sleep(60)\n"


def started(tmp_path, **keys) -> subprocess.Popen:
    """The program, in the middle of its imports."""
    (tmp_path / "click.py").write_text(SLOW)
    process = subprocess.Popen(
        (*PROGRAM, "list"), env={**os.environ, "PYTHONPATH": str(tmp_path)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keys,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.read() == "importing"
    return process


def test_ctrl_c_while_the_program_is_being_imported_prints_nothing(tmp_path):
    """Mutants: __main__.py importing the program before it heeds the signal."""
    process = started(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130


def test_ctrl_c_prints_nothing_from_the_first_import_of_the_installed_program_on(tmp_path):
    """Mutants: bin/runbook that heeds the signal after its imports, or not at all."""
    (tmp_path / "runbook").mkdir()
    (tmp_path / "runbook/__init__.py").write_text(SLOW)
    script = Path(__file__).parents[2] / "bin/runbook"
    assert next(it for it in script.read_text().splitlines() if "import" in it and '"' not in it) == "import _signal"
    process = subprocess.Popen(
        (sys.executable, str(script), "list"), env={**os.environ, "PYTHONPATH": str(tmp_path)}, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.read() == "importing"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 130


def test_what_a_shell_has_put_in_the_background_heeds_no_ctrl_c(tmp_path):
    """Mutants: __main__.py taking SIGINT also where it is ignored."""
    process = started(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    "words",
    [
        ("schema",),
        pytest.param(("list",), marks=pytest.mark.slow),
        ("hosts", "-i", "hosts.yaml"),
        ("--help",),
        ("actions", "pkill"),
    ],
)
def test_a_reader_that_has_gone_ends_what_only_prints_as_sigpipe_does(tmp_path, words):
    """Mutants: cli without `end_as_by_sigpipe`."""
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {transport: local}}\n")
    theirs, ours = os.pipe()
    os.close(theirs)
    process = subprocess.Popen(
        (sys.executable, "-m", "runbook", *words), stdin=subprocess.DEVNULL, stdout=ours, stderr=subprocess.PIPE,
        text=True, cwd=tmp_path,
    )  # fmt: skip
    os.close(ours)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == -signal.SIGPIPE
