"""The laws of the house (design), held against any host and any mischief.

Each test names the mutants that it has been seen to kill: break that line, and it goes red.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.codec import from_json, to_json
from runbook.errors import ReadOnlyViolation, RecordLost
from runbook.execution.diagnosis import verdict
from runbook.execution.executor import Consent, execute
from runbook.execution.executor.host_lock import Lock
from runbook.execution.planner import make_plan
from runbook.values import event
from runbook.values.command import Completed, Effect
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Host
from runbook.values.owed import NotRecorded, OwedCleanup
from runbook.values.plan import Blocked, Change, Presence, Risk, Skip
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import HostPlan, Status, StepResult, Verdict
from tests.laws.shown_plans import FILE, PLACES, PROMPT, show_and_run
from tests.laws.toy_playbooks import playbooks, tables, words
from tests.support.tables import every_row
from tests.support.toy_actions import (
    ACTIONS,
    ToyHost,
    blue,
    book,
    end,
    look_at,
    paint,
    probe,
    restart,
    rule,
    site,
    with_run,
)

colours = st.sampled_from(["grey", "blue", "red"])


def planned_and_run(made: Playbook, host: ToyHost, consent=Consent.SHOWN, moved=None, wanted=None):
    """*moved*, *wanted*: what the processes, and the colour that is asked for, have become between plan and run."""
    where = site(made, host)
    plan, seen = make_plan(where)
    looked = list(host.sent)
    if moved is not None:
        host.procs = dict(moved)
    host.wanted = wanted or host.wanted
    host.sent.clear()
    return plan, looked, execute(where, plan, seen, consent)


@settings(max_examples=150, deadline=None)
@given(playbooks(), tables)
def test_law_1_a_plan_only_looks(made, table):
    """Mutants: planner.py sending the commands of a change that it plans."""
    host = ToyHost(procs=dict(table))
    before = dict(host.procs), host.since
    make_plan(site(made, host))
    assert all(it.effect is Effect.READ for it in host.sent)
    assert (host.procs, host.since) == before


def test_law_1_a_look_that_writes_is_stopped_before_it_reaches_the_host():
    """Mutants: guards.py ``if it.effect not in allowed`` negated or removed; probing.py without the shield."""
    liar = Step(id="seen", phase=Phase.DIAGNOSE, action="liar")
    host = ToyHost(procs={1: (1, "init")})
    with pytest.raises(ReadOnlyViolation):
        make_plan(site(book(diagnose=(liar,)), host))
    assert host.procs == {1: (1, "init")}
    assert host.sent == []


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=300, deadline=None)
@given(playbooks(), tables, st.none() | tables, st.frozensets(words), st.frozensets(words), colours, colours)
def test_law_2_a_run_does_what_was_shown_or_less(place, made, table, moved, stubborn, respawns, wanted, then):
    """Mutants: permitted.py ``new`` emptied; ``if not present.targets`` that permits all."""
    host = ToyHost(procs=dict(table), stubborn=stubborn, respawns=respawns, wanted=wanted)

    def change():
        host.procs, host.wanted = dict(table if moved is None else moved), then

    plan, outcome = show_and_run(made, host, place, change)
    shown = {it.key for step in plan.steps if isinstance(step.decision, Change) for it in step.decision.targets}
    dormant = [it for it in plan.steps if isinstance(it.decision, Skip) and it.condition]
    shown |= {it.key for step in dormant for it in step.reach}
    restarts_shown = sum(
        1 for it in plan.steps if isinstance(it.decision, Change) and it.decision.commands[0].argv == ("restart",)
    )
    killed = [key for it in host.writes() if it.argv[0] == "kill" for key in it.argv[1:]]
    assert set(killed) <= shown
    assert sum(1 for it in host.writes() if it.argv == ("restart",)) <= restarts_shown
    changes = [it.decision for it in plan.steps if isinstance(it.decision, Change)]
    assert {it.argv for it in host.writes() if it.argv[0] == "paint"} <= {it.commands[0].argv for it in changes}
    assert [it.id for it in made.remediate] == [it.id for it in outcome.steps if it.phase is Phase.REMEDIATE]


ZOMBIE = {4: (1, "zombie")}


def ended(place: str, then: dict, shown: dict = ZOMBIE, action: str = "end") -> tuple[ToyHost, StepResult]:
    """The host, and the step that ends its zombies, once the processes that the plan has *shown* are those of *then*."""
    host = ToyHost(procs=dict(shown))
    step = Step(id="k", phase=Phase.REMEDIATE, action=action, args={"word": "zombie"})
    _, outcome = show_and_run(book(step), host, place, lambda: setattr(host, "procs", dict(then)))
    (result,) = outcome.steps
    return host, result


def test_law_2_a_run_leaves_a_new_target_alone_and_names_it():
    """Mutants: permitted.py ``new`` emptied; ``enough`` never; without ``without``; host_steps.py without the note."""
    host, step = ended(PROMPT, {**ZOMBIE, 9: (7, "zombie")})
    assert host.procs == {9: (7, "zombie")}
    assert (step.status, step.why.partition("; ")[2]) == (
        Status.CHANGED,
        "left alone, because the plan did not show it: pid 9",
    )


def test_law_2_a_saved_plan_holds_a_host_with_a_new_target_back():
    """Mutants: permitted.py ``new`` emptied; ``enough`` whatever the policy; narrowing.py ``_held_back`` keeping ``seen``."""
    host, step = ended(FILE, {**ZOMBIE, 9: (7, "zombie")})
    assert (host.writes(), step.status) == ([], Status.DRIFTED)
    assert step.why == "not sent: one process more would be ended (k): 9 zombie (root)"


@every_row("place", PLACES)
def test_law_2_what_a_firm_step_might_have_reached_is_not_what_it_showed(place):
    """Mutants: permitted.py ``shown_step`` with ``reach`` for a step whose targets were shown."""
    host, step = ended(place, {**ZOMBIE, 9: (7, "zombie")}, {**ZOMBIE, 9: (7, "train")}, action="end_wide")
    assert 9 in host.procs
    assert ("left alone" in step.why) == (place == PROMPT)
    assert step.status is (Status.CHANGED if place == PROMPT else Status.DRIFTED)


@every_row("place", PLACES)
def test_law_2_a_target_that_is_gone_is_dropped(place):
    """Mutants: permitted.py with ``new`` as what was shown and is not there."""
    host, step = ended(place, {5: (1, "zombie")}, {**ZOMBIE, 5: (1, "zombie")})
    assert [it.argv for it in host.writes()] == [("kill", "5:1")]
    assert step.status is Status.CHANGED


@every_row("place", PLACES)
def test_law_2_a_reused_pid_is_a_new_target(place):
    """Mutants: permitted.py ``_identity`` without the key; ``enough`` where nothing that was shown is left."""
    host, step = ended(place, {4: (99, "zombie")})
    assert (host.writes(), step.status) == ([], Status.DRIFTED)


@every_row("place", PLACES)
@every_row(("text", "wanted"), [("red", "blue"), ("grey", "red")], ids=["another digest", "another difference"])
def test_law_2_a_file_that_would_be_another_is_not_written(place, text, wanted):
    """Mutants: permitted.py ``_identity`` without the key; ``_becomes_something_else`` without the difference."""
    host = ToyHost(procs={}, wanted="blue")
    edit = Step(id="e", phase=Phase.REMEDIATE, action="edit", args={})

    def change():
        host.colour, host.wanted = text, wanted

    assert show_and_run(book(edit), ToyHost(procs={}, wanted="blue"), place)[1].steps[0].status is Status.CHANGED
    _, outcome = show_and_run(book(edit), host, place, change)
    assert (host.writes(), outcome.steps[0].status) == ([], Status.DRIFTED)


@every_row("place", PLACES)
def test_law_2_a_change_without_targets_is_sent_as_it_was_shown_or_not_at_all(place):
    """Mutants: permitted.py ``if not present.targets`` that permits all."""
    host = ToyHost(procs={}, wanted="blue")
    assert show_and_run(book(paint("p")), host, place)[1].steps[0].status is Status.CHANGED

    host = ToyHost(procs={}, wanted="blue")
    _, outcome = show_and_run(book(paint("p")), host, place, lambda: setattr(host, "wanted", "red"))
    assert (host.writes(), outcome.steps[0].status) == ([], Status.DRIFTED)


@every_row("place", PLACES)
def test_law_2_a_change_that_is_riskier_than_it_was_shown_is_not_sent(place):
    """Mutants: permitted.py ``compare`` without the risk."""
    host, step = ended(place, {4: (1, "zombie"), 1: (1, "init")}, action="end_risky")
    assert (host.writes(), step.status) == ([], Status.DRIFTED)
    assert "end 1 of zombie (risk: reboots); the plan showed the risk kills-processes" in step.why


def test_law_2_without_a_seen_plan_the_fresh_look_is_the_plan():
    """Mutants: host_steps.py narrowing whatever the consent."""
    host = ToyHost(procs={4: (1, "zombie")})
    made = book(end("zombie", "k"))
    _, _, outcome = planned_and_run(made, host, consent=Consent.YES, moved={4: (1, "zombie"), 9: (7, "zombie")})
    assert host.procs == {}
    assert outcome.steps[0].status is Status.CHANGED


@settings(max_examples=200, deadline=None)
@given(playbooks(), tables, st.frozensets(words), st.frozensets(words))
def test_law_3_changed_means_seen_twice(made, table, stubborn, respawns):
    """Mutants: recheck.py with ``settled`` always true; host_steps.py without the second probe."""
    host = ToyHost(procs=dict(table), stubborn=stubborn, respawns=respawns)
    _, _, outcome = planned_and_run(made, host)
    for step, result in zip(made.remediate, [it for it in outcome.steps if it.phase is Phase.REMEDIATE], strict=True):
        if result.status is Status.CHANGED:
            assert result.verified
            writes = [number for number, it in enumerate(result.commands) if it.effect == "write"]
            assert writes
            assert any(it.effect == "read" for it in result.commands[writes[-1] + 1 :])
        if step.action == "end" and result.status is Status.CHANGED:
            assert step.args["word"] not in stubborn | respawns
        if result.status in (Status.OK, Status.BLOCKED, Status.DRIFTED, Status.SKIPPED):
            assert not any(it.effect == "write" for it in result.commands)


def test_law_4_a_broken_step_stops_the_host_and_names_itself():
    """Mutants: host_steps.py ``self.broken`` never set; apply.py ignoring the exit code."""
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "serve")}, kill_exit=3)
    _, _, outcome = planned_and_run(book(end("zombie", "one"), end("serve", "two"), restart("three")), host)
    assert [it.status for it in outcome.steps] == [Status.FAILED, Status.BLOCKED, Status.BLOCKED]
    assert all("one" in it.why for it in outcome.steps[1:])
    assert len(host.writes()) == 1


@every_row("word", [7, "{{ seen.matches }}", "{{ 1 / 0 }}"], ids=["wrong", "from a template", "no value"])
def test_law_4_a_step_that_cannot_be_made_stops_the_host(word):
    """Mutants: host_steps.py ``stops`` without ARGUMENTS; probing.py, items.py or planner.py without it."""
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "serve")})
    made = book(
        replace(end("zombie", "one"), args={"word": word}), end("serve", "two"), restart("three", always=True),
        diagnose=(look_at("zombie"),),
    )  # fmt: skip
    _, _, outcome = planned_and_run(made, host)
    steps = {it.id: it for it in outcome.steps}
    assert "argument" in steps["one"].why
    assert [steps[it].status for it in ("one", "two")] == [Status.BLOCKED, Status.BLOCKED]
    assert steps["two"].why.startswith("one was blocked")
    assert [it.argv[0] for it in host.writes()] == ["restart", "light-on"]


def test_a_plan_shows_as_blocked_what_comes_after_a_step_that_is_blocked():
    """Mutants: planner.py without ``held``; ``stuck`` without ``ignore_failure``; without ``restless``."""
    host = ToyHost(procs={}, blind=True)
    made = book(end("zombie", "one"), restart("two", after=("one",)), restart("three", after=("two",)), restart("four"))
    plan, _, outcome = planned_and_run(made, host, consent=Consent.YES)
    shown = {it.id: it.status for it in plan.results}
    assert shown == {"one": "blocked", "two": "blocked", "three": "blocked", "four": "would_change"}
    assert {it.id: it.status for it in outcome.steps} == {**shown, "four": Status.CHANGED}
    ignored = book(end("zombie", "one", ignore_failure=True), restart("two", after=("one",)))
    changed_before = book(restart("zero"), end("zombie", "one"), restart("two", after=("one",)))
    for it in (ignored, changed_before):
        plan, _ = make_plan(site(it, host))
        assert plan.results[-1].status is Status.WOULD_CHANGE


def test_law_4_an_unsuccessful_step_lets_the_next_rung_run():
    """Mutants: host_steps.py treating Fault.GOAL like Fault.COMMAND; evidence.py without a recheck."""
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "zombie-child")}, stubborn=frozenset({"zombie"}))
    made = book(
        end("zombie", "one", for_=("held",)),
        restart("two", for_=("held",)),
        restart("three", after=("one",)),
        findings=(rule(),),
        diagnose=(look_at("zombie"),),
    )
    _, _, outcome = planned_and_run(made, host)
    steps = {it.id: it for it in outcome.steps}
    assert steps["one"].status is Status.FAILED
    assert steps["two"].status is Status.CHANGED
    assert steps["three"].status is Status.BLOCKED
    assert "one" in steps["three"].why
    assert outcome.findings[0].say == "1 there", "as it is now, not as it was found"
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNRESOLVED


def test_law_4_the_ladder_stops_when_the_host_is_cured():
    """Mutants: host_steps.py ``_refusal`` without the recheck; gates.py opening for a finding that is gone."""
    host = ToyHost(procs={4: (1, "zombie")})
    made = book(
        end("zombie", "one", for_=("held",)),
        restart("two", for_=("held",)),
        findings=(rule(gone_for=3.0),),
        diagnose=(look_at("zombie"),),
    )
    _, _, outcome = planned_and_run(made, host)
    steps = {it.id: it for it in outcome.steps}
    assert steps["two"].status is Status.SKIPPED
    assert host.since == 0
    assert outcome.findings[0].status is Presence.GONE
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.RESOLVED


def test_law_4_a_rung_that_reached_nothing_fails_the_host_where_no_error_speaks_for_it():
    """Mutants: verdicts.py ``_is_failure`` looking at faults of commands only."""
    from runbook.values.playbook import Severity

    held = rule(severity=Severity.WARNING)
    made = book(end("zombie", "k", for_=("held",)), findings=(held,), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, stubborn=frozenset({"zombie"}))
    _, _, outcome = planned_and_run(made, host)
    assert outcome.steps[1].status is Status.FAILED
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.FAILED
    (error,) = (replace(it, severity=Severity.ERROR) for it in outcome.findings)
    assert verdict(made, outcome.steps, (error,)) is Verdict.UNRESOLVED


def test_law_4_a_failed_rung_does_not_fail_the_host_when_the_finding_is_gone():
    """Mutants: verdicts.py ``_is_failure`` without the finding."""
    host = ToyHost(procs={4: (1, "zombie")}, kill_exit=3)
    made = book(end("zombie", "one", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    _, _, outcome = planned_and_run(made, host)
    assert next(it for it in outcome.steps if it.id == "one").status is Status.FAILED
    assert outcome.findings[0].status is Presence.GONE
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.RESOLVED


def test_a_cured_host_whose_assertion_was_never_held_against_it_is_unknown():
    """Mutants: verdicts.py without ``_assertion_not_run``."""
    made = book(
        end("zombie", "one", for_=("held",)),
        findings=(rule(),),
        diagnose=(look_at("zombie"),),
    )
    step = StepResult(id="proof", phase=Phase.VERIFY, action="toy", status=Status.BLOCKED, why="it comes after one")
    _, _, outcome = planned_and_run(made, ToyHost(procs={4: (1, "zombie")}))
    cured = outcome.steps
    gone = tuple(replace(it, status=Presence.GONE) for it in outcome.findings)
    assert verdict(made, (*cured, step), gone) is Verdict.UNKNOWN
    assert verdict(made, (*cured, replace(step, ignored=True)), gone) is Verdict.RESOLVED
    assert verdict(made, (*cured, replace(step, status=Status.OK)), gone) is Verdict.RESOLVED


@settings(max_examples=200, deadline=None)
@given(playbooks(), tables, st.integers(0, 14))
def test_law_5_a_write_is_sent_once_and_a_lost_line_makes_it_unknown(made, table, lose_at):
    """Mutants: apply.py retrying after ConnectionLost; UNKNOWN turned into FAILED; ``lost`` not kept."""
    host = ToyHost(procs=dict(table))
    where = site(made, host)
    plan, seen = make_plan(where)
    host.sent.clear()
    host.lose_at = lose_at
    outcome = execute(where, plan, seen, Consent.YES)
    lost = host.sent[lose_at] if len(host.sent) > lose_at else None
    steps = [it for it in outcome.steps if it.phase is Phase.REMEDIATE]
    assert [it.id for it in steps] == [it.id for it in made.remediate]
    if lost is None:
        return
    assert len(host.sent) == lose_at + 1, "nothing is sent after the line is lost"
    if lost.effect is Effect.WRITE:
        assert Status.UNKNOWN in {it.status for it in steps}
        assert host.sent.count(lost) == len([it for it in host.sent if it is lost or it == lost])
        assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    assert outcome.error


def test_a_host_that_another_run_is_changing_is_left_alone():
    """Mutants: host_steps.py sending whatever the lock says; host_lock.py without ``give``."""
    made = book(end("zombie", "k"), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, lock="busy run 7 of toy, by ann@ctl (/run/lock/x)")
    _, _, outcome = planned_and_run(made, host)
    assert outcome.steps[1].status is Status.BLOCKED
    assert "run 7 of toy, by ann@ctl" in outcome.steps[1].why
    assert host.writes() == []
    assert set(host.locks) == {"take"}
    assert 60 <= len(host.locks) <= 62
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNRESOLVED

    host = ToyHost(procs={4: (1, "zombie")})
    planned_and_run(made, host)
    assert host.locks == ["take", "give"]
    host = ToyHost(procs={4: (1, "ssh")})
    planned_and_run(made, host)
    assert host.locks == []

    host = ToyHost(procs={4: (1, "zombie")}, lock="")
    _, _, outcome = planned_and_run(made, host)
    assert outcome.steps[1].status is Status.UNREACHABLE
    assert host.writes() == []


class HeldUp(ToyHost):
    """A host whose lock another run has until it was asked for *asks* times."""

    asks = 0

    def _run(self, command):
        self.lock = "busy run 7" if len(self.locks) < self.asks else "held - /locks"
        return super()._run(command)


ORDERED = {
    "a ladder": (end("zombie", "gentle", for_=("held",)), restart("harsh", for_=("held",))),
    "an order": (paint("gentle"), restart("harsh")),
    "what is ignored": (paint("gentle", ignore_failure=True), restart("harsh")),
    "clean-up": (paint("gentle"), restart("harsh", always=True)),
    "what no plan shows": (blue("gentle"), restart("harsh")),
}


@every_row("steps", ORDERED.values(), ids=ORDERED)
@every_row("wait", [0.0, 30.0])
def test_law_4_no_later_step_overtakes_one_that_did_not_get_the_lock(steps, wait):
    """Mutants: host_steps.py ``_stopped_before_change`` without ``stopped_by``, not called for a change that no plan shows, or heeding
    ``ignore_failure``; ``_refused_unseen`` without ``stopped_before_change``; host_lock.py with a wait for each step.
    """
    made = book(*steps, findings=(rule(),), diagnose=(look_at("zombie"),))
    host = HeldUp(procs={4: (1, "zombie")}, wanted="blue", colour="blue" if steps[0].action == "blue" else "grey")
    host.asks = 1 + int(wait)
    events: list = []
    where = with_run(site(made, host, events), wait_lock=wait)
    plan, seen = make_plan(where)
    host.colour = "grey"
    began = where.clock.now()
    outcome = execute(where, plan, seen, Consent.YES)
    first, then = outcome.steps[1:]
    assert (first.status, then.status) == (Status.BLOCKED, Status.BLOCKED)
    assert "another run is changing this host" in first.why
    assert then.why == "gentle was blocked; no later step runs"
    assert host.writes() == []
    assert where.clock.now() - began <= wait
    assert len([it for it in events if isinstance(it, event.Waiting)]) == bool(wait)


class Owed:
    """Where clean-up is recorded, as far as *why* is empty; *owed* is there to be settled."""

    def __init__(self, why=lambda: "", owed=()) -> None:
        self.why, self.owed = why, owed

    def settled_here(self, host):
        return self.owed

    def gone_on_with(self, host):
        return ()

    def is_open(self, cleanup):
        return True

    def keep(self, cleanup):
        why = self.why()
        return NotRecorded(why=why) if why else cleanup

    def drop(self, cleanup):
        pass


def test_clean_up_that_is_settled_is_tried_whatever_was_held_up_before_it():
    """What earlier runs owe is owed by each of them.  Mutants: host_steps.py ``_owes`` without OwedSettlement."""
    steps = (paint("one", always=True), restart("two", always=True))
    cleanup = OwedCleanup(run="R", playbook="toy", host="h", by="ann", since="T", steps=())
    host = HeldUp(procs={}, wanted="blue")
    host.asks = 1
    where = with_run(site(book(*steps), host), wait_lock=0.0, owed=Owed(owed=(cleanup,)))
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.status for it in outcome.steps] == [Status.BLOCKED, Status.CHANGED]


def test_a_host_is_waited_for_once_whoever_asks():
    """What is owed still asks, without a wait.  Mutants: host_lock.py without ``_waits_until``, or one for all hosts."""
    other = HeldUp(procs={5: (1, "serve")})
    other.asks = 1000
    host = ToyHost(procs={4: (1, "zombie")})
    cleaning = [
        end("serve", name, on=on, always=True) for name, on in (("two", "leader"), ("three", "leader"), ("four", "b"))
    ]
    events: list = []
    where = site(book(end("zombie", "one"), *cleaning), host, events)
    where = replace(with_run(where, wait_lock=30.0), elsewhere={"leader": other, "b": other}.__getitem__)
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.status for it in outcome.steps] == [Status.CHANGED, *[Status.BLOCKED] * 3]
    assert "another run is changing this host" in outcome.steps[-1].why, "it is tried, as it is owed"
    assert where.clock.now() == 60.0, "for the leader, and for b"
    assert len([it for it in events if isinstance(it, event.Waiting)]) == 2


@every_row("fault", ["the journal", "the record of what is owed", "a limit"])
@every_row("changed", [False, True])
def test_law_4_no_later_step_overtakes_one_that_could_not_be_written_down(fault, changed):
    """The fault heals at once.  Mutants: host_steps.py ``_change`` without ``_stopped_before_change``, in each of its two places."""
    steps = (*([end("zombie", "zero")] if changed else []), paint("gentle"), restart("harsh"), blue("z", always=True))
    host = ToyHost(procs={4: (1, "zombie")}, wanted="red")
    events: list = []
    at = len(steps) - 3
    failing = iter([*[""] * at, "disk full", *[""] * 9])

    def emit(said):
        if isinstance(said, event.ChangeStarted) and fault == "the journal" and (why := next(failing)):
            raise RecordLost(why)
        events.append(said)

    where = with_run(site(book(*steps), host), emit=emit)
    if fault == "a limit":
        where = replace(where, begin_change=lambda: next(failing))
    if fault == "the record of what is owed":
        if changed:
            return  # it is written once, before the first change
        where = with_run(where, owed=Owed(lambda: next(failing)))
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    gentle, harsh, clean = outcome.steps[-3:]
    assert (gentle.status, "disk full" in gentle.why) == (Status.BLOCKED, True)
    assert (harsh.status, harsh.why) == (Status.BLOCKED, "gentle was blocked; no later step runs")
    assert clean.status is (Status.CHANGED if changed else Status.BLOCKED), "clean-up of what was done, and only that"
    assert [it.argv[0] for it in host.writes()] == (["kill", "paint"] if changed else [])


def test_who_had_to_wait_for_another_run_looks_again_before_anything_is_sent():
    """Mutants: host_steps.py going on with what it saw before the wait."""

    class Taken(ToyHost):
        def _run(self, command):
            if len(self.locks) == 3 and self.lock == "busy run 7":
                self.lock = "held"
                self.procs = {9: (7, "zombie")}
            return super()._run(command)

    made = book(end("zombie", "k"), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = Taken(procs={4: (1, "zombie"), 9: (7, "zombie")}, lock="busy run 7")
    events: list = []
    where = site(made, host, events)
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.argv for it in host.writes()] == [("kill", "9:7")]
    assert outcome.steps[1].status is Status.CHANGED
    assert [it.why for it in events if isinstance(it, event.Waiting)] == [
        "another run is changing this host: run 7; waiting up to 60 s"
    ]


def test_after_a_reboot_the_locks_are_waited_for_anew():
    """Mutants: host_lock.py ``renew`` that keeps the end of the first wait."""
    host = HeldUp(procs={})
    where = with_run(site(book(), host), wait_lock=30.0)
    lock = Lock(where, make_plan(where)[0])
    for asks in (10, 10):
        host.asks = len(host.locks) + asks
        assert lock.renew("") is None
        where.clock.sleep(100)


@every_row(("idle", "again"), [("-", False), ("600", False), ("0", True), ("1", True), ("?", True)])
def test_what_another_run_may_have_changed_since_the_host_was_probed_is_probed_again(idle, again):
    """Mutants: host_lock.py without the check of ``idle``, also where it is not known; LockHeld.idle read wrongly."""

    class JustGiven(ToyHost):
        def _run(self, command):
            if command.effect is Effect.SCRATCH and command.argv[0] == "take":
                self.procs = {9: (7, "zombie")} if again else self.procs
            return super()._run(command)

    made = book(end("zombie", "k"), findings=(rule(),), diagnose=(look_at("zombie"),))
    host = JustGiven(procs={4: (1, "zombie"), 9: (7, "zombie")}, lock=f"held {idle} /locks/x")
    where = site(made, host)
    plan, seen = make_plan(where)
    before = len(host.sent)
    execute(where, plan, seen, Consent.YES)
    sent = [it for it in host.sent[before:] if it.effect in (Effect.READ, Effect.WRITE)]
    looks = next(number for number, it in enumerate(sent) if it.effect is Effect.WRITE)
    assert looks == (2 if again else 1), "the probe of the finding, and the step's own"
    assert {it.lock for it in host.writes()} == {"/locks/x"}
    killed = ("kill", "9:7") if again else ("kill", "4:1", "9:7")
    assert [it.argv for it in host.writes()] == [killed]


def test_a_change_that_no_plan_showed_is_locked_too():
    """Mutants: host_steps.py that takes the lock only where the plan has a change."""
    host = ToyHost(procs={}, lock="held - /locks/x")
    where = site(book(end("zombie", "k")), host)
    plan, seen = make_plan(where)
    host.procs = {4: (1, "zombie")}
    outcome = execute(where, plan, seen, Consent.YES)
    assert outcome.steps[0].status is Status.CHANGED
    assert [it.lock for it in host.writes()] == ["/locks/x"]
    assert host.locks == ["take", "give"]


@every_row(("second", "again"), [("/locks/b", False), ("/home/ann/b", True)])
def test_a_lock_of_our_own_is_not_another_runs(second, again):
    """Who logs in as root and becomes root asks twice, in one place.  Mutants: host_lock.py without ``_was_used``."""

    class TwoLocks(ToyHost):
        def _run(self, command):
            if command.effect is Effect.SCRATCH:
                self.lock = f"held 0 {second}" if "take" in self.locks else "held - /locks/a"
            return super()._run(command)

    steps = (end("zombie", "k"), replace(end("zombie", "l"), become="root"))
    host = TwoLocks(procs={4: (1, "zombie")})
    where = site(book(*steps, findings=(rule(),), diagnose=(look_at("zombie"),)), host)
    plan, seen = make_plan(where)
    before = len(host.sent)
    execute(where, plan, seen, Consent.YES)
    sent = [it for it in host.sent[before:] if it.effect in (Effect.READ, Effect.WRITE)]
    assert host.locks.count("take") == 2
    assert next(number for number, it in enumerate(sent) if it.effect is Effect.WRITE) == (2 if again else 1)


@every_row("consent", [Consent.YES, Consent.SHOWN])
def test_the_lock_is_taken_before_the_decision(consent):
    """Mutants: host_steps.py that takes it after the step's own probe; that takes it where nobody has said yes."""
    kinds: list[Effect] = []

    class Noted(ToyHost):
        def _run(self, command):
            kinds.append(command.effect)
            return super()._run(command)

    host = Noted(procs={4: (1, "zombie")})
    where = site(book(end("zombie", "k"), findings=(rule(),), diagnose=(look_at("zombie"),)), host)
    plan, seen = make_plan(where)
    kinds.clear()
    execute(where, plan, seen, consent)
    assert kinds[0] is Effect.SCRATCH
    assert kinds.index(Effect.READ) < kinds.index(Effect.WRITE)
    host.procs = {4: (1, "zombie")}
    kinds.clear()
    execute(where, plan, seen, Consent.NONE)
    assert {*kinds} == {Effect.READ}


