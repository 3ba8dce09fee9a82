"""The table of processes is right whatever a process calls itself, on any POSIX shell, and cheap."""

from __future__ import annotations

import os
import shutil
import sys
import time

import pytest
from stage import NOBODY, Machine, start_of

from engine.errors import ProbeError
from engine.facts.processes import ask_processes, read_processes, table_of
from engine.values.command import Completed
from engine.values.text import Unknown


def table(machine: Machine):
    return read_processes(machine.run(ask_processes())[0])


def test_a_process_is_known_by_pid_and_start_with_user_age_and_whole_command_line(machine, stage):
    job = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, "a  b", "c"])
    row = table(machine).rows[job.pid]
    assert row.process.start == start_of(job.pid)
    assert row.process.ppid == os.getpid()
    assert row.process.user in ("root", str(os.getuid())) or os.getuid()
    assert row.line == f"bash -c echo up; sleep 600; true {stage.word} a  b c"
    assert not isinstance(row.process.seconds, Unknown)
    assert 0 <= row.process.seconds < 60
    assert row.group == job.pid


@pytest.mark.parametrize("name", ["x) S 1 1 1", "a\nb) Z 1", "((", ") ", "\t 9 ü"])
def test_a_name_cannot_break_the_table(machine, stage, name):
    """The kernel keeps 15 bytes of whatever a process calls itself, newlines and brackets too."""
    job = stage.start([sys.executable, "-c", CALLS_ITSELF, name])
    row = table(machine).rows[job.pid]
    assert row.process.start == start_of(job.pid)
    assert row.process.ppid == os.getpid()
    assert row.process.state == "S"
    assert row.name.encode("utf-8", "surrogateescape") == name.encode()[:15]


