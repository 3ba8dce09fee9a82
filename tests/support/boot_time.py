"""What a machine that was booted a few minutes ago shows of faults that pretend to be older than that."""

from __future__ import annotations

import time

SILENT_SINCE = 20 * 60
"""Seconds; what the fault ``silent_stop`` says."""


def booted_after_silent_stop() -> bool:
    """Whether this machine was booted after the training that ``silent_stop`` pretends had stopped.

    The kernel's log then begins too late to say anything about it, and the reboot itself is a finding.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) < SILENT_SINCE
