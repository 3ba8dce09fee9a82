"""The shell script that finds the processes that have given files open; it needs neither fuser nor lsof."""

from __future__ import annotations

from runbook.shell import script

NODES = script(__package__, "open_files_nodes")
"""Goes after ``PROCESSES``; ``$1`` ... are globs: finds the files that are meant."""

SLOTS = 65536
"""Places for open files (64 at least of each process) from which on a user's processes are read last."""

HOLDERS = NODES + script(__package__, "open_files").replace("@SLOTS@", str(SLOTS))
"""Comes after ``PROCESSES``; ``$1`` ... are globs.  Lines:

``asked`` and ``node`` (key, device, inode, path): the files.  ``holds`` (pid, key): an open file.  ``maps`` (pid,
device, inode): a file that is only mapped.  ``seen`` and ``blind``: pids whose files could be inspected, or could not.
``over``: a pid whose process ended during the walk.  ``socket``: a file that the script cannot determine.  ``forged``:
a path with a link that another user may change.

Every open file is followed to its device number, or its inode.  Paths prove nothing: a node may have any path, and a
user's own mount namespace may show any file at any path.  Only files on network file systems are left out, by the
number of the mount: they may hang, and users make no devices there.  The rest has a time limit, and processes that it
cuts off are ``unsure``.  ``ls`` writes a newline in a name as ``?``.
"""
