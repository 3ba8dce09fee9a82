"""A run that was interrupted is found by its hosts, also by those that have no end in its record."""

from __future__ import annotations

import json

import pytest

from runbook.commands.history.listing import Query, export_text, list_text
from runbook.records.index import Index, RunQuery
from runbook.records.recorded_run import read_run
from runbook.values.event import HostPlanned
from runbook.values.result import HostPlan
from tests.past_runs.recorded import RUN, change, finding, finished, host_end, journal, started, step
from tests.support.program import runbook


@pytest.fixture
def folder(tmp_path):
    """``a`` has come to its end, ``b`` was in the middle of a change, ``gpu-c`` had not begun."""
    return journal(tmp_path, started("a", "b", "gpu-c"), host_end("a"), change("one", "b"))


@pytest.mark.parametrize("host", ["a", "b", "gpu-*", "?"])
def test_it_is_listed_by_each_of_its_hosts(folder, host):
    """Mutants: the table of hosts with an end alone; a host that stays unfinished once it has ended."""
    index = Index(folder)
    assert [it.run for it in index.runs(RunQuery(host=host))] == [RUN]
    index.close()


def test_no_host_is_left_out_of_an_export(folder):
    """Mutant: unfinished hosts left out; counted as unchanged, which nobody knows."""
    rows = json.loads(export_text(folder, Query(), "json"))
    assert [(it["host"], it["verdict"], it["changes"]) for it in rows] == [
        ("a", "resolved", 0), ("b", "unfinished", None), ("gpu-c", "unfinished", None),
    ]  # fmt: skip
    assert [it["host"] for it in json.loads(export_text(folder, Query(host="gpu-c"), "json"))] == ["gpu-c"]
    assert [it["host"] for it in json.loads(export_text(folder, Query(verdict="resolved"), "json"))] == ["a"]
    assert export_text(folder, Query(), "csv").splitlines()[2].split(",")[10:] == [
        "b",
        "unfinished",
        "",
        "",
        "",
        "",
        "",
    ]


def test_a_host_without_an_end_is_a_name_that_the_records_have(folder, tmp_path):
    assert "did you mean gpu-c?" in list_text(folder, Query(host="gpu-d"))
    said = runbook("history", "list", "--host", "gpu-c", "--records", str(tmp_path))
    assert "1 resolved, 2 unfinished  INTERRUPTED" in said.out


def test_whose_hosts_have_all_ended_has_none_without_an_end(tmp_path):
    folder = journal(tmp_path, started("a"), host_end("a"), finished(host_end("a")))
    index = Index(folder)
    assert index.unfinished(RUN, RunQuery()) == []
    index.close()


def test_a_host_without_an_end_has_what_its_own_last_plan_found(tmp_path):
    """Mutants: ``unfinished`` that takes the plan of any host, the first plan, or none."""
    plans = (("a", "first"), ("a", "second"), ("b", "other"))
    events = [
        HostPlanned(plan=HostPlan(host=host, looks=(step(f"look_{name}"),), findings=(finding(name),)))
        for host, name in plans
    ]
    run = read_run(journal(tmp_path, started("a", "b", "gpu-c"), *events), RUN)
    seen = {end.host: ([found.id for found in end.findings], [look.id for look in end.steps]) for end in run.hosts}
    assert seen == {"a": (["second"], ["look_second"]), "b": (["other"], ["look_other"]), "gpu-c": ([], [])}
