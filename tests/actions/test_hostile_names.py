"""Names that users give to their processes and files cannot pass for a line, or a record, of what we asked (law 9)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from runbook.language.arguments import build
from runbook.library.files import files
from runbook.library.gpu import growth
from runbook.library.gpu.growth import LINES, ask_samples, read_samples
from runbook.library.system.starts import ask_logs, read_logs
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each

shells = pytest.mark.parametrize("shell", each(SHELLS))

CALLED = """
import sys
held = bytearray(30 << 20)
open("/proc/self/comm", "w").write(sys.argv[1]); print("called", flush=True); sys.stdin.read()
"""


@shells
@pytest.mark.parametrize("name", ["sample 9", "sample x", "\nsample 9\nheld"])
def test_a_process_called_like_a_line_of_ours_hides_no_other(shell, name):
    """Mutant: samples.py taking `sample` for a line of its own anywhere."""
    argv = [sys.executable, "-c", CALLED, name]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as called:
        assert called.stdout
        assert called.stdout.readline() == "called\n"
        (done,) = Here(shell=SHELLS[shell]).run(ask_samples(3, 0.1))
        samples = read_samples(done)
        called.communicate()
    assert len(samples) == 3
    for sample in samples:
        assert not isinstance(sample.used, Unknown)
        assert {called.pid, os.getpid()} <= {it.pid for it in sample.held.values()}


def grown(*blocks):
    made = build(growth.Args, {"samples": 3, "gpus": False, "at_least": "1MiB"})
    stdout = "".join(f"sample {at}\nmem MemTotal 9\nmem MemAvailable 1\n{it}" for at, it in enumerate(blocks))
    return drive(growth.probe(made), Canned(stdout))


class Canned:
    def __init__(self, stdout):
        self.stdout = stdout

    def run(self, *commands):
        return tuple(Completed(exit_code=0, stdout=self.stdout) for _ in commands)


def test_many_large_processes_of_one_user_do_not_make_a_leak_of_another_none():
    """Mutant: library/gpu/growth/__init__.py without `others`. Who maps the same memory often has as many large processes as he likes."""
    full, small = "held 2048 7 1 theirs\nmore\n", "held 512 7 1 theirs\nmore\n"
    assert "with the most memory" in grown(full, full, full).processes.why
    assert grown(small, small, small).processes == ()
    leaks = "".join
    rising = [leaks((f"held {at * 4096} 8 1 leak\n", full)) for at in (1, 2, 3)]
    assert [it.name for it in grown(*rising).processes] == ["leak"]


def test_what_comes_back_of_many_samples_has_a_bound():
    assert [int(ask_samples(samples, 1).argv[2]) * samples <= LINES for samples in (3, 30, 1000)] == [True] * 3


@shells
def test_a_file_whose_name_is_a_record_is_one_file(tmp_path, shell):
    """Mutant: listing.py with byte 1 alone at the end of a record."""
    theirs = tmp_path / "theirs" / "a\x01\n5 1 81a4 " / "data" / "step_900"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("x")
    (tmp_path / "theirs" / "b\x01\nnow x\x01\nmissing c").write_text("y")
    made = build(files.Args, {"paths": [f"{tmp_path}/theirs"], "inside": "*"})
    state = drive(files.probe(made), Here(shell=SHELLS[shell]))
    assert state.count == 2
    assert state.missing == ()
    assert all(it.path.startswith(f"{tmp_path}/theirs/") for it in state.files)


@shells
def test_a_log_whose_name_has_lines_says_nothing_of_another(tmp_path, shell):
    """Mutant: start_times.sh with the name as it is."""
    (tmp_path / "a.log").write_text("2026-11-22 01:00:00 real\n")
    (tmp_path / "b\nfile c.log\n 2026-11-22 02:00:00 started\nmissing d.log").write_text("")
    (done,) = Here(shell=SHELLS[shell]).run(ask_logs((f"{tmp_path}/*",)))
    logs = read_logs(done)
    assert [it.text for it in logs.lines if it.text] == ["2026-11-22 01:00:00 real"]
    assert len(logs.files) + len(logs.unreadable) == 2
    assert logs.missing == ()
