"""Decide from the results of earlier steps whether a step that depends on them may run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runbook.values.plan import Blocked, PlannedStep, Skip
from runbook.values.playbook import Step, written_id
from runbook.values.result import Status, StepResult

UNSUCCESSFUL = (
    Status.FAILED,
    Status.TIMEOUT,
    Status.BLOCKED,
    Status.UNKNOWN,
    Status.DRIFTED,
    Status.UNREACHABLE,
    Status.CANCELLED,
    Status.OWED,
)


def unmet_dependency(step: Step, earlier: Sequence[StepResult]) -> Skip | Blocked | None:
    """Return the reason why the *earlier* results do not allow *step* to run; None if they do."""
    for other in _results_of((*step.after, *step.if_changed), earlier):
        if other.status in UNSUCCESSFUL and not other.ignored and not step.always:
            return comes_after(other)
    if step.if_changed and not any(_changed(result) for result in _results_of(step.if_changed, earlier)):
        return Skip(why=f"{' and '.join(step.if_changed)} changed nothing")
    if step.if_failed and not any(_failed(result) for result in _results_of(step.if_failed, earlier)):
        return Skip(why=f"{' and '.join(step.if_failed)} did not fail")
    return None


def comes_after(other: StepResult) -> Blocked:
    """Return the refusal of a step whose ``after`` names the step of *other*, which did not succeed."""
    return Blocked(why=f"it comes after {other.id}, which {ended(other)}", rests_on=(other.id,))


def disabled_by(planned: PlannedStep) -> str:
    """Return the ``when`` that has removed *planned* from the plan; empty if no ``when`` has."""
    decision = planned.decision
    return (
        decision.why if not planned.ready and isinstance(decision, Skip) and decision.why.startswith("when: ") else ""
    )


def _results_of(ids: Iterable[str], earlier: Sequence[StepResult]) -> list[StepResult]:
    """Return the results in *earlier* of the steps with these *ids*; a step with ``each`` has several results."""
    wanted = set(ids)
    return [result for result in earlier if written_id(result.id) in wanted]


def _changed(result: StepResult) -> bool:
    """Whether the step of *result* has changed something in this run, or in an earlier run that this run continues."""
    return result.status is Status.CHANGED or (result.changed_earlier and result.status in (Status.OK, Status.SKIPPED))


def _failed(result: StepResult) -> bool:
    """Whether the step of *result* failed, or has an unknown outcome."""
    return result.status.is_failure or result.status is Status.UNKNOWN


def ended(result: StepResult) -> str:
    """Return the outcome of a step in words, as the end of a sentence."""
    words = {
        Status.TIMEOUT: "timed out",
        Status.UNKNOWN: "has an unknown outcome",
        Status.UNREACHABLE: "could not reach the host",
        Status.OWED: "is pending (owed)",
    }
    return words.get(result.status, f"{'was ' if result.status is not Status.FAILED else ''}{result.status}")
