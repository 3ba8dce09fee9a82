"""An index of all journals in SQLite, for queries; it is built from the journals, and rebuilt if it does not match
them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, TypeVar

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.records.chain import links
from runbook.records.journal import ENDING
from runbook.records.private_database import opened_database
from runbook.records.private_folder import Entry, PrivateFolder
from runbook.records.recorded_run import RUN, RunState, lives_on
from runbook.records.run_summary import RunSummary, process_of, stored_text

Row = TypeVar("Row")
Kind = TypeVar("Kind")

INDEX_FILE = "index.sqlite"
FORMAT = 6

LATEST = 253402300799.0
"""The latest time, in seconds since the epoch: the end of the year 9999."""

_MOST = 2**63 - 1
"""The maximum number of rows in a query of SQLite."""

_TABLES = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY, size INTEGER, changed INTEGER, started TEXT, seconds REAL, playbook TEXT, mode TEXT,
    command TEXT, person TEXT, reason TEXT, inventory TEXT, resumes TEXT, undoes TEXT, exit_code INTEGER, ended INTEGER,
    process TEXT, hosts INTEGER, totals TEXT, fault TEXT, sent INTEGER
);
CREATE TABLE hosts (run TEXT, host TEXT, verdict TEXT, seconds REAL, error TEXT, changes INTEGER, files INTEGER);
CREATE TABLE findings (run TEXT, host TEXT, finding TEXT, severity TEXT, status TEXT);
CREATE TABLE unfinished (run TEXT, host TEXT);
CREATE INDEX by_start ON runs (started);
CREATE INDEX by_resumed ON runs (resumes);
CREATE INDEX hosts_by_run ON hosts (run);
CREATE INDEX hosts_by_host ON hosts (host);
CREATE INDEX unfinished_by_host ON unfinished (host);
CREATE INDEX findings_by_run ON findings (run);
CREATE INDEX findings_by_name ON findings (finding);
"""


_OF_RUNS = "(SELECT run, host FROM hosts UNION ALL SELECT run, host FROM unfinished)"
"""The hosts of each run, including those without a result because the run was interrupted."""