def test_each_host_has_a_lock_of_its_own_where_a_step_names_another_host():
    """Mutants: host_lock.py ``_name`` without the host, or ``give`` without the place."""
    asked: dict[str, list[tuple[str, str]]] = {}

    class Locked(ToyHost):
        def _run(self, command):
            if command.effect is Effect.SCRATCH:
                asked.setdefault(self.colour, []).append((command.argv[0], command.argv[1]))
            return super()._run(command)

    leader = Locked(procs={4: (1, "zombie"), 5: (1, "serve")}, colour="leader")
    for name, word in (("h1", "zombie"), ("h2", "serve")):
        here = Locked(procs={4: (1, word)}, colour=name)
        where = site(book(end(word, "there", on="leader"), end(word, "k")), here)
        where = replace(where, host=Host(name=name), elsewhere={"leader": leader}.__getitem__)
        plan, seen = make_plan(where)
        execute(where, plan, seen, Consent.YES)
    assert asked["h1"] == [("take", "r-h1"), ("give", "r-h1")]
    assert asked["leader"] == [(verb, f"r-leader-{name}") for name in ("h1", "h2") for verb in ("take", "give")]
    assert leader.procs == {}


def test_a_host_that_can_keep_no_lock_is_changed_all_the_same_and_that_is_said_once():
    """Mutants: host_lock.py ``untold`` that says nothing, or says it again."""
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "serve")}, lock="- no folder")
    _, _, outcome = planned_and_run(book(end("zombie", "k"), end("serve", "l")), host)
    assert [it.status for it in outcome.steps] == [Status.CHANGED, Status.CHANGED]
    words = "changed without the host's lock, so another run would not have been noticed: no folder"
    assert [words in it.why for it in outcome.steps] == [True, False]


