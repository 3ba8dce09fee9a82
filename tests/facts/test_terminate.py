"""Processes are ended by pid and start time, gently first; nobody else is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from runbook.library.processes.facts.table import Process
from runbook.library.processes.facts.terminate import end_processes
from runbook.shell import SAFE
from runbook.values.command import Effect
from tests.support.real_processes import NOBODY, Machine, lives, start_of
from tests.support.waiting import state, until


def process(pid: int, start: int | None = None) -> Process:
    start = start_of(pid) if start is None else start
    return Process(pid=pid, start=start, ppid=1, user="root", state="S", command="x", seconds=1.0)


def end(machine: Machine, *victims: Process, signal="TERM", grace=5.0, then="KILL"):
    return machine.run(end_processes(victims, signal, grace, then))[0]


def test_it_is_a_write_whose_survivors_are_an_answer():
    command = end_processes([process(1, 5)], "TERM", 10, "KILL")
    assert command.effect is Effect.WRITE
    assert command.accepts == (0, 1)
    assert command.argv == ("TERM", "KILL", "1000", "500", "1:5")
    assert not command.timeout
    assert end_processes([process(1, 5)], "TERM", 900, "KILL").waits == 905


def test_all_get_the_first_signal_and_it_ends_as_soon_as_they_are_gone(machine, stage):
    jobs = [stage.job() for _ in range(3)]
    done = end(machine, *(process(it.pid) for it in jobs), grace=600)
    assert done.exit_code == 0
    assert sorted(done.stdout.split("\n")) == ["", *sorted(f"{it.pid} gone" for it in jobs)]
    assert [it.wait() for it in jobs] == [-15] * 3


def test_who_ignores_the_first_signal_gets_the_second_after_the_grace(machine, stage):
    soft, hard = stage.job(), stage.job(ignores="TERM")
    done = end(machine, process(soft.pid), process(hard.pid), grace=1)
    assert done.exit_code == 0
    assert (soft.wait(), hard.wait()) == (-15, -9)
    assert done.seconds >= 1


def test_with_nothing_to_follow_the_survivor_is_left_and_named(machine, stage):
    hard = stage.job(ignores="INT")
    done = end(machine, process(hard.pid), signal="INT", grace=0.5, then="nothing")
    assert (done.exit_code, done.stdout) == (1, f"{hard.pid} survives in state S\n")
    assert hard.poll() is None


@pytest.mark.parametrize("word", ["HUP", "QUIT", "USR1", "USR2", "KILL"])
def test_every_signal_is_sent_by_its_name(machine, stage, word):
    """With nothing to follow: who has the signal, but no processor yet, would be ended by what follows."""
    job = stage.job()
    done = end(machine, process(job.pid), signal=word, grace=50, then="nothing")
    assert (done.exit_code, done.stdout) == (0, f"{job.pid} gone\n")
    assert job.wait() == -signal.Signals[f"SIG{word}"]


def test_whoever_has_the_pid_of_a_victim_now_is_left_alone(machine, stage):
    other = stage.job()
    done = end(machine, process(other.pid, start_of(other.pid) - 1))
    assert (done.exit_code, done.stdout) == (0, f"{other.pid} reused: another process has that pid\n")
    assert other.poll() is None


def test_who_is_gone_already_is_no_failure(machine, stage):
    job = stage.job()
    gone = process(job.pid)
    job.kill()
    job.wait()
    assert (end(machine, gone).exit_code, end(machine, gone).stdout) == (0, f"{job.pid} was gone\n")


def test_a_pid_that_is_taken_anew_during_the_grace_does_not_get_the_second_signal(stage, tmp_path):
    """Its start time is read again right before each signal: here it changes after the first."""
    hard = stage.job(ignores="TERM")
    victim = process(hard.pid)
    script = end_processes([victim], "TERM", 1, "KILL").script
    faked = script.replace('await "$wait1"\n', f'await "$wait1"; left="{hard.pid}:{victim.start + 1}"\n', 1)
    assert faked != script
    done = Machine().run(type(end_processes([victim], "TERM", 1, "KILL"))(
        script=faked, argv=end_processes([victim], "TERM", 1, "KILL").argv, effect=Effect.WRITE
    ))[0]  # fmt: skip
    assert done.exit_code == 0
    assert hard.poll() is None


def test_it_refuses_itself_its_ancestors_and_pid_1(machine):
    done = end(machine, process(os.getpid()), process(1), process(os.getppid()), signal="KILL")
    assert done.exit_code == 1
    assert done.stdout.count("refused: our own connection needs it") == 3


def test_a_zombie_is_gone(machine, stage):
    parent = stage.start(["bash", "-c", "sleep 800 & echo up; echo $!; exec sleep 600"])
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    until(lambda: Path(f"/proc/{parent.pid}/comm").read_text() == "sleep\n")  # bash would collect its child
    victim = process(child)
    done = end(machine, victim)
    assert (done.exit_code, done.stdout) == (0, f"{child} gone\n")
    assert Path(f"/proc/{child}/stat").read_text().rpartition(") ")[2][0] == "Z"
    assert end(machine, victim).stdout == f"{child} was gone\n"


def test_a_stopped_process_is_woken_to_take_its_signal(machine, stage):
    job = stage.job()
    os.kill(job.pid, signal.SIGSTOP)
    until(lambda: state(job.pid) == "T")
    done = end(machine, process(job.pid), grace=50, then="nothing")
    assert done.exit_code == 0
    assert job.wait() == -15


def test_odd_names_are_no_hindrance(machine, stage):
    code = "import ctypes,time; ctypes.CDLL(None).prctl(15, b'a) Z 1\\n(b'); print('up',flush=True); time.sleep(600)"
    job = stage.start([sys.executable, "-c", code])
    assert end(machine, process(job.pid)).stdout == f"{job.pid} gone\n"
    assert job.wait() == -15


@pytest.mark.real("root", "setpriv")
def test_what_we_may_not_signal_is_said(stage):
    job = stage.job()
    done = end(Machine(before=NOBODY), process(job.pid), grace=0.3)
    assert (done.exit_code, done.stdout) == (1, f"{job.pid} not permitted\n")
    assert job.poll() is None


@pytest.mark.parametrize("word", ["4711", ":5", "5:", "a:5", "5:5;id", "5:5:5", ""])
def test_what_is_no_pid_and_start_time_is_refused_before_any_signal(stage, word):
    job = stage.job()
    command = end_processes([process(job.pid)], "KILL", 1, "KILL")
    done = Machine().run(type(command)(script=command.script, argv=(*command.argv, word), effect=Effect.WRITE))[0]
    assert done.exit_code not in (0, 1)
    assert job.poll() is None
    assert lives(job.pid)


def test_a_name_of_several_lines_hides_nothing_of_a_process():
    """Mutants: `read_stat` that keeps the last line only, or the first; a name that ends at its first parenthesis."""
    text = "printf 'a\n) Z 1 (b' >/proc/$$/comm; echo up; read -r _"
    with subprocess.Popen(["sh", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        start = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19]
        asks = 'stat_of "$1" && echo "$state $start"; safe_process "$1" && echo "$safe_pid $safe_start"'
        said = subprocess.run(["sh", "-c", f"{SAFE}\n{asks}", "sh", str(process.pid)], capture_output=True, check=True)
        assert said.stdout.decode().split() == ["S", start, str(process.pid), start]
        process.stdin.close()
