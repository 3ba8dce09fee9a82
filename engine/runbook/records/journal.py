"""Write the events of one run to its journal as they happen; a change begins only after its event is on the disk."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import suppress
from dataclasses import replace

from runbook.codec import to_json
from runbook.errors import RecordLost
from runbook.records.chain import START, sealed
from runbook.records.ledger import Entry, Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.text.printable import json_text
from runbook.values.event import Answered, ChangeStarted, Event, RunFinished, RunStarted
from runbook.values.result import Mode

ENDING = ".jsonl"
UNNAMED = ".new"
"""The ending of a journal that has no line yet."""

SYNCED = (RunStarted, Answered, ChangeStarted, RunFinished)
"""Events that are on the disk, and not only in the kernel's memory, when ``on`` returns."""


def _begun(run: str) -> str:
    """Return the file name of a journal that has no line yet."""
    return f".{run}{UNNAMED}"


class Journal:
    """The record of one run; used by many threads.

    An appended line is passed to the kernel at once, so that a killed run loses nothing.  After a failed write, nothing
    more is written, so that a journal has no gaps.
    """

    def __init__(self, folder: PrivateFolder, run: str) -> None:
        self._folder, self._run = folder, run
        self._write, self._sync = threading.Lock(), threading.Lock()
        self._number, self._sha, self._size = 0, START, 0
        self._written = self._synced = 0
        self.lost = ""
        """The reason why the journal is incomplete; empty if it is complete."""
        try:
            self._file = folder.create(_begun(run))
            with suppress(OSError):  # a file system without locks
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held as long as the run lives
        except OSError as error:
            raise RecordLost(f"{folder.path}: {error.strerror or error}") from error

    def on(self, event: Event) -> None:
        """Append *event*.  Raises RecordLost if that fails; then later events are not recorded either."""
        number = self._append(event)
        if number == 1:
            self._name()
        if isinstance(event, SYNCED):
            self._to_disk(number)
            self._stays()
        if isinstance(event, RunStarted | RunFinished):
            self._enter(event, number)

    def close(self) -> None:
        """Close the file.  Never raises."""
        with self._write, suppress(OSError):
            os.close(self._file)
            self.lost = self.lost or "it is closed"

    def _append(self, event: Event) -> int:
        shown = replace(event, result=replace(event.result, hosts=())) if isinstance(event, RunFinished) else event
        try:
            encoded = json_text(to_json(shown), "utf-8")
        except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
            host = getattr(event, "host", "")
            encoded = json_text(
                {"kind": event.kind, "host": host, "error": f"{type(error).__name__}: {error}"}, "utf-8"
            )
        encoded = encoded.encode("utf-8", "backslashreplace").decode()  # half a surrogate, as JSON escapes it
        with self._write:
            if self.lost:
                raise RecordLost(self.lost)
            line, sha = sealed(f'{{"n":{self._number + 1},"event":{encoded}}}', self._sha)
            try:
                self._put(line.encode() + b"\n")
            except OSError as error:
                self._give_up(error)
            self._number, self._sha = self._number + 1, sha
            self._written = self._number
            return self._number

    def _name(self) -> None:
        """Give the file its final name, now that it has a line: so no journal is empty, whenever its run is killed."""
        try:
            self._folder.rename(_begun(self._run), self._run + ENDING)
        except OSError as error:
            with self._write:
                self._give_up(error)

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]
        self._size += len(data)

    def _give_up(self, error: OSError) -> None:
        """End the journal because of *error*: an incomplete line is removed.  Raises RecordLost."""
        self.lost = f"{self._folder.path / (self._run + ENDING)}: {error.strerror or error}"
        with suppress(OSError):
            os.ftruncate(self._file, self._size)
        raise RecordLost(self.lost) from error

    def _to_disk(self, number: int) -> None:
        """Return once line *number* is on the disk; threads that wait at the same time share one fsync."""
        with self._sync:
            if self._synced >= number:
                return
            reached = self._written
            try:
                os.fsync(self._file)
            except OSError as error:
                with self._write:
                    self._give_up(error)
            self._synced = reached

    def _stays(self) -> None:
        """Check that the journal's name still leads to the open file: a file that was removed would record nothing."""
        try:
            there = self._folder.holds(self._run + ENDING, self._file)
        except OSError as error:
            with self._write:
                self._give_up(error)
        if not there:
            with self._write:
                self._give_up(OSError(0, "it was removed or replaced while the run was under way"))

    def _enter(self, event: RunStarted | RunFinished, number: int) -> None:
        """Enter the first or the last line of the journal in the ledger of all runs."""
        try:
            resumes, undoes = _others(event)
            Ledger(self._folder).enter(
                Entry(run=self._run, what=event.kind, lines=number, sha=self._sha, resumes=resumes, undoes=undoes)
            )
        except OSError as error:
            with self._write:
                self.lost = f"{self._folder.path}: {error.strerror or error}"
            raise RecordLost(self.lost) from error


def _others(event: RunStarted | RunFinished) -> tuple[str, str]:
    """Return the run that a new run continues, and the run that it undoes; empty for a dry run."""
    if not isinstance(event, RunStarted) or event.mode is Mode.PLAN or event.origin is None:
        return "", ""
    return event.origin.resumes, event.origin.undoes