class Users(ToyHost):
    """A host that says of which user's lock it is asked, and whose lock of *theirs* another run has for a while."""

    def __init__(self, theirs: str = "", polls: int = 0) -> None:
        super().__init__(procs={4: (1, "zombie"), 5: (1, "serve"), 6: (1, "ssh")})
        self.theirs, self.polls, self.asked = theirs, polls, []

    def _run(self, command):
        if command.effect is Effect.SCRATCH:
            self.asked.append((command.argv[0], command.become))
            busy = command.argv[0] == "take" and command.become == self.theirs and self.polls
            self.polls -= bool(busy)
            return Completed(exit_code=0, stdout="busy run 7" if busy else f"held - /locks/{command.become}")
        return super()._run(command)


def test_a_host_is_locked_for_every_user_as_whom_it_is_changed_and_for_no_other():
    """Mutants: host_lock.py ``_users`` with all steps, with that at hand alone, or without an order."""
    steps = [
        replace(end("zombie", "one"), become="root"),
        end("serve", "two"),
        replace(end("gone", "none"), become="nobody"),
    ]
    host = Users()
    planned_and_run(book(*steps), host)
    assert host.asked == [("take", ""), ("take", "root"), ("give", ""), ("give", "root")]
    assert [(it.become, it.lock) for it in host.writes()] == [("root", "/locks/root"), ("", "/locks/")]
    host = Users()
    planned_and_run(book(steps[0]), host)
    assert host.asked == [("take", "root"), ("give", "root")]


