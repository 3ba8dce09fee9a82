"""Faults of a lab host's operating system: a file server that is silent, a full /dev/shm, a clock that nobody sets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runbook.shell import program

OF_SYSTEM: Mapping[str, str] = MappingProxyType(
    {
        "nfs_hang": "The server of /datasets does not respond (the mount truly hangs); two processes wait for it.",
        "shm_full": "Shared memory (/dev/shm) is full of what a dead job left; a living process has one file mapped.",
        "clock_unsynced": "Nobody sets the clock: chronyd runs, and reaches no server.",
    }
)
"""Fault to sentence."""

FILES: Mapping[str, str] = MappingProxyType(
    {"system": program(__package__, "system"), "chronyc": program(__package__, "chronyc")}
)
"""Files, by name, of every lab host; the clock of a host without a clock fault is synchronized."""
