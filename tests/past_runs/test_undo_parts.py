"""What actions say of how their changes are taken back, and what is kept before one is sent."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from runbook.codec import to_json
from runbook.commands.history.undo_steps import undo_steps
from runbook.commands.one_run import Run
from runbook.errors import ConnectionLost
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.execution.executor.undoing import _with_copies, change_started
from runbook.language.arguments import build
from runbook.library.docker import container
from runbook.library.docker.facts.containers import Container
from runbook.library.files import restore_file
from runbook.library.system import service, systemd_unit
from runbook.library.system.facts.systemd_units import Unit
from runbook.onhost.undo_copies import FileCopy
from runbook.onhost.writing import PathState
from runbook.records.recorded_run import RecordedRun, RunState
from runbook.secrets.masking import masking
from runbook.values.command import Effect
from runbook.values.plan import Change, Risk
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.undo import Undo, UndoFile, UndoStep
from tests.past_runs.recorded import RUN, change, started
from tests.support.run_step import ACTIONS, see, site
from tests.support.tables import every_row
from tests.support.toy_actions import with_run

UP = Unit(id="a.service", load="loaded", active="active", sub="running", pid=5, enabled="enabled", moved=1)
DOWN = replace(UP, active="inactive", sub="dead", pid=0, enabled="disabled")


def of_service(unit: Unit, **given):
    args = build(service.Args, {"name": "a", **given})
    state = service.State(unit=unit, active=unit is UP, enabled=unit.enabled, root=True)
    change = service.decide(args, state)
    assert isinstance(change, Change)
    return service.undo(args, state, change)


@every_row(
    ("unit", "given", "back"),
    [
        (UP, {"state": "stopped"}, {"state": "started"}),
        (DOWN, {"state": "started"}, {"state": "stopped"}),
        (UP, {"enabled": False}, {"enabled": True}),
        (DOWN, {"state": "started", "enabled": True}, {"state": "stopped", "enabled": False}),
    ],
)
def test_a_service_is_set_to_the_opposite_of_what_was_done(unit, given, back):
    """Mutant: ``undo`` of service that takes the state of the step for the one of before."""
    undo = of_service(unit, **given)
    (part,) = undo.parts
    assert isinstance(part, UndoStep)
    build(service.Args, part.args)
    assert {name: part.args[name] for name in ("state", "enabled") if name in part.args} == back
    assert undo.stays == ()


@every_row("state", ["restarted", "reloaded"])
def test_a_restart_is_done_again_once_its_file_is_restored(state):
    """Mutants: ``service.undo`` that leaves it; a step that does not wait for the file."""
    undo = of_service(replace(UP, can_reload=True), state=state)
    (part,) = undo.parts
    assert (part.args["name"], part.args["state"], part.if_restored, undo.stays) == ("a.service", state, True, ())
    build(service.Args, part.args)


def test_what_runs_containers_is_left_to_a_person():
    undo = of_service(replace(UP, id="docker.service"), state="restarted")
    assert undo.parts == ()
    assert "may end containers" in undo.stays[0]


RESTART = Undo(parts=(UndoStep(action="service", args={"name": "a", "state": "restarted"}, say="r", if_restored=True),))
WRITTEN = Undo(parts=(UndoFile(path="/x", before="a" * 64, after="b" * 64),))
WRITTEN_AGAIN = Undo(parts=(UndoFile(path="/x", before="b" * 64, after="c" * 64),))


@every_row(
    ("because_of", "changes", "order", "waits_for"),
    [
        (("write",), [("write", WRITTEN)], ["undo_write_1", "undo_restart_2"], ("undo_write_1",)),
        (
            ("write", "more"),
            [("write", WRITTEN), ("more", WRITTEN_AGAIN)],
            ["undo_more_1", "undo_restart_2"],
            ("undo_more_1",),
        ),
        (
            ("write",),
            [("write", WRITTEN), ("other", WRITTEN_AGAIN)],
            ["undo_other_1", "undo_restart_2"],
            ("undo_other_1",),
        ),
        (("write",), [("write", Undo(stays=("no",)))], [], None),
        (("another",), [("write", WRITTEN)], ["undo_write_1"], None),
        ((), [("write", WRITTEN)], ["undo_write_1"], None),
    ],
)
def test_what_was_restarted_because_of_a_file_follows_that_file(because_of, changes, order, waits_for):
    """Mutants: no `because_of` in the record; ``_add_later`` before the files; a file of two steps known by one."""
    events = [replace(change(name), undo=undo) for name, undo in changes]
    events.append(replace(change("restart"), undo=RESTART, because_of=because_of))
    run = RecordedRun(run=RUN, started=started(run=RUN), events=(started(run=RUN), *events), state=RunState.FINISHED)
    ((_, own),) = undo_steps(run, {"a"}).items()
    assert [step.id for step in own.steps] == order
    if waits_for is None:
        assert any("is not taken back" in stay.why for stay in own.stays if stay.step == "restart")
    else:
        assert own.steps[-1].if_changed == waits_for
        assert not [stay for stay in own.stays if stay.step == "restart"]


def test_what_was_enabled_otherwise_is_not_guessed():
    undo = of_service(replace(UP, enabled="linked"), enabled=False)
    assert (undo.parts, undo.stays) == ((), ("a.service was linked at boot",))


IT = Container(
    id="f" * 64, name="web", image="i", status="running", restart_policy="on-failure", max_retries=3, memory=1 << 30
)


def of_container(found: Container, **given):
    args = build(container.Args, {"name": "web", **given})
    state = container.State(found=(found,))
    change = container.decide(args, state)
    assert isinstance(change, Change)
    return container.undo(args, state, change)


def test_a_container_gets_its_earlier_policy_and_memory():
    """Mutant: ``undo`` of container without the number of retries."""
    undo = of_container(IT, do="update", restart_policy="no", memory="2GiB")
    (part,) = undo.parts
    assert part.args == {"name": IT.id, "do": "update", "restart_policy": "on-failure:3", "memory": 1 << 30}
    build(container.Args, part.args)


def test_what_docker_cannot_take_back_stays():
    undo = of_container(replace(IT, memory=0), do="update", memory="2GiB")
    assert undo.parts == ()
    assert "cannot remove one" in undo.stays[0]
    (again,) = of_container(IT, do="restart").parts
    assert (again.args, again.if_restored) == ({"name": IT.id, "do": "restart"}, True)
    (start,) = of_container(IT, do="stop").parts
    assert start.args == {"name": IT.id, "do": "start"}


UNIT_FILE = "[Service]\nExecStart=/bin/sleep 9\n[Install]\nWantedBy=multi-user.target\n"


def test_a_unit_gets_its_earlier_file_and_is_restarted_only_after_that():
    args = build(systemd_unit.Args, {"name": "a", "content": UNIT_FILE})
    place = PathState(
        path="/etc/systemd/system/a.service", kind="file", digest="0" * 64, mode="600", owner="root", group="root"
    )
    state = systemd_unit.State(unit=UP, active=True, diff="x", root=True, place=place)
    change = systemd_unit.decide(args, state)
    file, step = systemd_unit.undo(args, state, change).parts
    assert (file.before, file.was.mode, file.left.mode) == ("0" * 64, "600", "644")
    assert (step.args["state"], step.if_restored) == ("restarted", True)
    absent = replace(state, place=replace(place, kind="absent", digest=""))
    made = systemd_unit.undo(args, absent, change)
    assert made.parts == ()
    assert "systemctl disable --now a.service" in made.stays[0]


@every_row("always", [False, True])
def test_the_copy_is_made_before_the_change_is_reported_and_for_clean_up_also_once_the_run_is_to_end(tmp_path, always):
    """Mutants: ``_not_kept`` without ``owed``; a copy with the effect of a probe."""
    path = tmp_path / "a.conf"
    path.write_text("old\n")
    step = Step(
        id="it", phase=Phase.REMEDIATE, action="file", args={"path": str(path), "content": "new\n"}, always=always
    )
    answer = see("file", {"path": str(path), "content": "new\n"})
    assert isinstance(answer, ProbeAnswer)
    change = ACTIONS["file"].decide(answer.args, answer.state)
    with site(Playbook(name="one", remediate=(step,))) as place:
        assert change_started(place, step, None, answer, change).undo is None, "the run is not recorded"
        assert place.connection.sent == []
        kept = with_run(place, keeps_copies=True)
        started = change_started(kept, step, None, answer, change)
        ((command, done),) = kept.connection.sent
    assert (command.effect, command.owed, done.exit_code) == (Effect.SCRATCH, always, 0)
    (part,) = started.undo.parts
    assert isinstance(part, UndoFile)
    assert path.read_text() == "old\n"


def recorded(*masked: bool, given: tuple[str, ...] = (), lent: bool = False) -> RecordedRun:
    """A run that has changed ``/x`` as many times; *masked*: whether it has masked something in what it has shown."""
    digests = ["a" * 64, "b" * 64, "c" * 64]
    events: list = [started(run=RUN)]
    for number, it in enumerate(masked):
        file = UndoFile(path="/x", before=digests[number], after=digests[number + 1], masked=it)
        events.append(replace(change(f"s{number}"), undo=Undo(parts=(file,))))
    begun = replace(events[0], origin=replace(events[0].origin, secret_inputs=given, lent_secrets=lent))
    return RecordedRun(run=RUN, started=begun, events=(begun, *events[1:]), state=RunState.FINISHED)


@every_row(
    ("run", "masked"),
    [
        (recorded(False), False),
        (recorded(False, False), False),
        (recorded(True), True),
        (recorded(True, False), True),
        (recorded(False, True), True),
        (recorded(False, given=("token",)), True),
        (recorded(False, lent=True), True),
    ],
)
def test_an_undo_shows_no_difference_in_which_a_secret_may_stand(run, masked):
    """Mutants: ``undo_steps`` without *hides*; ``_merged`` that goes by the first change, or the last."""
    ((_, own),) = undo_steps(run, {"a"}).items()
    (made,) = own.steps
    assert made.args["masked"].value is masked
    args = build(restore_file.Args, {name: it.value for name, it in made.args.items()})
    place = PathState(path="/x", kind="file", digest="c" * 64, text="hidden\n")
    diff = restore_file._diff(args, place, FileCopy(text="before\n"))
    assert ("hidden" in diff, "is not shown" in diff) == (not masked, masked)
    state = restore_file.State(path="/x", kind="file", place=place, kept=FileCopy(text=""))
    (again,) = restore_file.undo(args, state, Change(summary="", commands=(), risk=Risk.EDITS_FILES)).parts
    assert again.masked is masked, "an undo of this undo"


@every_row(
    ("diff", "lent", "masked"),
    [
        ("+x: 1\n", (), False),
        ("+x: canary-1\n", (), True),
        ("+password: ***\n", (), False),
        ("+password: ***\n", ("lent-1",), True),
        ("+x: 1\n", ("lent-1",), False),
    ],
)
def test_a_change_says_whether_a_secret_of_its_run_stands_in_its_file(diff, lent, masked):
    """Mutants: ``_with_masks_noted`` that compares nothing; that leaves out what the host has printed masked."""
    made = Run.__new__(Run)
    made.order = SimpleNamespace(secret_values=SimpleNamespace(masked=lent))
    made._mask = masking(("canary-1", *lent))
    undo = Undo(parts=(UndoFile(path="/x", before="a" * 64, after="b" * 64),))
    hidden = made._hidden_event(replace(change("s"), diff=diff, undo=undo))
    assert [it.masked for it in hidden.undo.parts] == [masked]
    assert "canary" not in str(to_json(hidden))
    assert "diff" not in to_json(hidden)


class Gone:
    """A connection that is lost."""

    def run(self, *_):
        raise ConnectionLost("the line is dead")


def test_a_host_that_is_lost_while_it_copies_is_not_changed_and_another_one_only_keeps_no_copy(tmp_path):
    """Mutant: ``_not_kept`` that goes on with a lost connection of the host itself."""
    file = UndoFile(path=str(tmp_path / "x"), before="a" * 64, after="b" * 64)
    step = Step(id="it", phase=Phase.REMEDIATE, action="file")
    with site(Playbook(name="one")) as place:
        lost = replace(place, connection=Gone(), elsewhere=lambda _: Gone())
        with pytest.raises(ConnectionLost):
            _with_copies(lost, step, Undo(parts=(file,)))
        kept = _with_copies(lost, replace(step, on="other"), Undo(parts=(file,)))
        assert (kept.parts, kept.stays) == ((), (f"{file.path} was not copied before: the line is dead",))
        bare = replace(file, content=False)
        assert _with_copies(lost, step, Undo(parts=(bare,))).parts == (bare,), "its mode alone needs no copy"