def test_no_lock_is_kept_while_another_run_is_waited_for():
    """Mutants: host_lock.py ``_ask_all`` that keeps what it has when the next one is busy."""
    host = Users(theirs="root", polls=1)
    planned_and_run(book(replace(end("zombie", "one"), become="root"), end("serve", "two")), host)
    first, then = [("take", ""), ("take", "root"), ("give", "")], [("take", ""), ("take", "root")]
    assert host.asked == [*first, *then, ("give", ""), ("give", "root")]
    assert len(host.writes()) == 2


def test_law_5_what_is_owed_is_sent_on_every_way_out_but_not_over_a_dead_line():
    """Mutants: apply.py without ``finally_``; sending it although nothing was sent."""
    host = ToyHost(procs={})
    _, _, _ = planned_and_run(book(restart("one")), host)
    assert [it.argv[0] for it in host.writes()] == ["restart", "light-on"]
    assert host.writes()[1].owed

    host = ToyHost(procs={})
    where = site(book(restart("one")), host)
    plan, seen = make_plan(where)
    host.sent.clear()
    host.lose_at = 1
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.argv[0] for it in host.writes()] == ["restart"]
    assert "light-on" in outcome.steps[0].why

    host = ToyHost(procs={})
    where = site(book(restart("one")), host)
    plan, seen = make_plan(where)
    host.sent.clear()
    host.cancel_at = 1
    outcome = execute(where, plan, seen, Consent.YES)
    assert outcome.steps[0].status is Status.CANCELLED
    assert "light-on" not in [it.argv[0] for it in host.sent], "nothing is put back that was never taken away"


