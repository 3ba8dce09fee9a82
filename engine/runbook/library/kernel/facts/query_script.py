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
"""Lines of logs are indented by one space, so that none can pass for one of ours.

A message may hold newlines, and with them a line that a user made up (the name of a file that faulted, an option of a
mount): what util-linux's dmesg prints below a line without a time, and others with the very same time, belongs to the
message above, and counts only where that is the GPU driver's, or names nothing of others.

Any user can have a line in /var/log/messages that looks like the kernel's (``logger -t kernel``), and its words within
the line of another program: the journal's transport, the ring buffer and the file of the facility kern are believed.

Of the journal every boot is read where a beginning is asked for, else this one.  The ring buffer has the time since
boot in its lines, from which the clock of this moment makes a time; the journal has the time of day of each message.
"""
