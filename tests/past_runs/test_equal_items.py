"""Equal items of an `each` are each their own when a run is gone on with: none is lost, and none is done twice."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from runbook.records.reading import earlier_changes
from runbook.records.recorded_run import read_run
from runbook.values.earlier_change import EarlierChange, equal_items, item_text, own_change
from runbook.values.event import HostPlanned
from runbook.values.plan import NoChange, PlannedStep
from runbook.values.result import HostPlan, Status
from tests.past_runs.counting_scene import Scene, as_if_killed_in
from tests.past_runs.recorded import RUN, change, ended, journal, started
from tests.support.tables import every_row

TWICE = """\
name: counted
inputs:
  place: {about: Where it counts., type: string, required: true}
remediate:
  - id: pre
    each: "['x', 'x', 'x']"
    command: {do: {params: ["{{ inputs.place }}/{{ host.name }}", "{{ item }}"], script: 'echo "$2" >>"$1.pre"'}}
"""
LATER = "20260102T000000Z-0001"


def at(*places: int, doubt: int | None = None) -> list[EarlierChange]:
    return [
        EarlierChange(run=RUN, at="t", step="s", item="x", position=it, done=it != doubt, verifiable=False)
        for it in places
    ]


@every_row(
    ("earlier", "equal", "found"),
    [
        (at(0), (0, 1), (0, None)),
        (at(1), (0, 1), (None, 1)),
        (at(0, 1, doubt=1), (0, 1), (0, 1)),
        (at(0), (2,), (0,)),
        (at(0), (2, 3), (0, None)),
        (at(1), (1, 2), (1, None)),
        (at(0, 2), (2, 3), (2, 0)),
        (at(0, 1, doubt=1), (0,), (1,)),
        (at(0, 1, doubt=1), (5,), (1,)),
        (at(0, 1, 2, doubt=2), (1, 2), (2, 0)),
        ([], (0, 1), (None, None)),
        (at(-1), (-1,), (-1,)),
    ],
)
def test_each_change_is_of_one_item(earlier, equal, found):
    """Of a list that became shorter, what is in doubt is asked about.

    Mutants: ``own_change`` that gives the last one, or by the place alone, or by the order alone; without ``shorter``.
    """
    own = [own_change(earlier, place, equal) for place in equal]
    assert tuple(it.position if it else None for it in own) == found
    assert len({id(it) for it in own if it}) == len([it for it in own if it]), "one change stands for two items"


def test_items_are_compared_as_json_has_them():
    """Mutants: ``item_text`` of ``repr``; without ``_plain``."""
    taken = [("s[0]", 1), ("s[1]", True), ("s[2]", "1"), ("s[10]", 1), ("other[3]", 1), ("s[4]", 1)]
    assert equal_items("s[0]", 1, taken) == (0, 4, 10)
    assert item_text(MappingProxyType({"b": 1, "a": 2})) == item_text({"a": 2, "b": 1})


def plan(*items: object) -> HostPlanned:
    steps = [PlannedStep(id=f"s[{number}]", item=it, decision=NoChange(why="")) for number, it in enumerate(items)]
    return HostPlanned(plan=HostPlan(host="a", steps=tuple(steps)))


def test_a_record_has_each_of_them(tmp_path):
    """Mutants: ``_key`` without the place; ``_note`` without it."""
    events = change("s[0]", item="x"), ended("s[0]"), change("s[1]", item="x"), ended("s[1]", status=Status.UNKNOWN)
    folder = journal(tmp_path, started(), plan("x", "x"), *events)
    found = earlier_changes([read_run(folder, RUN)])["a"]
    assert [(it.position, it.done) for it in found] == [(0, True), (1, False)]


@every_row("failed", [False, True])
def test_an_item_that_a_later_run_sent_from_another_place_is_that_item(tmp_path, failed):
    """Mutants: ``earlier_changes`` without ``_supersede``; ``_supersede`` of all that are equal."""
    first = started(), plan("x", "y", "x"), change("s[0]", item="x"), change("s[2]", item="x"), ended("s[2]")
    journal(tmp_path, *first)
    end = ended("s[1]", status=Status.FAILED if failed else Status.CHANGED)
    second = started(run=LATER, resumes=RUN), plan("new", "x", "x"), change("s[1]", item="x"), end
    folder = journal(tmp_path, *second, run=LATER)
    found = earlier_changes([read_run(folder, it) for it in (RUN, LATER)])["a"]
    assert {(it.position, it.run, it.done) for it in found} == {(2, RUN, True)} | (
        set() if failed else {(1, LATER, True)}
    )


@pytest.mark.slow
def test_equal_items_are_each_done_once_and_one_alone_can_be_repeated_or_taken_as_done(tmp_path):
    """Mutants: ``continued`` without *equal*, in planner.py or host_steps.py; ``_assumed`` of the whole step alone."""
    scene = Scene(tmp_path / "scene")
    (scene.folder / "hosts.yaml").write_text("hosts:\n  h0: {transport: local}\n")
    (scene.folder / "counted.yaml").write_text(TWICE)
    run = as_if_killed_in(scene, "pre[1]")
    file = scene.folder / "h0.pre"
    file.write_text("x\nx\n")  # the third one was not begun
    doubtful = scene.run("resume", run, "--yes")
    assert [it["status"] for it in doubtful.host("h0")["steps"]] == ["ok", "unknown", "blocked"], doubtful.out
    dry = scene.run("resume", run, "--dry-run", "--assume-done", "pre[1]")
    assert [it["status"] for it in dry.host("h0")["steps"]] == ["ok", "ok", "would_change"], dry.out + dry.err
    said = scene.run("resume", run, "--yes", "--assume-done", "pre[1]")
    assert [it["status"] for it in said.host("h0")["steps"]] == ["ok", "ok", "changed"], said.out + said.err
    assert file.read_text() == "x\nx\nx\n"