def test_law_6_ignorance_is_not_health():
    """Mutants: findings.py turning Unknown into ABSENT; gates.py opening for unknown; verdicts.py without ``_leaves_unknown``,
    or without the findings that are unknown.
    """
    mute = Step(id="seen", phase=Phase.DIAGNOSE, action="mute")
    for look, blind in ((look_at("zombie"), True), (mute, False)):  # all looks are blind, or only the one that matters
        host = ToyHost(procs={4: (1, "zombie")}, blind=blind)
        made = book(end("zombie", "one", for_=("held",)), findings=(rule(),), diagnose=(look,))
        plan, _, outcome = planned_and_run(made, host, consent=Consent.YES)
        assert plan.findings[0].status is Presence.UNKNOWN
        assert host.writes() == []
        (step,) = (it for it in outcome.steps if it.id == "one")
        assert step.status is Status.BLOCKED
        assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    undecided = book(findings=(rule(when="seen.matches[0].pid / 0"),), diagnose=(look_at("zombie"),))
    for made in (book(diagnose=(mute,)), undecided):  # each of the two alone: a probe without an answer, and a finding
        plan, _, outcome = planned_and_run(made, ToyHost(procs={4: (1, "zombie")}), consent=Consent.YES)
        assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN


def test_law_6_a_plan_does_not_act_on_a_finding_that_is_not_known_or_not_there():
    """Mutants: gates.py ``if blind and force`` without force; planner.py without the gate."""
    made = book(end("zombie", "one", for_=("held",)), findings=(rule(),), diagnose=(look_at("ghost"),))
    host = ToyHost(procs={4: (1, "zombie")})
    plan, _ = make_plan(site(made, host))
    assert plan.results[0].status is Status.SKIPPED
    assert plan.steps[0].reach == ()

    sighted = replace(look_at("zombie", "other"), args={"word": "zombie"})
    made = replace(made, diagnose=(Step(id="seen", phase=Phase.DIAGNOSE, action="mute"), sighted))
    plan, _ = make_plan(site(made, host))
    assert plan.results[0].status is Status.BLOCKED
    forced, _ = make_plan(site(made, host), force=True)
    assert forced.results[0].status is Status.WOULD_CHANGE


