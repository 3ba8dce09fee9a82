"""Processes in state D: really found, distinguished by what they wait for, and never asked for what may hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.processes import blocked_processes
from runbook.library.processes.facts.blocked import ask_blocked, awaited_by, read_blocked
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import appears, until

IN_D = r"""
import ctypes, sys
libc = ctypes.CDLL(None)
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
if libc.vfork() == 0:
    while True:
        libc.pause()
libc.sleep(60)
"""
NAME = "a) R 1 (\nb c"
"""A name by which a process tries to look like another one, which runs."""


def wait_for_state_d(pid: int, name: str = "") -> None:
    """Until it waits, and has this *name*: a process that only begins may wait for a disk, and goes on."""
    seen = [False] * 5  # also one that works meets a disk for a moment

    def waits() -> bool:
        seen[:] = [*seen[1:], f"{name}) D " in Path(f"/proc/{pid}/stat").read_text()]
        return all(seen)

    until(waits, f"pid {pid} in state D")


def between_the_readings(folder: Path, act: Callable[[], None], shell: tuple[str, ...] = ("dash",)) -> Completed:
    """The answer to the probe of which the second reading comes after *act*, and the first one before it."""
    command = ask_blocked(0)
    wait = f': >"{folder}/read"; while [ ! -e "{folder}/on" ]; do sleep 0.1; done'
    script = command.script.replace('\nsleep "$1"\n', f"\n{wait}\n")
    assert script != command.script
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(Here(shell=shell).run, replace(command, script=script))
        try:
            assert appears(folder / "read")
            act()
        finally:
            (folder / "on").touch()
        (done,) = reading.result()
    return done


@pytest.fixture
def stuck() -> Iterator[int]:
    """A process that is truly in state D: it waits for a child of vfork(2)."""
    process = subprocess.Popen([sys.executable, "-c", IN_D, NAME], start_new_session=True)
    wait_for_state_d(process.pid, NAME)
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_process_in_state_d_is_found_whatever_its_name(stuck, shell):
    """Mutant: ``${blocked_line#*) }`` in place of the last parenthesis."""
    here = Here(shell=SHELLS[shell])
    (task,) = [it for it in read_blocked(here.run(ask_blocked(0.2))[0]) if it.pid == stuck]
    assert (task.tid, task.name, task.waits_for) == (stuck, NAME.replace("\n", ""), "unknown")
    assert task.start == int(Path(f"/proc/{stuck}/stat").read_text().rpartition(") ")[2].split()[19])


def test_what_leaves_state_d_between_the_readings_does_not_count(stuck, tmp_path):
    """Mutant: the second reading dropped."""
    (child,) = Path(f"/proc/{stuck}/task/{stuck}/children").read_text().split()

    def wake() -> None:
        os.kill(int(child), signal.SIGKILL)
        until(lambda: ") S " in Path(f"/proc/{stuck}/stat").read_text())

    done = between_the_readings(tmp_path, wake)
    assert stuck not in [it.pid for it in read_blocked(done)]
    assert ") S " in Path(f"/proc/{stuck}/stat").read_text()  # it lives, and waits for nothing in the kernel


BY_TURNS = r"""
import os, sys
while True:  # it waits for its child, which waits for somebody to open the FIFO
    opened = [(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)]
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}, file_actions=opened), 0)
"""


@pytest.mark.parametrize("shell", each(SHELLS))
def test_what_runs_between_the_readings_does_not_count(shell, tmp_path):
    """It is in state D on both, and works all the same; the kernel's own detector of hung tasks counts switches too.

    Mutant: ``ran`` dropped, in the script or where it is read.
    """
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([sys.executable, "-c", BY_TURNS, fifo], start_new_session=True)
    try:
        wait_for_state_d(process.pid)

        def work() -> None:
            os.close(os.open(fifo, os.O_WRONLY))
            wait_for_state_d(process.pid)

        done = between_the_readings(tmp_path, work, SHELLS[shell])
        assert f"task {process.pid} {process.pid} " in done.stdout
        assert process.pid not in [it.pid for it in read_blocked(done)]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_neither_arguments_nor_nvidia_smi_are_asked_for():
    words = ask_blocked(1).script
    assert "cmdline" not in words
    assert "nvidia-smi" not in words


@every_row(
    ("wchan", "stack", "devices", "kind"),
    [
        ("os_acquire_rwlock_write", (), (), "GPU driver"),
        ("_nv042330rm", (), (), "GPU driver"),
        ("rwsem_down_write_slowpath", ("[<0>] nvidia_unlocked_ioctl+0x2/0x6 [nvidia]",), (), "GPU driver"),
        ("rwsem_down_write_slowpath", (), ("/dev/nvidia0",), "GPU driver"),
        ("rwsem_down_write_slowpath", (), (), "unknown"),
        ("uvm_va_space_destroy", ("[<0>] x [nvidia]",), (), "GPU driver"),
        ("rpc_wait_bit_killable", (), ("/dev/nvidia0",), "network file system"),
        ("nfs4_handle_reclaim", (), (), "network file system"),
        ("request_wait_answer", (), (), "FUSE"),
        ("io_schedule", (), ("/dev/nvidia0",), "disk"),
        ("folio_wait_bit_common", (), (), "disk"),
        ("kernel_clone", ("[<0>] kernel_clone+0x1/0x2", "[<0>] __do_sys_vfork"), (), "unknown"),
        ("", (), (), "unknown"),
        ("schedule_preempt_disabled", ("[<0>] nfs_lookup [nfs]",), (), "network file system"),
    ],
)
def test_what_it_waits_for_follows_from_where_it_sleeps(wchan, stack, devices, kind):
    awaited = awaited_by(wchan, stack, devices)
    assert (awaited.part if awaited else "unknown") == kind


SAID = """sampled
task 41 42 900 1 0 root
ran
name nvidia-smi
waits os_acquire_rwlock_write
gpu /dev/nvidiactl
task 77 77 901 1 1000 -
name cp
waits 0
task 78 78 902 1 1000 -
ran
name dd
waits io_schedule
task forged line 1 2 3
name x
"""
"""The driver sleeps in state D and wakes to ask a GPU again: what waits for it counts although it ran in between."""


def state(stdout: str, code: int = 0, **more) -> blocked_processes.State:
    class Saying:
        def run(self, *commands):
            return (Completed(exit_code=code, stdout=stdout, **more),) * len(commands)

    return drive(blocked_processes.probe(build(blocked_processes.Args, {})), Saying())


def test_tasks_are_told_apart_and_a_line_that_is_none_is_left_out():
    found = state(SAID)
    assert [(it.pid, it.tid, it.user) for it in found.tasks] == [(41, 42, "root"), (77, 77, "1000")]
    assert ([it.pid for it in found.in_driver], [it.pid for it in found.others]) == ([41], [77])
    assert found.pids == (41, 77)
    assert [it.waits_in for it in found.tasks] == ["os_acquire_rwlock_write of NVIDIA's driver", ""]
    args = build(blocked_processes.Args, {})
    assert isinstance(blocked_processes.holds(args, found), Fails)
    assert isinstance(blocked_processes.holds(args, state("sampled\n")), Holds)


@every_row(
    ("stdout", "more"),
    [("", {}), ("", {"code": 3, "stderr": "there is no /proc"}), (SAID, {"code": None, "timed_out": True})],
)
def test_a_host_that_does_not_answer_is_unknown(stdout, more):
    with pytest.raises(ProbeError):
        state(stdout, **more)
