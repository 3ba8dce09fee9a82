"""Turn the reason why a step does not run into the result of the step."""

from __future__ import annotations

from dataclasses import replace

from runbook.execution.diagnosis.earlier_runs import changed_earlier
from runbook.execution.diagnosis.host_context import HostContext
from runbook.values.plan import Blocked, NoChange, PlannedStep, Skip
from runbook.values.playbook import Step
from runbook.values.result import Fault, Sent, Status, StepResult

Refusal = Skip | Blocked
"""The reason why a step does not run.

Skip: it does not apply.  Blocked: it is not allowed, or its state is unknown.
"""


def plain_result(context: HostContext, step: Step, planned: PlannedStep) -> StepResult:
    """Return the result of *step* before the step runs: without a status, with the condition from the plan."""
    return replace(StepResult.of(step), condition=planned.condition, changed_earlier=changed_earlier(context, step))


def fault_of(refusal: Refusal) -> Fault:
    """Return the fault of a step that does not run because of *refusal*: of its arguments, or of a probe."""
    if isinstance(refusal, Skip):
        return Fault.NONE
    return Fault.ARGUMENTS if refusal.malformed else Fault.PROBE


def refused_result(
    plain: StepResult, refusal: Refusal, *, fault: Fault = Fault.NONE, ignored: bool = False
) -> StepResult:
    """Return the result of a step that does not run because of *refusal*; *plain* has the other fields of the
    result.
    """
    skipped = isinstance(refusal, Skip)
    return replace(
        plain,
        status=Status.SKIPPED if skipped else Status.BLOCKED,
        why=refusal.why,
        fault=fault,
        ignored=ignored and not skipped,
        rests_on=() if isinstance(refusal, Skip) else refusal.rests_on,
    )


def refused_step(step: Step, refusal: Refusal, *, fault: Fault | None = None) -> StepResult:
    """Return the result of *step* if its arguments or items cannot be filled in; *fault* replaces the fault of
    *refusal*.
    """
    scratch = Fault.SCRATCH if step.left_out else fault_of(refusal)
    ignored = step.ignore_failure
    return refused_result(StepResult.of(step), refusal, fault=scratch if fault is None else fault, ignored=ignored)


def no_longer(refusal: Refusal) -> Refusal:
    """Return *refusal* with the remark that the plan called for the step, and nothing calls for it now."""
    return replace(refusal, why=f"no longer called for: {refusal.why}")


def unchanged_result(step: Step, decision: NoChange | Skip | Blocked, plain: StepResult) -> StepResult:
    """Return the result of *step*, for which *decision* calls for no change."""
    match decision:
        case NoChange(why=why):
            return replace(plain, status=Status.OK, why=why, verified=True)
        case Blocked(why=why) if decision.in_doubt or decision.drifted:
            status = Status.UNKNOWN if decision.in_doubt else Status.DRIFTED
            return replace(plain, status=status, why=why, diff=decision.diff or None)
    return refused_result(plain, decision, ignored=step.ignore_failure)


def cut_off(step: Step, plain: StepResult, status: Status, why: str) -> StepResult:
    """Return the result of *step*, which ended before its change was sent: owed for an ``always`` step, else
    *status*.
    """
    if step.always:
        return _owed(plain, why)
    return replace(plain, status=status, why=why, sent=Sent.NOTHING)


def owing(planned: PlannedStep, plain: StepResult, lost: str) -> StepResult:
    """Return the result of an ``always`` step on a host that cannot be asked: owed, unless the plan skips the step.

    *lost*: the reason why the host cannot be asked.
    """
    if isinstance(planned.decision, Skip):
        return refused_result(plain, planned.decision)
    return _owed(plain, lost)


def _owed(plain: StepResult, why: str) -> StepResult:
    words = f"pending: this `always` step could not run: {why}"
    return replace(plain, status=Status.OWED, why=words, sent=Sent.NOTHING)
