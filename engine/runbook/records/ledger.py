"""The ledger of all runs: which journals were begun, ended or removed; its lines form a chain."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from runbook.dataclass import dataclass
from runbook.records.chain import START, Link, links, position, sealed
from runbook.records.private_folder import PrivateFolder
from runbook.values.types import plural

LEDGER_FILE = "ledger"
PRUNED = "pruned"

BROKEN = "broken"
"""Marks a line that was written when the line before it could not be read."""

_BLOCK = 8192
"""The number of bytes that are read at once."""

_LONGEST = 65536
"""The maximum number of bytes of a line of the ledger; a longer line is malformed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of the ledger."""

    run: str
    what: str
    """``run_started``, ``run_finished`` or ``pruned``."""
    lines: int = 0
    """The number of lines that the journal had then."""
    sha: str = ""
    """The digest of the last of these lines."""
    resumes: str = ""
    """The run that this run continues, from its first line; so it is known even if the journal is damaged or missing.
    """
    undoes: str = ""
    """The run that this run undoes, also from its first line."""


class Ledger:
    """One file beside the journals; entries are appended under a lock."""

    def __init__(self, folder: PrivateFolder) -> None:
        self._folder = folder

    def enter(self, entry: Entry) -> None:
        """Append *entry*; the entry is on the disk when this returns.  Raises OSError."""
        with self._locked() as file:
            last = _last(file)
            if last is None:  # runs go on; `verify` says for ever that the chain begins again here
                last = _append(file, {"n": _lines(file) + 1, "what": BROKEN}, START)
            number, before = last
            _append(file, {"n": number + 1, **_written(entry)}, before)
            os.fsync(file)

    def entries(self) -> tuple[list[Entry], list[str]]:
        """Return the entries and the faults of the ledger.  Raises OSError."""
        try:
            with self._folder.opened(LEDGER_FILE) as file:
                return _read(links(file))
        except FileNotFoundError:
            return [], []

    def torn(self) -> bool:
        """Whether the last line is incomplete while no process writes to the ledger.  Raises OSError."""
        try:
            with self._folder.opened(LEDGER_FILE) as file:
                fcntl.flock(file, fcntl.LOCK_SH)
                size = os.fstat(file.fileno()).st_size
                return size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
        except FileNotFoundError:
            return False

    @contextmanager
    def _locked(self) -> Iterator[int]:
        file = self._folder.appending(LEDGER_FILE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        finally:
            os.close(file)


def unlike_ledger(found: Sequence[Link], noted: Sequence[Entry]) -> Iterator[str]:
    """Yield the differences between the lines *found* in a journal and the entries *noted* about it in the ledger."""
    for entry in noted:
        if entry.what != PRUNED and not entry.lines:
            yield "the ledger does not say how many lines it had"
        elif entry.what != PRUNED and entry.lines > len(found):
            yield f"it has {plural(len(found), 'line')}, and had {entry.lines}: lines are missing at its end"
        elif entry.what != PRUNED and found[entry.lines - 1].sha != entry.sha:
            yield f"line {entry.lines}: it is not the line that the ledger knows"
    ends = [each.lines for each in noted if each.what == "run_finished"]
    if ends and len(found) > ends[-1]:
        yield f"it has {plural(len(found), 'line')}, and had {ends[-1]} when the run ended: lines were added"


def _read(chain: Iterable[Link]) -> tuple[list[Entry], list[str]]:
    entries, faults = [], []
    for link in chain:
        value = link.value if isinstance(link.value, dict) else {}
        fault = link.fault
        if value.get("what") == BROKEN:
            fault = "the line before it could not be read when it was written: the chain begins again here"
        if fault:
            faults.append(f"{LEDGER_FILE}: line {link.number}: {fault}")
        if isinstance(value.get("run"), str):
            lines = value.get("lines")
            entries.append(
                Entry(
                    run=value["run"],
                    what=str(value.get("what")),
                    lines=lines if isinstance(lines, int) and lines > 0 else 0,
                    sha=str(value.get("last", "")),
                    resumes=str(value.get("resumes") or ""),
                    undoes=str(value.get("undoes") or ""),
                )
            )
    return entries, faults


def _written(entry: Entry) -> dict[str, str | int]:
    """Return *entry* as the JSON object of a line of the ledger."""
    others = {name: run for name, run in (("resumes", entry.resumes), ("undoes", entry.undoes)) if run}
    return {"run": entry.run, "what": entry.what, "lines": entry.lines, "last": entry.sha, **others}


def _append(file: int, body: Mapping[str, str | int], before: str) -> tuple[int, str]:
    """Append *body* as a line, and return its number and its digest.  Raises OSError."""
    line, sha = sealed(json.dumps(body), before)
    data = line.encode() + b"\n"
    if os.write(file, data) != len(data):
        raise OSError(0, "the ledger could not be written in full")
    return int(body["n"]), sha


def _last(file: int) -> tuple[int, str] | None:
    """Return the number and the digest of the last complete line; None if it cannot be read.  Raises OSError.

    An incomplete line after it is removed.
    """
    size = os.fstat(file).st_size
    end = _behind_newline(file, size)
    if end < size:
        os.ftruncate(file, end)
    if not end:
        return 0, START
    begin = _behind_newline(file, end - 1)
    return position(os.pread(file, end - 1 - begin, begin)) if end - begin <= _LONGEST else None


def _behind_newline(file: int, size: int) -> int:
    """Return the end of the last newline among the first *size* bytes; 0 if there is no newline."""
    while size > 0:
        start = max(0, size - _BLOCK)
        found = os.pread(file, size - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        size = start
    return 0


def _lines(file: int) -> int:
    """Return the number of complete lines in *file*."""
    count = start = 0
    while block := os.pread(file, _BLOCK, start):
        count += block.count(b"\n")
        start += len(block)
    return count
