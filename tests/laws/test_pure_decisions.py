"""What the plan announced of a conditional step, and what a warning says of a host: decisions that need no host."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.execution.diagnosis.verdicts import verdict
from runbook.execution.executor.permitted import (
    Comparison,
    Excess,
    PermittedDecision,
    Policy,
    compare,
    permitted_decision,
    shown_host,
    shown_step,
)
from runbook.values.command import Completed, write_script
from runbook.values.plan import Blocked, Change, Finding, NoChange, PlannedStep, Presence, Risk, Skip, Target
from runbook.values.playbook import Playbook, Severity
from runbook.values.result import HostPlan, Verdict
from tests.support.tables import every_row

VICTIM = Target(kind="process", key="7:70", say="pid 7")
KILL = Change(summary="end pid 7", commands=(write_script("kill 7"),), risk=Risk.KILLS_PROCESSES, targets=(VICTIM,))


ACTION: Any = SimpleNamespace(without=None, decide=None)
FRESH = ProbeAnswer(args=None, state=None)


@every_row(
    ("decision", "condition", "drifted"),
    [
        (Skip(why="not yet"), "if the first step fails", False),
        (NoChange(why="it is well"), "only while held is present after it", False),
        (Skip(why="not yet"), None, True),
        (Blocked(why="it is unknown"), "if the first step fails", True),
    ],
)
def test_only_a_conditional_step_may_do_what_lies_within_its_reach(decision, condition: str | None, drifted: bool):
    """Mutants: no reach is counted; the reach of a step without a condition, or of one that is blocked, is counted."""
    planned = PlannedStep(id="kill", decision=decision, condition=condition, reach=(VICTIM,))
    outcome = permitted_decision(KILL, planned, FRESH, ACTION)
    assert isinstance(outcome.decision, Blocked) == drifted, outcome


def test_a_saved_plan_keeps_the_reach_of_a_step_only_where_people_read_it():
    """Mutant: permitted.py ``shown_host`` with the reach of a step that finds all in order."""
    skip = PlannedStep(id="kill", decision=Skip(why="not yet"), condition="at most on pid 7", reach=(VICTIM,))
    steps = (skip, replace(skip, decision=NoChange(why="it is well")))
    kept = shown_host(HostPlan(host="h", steps=steps))
    assert [step.targets for step in kept.steps] == [(VICTIM,), ()]


def test_what_is_left_without_new_targets_is_compared_again():
    """Mutants: permitted.py ``permitted_decision`` that returns *less* as it is."""
    both = replace(KILL, targets=(VICTIM, replace(VICTIM, key="9:70", say="pid 9")))
    planned = PlannedStep(id="kill", decision=KILL)
    for less in (both, replace(KILL, risk=Risk.REBOOTS), replace(KILL, targets=())):
        action: Any = SimpleNamespace(without=lambda state, keys: state, decide=lambda args, state, less=less: less)
        outcome = permitted_decision(both, planned, FRESH, action)
        assert outcome == PermittedDecision(
            Blocked(why="would now end pid 7; the plan did not show that", drifted=True)
        ), less


STEP = shown_step(PlannedStep(id="kill", decision=KILL))
WHOLE = shown_step(PlannedStep(id="kill", decision=replace(KILL, targets=())))
FINALLY = replace(KILL, targets=(), finally_=(write_script("light-on"),))
IMAGES = replace(STEP, targets=tuple(Target(kind="image", key=key, say=key) for key in "ab"), diff="- a\n- b\n")


@every_row(
    ("shown", "present", "excess"),
    [
        (STEP, replace(STEP, targets=(replace(VICTIM, command="renamed"),)), Excess.TARGETS),
        (STEP, replace(STEP, targets=(replace(VICTIM, owner="orphan"),)), Excess.TARGETS),
        (WHOLE, replace(WHOLE, summary="end it otherwise"), Excess.COMMANDS),
        (IMAGES, replace(IMAGES, targets=IMAGES.targets[:1], diff="- a\n"), Excess.CONTENT),
        (STEP, replace(STEP, lines="other"), Excess.CONTENT),
    ],
)
def test_words_count_in_a_saved_plan_and_what_they_stand_for_in_a_run(shown, present, excess):
    """A run's own steps may change what is said of the same targets; a file's words may be made up.

    Mutants: permitted.py ``_identity``, ``_compared_words`` and ``_becomes_something_else`` alike for both policies.
    """
    assert compare(shown, present, Policy.DROP_TARGETS) == Comparison()
    assert compare(shown, present, Policy.HOLD_HOST).excess is excess


@every_row("policy", Policy)
def test_what_is_sent_on_every_way_out_is_a_part_of_what_was_shown(policy):
    """Mutant: permitted.py ``_digest`` without ``finally_``."""
    other = shown_step(PlannedStep(id="kill", decision=FINALLY))
    assert compare(WHOLE, other, policy).excess is Excess.COMMANDS


@every_row(
    ("severity", "status", "expected"),
    [
        (Severity.WARNING, Presence.PRESENT, Verdict.HEALTHY),
        (Severity.WARNING, Presence.UNKNOWN, Verdict.HEALTHY),
        (Severity.ERROR, Presence.PRESENT, Verdict.UNRESOLVED),
        (Severity.ERROR, Presence.UNKNOWN, Verdict.UNKNOWN),
        (Severity.ERROR, Presence.ABSENT, Verdict.HEALTHY),
    ],
)
def test_only_an_error_judges_a_host(severity: Severity, status: Presence, expected: Verdict):
    """Mutant: a warning judges it, too."""
    assert verdict(Playbook(name="p"), (), (Finding(id="f", severity=severity, status=status),)) is expected


@every_row(
    ("answer", "why"),
    [
        (Completed(exit_code=None, refused="sudo to root is refused", stderr="x"), "sudo to root is refused"),
        (Completed(exit_code=None, timed_out=True, stderr="half a line"), "no answer in time"),
        (Completed(exit_code=1, stderr="cat: first\n\n cat: last \n"), "cat: last"),
        (Completed(exit_code=3), "exit code 3"),
        (Completed(exit_code=None), "no exit code"),
    ],
)
def test_why_a_command_gave_no_answer_is_said_in_its_own_words(answer: Completed, why: str):
    """Mutant: what was refused, or said nothing, is taken for what was too slow."""
    assert answer.why_not() == why