CALLS_ITSELF = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
print("up", flush=True)
time.sleep(600)
"""


def test_an_argument_cannot_pass_for_another_process_nor_for_a_line_of_ours(machine, stage):
    victim = stage.job()
    lie = f"x\n/proc/{victim.pid}/cmdline:sglang\na {victim.pid} sglang\np 1 S 0 0 0 1 1 0 - x\nself 1 1 0 1"
    liar = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, lie, "'\"\\ $(true)", "", "end"])
    seen = table(machine)
    assert "sglang" not in seen.rows[victim.pid].line
    assert seen.rows[liar.pid].argv[-3:] == (lie, "'\"\\ $(true)", "end")
    assert seen.rows[1].process.ppid == 0


def test_bytes_that_are_no_text_are_kept_apart(machine, stage):
    job = stage.start([b"bash", b"-c", b"echo up; sleep 600; true", stage.word.encode(), b"\xff\x80\x01z"])
    assert table(machine).rows[job.pid].argv[3] == stage.word


def test_we_ourselves_and_all_that_we_started_are_not_in_it(machine):
    seen = table(machine)
    assert os.getpid() in seen.way_in
    assert all(it.process.ppid not in seen.own for it in seen.rows.values())
    assert not any("cmdline" in it.line and "again" in it.line for it in seen.rows.values())


def test_kernel_threads_are_left_out_and_the_first_process_is_not(machine):
    seen = table(machine)
    assert 1 in seen.rows
    assert 2 not in seen.rows or seen.rows[2].argv


def test_a_zombie_is_listed_as_one(machine, stage):
    parent = stage.start(["bash", "-c", "sleep 0.2 & echo up; exec sleep 600"])
    time.sleep(0.5)
    mine = [it for it in table(machine).rows.values() if it.process.ppid == parent.pid]
    assert [it.process.state for it in mine] == ["Z"]
    assert mine[0].defunct
    assert mine[0].process.command == "[sleep]"


@pytest.mark.real("root", "setpriv")
def test_another_user_sees_the_same_processes(stage):
    job = stage.job()
    assert table(Machine(before=NOBODY)).rows[job.pid].process.user == "root"


@pytest.mark.parametrize("code", [124, 143], ids=["coreutils", "busybox"])
def test_a_process_that_hangs_its_reader_costs_only_itself(stage, tmp_path, code):
    """Behind a lock that a process stuck in the kernel holds, a reader of its arguments waits for ever."""
    hung, other = stage.job(), stage.job()
    for name in ("grep", "cat"):
        slow = f'case " $* " in *" /proc/{hung.pid}/cmdline "*) exec sleep 60 ;; esac'
        (tmp_path / name).write_text(f'#!/bin/sh\n{slow}\nexec {shutil.which(name)} "$@"\n')
        (tmp_path / name).chmod(0o755)
    late = f'{shutil.which("timeout")} "$@"; r=$?; [ $r = 124 ] && exit {code}; exit $r'
    (tmp_path / "timeout").write_text(f"#!/bin/sh\n{late}\n")
    (tmp_path / "timeout").chmod(0o755)
    seen = table(Machine(path=tmp_path))
    assert [it.pid for it in seen.unread()] == [hung.pid]
    assert stage.word in seen.rows[other.pid].line


def test_the_pids_of_another_namespace_are_not_believed():
    lines = ["self 30 40 0 100.0", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 9 0 - sh", "p 40 S 1 40 0 1 9 0 - x"]
    with pytest.raises(ProbeError, match="another pid namespace"):
        table_of(lines)


def test_processes_that_may_not_be_seen_are_missed():
    seen = table_of(["self 30 30 7 100.0", "p 30 S 29 30 0 1 9 7 - sh"])
    assert "hidepid" in seen.hidden


def test_no_answer_is_a_fault():
    with pytest.raises(ProbeError, match="within 30 s"):
        read_processes(Completed(exit_code=None, timed_out=True, seconds=30))
    with pytest.raises(ProbeError, match="exit code 3"):
        read_processes(Completed(exit_code=3, stderr="/proc cannot be read"))


def test_over_ssh_everything_below_our_connection_is_ours():
    """Another lane of the same connection may have the very pattern on its command line."""
    lines = [
        "self 50 50 0 100.0",
        "p 1 S 0 0 0 1 5 0 - init", "p 20 S 1 20 0 1 9 0 - sshd", "p 30 S 20 30 0 1 9 0 - sshd",
        "p 40 S 30 40 0 1 9 0 - sh", "p 41 S 30 41 0 1 9 0 - sh", "p 42 S 41 41 0 1 9 0 - pgrep",
        "p 50 S 40 50 0 1 9 0 - sh", "p 60 S 20 60 0 1 9 0 - sshd", "p 61 S 60 61 0 1 9 0 - bash",
        "a 42 pgrep", "a 42 -f", "a 42 torchrun", "a 20 sshd: listener", "a 30 sshd: root@notty",
    ]  # fmt: skip
    seen = table_of(lines)
    assert seen.own == {41, 42, 50}
    assert seen.way_in == (40, 30, 20, 1)
    assert {60, 61} <= set(seen.rows)


def test_containers_and_batch_jobs_are_read_from_the_control_group():
    docker, half = "0123456789ab" + "c" * 52, "d" * 63
    lines = [
        "self 30 30 0 100.0", "p 1 S 0 0 0 1 5 0 - init",
        f"p 30 S 1 30 0 1 9 0 /system.slice/docker-{docker}.scope sh",
        f"p 31 S 1 31 0 1 9 0 /kubepods/besteffort/pod1/{docker} a b",
        "p 32 S 1 32 0 1 9 0 /slurm/uid_0/job_417/step_0 a", f"p 33 S 1 33 0 1 9 0 /x/{half} a",
    ]  # fmt: skip
    rows = table_of(lines).rows
    assert [rows[it].process.container for it in (31, 32, 33)] == ["0123456789ab", "job_417", ""]
    assert rows[31].name == "a b"


def test_an_age_that_cannot_be_is_unknown():
    rows = table_of(["self 30 30 0 1.0", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 900 0 - sh"]).rows
    assert rows == {1: rows[1]}
    old = table_of(["self 30 30 0 1.0", "p 1 S 0 0 0 1 500 0 - init", "p 30 S 1 30 0 1 900 0 - sh"]).rows[1]
    assert isinstance(old.process.seconds, Unknown)


def test_a_thousand_processes_are_listed_in_half_a_second(stage):
    crowd = stage.start(["bash", "-c", "for i in $(seq 1000); do sleep 700 & done; echo up; wait"])
    began = time.monotonic()
    seen = table(Machine())
    spent = time.monotonic() - began
    mine = [pid for pid, it in seen.rows.items() if it.process.ppid == crowd.pid]
    assert len(mine) == 1000
    assert spent < 1.5, "half a second on an idle machine; this one may be busy"
