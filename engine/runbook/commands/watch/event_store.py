"""Keep the events of the watcher in SQLite: appended in order, and never changed."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runbook.codec import from_json, to_json
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, RunbookError
from runbook.records.private_database import opened_database
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Asked,
    Began,
    BreakerReset,
    Ended,
    Faulted,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Rejected,
    Released,
    Started,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import State

FILE = "watch.sqlite"
LOCK = "watch.lock"
KEPT_DAYS = 30
"""The days for which events are kept."""
DURABLE = (Began, Ended, Approved, Rejected, Stopped, Held, Released, Tripped, BreakerReset)
"""The events that must be known after a loss of power."""
SAYS_LITTLE = (Answered, Probed)
"""The events that are kept for 7 days."""
SAYS_NO_MORE = (Started, Alerted, Asked, Proposed, NotProposed, Faulted)
"""The events that are forgotten; runs, and the words of people, are kept for ever."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, rule TEXT NOT NULL,
    host TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS by_time ON events (at);
CREATE TABLE IF NOT EXISTS state (number INTEGER NOT NULL, body TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """An event with its place in the order of all events."""

    number: int
    event: WatchEvent


def watch_folder(given: str = "") -> PrivateFolder:
    """Return the directory of the watcher's state: *given*, or the user's own.  Raises ConfigError."""
    try:
        folder = PrivateFolder(Path(given).expanduser().absolute() if given else state_directory("watch"))
        folder.make()
    except Unsafe as error:
        raise ConfigError(f"--state: {error.strerror}") from error
    except OSError as error:
        raise ConfigError(f"--state {given}: {error.strerror}") from error
    return folder


class EventStore:
    """The events of one watcher; several processes may read and append."""

    def __init__(self, folder: PrivateFolder) -> None:
        """Open the store, or make it.  Raises ConfigError."""
        self._folder = folder
        try:
            self._base = opened_database(folder, FILE, _prepare, any_thread=True)
            self.identity = _identity(folder)
            """The device and the inode of the file."""
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"{folder.path / FILE} cannot be opened: {_reason(error)}") from error

    def refuse_exchange(self) -> None:
        """Raise StoreError if the file is gone, or another one by now: nobody else would hear of what is stored."""
        try:
            is_same = _identity(self._folder) == self.identity
        except OSError:
            is_same = False
        if not is_same:
            raise StoreError(f"{self._folder.path / FILE} was removed or exchanged while it was in use")

    def append(self, *events: WatchEvent, last: int | None = None) -> bool:
        """Append *events* in one transaction.  Returns False if nothing was appended.  Raises StoreError.

        *last*: append nothing if an event is stored whose number is greater.

        When this returns, the words of people, and runs that begin, are on the disk; others survive the end of this
        process, but the last ones not a loss of power.
        """
        durable = any(isinstance(event, DURABLE) for event in events)
        self.refuse_exchange()
        try:
            self._base.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                newer = "SELECT 1 FROM events WHERE number > ? LIMIT 1"
                if last is not None and self._base.execute(newer, (last,)).fetchone():
                    return False
                self._base.executemany(
                    "INSERT INTO events (at, kind, rule, host, body) VALUES (?, ?, ?, ?, ?)", map(_row, events)
                )
                return True
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"the watcher's events cannot be written: {error}") from error

    def since(self, number: int, *, rule: str = "", host: str = "", at: float = 0.0) -> Iterator[Stored]:
        """Yield the events after the one with *number*, in order.  *at*: the earliest time.  Raises StoreError."""
        text = "SELECT number, body FROM events WHERE number > ? AND at >= ?"
        values: list[object] = [number, at]
        if rule:
            text, values = f"{text} AND rule = ?", [*values, rule]
        if host:
            text, values = f"{text} AND host IN (?, '')", [*values, host]
        try:
            for found, body in self._base.execute(f"{text} ORDER BY number", values):
                yield Stored(number=found, event=event_from(json.loads(body)))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise StoreError(f"the watcher's events cannot be read: {error}") from error

    def names(self) -> tuple[set[str], set[str]]:
        """Return the rules and the hosts of all events.  Raises StoreError."""
        try:
            found = self._base.execute("SELECT DISTINCT rule, host FROM events").fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the watcher's events cannot be read: {error}") from error
        return {rule for rule, _ in found} - {""}, {host for _, host in found} - {""}

    def state(self) -> tuple[State | None, int]:
        """Return what followed from the events up to a number, and that number; None and 0: go through all events.

        A state that another version of this program has stored is not used.  Raises StoreError.
        """
        try:
            row = self._base.execute("SELECT number, body FROM state").fetchone()
        except sqlite3.Error as error:
            raise StoreError(f"the watcher's events cannot be read: {error}") from error
        try:
            return (from_json(State, json.loads(row[1])), int(row[0])) if row else (None, 0)
        except ValueError:
            return None, 0

    def prune(self, now: float, state: State, number: int) -> None:
        """Remove old events, and sooner those that say little to people.  Raises StoreError.

        *state* is what follows from the events up to *number*: it is stored in their place.
        """
        try:
            with self._base:
                self._base.execute("BEGIN IMMEDIATE")
                self._base.execute("DELETE FROM state")
                body = json.dumps(to_json(state), separators=(",", ":"), allow_nan=False)
                self._base.execute("INSERT INTO state (number, body) VALUES (?, ?)", (number, body))
                for kinds, days in ((SAYS_LITTLE, 7), (SAYS_NO_MORE, KEPT_DAYS)):
                    for kind in kinds:
                        values = (now - days * 86400, _kind(kind), number)
                        self._base.execute("DELETE FROM events WHERE at < ? AND kind = ? AND number <= ?", values)
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(f"old events cannot be removed: {error}") from error

    def close(self) -> None:
        """Close the database."""
        self._base.close()


