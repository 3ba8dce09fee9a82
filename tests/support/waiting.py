"""Wait for an event: nothing that a test waits for is a property of how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

LIMIT = 300.0
"""Seconds, after which something hangs. A machine whose cores all do other work is 20 times as slow as an idle one."""

T = TypeVar("T")


def until(true: Callable[[], T], what: str = "", within: float = LIMIT) -> T:
    """The first value of *true* that is true.

    Raises AssertionError, which names *what*, after *within* seconds.
    """
    deadline = time.monotonic() + within
    while not (value := true()):
        assert time.monotonic() < deadline, f"not within {within:g} s: {what or true}"
        time.sleep(0.02)
    return value


def soon(true: Callable[[], object], within: float = LIMIT) -> bool:
    """Whether *true* becomes true."""
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def appears(path: Path, within: float = LIMIT) -> bool:
    return soon(path.exists, within)


def reads(path: Path, text: str, within: float = LIMIT) -> bool:
    """Whether *path* comes to hold *text*."""
    return soon(lambda: path.exists() and path.read_text() == text, within)


def state(pid: int) -> str:
    """The letter of the process's state in /proc/PID/stat (proc(5)), "" where there is none of that number."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except OSError:
        return ""


def gone(pid: int) -> bool:
    """Whether the process has ended, reaped or not."""
    return state(pid) in ("", "Z", "X")
