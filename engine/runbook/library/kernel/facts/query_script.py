"""The shell script that reads the kernel messages of a host."""

from __future__ import annotations

from runbook.library.kernel.facts.patterns import worth_sending
from runbook.shell import script
from runbook.values.command import Command, read_script

KEPT = 20_000
"""Lines of one source that come back, the last ones."""


def ask_kernel(since: str, *, all_lines: bool) -> Command:
    """One script that reads the journal and the ring buffer; *since* is empty, ``ago N`` or ``at N`` (seconds)."""
    return read_script(_ASK, "" if all_lines else worth_sending(), since, str(KEPT))


_ASK = script(__package__, "kernel_log_query")
"""Lines of logs are indented by one space, so that none can be taken for a line of the script.

A message may contain newlines, and so a line that a user has forged (the name of a file, an option of a mount).  In the
output of util-linux's dmesg such a line has no time; in others it has the same time.  It belongs to the message above.
It counts only if that is the GPU driver's message, or contains no foreign names.

Any user can write a line to /var/log/messages that looks like the kernel's (``logger -t kernel``), or such words within
the line of another program.  Believed are the journal's transport, the ring buffer and the file of the facility kern.

Every boot in the journal is read if a start time is given, otherwise this boot only.  Lines of the ring buffer have the
time since boot, from which the present clock makes a time; messages of the journal have the time of day.
"""