class StoreError(RunbookError):
    """The events cannot be written or read: nothing may be changed meanwhile."""


@contextmanager
def only_watcher(folder: PrivateFolder) -> Iterator[None]:
    """Make sure that this is the only watcher with this state.  Raises ConfigError if there is another."""
    file = folder.appending(LOCK)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"another watcher is at work with the state in {folder.path}") from None
        yield
    finally:
        os.close(file)


def is_watched(folder: PrivateFolder) -> bool:
    """Whether a watcher is at work with the state in *folder*."""
    file = folder.appending(LOCK)
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(file)


def to_line(event: WatchEvent) -> str:
    """Return *event* as a line of JSON."""
    return json.dumps(to_json(event), separators=(",", ":"))


def event_from(tree: object) -> WatchEvent:
    """Return the event in *tree*, parsed JSON.  Raises ValueError or TypeError if it is none."""
    return from_json(WatchEvent, tree)  # type: ignore[arg-type]  # a union is a type to cattrs


def events_in(lines: Sequence[str], file: str) -> Iterator[WatchEvent]:
    """Yield the events in *lines* of *file*, as ``to_line`` writes them.  Raises ConfigError."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield event_from(json.loads(line))
            except (ValueError, TypeError) as error:
                raise ConfigError(f"{file}:{number}: not an event of `runbook watch log --output jsonl`") from error


def _kind(event: type) -> str:
    return str(event.__dataclass_fields__["kind"].default)  # type: ignore[attr-defined]


def _row(event: WatchEvent) -> tuple[float, str, str, str, str]:
    rule, host = str(getattr(event, "rule", "")), str(getattr(event, "host", ""))
    return event.at, event.kind, rule, host, to_line(event)


def _prepare(base: sqlite3.Connection) -> None:
    base.execute("PRAGMA journal_mode = WAL")
    with base:
        base.executescript(_SCHEMA)


def _identity(folder: PrivateFolder) -> tuple[int, int]:
    """Return the device and the inode of the database in *folder*.  Raises OSError."""
    there = os.stat(folder.path / FILE, follow_symlinks=False)
    return there.st_dev, there.st_ino


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
