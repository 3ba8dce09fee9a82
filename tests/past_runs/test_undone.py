"""A run that was undone is not gone on with by mistake, and an undo keeps to the limits of what it undoes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.commands.history.undone import limits_of_undo, undone_hosts
from runbook.commands.resume import ResumeOptions, _refuse_undone, without_undone
from runbook.errors import ConfigError
from runbook.records.finding_runs import load_run
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import earlier_changes
from runbook.values.playbook import Limits
from runbook.values.result import Mode, Sent, Status
from tests.past_runs.recorded import change, ended, finished, host_end, journal, started, whole
from tests.support.tables import every_row

FIRST, UNDO, AGAIN = "20260101T000005Z-0001", "20260101T000009Z-0002", "20260101T000011Z-0003"


def undo(
    place: Path, run: str, undoes: str, *, hosts: tuple[str, ...] = ("a",), mode: Mode = Mode.RUN
) -> PrivateFolder:
    """An undo that has sent something to *hosts*, and nothing to the host ``b``."""
    ends = [host_end(it) for it in (*hosts, "b")]
    changes = [event for it in hosts for event in (change("undo_x_1", it), ended("undo_x_1", it))]
    begun = started(*hosts, "b", run=run, undoes=undoes, mode=mode)
    return journal(place, begun, *changes, *ends, finished(*ends, run=run), run=run)


def test_the_hosts_on_which_a_run_was_undone_are_known(tmp_path):
    """Mutants: ``_undone`` by the hosts of the undo, whatever it sent; ``_undoes`` without the mode."""
    whole(tmp_path, FIRST, hosts=("a", "b"))
    dry = undo(tmp_path, AGAIN, FIRST, mode=Mode.PLAN)
    assert undone_hosts(dry, [FIRST]) == {}
    folder = undo(tmp_path, UNDO, FIRST)
    assert undone_hosts(folder, [FIRST]) == {"a": UNDO}
    assert undone_hosts(folder, [UNDO]) == {}


def test_an_undo_that_was_undone_does_not_count(tmp_path):
    """Mutant: ``_undone`` without ``again``."""
    whole(tmp_path, FIRST, hosts=("a", "b", "c"))
    undo(tmp_path, UNDO, FIRST, hosts=("a", "c"))
    assert undone_hosts(undo(tmp_path, AGAIN, UNDO), [FIRST]) == {"c": UNDO}


def test_an_undo_of_which_nothing_was_sent_does_not_count(tmp_path):
    """Mutant: ``_undone`` by what was begun."""
    whole(tmp_path, FIRST)
    unsent = change("undo_x_1"), ended("undo_x_1", status=Status.FAILED, sent=Sent.NOTHING)
    folder = journal(tmp_path, started(run=UNDO, undoes=FIRST), *unsent, host_end(), run=UNDO)
    assert undone_hosts(folder, [FIRST]) == {}


def test_undos_that_name_each_other_end(tmp_path):
    undo(tmp_path, UNDO, AGAIN)
    assert undone_hosts(undo(tmp_path, AGAIN, UNDO), [UNDO]) == {"a": AGAIN}


@every_row("harm", ["gone", "garbled"])
def test_an_undo_whose_record_is_not_believed_makes_it_unknown(tmp_path, harm):
    """Mutants: ``_undoes`` by the index alone; an ``Entry`` without ``undoes``."""
    whole(tmp_path, FIRST, hosts=("a", "b"))
    folder = undo(tmp_path, UNDO, FIRST)
    file = folder.path / f"{UNDO}.jsonl"
    file.unlink() if harm == "gone" else file.write_bytes(b"\0" * 40 + file.read_bytes()[40:])
    with pytest.raises(ConfigError, match=f"{UNDO}.*nobody knows what was done"):
        undone_hosts(folder, [FIRST])


def test_an_undo_that_is_under_way_is_waited_for(tmp_path):
    whole(tmp_path, FIRST)
    folder = journal(tmp_path, started(run=UNDO, undoes=FIRST, alive=True), change("undo_x_1"), run=UNDO)
    with pytest.raises(ConfigError, match="is under way, and undoes"):
        undone_hosts(folder, [FIRST])


def test_resume_refuses_a_host_on_which_the_run_was_undone_and_says_by_which_run():
    """Mutants: ``_refuse_undone`` without the option; without the hosts that are wanted."""
    options = ResumeOptions()
    with pytest.raises(ConfigError) as caught:
        _refuse_undone(FIRST, ["a", "b"], {"a": UNDO}, options)
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"run {FIRST} was undone on a, by run {UNDO}")
    assert problem.hint == "--undone does so; --hosts takes the others"
    _refuse_undone(FIRST, ["b"], {"a": UNDO}, options)
    _refuse_undone(FIRST, ["a", "b"], {"a": UNDO}, ResumeOptions(undone=True))


def test_what_an_undo_took_back_is_probed_and_not_taken_as_done(tmp_path):
    """What no probe can tell (a command) is never taken back, and stays done.

    Mutants: ``without_undone`` that drops everything, or nothing, or that of all hosts.
    """
    probed, sent = [
        [change(name, it, verifiable=name == "file"), ended(name, it)] for it in "a" for name in ("file", "command")
    ]
    other = [change("file", "b", verifiable=True), ended("file", "b")]
    folder = journal(tmp_path, started("a", "b", run=FIRST), *probed, *sent, *other, run=FIRST)
    left = without_undone(earlier_changes([load_run(folder, FIRST)]), {"a": UNDO})
    assert {host: [it.step for it in changes] for host, changes in left.items()} == {"a": ["command"], "b": ["file"]}


def playbook(folder: Path, limits: str) -> str:
    file = folder / "toy.yaml"
    step = "remediate:\n  - {id: x, file: {path: /x, content: y}}\n"
    file.write_text(f"name: toy\nabout: Changes a file.\n{step}limits: {limits}\n")
    return str(file)


def limits(place: Path, run: str = FIRST, *, changes: bool = True) -> tuple[Limits, list[str]]:
    folder, said = PrivateFolder(place), list[str]()
    found = limits_of_undo(load_run(folder, run), lambda it: load_run(folder, it), said.append, changes=changes)
    return found, said


def test_an_undo_keeps_to_confirm_from_also_one_of_an_undo(tmp_path):
    """Mutants: ``limits_of_undo`` without the loop; that gives no limits."""
    book = playbook(tmp_path, "{confirm_from: edits-files, stop_after: 1}")
    journal(tmp_path / "runs", started(run=FIRST, playbook=book), run=FIRST)
    undo(tmp_path / "runs", UNDO, FIRST)
    for run in (FIRST, UNDO):
        assert limits(tmp_path / "runs", run) == (Limits(confirm_from="edits-files"), [])


def test_an_undo_of_what_needs_approvals_is_refused_and_a_dry_run_is_not(tmp_path):
    """Mutant: without the approvals; without ``changes``."""
    book = playbook(tmp_path, "{approvals: 1}")
    journal(tmp_path / "runs", started(run=FIRST, playbook=book), run=FIRST)
    with pytest.raises(ConfigError, match=r"changes nothing without 1 approval .*and so does an undo"):
        limits(tmp_path / "runs")
    assert limits(tmp_path / "runs", changes=False) == (Limits(approvals=1), [])


def test_limits_that_cannot_be_read_are_the_strictest(tmp_path):
    """Mutant: no limits where the playbook is gone."""
    journal(tmp_path / "runs", started(run=FIRST, playbook=str(tmp_path / "gone.yaml")), run=FIRST)
    found, said = limits(tmp_path / "runs")
    assert found == Limits(confirm_from="reads")
    assert "its limits are not known: --yes does not do" in said[0]


def test_a_single_command_has_no_limits(tmp_path):
    journal(tmp_path, started(run=FIRST), run=FIRST)
    assert limits(tmp_path) == (Limits(), [])
