"""The shell script that lists a host's processes; no name or argument can break the list or forge another process."""

from __future__ import annotations

from runbook.library.processes.facts.executables import PROGRAMS
from runbook.library.processes.facts.known_daemons import DAEMON_NAMES
from runbook.shell import script

SHARE = 32768
"""Bytes of a process's arguments that are read."""

CROWD = 500
"""A user other than root with more processes than this has fewer bytes of each read: ``CROWDED``."""

CROWDED = 1024

BUDGET = 2_000_000
"""Bytes that the rows and the arguments of all users but the login user may take: half of what a session keeps."""

MAX_OWN_BYTES = 1_200_000
"""Bytes that the arguments of the login user may take."""

_OPENING = script(__package__, "process_table_open")

_ARGUMENTS = script(__package__, "process_table_arguments")

_NAMES = " ".join(names for names in DAEMON_NAMES.values())

PROCESSES = (
    _OPENING
    + (
        _ARGUMENTS.replace("@SHARE@", str(SHARE))
        .replace("@CROWDED@", str(CROWDED))
        .replace("@CROWD@", str(CROWD))
        .replace("@BUDGET@", str(BUDGET))
        .replace("@OURS@", str(MAX_OWN_BYTES))
        .replace("@NAMES@", _NAMES)
    )
    + PROGRAMS
)
"""Lines: ``self``, ``p`` (a process), ``u`` (the name of a user), ``a`` (one argument of a process).

``cut``: a process with incomplete arguments; ``left``: the number of left-out processes of a user, and the user.

A newline within a name or an argument is sent as byte 1.  The data of a process is fenced by a random word from our own
environment, which others cannot read, so that no argument can be taken for another process's.  Names and start times
are read before the arguments.  So a pid that is reused in between has the old start time, and is left alone later.
Kernel threads (PF_KTHREAD, 0x200000) are left out.

All amounts are bounded.  ``SHARE`` bytes of one process are read (``CROWDED`` if its user has more than ``CROWD``
processes), and all users together fit into ``BUDGET``.  Users with the least data are reported completely; the rest is
cut from users with the most.

The last word of ``self`` is ``hidden`` if the mount of /proc hides processes from some users.  A process that ends
while it is being read makes some awks give up; then the walk begins again.  Reading arguments takes a lock that a
process stuck in the kernel may hold forever (proc(5), mmap_lock), hence ``timeout``.
"""
