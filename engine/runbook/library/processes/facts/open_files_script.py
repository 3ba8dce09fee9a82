"""The shell script that finds the processes that have given files open; it needs neither fuser nor lsof."""

from __future__ import annotations

from runbook.shell import script

NODES = script(__package__, "open_files_nodes")
"""Goes after ``PROCESSES``; ``$1`` ... are globs: finds the files that are meant."""

SLOTS = 65536
"""Places for open files (64 at least of each process) from which on a user's processes are read last."""

HOLDERS = NODES + script(__package__, "open_files").replace("@SLOTS@", str(SLOTS))
"""Goes after ``PROCESSES``; ``$1`` ... are globs.  Lines:

``asked`` and ``node`` (key, device, inode, path): the files; ``holds`` (pid, key): what is open; ``maps`` (pid,
device, inode): what is only mapped; ``seen`` and ``blind``: the pids whose files could be inspected, or not;
``over``: a pid whose process ended during the walk; ``socket``: a file that this cannot determine; ``forged``: a path
with a link that another user may change.

Every open file is followed to its device number, or inode, which tells for certain: a node may have any path, and a
path may be anything in a mount namespace of a user's own. Left out is only what lies on a file system over the network
(by the number of its mount), which may hang, and where no user makes devices; the rest has a time limit, and the
processes which that cuts off are ``unsure``.  ``ls`` writes a newline in a name as ``?``.
"""