LADDERS = {
    "edits a file": (paint("one", for_=("held",)),),
    "restarts": (restart("one", for_=("held",)),),
    "for any error": (paint("one"), restart("two")),
    "if_changed": (paint("one", for_=("held",)), restart("two", if_changed=("one",))),
    "after": (paint("one", for_=("held",)), restart("two", for_=("held",), after=("one",))),
    "if_changed and for": (paint("one", for_=("held",)), restart("two", for_=("held",), if_changed=("one",))),
    "always": (paint("one", for_=("held",)), restart("two", always=True), end("zombie", "three", always=True)),
}


@every_row("steps", LADDERS.values(), ids=LADDERS)
@every_row("consent", [Consent.YES, Consent.SHOWN])
def test_law_6_an_unknown_finding_permits_no_change_however_gentle(steps, consent):
    """Mutants: gates.py ``within`` for some risks only; planner.py or host_steps.py without it, or lifting it for
    `always` steps whether or not anything was changed; gate_of without ``force``.
    """
    made = book(*steps, findings=(rule(),), diagnose=(look_at("zombie"),))
    host = ToyHost(procs={4: (1, "zombie")}, blind=True, wanted="blue")
    plan, _, outcome = planned_and_run(made, host, consent=consent)
    assert not any(isinstance(it.decision, Change) for it in plan.steps)
    assert host.writes() == []
    assert outcome.steps[1].status is Status.BLOCKED
    assert outcome.steps[1].why.startswith("held is unknown")
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN
    plan, seen = make_plan(site(made, host), force=True)
    execute(site(made, host), plan, seen, consent, force=True)
    assert host.writes()