_RESUMED_BY = """(
    SELECT later.run FROM runs AS later WHERE later.resumes = runs.run AND later.mode = 'run'
    ORDER BY later.started DESC, later.run DESC LIMIT 1
) AS resumed_by"""
"""A column that is not affected by the conditions on the listed runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """The conditions of a query for runs; an empty field is no condition."""

    host: str = ""
    """A host name, or a glob."""
    playbook: str = ""
    verdict: str = ""
    """The verdict of at least one host."""
    finding: str = ""
    """A finding that is present on at least one host."""
    since: float = 0.0
    """Seconds since the epoch."""
    until: float = 0.0
    limit: int = 0
    """The number of runs, the newest first; 0: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """The row of a run in the index."""

    run: str
    started: str
    seconds: float
    playbook: str
    mode: str
    command: str
    by: str
    reason: str
    resumes: str
    """The run that this run continues; empty: none."""
    resumed_by: str
    """The latest run, except dry runs, that continues this run; empty: none."""
    undoes: str
    """The run whose changes this run undoes; empty: none."""
    exit_code: int | None
    state: RunState
    hosts: int
    sent: int = 0
    """The number of changes that were sent, or may have been sent."""
    totals: Mapping[str, int] = field(default_factory=dict)
    fault: str = ""
    """The reason why the journal is not trusted; empty if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """The row of a host of a run in the index."""

    run: str
    host: str
    verdict: str
    seconds: float
    error: str
    changes: int
    """The number of steps that changed something."""
    files: int
    """The number of files that were fetched from the host."""
    findings: tuple[str, ...] = ()
    """The findings that were present."""


class Index:
    """Queries over the journals in *folder*; new lines of the journals are read first."""

    def __init__(self, folder: PrivateFolder) -> None:
        """Open the index, or rebuild it.  Raises ConfigError if the journals cannot be read."""
        self._folder = folder
        try:
            self._base = self._kept()
        except (sqlite3.Error, OSError):
            try:
                self._base = self._anew()
            except OSError as error:
                raise ConfigError(f"{folder.path}: {error.strerror or error}") from error

    def runs(self, query: RunQuery) -> list[RunRow]:
        """Return the runs that match *query*, the newest first."""
        where, values = _conditions(query)
        limit = f" LIMIT {min(query.limit, _MOST):d}" if query.limit else ""
        text = f"SELECT *, {_RESUMED_BY} FROM runs{where} ORDER BY started DESC, run DESC{limit}"  # noqa: S608 - no value is in the text
        return self._answer(
            lambda: [_run_row(row, self._folder) for row in _named_rows(self._base.execute(text, values))]
        )

    def hosts(self, run: str, query: RunQuery | None = None) -> list[HostRow]:
        """Return the hosts of *run* that have a result; *query* selects by host, verdict and finding."""
        return self._answer(lambda: self._hosts(run, query or RunQuery()))

    def unfinished(self, run: str, query: RunQuery) -> list[str]:
        """Return the hosts of *run* without a result, in their order.

        Empty if *query* asks for a verdict or a finding.
        """
        if query.verdict or query.finding:
            return []
        text = "SELECT host FROM unfinished WHERE run = ? AND host GLOB ? ORDER BY rowid"
        values = (run, stored_text(query.host or "*"))
        return self._answer(lambda: [_typed(row[0], str) for row in self._base.execute(text, values)])

    def names(self, what: str) -> list[str]:
        """Return every ``playbook``, ``host`` or ``finding`` (*what*) that the records name, sorted."""
        table = {"playbook": "runs", "host": _OF_RUNS, "finding": "findings"}[what]
        text = f"SELECT DISTINCT {what} FROM {table} WHERE {what} <> '' ORDER BY {what}"  # noqa: S608 - of the table above
        return self._answer(lambda: [_typed(row[0], str) for row in self._base.execute(text)])

    def close(self) -> None:
        """Close the database."""
        self._base.close()

    def _hosts(self, run: str, query: RunQuery) -> list[HostRow]:
        present: dict[str, list[str]] = {}
        found = "SELECT host, finding FROM findings WHERE run = ? AND status = 'present'"
        for host, finding in self._base.execute(found, (run,)):
            present.setdefault(host, []).append(_typed(finding, str))
        where, values = _host_conditions(query)
        text = f"SELECT * FROM hosts WHERE run = ?{where} ORDER BY rowid"  # noqa: S608 - no value is in the text
        rows = self._base.execute(text, (run, *values))
        return [_host_row(row, present) for row in _named_rows(rows)]

    def _answer(self, question: Callable[[], list[Row]]) -> list[Row]:
        """Return the result of *question*; if the index is damaged, rebuild it and ask again."""
        try:
            return question()
        except (sqlite3.Error, ValueError, TypeError, KeyError, RecursionError):
            self._base.close()
            self._base = self._anew()
            return question()

    def _kept(self) -> sqlite3.Connection:
        """Open the database in the folder, and update it.  Raises sqlite3.Error if it is damaged, and OSError."""
        return opened_database(self._folder, INDEX_FILE, self._update)

    def _update(self, base: sqlite3.Connection) -> None:
        with base:
            base.execute("BEGIN IMMEDIATE")
            _provide_tables(base)
            self._refresh(base)

    def _anew(self) -> sqlite3.Connection:
        """Rebuild the database; in memory if it cannot be stored.  Raises OSError if the journals cannot be read."""
        with suppress(OSError):
            _remove(self._folder)
        try:
            return self._kept()
        except (sqlite3.Error, OSError):
            base = sqlite3.connect(":memory:")
        with base:
            _provide_tables(base)
            self._refresh(base)
        return base

    def _refresh(self, base: sqlite3.Connection) -> None:
        """Read the journals that are new or have grown into the database *base*."""
        known = {run: (size, changed) for run, size, changed in base.execute("SELECT run, size, changed FROM runs")}
        there = {each.name.removesuffix(ENDING): each for each in self._folder.entries(ENDING)}
        there = {run: it for run, it in there.items() if RUN.fullmatch(run)}
        for run in known.keys() - there.keys():
            _drop(base, run)
        for run, entry in there.items():
            if known.get(run) == (entry.size, entry.changed):
                continue
            _drop(base, run)
            try:
                _add(base, run, entry, self._summary(run))
            except (sqlite3.InterfaceError, sqlite3.ProgrammingError, ArithmeticError, ValueError, TypeError) as error:
                _drop(base, run)
                bare = RunSummary(run)
                bare.note(f"it cannot be summarised: {error}")
                _add(base, run, entry, bare)

    def _summary(self, run: str) -> RunSummary:
        summary = RunSummary(run)
        try:
            with self._folder.opened(run + ENDING) as file:
                for link in links(file):
                    if link.fault:
                        summary.note(f"line {link.number}: {link.fault}")
                    summary.take(link.number, link.value)
        except OSError as error:
            summary.note(error.strerror or str(error))
        if not summary.begun:
            summary.note("it has no beginning")
        return summary


def recorded_runs(folder: PrivateFolder, query: RunQuery | None = None) -> list[RunRow]:
    """Return the recorded runs, the newest first; *query* selects some of them.  Raises ConfigError."""
    with closing(Index(folder)) as index:
        return index.runs(query or RunQuery())


def make_anew(folder: PrivateFolder) -> None:
    """Remove the index and build it again from the journals.  Raises OSError if it cannot be removed."""
    _remove(folder)
    Index(folder).close()


def _remove(folder: PrivateFolder) -> None:
    for name in (f"{INDEX_FILE}-journal", f"{INDEX_FILE}-wal", f"{INDEX_FILE}-shm", INDEX_FILE):
        folder.remove(name)


def _provide_tables(base: sqlite3.Connection) -> None:
    """Create the tables in an empty database.  Raises sqlite3.DatabaseError if it has other tables."""
    if not (there := _schema(base)):
        for statement in _TABLES.split(";"):
            base.execute(statement)
        base.execute(f"PRAGMA user_version = {FORMAT}")
        return
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_TABLES)
        wanted = _schema(fresh)
    if there != wanted or base.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
        raise sqlite3.DatabaseError("the index has other tables")


def _schema(base: sqlite3.Connection) -> list[tuple[str, str]]:
    return base.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name").fetchall()


def _drop(base: sqlite3.Connection, run: str) -> None:
    for table in ("runs", "hosts", "findings", "unfinished"):
        base.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 - the names stand above


def _add(base: sqlite3.Connection, run: str, entry: Entry, summary: RunSummary) -> None:
    row = {**summary.row, "run": run, "size": entry.size, "changed": entry.changed, "fault": summary.fault}
    row |= {"totals": json.dumps(summary.totals), "sent": summary.sent}
    columns = ", ".join(row)
    marks = ", ".join("?" * len(row))
    base.execute(f"INSERT INTO runs ({columns}) VALUES ({marks})", tuple(row.values()))  # noqa: S608 - the names stand in RunSummary
    base.executemany("INSERT INTO hosts VALUES (?, ?, ?, ?, ?, ?, ?)", [(run, *item) for item in summary.hosts])
    base.executemany("INSERT INTO findings VALUES (?, ?, ?, ?, ?)", [(run, *finding) for finding in summary.findings])
    base.executemany("INSERT INTO unfinished VALUES (?, ?)", [(run, host) for host in summary.unfinished])


def _conditions(query: RunQuery) -> tuple[str, Sequence[Any]]:
    """Return the WHERE clause for *query*, and its values."""
    parts: list[str] = []
    values: list[Any] = []
    inner = "run IN (SELECT run FROM"
    for words, value in (
        ("playbook = ?", query.playbook),
        (f"run IN (SELECT run FROM {_OF_RUNS} WHERE host GLOB ?)", query.host),  # noqa: S608 - the names stand above
        (f"{inner} hosts WHERE verdict = ?)", query.verdict),
        (f"{inner} findings WHERE finding = ? AND status IN ('present', 'gone'))", query.finding),
    ):
        if value:
            parts.append(words)
            values.append(stored_text(value))
    for words, moment in (("started >= ?", query.since), ("started < ?", query.until)):
        if moment:
            parts.append(words)
            values.append(_written(moment))
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values


def _host_conditions(query: RunQuery) -> tuple[str, Sequence[str]]:
    """Return the conditions of *query* on the hosts of one run, for a WHERE clause, and their values."""
    seen = "host IN (SELECT host FROM findings WHERE run = hosts.run AND finding = ? AND status IN ('present', 'gone'))"
    asked = (("host GLOB ?", query.host), ("verdict = ?", query.verdict), (seen, query.finding))
    wanted = [(words, stored_text(value)) for words, value in asked if value]
    return "".join(f" AND {words}" for words, _ in wanted), [value for _, value in wanted]


def _written(moment: float) -> str:
    bounded = min(max(moment, 0.0), LATEST)
    return datetime.fromtimestamp(bounded, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _named_rows(cursor: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    names = [item[0] for item in cursor.description]
    for row in cursor:
        yield dict(zip(names, row, strict=True))


def _run_row(row: Mapping[str, Any], folder: PrivateFolder) -> RunRow:
    """Return the run in *row*.  Raises TypeError and ValueError if runbook did not write the row."""
    state = RunState.FINISHED if _typed(row["ended"], int) else RunState.INTERRUPTED
    process = process_of({"process": json.loads(row["process"] or "null")})
    if state is RunState.INTERRUPTED and lives_on(folder, _typed(row["run"], str), process):
        state = RunState.RUNNING
    totals = _typed(json.loads(row["totals"]), dict)
    return RunRow(
        run=_typed(row["run"], str),
        started=_typed(row["started"], str),
        seconds=_typed(row["seconds"], float),
        playbook=_typed(row["playbook"], str),
        mode=_typed(row["mode"], str),
        command=_typed(row["command"] or "", str),
        by=_typed(row["person"] or "", str),
        reason=_typed(row["reason"] or "", str),
        resumes=_typed(row["resumes"] or "", str),
        resumed_by=_typed(row["resumed_by"] or "", str),
        undoes=_typed(row["undoes"] or "", str),
        exit_code=None if row["exit_code"] is None else _typed(row["exit_code"], int),
        state=state,
        hosts=_typed(row["hosts"], int),
        sent=_typed(row["sent"], int),
        totals={verdict: _typed(number, int) for verdict, number in totals.items()},
        fault=_typed(row["fault"], str),
    )


def _host_row(row: Mapping[str, Any], present: Mapping[str, Sequence[str]]) -> HostRow:
    """Return the host in *row*.  Raises TypeError if runbook did not write the row."""
    host = _typed(row["host"], str)
    return HostRow(
        run=_typed(row["run"], str),
        host=host,
        verdict=_typed(row["verdict"], str),
        seconds=_typed(row["seconds"], float),
        error=_typed(row["error"], str),
        changes=_typed(row["changes"], int),
        files=_typed(row["files"], int),
        findings=tuple(present.get(host, ())),
    )


def _typed(value: Any, kind: type[Kind]) -> Kind:
    """Return *value*, whose type must be *kind*.  Raises TypeError if it is not."""
    if not isinstance(value, kind):
        raise TypeError(f"the index is damaged: {value!r} is no {kind.__name__}")
    return value
