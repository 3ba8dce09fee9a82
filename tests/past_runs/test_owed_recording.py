"""What a run writes down before its first change, where hosts answer badly or not at all."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from runbook.errors import Cancelled, ConnectionLost, Unreachable
from runbook.execution.executor.owed import OwedRecord, owed_steps
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.values.command import Completed
from runbook.values.inventory import Host
from runbook.values.owed import NotePlace, NotRecorded
from runbook.values.plan import Blocked, Change, NoChange, PlannedStep, Risk, Skip
from runbook.values.playbook import Phase
from runbook.values.result import HostPlan, Status, StepResult
from tests.support.tables import every_row

BOOK = """\
name: toy
remediate:
  - {id: change, become: true, command: {do: {argv: ["true"]}}}
  - {id: tell, always: true, note: {text: hello}}
  - {id: put_back, always: true, command: {do: {argv: ["true"]}}}
  - {id: tidy, always: true, on: leader, command: {do: {argv: ["true"]}}}
"""
DO = Change(summary="do it", commands=(), risk=Risk.UNKNOWN)


class Answers:
    """A connection that answers each command with the next of what it is given, or raises that."""

    def __init__(self, *answers) -> None:
        self.answers, self.sent = list(answers), []

    def run(self, command):
        self.sent.append((command.argv[0], command.become))
        answer = self.answers.pop(0) if self.answers else Completed(exit_code=0, stdout="noted\n")
        if isinstance(answer, Exception):
            raise answer
        return (answer,)


class Records:
    """The records of this side, in memory."""

    def __init__(self, why: str = "") -> None:
        self.why, self.kept = why, []

    def keep(self, cleanup):
        if self.why:
            return NotRecorded(why=self.why)
        self.kept.append([it.id for it in cleanup.steps])
        self.last = cleanup
        return cleanup

    def drop(self, cleanup):
        self.kept.append("dropped")

    def settled_here(self, host):
        return ()

    def gone_on_with(self, host):
        return ()


def scene(*, here=(), leader=(), why="", **decisions):
    book = load_playbook(BOOK, "toy.yaml", discover())
    places = {"": Answers(*here), "leader": Answers(*leader)}
    site = SimpleNamespace(
        playbook=book, host=Host(name="h", user="ubuntu"), run=SimpleNamespace(facts={"id": "r", "by": "ann@ops", "started_at": "now"}, owed=Records(why)), at=places.__getitem__, action=lambda step: discover()[step.action],
    )  # fmt: skip
    ready = {it.id: decisions.get(it.id, DO) for it in book.remediate}
    steps = tuple(
        PlannedStep(id=name, decision=it, ready=not isinstance(it, Skip), args={"do": {"argv": ["true"]}})
        for name, it in ready.items()
    )
    return site, places, OwedRecord(site, HostPlan(host="h", steps=steps))


def end(step: str, status: Status) -> StepResult:
    return StepResult(id=step, phase=Phase.REMEDIATE, action="command", status=status)


def test_one_note_a_place_as_root_where_root_changes_something_and_once():
    """Mutants: `_places` without the users of changes; `keep` that writes twice."""
    site, places, record = scene()
    assert record.keep("change", ()) == ""
    assert record.keep("put_back", {"change"}) == ""
    assert site.run.owed.kept == [["put_back", "tidy"]]
    assert site.run.owed.last.notes == (NotePlace(become="root"), NotePlace(on="leader"))
    assert places[""].sent == [("note", "root")]
    assert places["leader"].sent == [("note", "")]


@pytest.mark.parametrize(
    ("decisions", "owed"),
    [
        ({"put_back": NoChange(why="")}, ["put_back", "tidy"]),
        ({"put_back": Blocked(why="")}, ["put_back", "tidy"]),
        ({"put_back": Skip(why="")}, ["tidy"]),
        ({"put_back": Skip(why=""), "tidy": Skip(why="")}, []),
    ],
)
def test_what_waits_for_the_change_is_owed_and_what_is_skipped_is_not(decisions, owed):
    """Mutants: `owed_steps` with changes only; without `decide`, so that notes to people are owed."""
    site, places, record = scene(**decisions)
    assert record.keep("change", ()) == ""
    assert site.run.owed.kept == ([owed] if owed else [])
    assert bool(places[""].sent) == ("put_back" in owed)


def test_a_step_that_has_had_its_turn_is_not_owed():
    site, _, record = scene()
    plan = record._plan
    assert [it.id for it in owed_steps(site, plan, {"put_back"})] == ["tidy"]


def test_where_it_is_not_recorded_nothing_is_noted_and_the_reason_is_given():
    _, places, record = scene(why="the disk is full")
    assert record.keep("change", ()).endswith("cannot be recorded: the disk is full")
    assert places[""].sent == []


@every_row("leader", [[], [Unreachable("gone")]])
def test_a_host_that_can_keep_no_note_is_said_once_and_does_not_stop_the_run(leader):
    """Mutants: `_note` that fails, or says nothing."""
    site, places, record = scene(here=[Completed(exit_code=4, stderr="no place\n")], leader=leader)
    assert record.keep("change", ()) == ""
    assert "could not note which clean-up is owed to it" in record.untold()
    assert record.untold() == ""
    record.ended(end("put_back", Status.CHANGED))
    record.ended(end("tidy", Status.OK))
    assert site.run.owed.kept == [["put_back", "tidy"], ["tidy"], "dropped"]
    assert [it for it, _ in places[""].sent] == ["note"], "what was not made is not removed"


@every_row(
    ("error", "left"),
    [
        (ConnectionLost("cut", sent=False), ["dropped"]),
        (ConnectionLost("cut"), []),
        (Cancelled("Ctrl-C"), ["dropped"]),
        (Cancelled("Ctrl-C", sent=True), []),
    ],
    ids=["lost before", "lost", "cancelled before", "cancelled"],
)
def test_a_line_that_is_lost_before_the_change_is_raised_and_the_record_stays_as_long_as_there_may_be_a_note(
    error, left
):
    """Mutants: `_note` that takes no notice of what may have been made; `close` that never drops."""
    site, _, record = scene(here=[error, ConnectionLost("cut")])
    with pytest.raises(type(error)):
        record.keep("change", ())
    record.close(wrote=False)
    assert site.run.owed.kept == [["put_back", "tidy"], *left]


@every_row("status", [it for it in Status if it not in (Status.OK, Status.CHANGED, Status.SKIPPED)])
def test_what_did_not_end_well_stays(status):
    site, _, record = scene()
    record.keep("change", ())
    record.ended(end("put_back", status))
    record.ended(end("tidy", Status.CHANGED))
    record.close(wrote=True)
    assert site.run.owed.kept == [["put_back", "tidy"], ["put_back"]]


@every_row("answer", [ConnectionLost("cut"), Completed(exit_code=1), Completed(exit_code=None)], ids=str)
def test_the_record_stays_where_a_note_cannot_be_removed(answer):
    """Mutants: `_drop` that drops the record first, or takes any answer for a yes."""
    site, _, record = scene(leader=[Completed(exit_code=0, stdout="noted\n"), answer])
    record.keep("change", ())
    record.ended(end("put_back", Status.CHANGED))
    record.ended(end("tidy", Status.CHANGED))
    assert site.run.owed.kept == [["put_back", "tidy"], ["tidy"]]
