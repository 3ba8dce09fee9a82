"""Find what a run has left running on the hosts of a test: their sshd gives every session a mark."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.waiting import soon

NAME = "RUNBOOK_TEST_FLEET_MARK"


def setenv() -> str:
    """A line for the configuration of the sshd; of several such lines it takes the first."""
    return f"SetEnv {NAME}=1 RUNBOOK_LOCK_PLACES={os.environ['RUNBOOK_LOCK_PLACES']}"


def marked() -> list[str]:
    """The processes on this machine that a session with the mark has started."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{NAME}=1".encode() in environ.read_bytes().split(b"\0"):
                found.append(f"{environ.parent.name} {(environ.parent / 'cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


def still_marked() -> list[str]:
    """Those that do not end in time."""
    return [] if soon(lambda: not marked()) else marked()