def test_law_6_a_step_that_has_nothing_to_do_says_so_also_where_its_finding_is_unknown():
    """Mutants: gates.py ``within`` for every decision."""
    made = book(paint("p", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    plan, _, outcome = planned_and_run(made, ToyHost(procs={}, blind=True), consent=Consent.YES)
    assert (plan.results[0].status, outcome.steps[1].status) == (Status.OK, Status.OK)


def test_law_6_a_step_that_cannot_be_done_now_names_its_finding_and_one_in_doubt_names_its_run():
    """Mutants: gates.py ``within`` for changes alone; for what is in doubt, too."""
    made = book(paint("one", for_=("held",)), restart("two"), findings=(rule(),), diagnose=(look_at("zombie"),))
    dry = replace(ACTIONS["paint"], decide=lambda args, state: Blocked(why="no brush"))
    host = ToyHost(procs={}, blind=True, wanted="blue")
    where = with_run(site(made, host), actions={**ACTIONS, "paint": dry})
    plan, seen = make_plan(where)
    for result in (plan.results[0], execute(where, plan, seen, Consent.YES).steps[1]):
        assert (result.status, result.why[:15]) == (Status.BLOCKED, "held is unknown")

    doubtful = EarlierChange(run="R", at="T", step="one", item=None, done=False, verifiable=False)
    where = replace(site(made, host), earlier=(doubtful,))
    plan, seen = make_plan(where)
    one, two = execute(where, plan, seen, Consent.YES).steps[1:]
    assert plan.results[0].why.startswith("run R sent it at T, and nobody knows")
    assert (one.status, two.status) == (Status.UNKNOWN, Status.BLOCKED)
    assert host.writes() == []


class Blinded(ToyHost):
    """It does not answer any more once it has been painted, or something there was ended."""

    def _run(self, command):
        answer = super()._run(command)
        self.blind = self.blind or command.argv[0] in ("paint", "kill")
        return answer


@every_row("consent", [Consent.YES, Consent.SHOWN])
@every_row("second", [restart("two", if_changed=("one",)), restart("two", always=True), restart("two", for_=("held",))])
def test_law_6_what_follows_a_change_is_done_although_the_finding_becomes_unknown(second, consent):
    """A change of which the second half is left out is none.  The next rung is no such half.

    Mutants: gates.py ``is_cleanup`` never; host_steps.py ``_owes`` never, or for every step.
    """
    made = book(paint("one", for_=("held",)), second, findings=(rule(),), diagnose=(look_at("zombie"),))
    host = Blinded(procs={4: (1, "zombie")}, wanted="blue")
    _, _, outcome = planned_and_run(made, host, consent=consent)
    assert outcome.findings[0].status is Presence.UNKNOWN
    assert outcome.steps[-1].status is (Status.BLOCKED if second.for_ else Status.CHANGED)


@every_row("consent", [Consent.YES, Consent.SHOWN])
@every_row("second", [restart("two", if_changed=("one",)), restart("two", always=True), restart("two")])
def test_law_6_what_an_earlier_run_began_is_finished_although_the_finding_is_unknown(second, consent):
    """The run that this one goes on with has made the first step.

    Mutants: gates.py ``within`` for every decision; planner.py without ``owed``; host_steps.py ``_owes`` without
    ``earlier``.
    """
    made = book(paint("one", for_=("held",)), second, findings=(rule(),), diagnose=(look_at("zombie"),))
    done = EarlierChange(run="R", at="T", step="one", item=None, done=True, verifiable=True)
    where = replace(site(made, ToyHost(procs={}, blind=True)), earlier=(done,))
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, consent)
    follows = second.if_changed or second.always
    assert [it.status for it in outcome.steps[1:]] == [Status.OK, Status.CHANGED if follows else Status.BLOCKED]


@every_row("consent", [Consent.YES, Consent.SHOWN])
@every_row("stubborn", [False, True])
def test_law_6_clean_up_whose_finding_is_unknown_is_owed_once_the_host_was_changed(consent, stubborn):
    """Mutants: planner.py without ``rivals``; host_steps.py ``_owes`` without ``wrote``, or always; gates.py
    ``is_cleanup`` with ``for``; planner.py ``_condition`` with the words of every `always` step.
    """
    mute = Step(id="dumb", phase=Phase.DIAGNOSE, action="mute")
    findings = (rule(), rule("odd", "dumb.matches", probes=("dumb",)))
    first = end("zombie", "one", for_=("held",))
    follows = restart("more", for_=("odd",), if_changed=("one",))
    last = restart("two", for_=("odd",), always=True)
    made = book(first, follows, last, findings=findings, diagnose=(look_at("zombie"), mute))
    host = ToyHost(procs={4: (1, "zombie")})
    plan, _ = make_plan(site(made, host))
    assert (plan.steps[-1].condition or "").startswith("only if one changes something, as odd is unknown: ")
    _, _, outcome = planned_and_run(made, host, consent=consent, moved={} if stubborn else None)
    assert outcome.steps[-1].status is (Status.BLOCKED if stubborn else Status.CHANGED)
    assert outcome.steps[-2].status is (Status.SKIPPED if stubborn else Status.BLOCKED), "its own finding is unknown"
    assert bool(host.writes()) is not stubborn


@every_row("when", ["seen.matches[0].pid / 0", "seen.matches < 3", "seen.matches[7].pid"])
def test_law_6_an_expression_that_cannot_be_evaluated_is_unknown_and_loses_no_other_finding(when):
    """Mutants: findings.py without ``except ConfigError``."""
    host = ToyHost(procs={4: (1, "zombie")})
    made = book(end("zombie", "k", for_=("odd",)), findings=(rule("odd", when), rule()), diagnose=(look_at("zombie"),))
    where = site(made, host)
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.status for it in outcome.findings] == [Presence.UNKNOWN, Presence.PRESENT]
    assert host.writes() == []
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN


def test_a_cheaper_cause_that_was_found_stands_also_for_what_could_not_be_told():
    """Mutants: findings.py calling a superseded finding unknown; or superseding by what is not present."""
    mute = Step(id="dumb", phase=Phase.DIAGNOSE, action="mute", args={})
    later = rule("later", "dumb.matches", unless=("held",))
    made = book(findings=(rule(), later), diagnose=(look_at("zombie"), mute))
    plan, _ = make_plan(site(made, ToyHost(procs={4: (1, "zombie")})))
    assert [it.status for it in plan.findings] == [Presence.PRESENT, Presence.ABSENT]
    assert plan.findings[1].why == "explained by held"
    plan, _ = make_plan(site(made, ToyHost(procs={})))
    assert [it.status for it in plan.findings] == [Presence.ABSENT, Presence.UNKNOWN]


def test_law_6_a_finding_is_unknown_while_what_may_explain_it_is():
    """Mutant: findings.py without `doubtful`."""
    mute = Step(id="dumb", phase=Phase.DIAGNOSE, action="mute", args={})
    findings = (rule("cheap", "dumb.matches"), rule("later", unless=("cheap",)))
    made = book(findings=findings, diagnose=(look_at("zombie"), mute))
    plan, _ = make_plan(site(made, ToyHost(procs={4: (1, "zombie")})))
    assert [it.status for it in plan.findings] == [Presence.UNKNOWN, Presence.UNKNOWN]
    assert plan.findings[1].why == "not known whether cheap explains it"
    plan, _ = make_plan(site(made, ToyHost(procs={})))
    assert [it.status for it in plan.findings] == [Presence.UNKNOWN, Presence.ABSENT]


def test_law_6_words_that_cannot_be_filled_in_do_not_hide_a_finding():
    """Mutants: findings.py ``_said`` without its ``except``."""
    host = ToyHost(procs={4: (1, "zombie")})
    held = rule(say="{{ seen.matches / 2 }} there", evidence={"half": "seen.matches / 2"}, advise=("{{ 1 / 0 }}",))
    plan, _ = make_plan(site(book(findings=(held,), diagnose=(look_at("zombie"),)), host))
    (found,) = plan.findings
    assert found.status is Presence.PRESENT
    assert "there" in found.say
    assert found.evidence["half"].startswith("unknown: ")


def test_law_6_a_look_that_asks_again_is_answered_anew():
    """Mutants: probing.py keeping the answers of one round for the next."""
    twice = Step(id="seen", phase=Phase.DIAGNOSE, action="twice", args={"word": "zombie"})
    host = ToyHost(procs={4: (1, "zombie")})
    make_plan(site(book(diagnose=(twice, replace(twice, id="also"))), host))
    assert [it.argv for it in host.sent] == [("ps",), ("ps",)]


