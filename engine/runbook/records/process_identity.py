"""Identify this process, and find out whether another process still lives."""

from __future__ import annotations

import os
import pwd
import socket

from runbook.values.run_origin import ProcessIdentity


def this_process() -> ProcessIdentity:
    """Return the identity of this process."""
    return ProcessIdentity(machine=socket.gethostname(), boot=_boot(), pid=os.getpid(), start=_start(os.getpid()))


def process_user() -> str:
    """Return the user as whom this process runs, from the operating system: variables such as ``$LOGNAME`` can be
    wrong.
    """
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


def lives(process: ProcessIdentity) -> bool:
    """Whether *process* is still running, as far as this machine can see."""
    same = (process.machine, process.boot) == (socket.gethostname(), _boot()) and bool(process.boot)
    return same and process.start > 0 and process.start == _start(process.pid)


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _start(pid: int) -> int:
    """Return the start time of the process *pid*, in clock ticks since boot; 0 if it cannot be read."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rpartition(") ")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0
