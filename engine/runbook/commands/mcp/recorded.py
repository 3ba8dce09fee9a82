"""Recorded runs for an assistant: their list, their findings, and the steps of one host."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from runbook.codec import to_json
from runbook.commands.history.listing import checked_query, run_fields
from runbook.commands.history.showing import head_lines, host_lines, summary_lines
from runbook.commands.mcp.answers import MAX_LONG_TEXT, Bounds, answer
from runbook.commands.mcp.served import Served
from runbook.errors import ConfigError
from runbook.records.finding_runs import load_run
from runbook.records.index import Index, RunQuery, RunRow
from runbook.records.recorded_run import RUN, RecordedRun
from runbook.text.shortened import first_few
from runbook.values.plan import Presence
from runbook.values.result import HostResult
from runbook.values.types import Json

MOST_RUNS = 200
"""The runs of one list."""


def runs(served: Served, asked: Mapping[str, Any], limit: int) -> list[RunRow]:
    """Return the newest *limit* runs that match *asked* and have a host that the assistant may see.

    Raises ConfigError.
    """
    query = checked_query(asked)
    with closing(Index(served.records)) as index:
        rows = index.runs(query)
        if served.is_limited():
            allowed = served.allowed(served.inventory())
            rows = [row for row in rows if allowed & _hosts_of(index, row.run)]
    return rows[:limit]


def _hosts_of(index: Index, run: str) -> frozenset[str]:
    query = RunQuery(host="*")
    return frozenset(row.host for row in index.hosts(run, query)) | frozenset(index.unfinished(run, query))


def history(served: Served, asked: Mapping[str, Any], limit: int) -> dict[str, Json]:
    """Return the newest *limit* runs that match *asked*, as ``runbook history list`` does.  Raises ConfigError."""
    bounds, rows = Bounds(), runs(served, asked, limit)
    return answer(bounds, {"runs": bounds.data("the records of runs", [run_fields(row) for row in rows])})


def run_record(served: Served, run: str) -> dict[str, Json]:
    """Return the record of *run*: what it was, and what each host came to.  Raises ConfigError."""
    recorded, hosts, left_out = _opened(served, run)
    bounds = Bounds(MAX_LONG_TEXT)
    about = "\n".join(head_lines(served.records, recorded))
    fields: dict[str, Json] = {
        "run": recorded.run,
        "about": bounds.data(f"the record of run {recorded.run}", about),
        "hosts": [_of_host(bounds, host, "\n".join(summary_lines(host))) for host in hosts],
        "hosts_not_shown": left_out,
    }
    return answer(bounds, fields)


def run_findings(served: Served, run: str) -> dict[str, Json]:
    """Return the findings of *run* that are not absent, host by host, with their evidence.  Raises ConfigError."""
    recorded, hosts, left_out = _opened(served, run)
    bounds = Bounds()
    fields: dict[str, Json] = {
        "run": recorded.run,
        "hosts": [_of_host(bounds, host, _findings(host)) for host in hosts],
        "hosts_not_shown": left_out,
    }
    return answer(bounds, fields)


def run_evidence(served: Served, run: str, name: str) -> dict[str, Json]:
    """Return every step of the host *name* in *run*, with its commands and their output.  Raises ConfigError."""
    recorded, hosts, _ = _opened(served, run)
    host = next((host for host in hosts if host.host == name), None)
    if host is None:
        known = first_few(host.host for host in hosts)
        raise ConfigError(f"run {recorded.run} has no host {name!r} that may be shown here (there are: {known})")
    bounds = Bounds(MAX_LONG_TEXT)
    lines = [*head_lines(served.records, recorded), "", *host_lines(served.records, recorded, host)]
    return answer(bounds, {"run": recorded.run, **_of_host(bounds, host, "\n".join(lines))})


def _of_host(bounds: Bounds, host: HostResult, value: Json) -> dict[str, Json]:
    return {"host": host.host, "verdict": host.verdict.value, **bounds.data(f"host {host.host}", value)}


def _findings(host: HostResult) -> list[Json]:
    return [to_json(finding) for finding in host.findings if finding.status is not Presence.ABSENT]


def _opened(served: Served, run: str) -> tuple[RecordedRun, list[HostResult], int]:
    """Return the record of *run*, the hosts of it that the assistant may see, and the number of the others."""
    if not RUN.fullmatch(run):
        raise ConfigError(f"{run!r} is not the id of a run; the tool `history` lists them")
    recorded = load_run(served.records, run)
    hosts = list(recorded.hosts)
    if served.is_limited():
        allowed = served.allowed(served.inventory())
        hosts = [host for host in hosts if host.host in allowed]
        if not hosts:
            raise ConfigError(f"run {run} has no host that this server was started for")
    return recorded, hosts, len(recorded.hosts) - len(hosts)
