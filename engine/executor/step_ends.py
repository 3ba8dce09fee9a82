"""How steps end that were not carried out, or not by themselves."""

from __future__ import annotations

from dataclasses import replace

from engine.diagnosis.earlier_runs import changed_earlier
from engine.diagnosis.host_context import HostContext
from engine.values.plan import Blocked, PlannedStep, Skip
from engine.values.playbook import Step
from engine.values.result import StepResult


def plain_result(site: HostContext, step: Step, planned: PlannedStep) -> StepResult:
    """The result of *step* as far as it is known before its turn."""
    return replace(StepResult.of(step), condition=planned.condition, changed_earlier=changed_earlier(site, step))


def as_planned(planned: PlannedStep) -> Skip | Blocked:
    """What the plan decided of a step whose arguments could not be filled in."""
    assert isinstance(planned.decision, Skip | Blocked)
    return planned.decision


def pending(why: str) -> str:
    """The words of an `always` step that could not run."""
    return f"pending: this `always` step could not run: {why}"
