"""The engine as a library: the values of the commands, without a command line."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import runbook
from runbook.cli import cli
from runbook.commands.api import OPTIONS
from runbook.errors import ConfigError, RecordLost
from runbook.values.event import HostFinished, RunStarted
from runbook.values.result import Status, Verdict

BOOK = """\
name: mark
about: Makes a file.
inputs:
  place: {about: Where., type: string, required: true}
remediate:
  - id: make
    file: {path: "{{ inputs.place }}/{{ host.name }}", content: "x\\n"}
"""


@pytest.fixture
def book(tmp_path: Path) -> dict:
    (tmp_path / "mark.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {transport: local}, b: {transport: local}}\n")
    given = {"hosts": "all", "inventory": [tmp_path / "hosts.yaml"], "inputs": {"place": str(tmp_path)}}
    return {"playbook": tmp_path / "mark.yaml", **given}


def test_load_plan_run_and_history_give_the_values_of_the_commands(tmp_path, book):
    assert runbook.load(book["playbook"]).name == "mark"
    events = []
    planned = runbook.plan(**book, on_event=events.append)
    assert {it.verdict for it in planned.hosts} == {Verdict.PLANNED}
    assert not (tmp_path / "a").exists()
    assert isinstance(events[0], RunStarted)
    assert sum(isinstance(it, HostFinished) for it in events) == 2
    done = runbook.run(**book, yes=True, reason="why")
    assert {it.verdict for it in done.hosts} == {Verdict.RESOLVED}
    assert (tmp_path / "a").read_text() == "x\n"
    rows = runbook.history(host="a")
    assert [(it.run, it.command, it.mode, it.reason) for it in rows] == [
        (done.run, "api", "run", "why"), (planned.run, "api", "plan", ""),
    ]  # fmt: skip
    assert runbook.recorded(done.run).hosts == done.hosts


def test_without_a_yes_nothing_is_changed(tmp_path, book):
    """Mutant: ``result`` that goes with YES."""
    done = runbook.run(**book, yes=False)
    assert {it.status for host in done.hosts for it in host.steps} == {Status.BLOCKED}
    assert not (tmp_path / "a").exists()


def test_mistakes_are_raised_all_at_once_and_nothing_is_recorded(book, tmp_path):
    with pytest.raises(ConfigError, match="no input 'plaec'"):
        runbook.plan(**{**book, "inputs": {**book["inputs"], "plaec": 1}})
    with pytest.raises(ConfigError, match="there is no option 'paralel'"):
        runbook.plan(**book, paralel=3)
    with pytest.raises(ConfigError, match="no host and no group"):
        runbook.run(**{**book, "hosts": "c"}, yes=True)
    assert runbook.history() == []
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordLost, match="cannot be recorded"):
        runbook.run(**book, yes=True, records=str(tmp_path / "file"))


def test_the_example_of_the_docs_runs_and_prints_what_it_says(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    (code,), (printed,) = (page.split(f"```{kind}\n")[1:] for kind in ("python", "text"))
    (tmp_path / "hosts.yaml").write_text("hosts: {gpu-01: {transport: local}, gpu-02: {transport: local}}\n")
    (tmp_path / "mark.yaml").write_text(BOOK)
    code = code.partition("```")[0].replace("/srv/marks", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.stdout.replace(str(tmp_path), "/srv/marks"), done.stderr) == (printed.partition("```")[0], "")


def test_its_options_are_those_of_run():
    """Mutant: an option of the command line that the library does not know."""
    of_run = {it.name for it in cli.commands["run"].params}
    given_otherwise = {"playbook", "hosts", "inputs", "inventory", "settle", "plan_only", "yes"}
    given_otherwise |= {"via", "cluster", "start_within", "sign_with", "detach"}  # of no use without a person
    assert of_run - given_otherwise - {"output", "report", "verbosity", "debug"} == OPTIONS


def test_an_option_that_has_a_few_values_takes_no_other(book):
    """Mutant: without the check, ``only`` of another word makes a run that changes hosts."""
    for option, hint in (
        ({"only": "diagnos"}, "did you mean diagnose"),
        ({"order": "sideways"}, "there are: inventory"),
    ):
        with pytest.raises(ConfigError, match=hint):
            runbook.run(**book, yes=True, **option)
    assert runbook.history() == []


def test_importing_it_costs_next_to_nothing():
    """Mutant: ``engine/runbook/__init__.py`` that imports its functions at once."""
    code = "import sys, runbook; print(len([it for it in sys.modules if it.startswith('runbook')]))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "2\n"
    )  # and its version


def test_history_takes_times_as_the_command_does_and_refuses_what_it_refuses(book):
    """Mutant: ``history`` that passes its query on unchecked."""
    done = runbook.run(**book, yes=True)
    assert [it.run for it in runbook.history(since="1h", until=time.time() + 60, limit=1)] == [done.run]
    assert runbook.history(until="yesterday") == []
    with pytest.raises(ConfigError, match="verdict: 'resolvd' is no verdict"):
        runbook.history(verdict="resolvd")
    with pytest.raises(ConfigError, match=r"since: 'soon' is not a point in time.*yesterday"):
        runbook.history(since="soon")
    with pytest.raises(ConfigError, match=r"there is no condition 'hosts' .*there are: host, playbook"):
        runbook.history(hosts="a")
