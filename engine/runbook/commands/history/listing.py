"""The command ``runbook history list``: recorded runs, one line for each; and their export as rows."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.records.index import LATEST, Index, RunQuery, RunRow, recorded_runs
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RunState
from runbook.text.printable import json_text, printable
from runbook.text.suggestions import suggest
from runbook.text.timestamps import day, time_reference
from runbook.values.result import Verdict
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The conditions for recorded runs, as texts of a command line; an empty text is no condition."""

    host: str = ""
    playbook: str = ""
    verdict: str = ""
    finding: str = ""
    since: str = ""
    until: str = ""
    limit: int = 0

    def checked(self) -> RunQuery:
        """Return the conditions as a query of the records.  Raises ConfigError."""
        return checked_query({name: getattr(self, name) for name in _ASKED}, limit=self.limit, prefix="--")


_ASKED = ("host", "playbook", "verdict", "finding", "since", "until")


def checked_query(asked: Mapping[str, Any], *, limit: int = 0, prefix: str = "") -> RunQuery:
    """Return the query for the values in *asked*, keyed by the fields of ``RunQuery``; times may be text (``7d``).

    *prefix* is put before a name in a message.  Raises ConfigError.
    """
    if unknown := [text for text in asked if text not in _ASKED]:
        hint = f"there are: {', '.join((*_ASKED, 'limit'))}"
        raise ConfigError(*(Problem(message=f"there is no condition {text!r}", hint=hint) for text in unknown))
    times: dict[str, Any] = {text: _moment(asked.get(text, ""), prefix + text) for text in ("since", "until")}
    words = {text: asked.get(text, "") for text in _ASKED if text not in times}
    for name, word in words.items():
        if not isinstance(word, str):
            raise ConfigError(f"{prefix}{name}: {word!r} is no text")
    if limit < 0:
        raise ConfigError(f"{prefix}limit: {limit} is below 0; 0 is no limit")
    known = [verdict.value for verdict in Verdict]
    if words["verdict"] and words["verdict"] not in known:
        raise ConfigError(f"{prefix}verdict: {words['verdict']!r} is no verdict (there are: {', '.join(known)})")
    return RunQuery(**words, **times, limit=limit)


def _moment(text: str | float, option: str) -> float:
    """Return a time in seconds since the epoch; *text*: these seconds, or a text; empty: 0.  Raises ConfigError."""
    now = time.time()
    if not isinstance(text, str):
        return float(text)
    try:
        moment = found if (found := day(text, now)) is not None else time_reference(text).on(now)
    except ValueError as error:
        raise ConfigError(f"{option}: {error}; or a day in UTC: yesterday, 2026-01-31") from error
    if moment is None:
        return 0.0
    if not 0 < moment <= LATEST:
        raise ConfigError(f"{option}: {text} is no time between 1970 and the end of the year 9999")
    return moment


def list_text(folder: PrivateFolder, asked: Query, output: str = "console") -> str:
    """Return the list of the runs that match *asked*, the newest first."""
    query = asked.checked()
    rows = recorded_runs(folder, query)
    if output == "json":
        return json.dumps({"format": 1, "runs": [run_fields(row) for row in rows]}, indent=1)
    if not rows:
        return "\n".join([f"no recorded run matches (records: {folder.path})", *_unheard_of(folder, query)])
    width = max(len(row.playbook) for row in rows)
    return "\n".join(_line(row, width) for row in rows)


def run_fields(row: RunRow) -> dict[str, Json]:
    """Return *row* as ``--output json`` prints it."""
    return {**asdict(row), "state": row.state.value}


def _unheard_of(folder: PrivateFolder, query: RunQuery) -> Iterator[str]:
    """Yield a line for each word of *query* that no record names, with similar words that records name."""
    with closing(Index(folder)) as index:
        for what in ("host", "playbook", "finding"):
            word, known = getattr(query, what), index.names(what)
            if word and not any(fnmatchcase(text, word) if what == "host" else text == word for text in known):
                yield printable(f"no record names the {what} {word!r}; {suggest(word, known)}")


def _line(row: RunRow, width: int) -> str:
    started = f"{row.started.partition('.')[0].removesuffix('Z')}Z"
    counts = ", ".join(f"{number} {verdict}" for verdict, number in row.totals.items())
    missing = row.hosts - sum(row.totals.values())
    if missing and row.state is not RunState.FINISHED:
        counts = ", ".join(filter(None, [counts, f"{missing} {UNFINISHED}"]))
    kind = "dry run" if row.mode == "plan" else row.command or "run"
    state = "" if row.state is RunState.FINISHED else f"  {row.state.upper()}"
    if row.resumed_by and row.state is not RunState.RUNNING:
        state = f"  resumed by {row.resumed_by}"
    extra = f"  resumes {row.resumes}" if row.resumes else f"  undoes {row.undoes}" if row.undoes else ""
    why = f"  ({row.reason})" if row.reason else ""
    fault = f"  NOT AS IT WAS WRITTEN: {row.fault}" if row.fault else ""
    line = f"{row.run}  {started}  {row.playbook:{width}}  {kind:8}  {row.by}  {counts}{state}{extra}{why}{fault}"
    return printable(line.rstrip())


def export_text(folder: PrivateFolder, asked: Query, form: str = "json") -> str:
    """Return a row for each run and host that match *asked*, as csv, json or jsonl (*form*)."""
    rows = list(_host_rows(folder, asked.checked()))
    match form:
        case "json":
            return json.dumps(rows, indent=1)
        case "jsonl":
            return "\n".join(json_text(each, "utf-8") for each in rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().rstrip("\n")


UNFINISHED = "unfinished"
"""Shown in place of the verdict of a host that began but did not end.

Its record has its changes, which are not counted.
"""

_COLUMNS = (
    "run", "started", "playbook", "mode", "command", "by", "reason", "state", "resumed_by", "exit_code",
    "host", "verdict", "seconds", "changes", "files", "findings", "error",
)  # fmt: skip


def _host_rows(folder: PrivateFolder, query: RunQuery) -> Iterator[dict[str, Json]]:
    with closing(Index(folder)) as index:
        for run in index.runs(query):
            about: dict[str, Json] = {name: value for name, value in asdict(run).items() if name in _COLUMNS}
            about["state"] = run.state.value
            for host in index.hosts(run.run, query):
                row = {**about, **asdict(host), "findings": list(host.findings)}
                yield {name: row[name] for name in _COLUMNS}
            for name in index.unfinished(run.run, query):
                yield {**dict.fromkeys(_COLUMNS), **about, "seconds": None, "host": name, "verdict": UNFINISHED}


def _cell(value: Json) -> Json:
    """Return *value* for a cell of a table: a text that a spreadsheet would take for a formula gets an apostrophe
    before it.
    """
    if isinstance(value, list):
        value = " ".join(map(str, value))
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