@every_row("at", ["the second probe", "the last probe", "an assertion"])
@every_row("fault", [TypeError("ours"), KeyError("ours")])
def test_a_fault_of_ours_after_the_change_loses_no_result_and_calls_nothing_healthy(fault, at):
    """Mutants: host_steps.py ``_take`` or ``diagnose_again``, or verification.py, without ``except Exception``."""
    prove = Step(id="v", phase=Phase.VERIFY, action="procs", args={"word": "zombie"})
    findings = () if at == "an assertion" else (rule(),)  # without findings nobody looks a last time
    made = book(end("zombie", "k"), findings=findings, diagnose=(look_at("zombie"),), verify=(prove,))
    host = ToyHost(procs={4: (1, "zombie")})
    where = site(made, host)
    plan, seen = make_plan(where)

    def broken(args):
        if host.writes():
            raise fault
        return (yield from probe(args))

    name = "end" if at == "the second probe" else "procs"
    where = with_run(where, actions={**ACTIONS, name: replace(ACTIONS[name], probe=broken)})
    outcome = execute(where, plan, seen, Consent.YES)
    assert [it.id for it in outcome.steps] == ["seen", "k", "v"]
    _, change, assertion = outcome.steps
    told = {"the second probe": change.why, "the last probe": outcome.error or "", "an assertion": assertion.why}
    assert "internal error:" in told[at]
    assert change.status is (Status.UNKNOWN if at == "the second probe" else Status.CHANGED)
    assert verdict(made, outcome.steps, outcome.findings) is Verdict.UNKNOWN


@every_row(
    "fault",
    [
        *(made("odd") for made in (ZeroDivisionError, ValueError, RecursionError, IndexError, KeyError, TypeError)),
        *(made("odd") for made in (AttributeError, AssertionError, MemoryError, OSError, UnboundLocalError)),
    ],
)
def test_law_6_an_answer_that_no_parser_was_written_for_is_an_unknown_look(fault):
    """Mutants: probing.py with some of these only; then one host's odd answer loses those of all its other probes."""

    def broken(args):
        yield from probe(args)
        raise fault

    host = ToyHost(procs={4: (1, "zombie")})
    odd = {**ACTIONS, "odd": replace(ACTIONS["procs"], probe=broken)}
    looks = (replace(look_at("zombie"), id="odd", action="odd"), look_at("zombie"))
    _, seen = make_plan(with_run(site(book(diagnose=looks), host), actions=odd))
    result, other = seen.results
    assert (result.status, "the host's answer cannot be parsed" in result.why) == (Status.FAILED, True)
    assert other.status is Status.OK


def test_an_error_of_ours_is_no_answer_of_a_host():
    """Mutant: probing.py that takes a ``RunbookError`` for a parser's."""

    def broken(args):
        yield from probe(args)
        raise ReadOnlyViolation("ours")

    host = ToyHost(procs={4: (1, "zombie")})
    odd = {**ACTIONS, "procs": replace(ACTIONS["procs"], probe=broken)}
    with pytest.raises(ReadOnlyViolation, match="ours"):
        make_plan(with_run(site(book(diagnose=(look_at("zombie"),)), host), actions=odd))


def test_law_6_a_finding_that_does_not_touch_the_blind_look_is_known():
    """Mutants: findings.py making every finding unknown when one probe is."""
    host = ToyHost(procs={4: (1, "zombie")}, blind=True)
    made = book(findings=(rule(when="false and seen.matches"),), diagnose=(look_at("zombie"),))
    plan, _ = make_plan(site(made, host))
    assert plan.findings[0].status is Presence.ABSENT


@settings(max_examples=100, deadline=None)
@given(playbooks(), tables, st.booleans())
def test_law_7_everything_said_survives_a_json_round_trip(made, table, blind):
    """Mutants: codec.py without the tagged unions; ``for_`` and ``finally_`` keeping their underscore on one side."""
    host = ToyHost(procs=dict(table), blind=blind)
    events: list = []
    where = site(made, host, events)
    plan, seen = make_plan(where)
    execute(where, plan, seen, Consent.YES)
    again = from_json(HostPlan, json.loads(json.dumps(to_json(plan))))
    assert to_json(again) == to_json(plan)
    assert [it.decision for it in again.steps] == [it.decision for it in plan.steps]
    for it in [*events, event.HostPlanned(plan=plan)]:
        text = json.dumps(to_json(it))
        assert to_json(from_json(event.Event, json.loads(text))) == json.loads(text)


@settings(max_examples=100, deadline=None)
@given(playbooks(), tables)
def test_law_8_a_second_run_of_a_cured_host_sends_no_write(made, table):
    """Mutants: planner.py ignoring the gate; host_steps.py sending for NoChange."""
    made = replace(made, remediate=tuple(it for it in made.remediate if it.action == "end"))
    host = ToyHost(procs=dict(table))
    planned_and_run(made, host, consent=Consent.YES)
    host.sent.clear()
    plan, seen = make_plan(site(made, host))
    assert not any(isinstance(it.decision, Change) for it in plan.steps)
    outcome = execute(site(made, host), plan, seen, Consent.YES)
    assert host.writes() == []
    assert {it.status for it in outcome.steps} <= {Status.OK, Status.SKIPPED}


def test_nothing_risky_is_done_without_a_terminal_or_a_yes():
    """Mutants: consent.py without the consent check."""
    made = book(end("zombie", "k", confirm=True))
    host = ToyHost(procs={4: (1, "zombie")})
    _, _, outcome = planned_and_run(made, host, consent=Consent.NONE)
    assert outcome.steps[0].status is Status.BLOCKED
    assert "--yes" in outcome.steps[0].why
    assert host.writes() == []


@every_row("risk", Risk)
def test_whatever_changes_a_host_needs_a_yes(risk):
    """Mutants: host_steps.py letting one of these risks pass."""
    host = ToyHost(procs={4: (1, "zombie")})
    made = book(end("zombie", "k"))

    def worse(args, state):
        decision = ACTIONS["end"].decide(args, state)
        return replace(decision, risk=risk) if isinstance(decision, Change) else decision

    where = with_run(site(made, host), actions={**ACTIONS, "end": replace(ACTIONS["end"], decide=worse)})
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.NONE)
    assert host.writes() == []
    assert f"its risk is {risk}" in outcome.steps[0].why
    assert execute(where, plan, seen, Consent.YES).steps[0].status is Status.CHANGED


def test_the_toys_cover_every_kind_of_action():
    assert {it.name for it in ACTIONS.values() if it.decide} == {
        "blue",
        "edit",
        "end",
        "end_risky",
        "end_wide",
        "paint",
        "restart",
    }
