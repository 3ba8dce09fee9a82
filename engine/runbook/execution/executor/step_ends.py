"""How steps end that were not carried out, or not by themselves."""

from __future__ import annotations

from dataclasses import replace

from runbook.execution.diagnosis.earlier_runs import changed_earlier
from runbook.execution.diagnosis.host_context import HostContext
from runbook.values.plan import Blocked, NoChange, PlannedStep, Skip
from runbook.values.playbook import Step
from runbook.values.result import Sent, Status, StepResult


def plain_result(context: HostContext, step: Step, planned: PlannedStep) -> StepResult:
    """The result of *step* as far as it is known before its turn."""
    return replace(StepResult.of(step), condition=planned.condition, changed_earlier=changed_earlier(context, step))


def as_planned(planned: PlannedStep) -> Skip | Blocked:
    """What the plan decided of a step whose arguments could not be filled in."""
    assert isinstance(planned.decision, Skip | Blocked)
    return planned.decision


def pending(why: str) -> str:
    """The words of an `always` step that could not run."""
    return f"pending: this `always` step could not run: {why}"


def cut_off(step: Step, plain: StepResult, status: Status, why: str) -> StepResult:
    """The result of *step*, which was ended before its change was sent: owed, if it is always taken."""
    if step.always:
        return replace(plain, status=Status.OWED, why=pending(why), sent=Sent.NOTHING)
    return replace(plain, status=status, why=why, sent=Sent.NOTHING)


def not_changed(step: Step, decision: NoChange | Skip | Blocked, plain: StepResult) -> StepResult:
    """The result of *step*, which is not carried out."""
    match decision:
        case NoChange(why=why):
            return replace(plain, status=Status.OK, why=why, verified=True)
        case Skip(why=why):
            return replace(plain, status=Status.SKIPPED, why=why)
        case Blocked(why=why) if decision.in_doubt or decision.drifted:
            status = Status.UNKNOWN if decision.in_doubt else Status.DRIFTED
            return replace(plain, status=status, why=why, diff=decision.diff or None)
        case Blocked(why=why):
            ignored = step.ignore_failure
            return replace(plain, status=Status.BLOCKED, why=why, ignored=ignored, rests_on=decision.rests_on)


def held_back(plain: StepResult, why: Skip | Blocked) -> StepResult:
    """The result of a step that does not begin, whatever the host looks like."""
    if isinstance(why, Skip):
        return replace(plain, status=Status.SKIPPED, why=why.why)
    return replace(plain, status=Status.BLOCKED, why=why.why, rests_on=why.rests_on)


def owing(planned: PlannedStep, plain: StepResult, lost: str) -> StepResult:
    """A step that is always taken, on a host that cannot be asked: owed, if it would have done anything."""
    if isinstance(planned.decision, Skip):
        return replace(plain, status=Status.SKIPPED, why=planned.decision.why)
    return replace(plain, status=Status.OWED, why=pending(lost), sent=Sent.NOTHING)
