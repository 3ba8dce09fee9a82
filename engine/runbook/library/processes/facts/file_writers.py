"""Find the processes that have given files open for writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.protected import protection
from runbook.library.processes.facts.table import VALID, Process, Row, Table, lines_of, read_processes
from runbook.library.processes.facts.table_script import PROCESSES
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, plural

_WRITERS = script(__package__, "file_writers")

RECORDERS = frozenset({"screen", "script", "tmux", "tmux: server", "ttyd"})
"""Programs that record a terminal, and have the file open whether the job in it lives or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWriters:
    """The processes that write files."""

    processes: tuple[Process, ...] | Unknown
    """The processes that have one of the files open for writing.

    Unknown if none is visible, and one could not be read.
    """
    recorders: tuple[Process, ...] = ()
    """Programs that have one of the files open, but only record a terminal."""


def ask_writers(files: Sequence[str]) -> Command:
    """Return the command that lists every process, and those that have one of *files* open for writing."""
    return replace(read_script(PROCESSES + _WRITERS, *files), private=True, valid_for=VALID)  # as in ask_processes


def read_writers(done: Completed) -> FileWriters:
    """Return the processes in *done*.  Raises ProbeError if the answer cannot be trusted."""
    table = read_processes(done)
    reported = [line.partition(" ")[::2] for line in done.stdout.split("\n")]
    if not any(kind == "walked" for kind, _ in reported):
        raise ProbeError("the open files of processes could not be listed (this needs ls, awk and stat)")
    files = {}
    for text in lines_of("written", reported):
        key, owner, path = text.split(" ", 2)
        files[key] = owner, path
    held: dict[int, dict[str, None]] = {}
    for text in lines_of("descriptor", reported):
        key, place = text.split(" ", 1)
        pid = int(place.split("/")[2])
        if key in files and pid in table.rows:
            held.setdefault(pid, {})[files[key][1]] = None
    rows = [(table.rows[pid], tuple(paths)) for pid, paths in sorted(held.items())]
    found = [(row.name in RECORDERS, replace(row.process, devices=paths)) for row, paths in rows if not row.defunct]
    writers = tuple(process for records, process in found if not records)
    closed = [table.rows[int(text)] for text in lines_of("closed", reported) if int(text) in table.rows]
    return FileWriters(
        processes=writers or _unseen(closed, table, {owner for owner, _ in files.values()}) or (),
        recorders=tuple(process for records, process in found if records),
    )


def _unseen(closed: Sequence[Row], table: Table, owners: set[str]) -> Unknown | None:
    """Return the reason why a writer may be invisible; None if all are visible.

    Who writes a file has made it, as a rule: only processes of the files' owners count.
    """
    if table.hidden:
        return Unknown(why=f"{table.hidden}: give the step `become: true`")
    theirs = [
        row
        for row in closed
        if row.uid in owners and not row.defunct and (not (why := protection(row, table)) or isinstance(why, Unknown))
    ]
    if not theirs:
        return None
    who = ", ".join(sorted({row.process.user for row in theirs}))
    return Unknown(why=f"the open files of {plural(len(theirs), 'process')} of {who} could not be read: `become: true`")
