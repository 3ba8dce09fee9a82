"""What the plan announced of a conditional step, and what a warning says of a host: decisions that need no host."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runbook.diagnosis.probe_types import ProbeAnswer
from runbook.diagnosis.verdicts import verdict
from runbook.executor.permitted import permitted_decision
from runbook.values.command import Completed, write_script
from runbook.values.plan import Blocked, Change, Finding, PlannedStep, Presence, Risk, Skip, Target
from runbook.values.playbook import Playbook, Severity
from runbook.values.result import Verdict

from tests.tables import every_row

VICTIM = Target(kind="process", key="7:70", say="pid 7")
KILL = Change(summary="end pid 7", commands=(write_script("kill 7"),), risk=Risk.KILLS_PROCESSES, targets=(VICTIM,))


@every_row(("condition", "drifted"), [("if the first step fails", False), (None, True)])
def test_only_a_conditional_step_may_do_what_lies_within_its_reach(condition: str | None, drifted: bool):
    """Mutants: no reach is counted; the reach of a step without a condition is counted."""
    planned = PlannedStep(id="kill", decision=Skip(why="not yet"), condition=condition, reach=(VICTIM,))
    action: Any = SimpleNamespace(without=None, decide=None)
    outcome = permitted_decision(KILL, planned, ProbeAnswer(args=None, state=None), action)
    assert isinstance(outcome.decision, Blocked) == drifted, outcome


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
