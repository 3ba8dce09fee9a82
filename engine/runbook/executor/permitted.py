"""Compare a fresh decision with the plan that a person saw, and allow no more than that (law 2)."""

from __future__ import annotations

from dataclasses import dataclass

from runbook.diagnosis.probe_types import ProbeAnswer
from runbook.protocols import Action
from runbook.values.plan import Blocked, Change, Decision, NoChange, PlannedStep, Skip


@dataclass(frozen=True, slots=True)
class PermittedDecision:
    """As much of a decision as the plan showed; Blocked, where that is nothing."""

    decision: Decision
    left_alone: frozenset[str] = frozenset()
    """The keys of the targets that the plan did not show."""


def without_drift(change: Change, planned: PlannedStep, fresh: ProbeAnswer, action: Action) -> PermittedDecision:
    """*change* without the targets that the plan did not show."""
    shown_change = planned.decision if isinstance(planned.decision, Change) else None
    if shown_change and change.risk is not shown_change.risk and change.risk.at_least(shown_change.risk):
        return _drifted(f"{change.summary} (risk: {change.risk}); the plan showed the risk {shown_change.risk}")
    if not change.targets:
        if change.commands == shown_change.commands if shown_change else _announced(change, planned):
            return PermittedDecision(change)
        return _drifted(f"{change.summary}; the plan did not show that")
    shown = _shown_keys(planned)
    wanted = {target.key for target in change.targets}
    extra = frozenset(wanted - shown)
    if not extra:
        return PermittedDecision(change)
    if extra == wanted or action.without is None or action.decide is None:
        return _drifted(f"{change.summary}; the plan did not show {named(change, extra)}")
    less = action.decide(fresh.args, action.without(fresh.state, extra))
    if isinstance(less, Change) and not {target.key for target in less.targets} <= shown:
        return _drifted(f"{less.summary}; the plan did not show that")
    return PermittedDecision(less, extra)


def _drifted(what: str) -> PermittedDecision:
    return PermittedDecision(Blocked(why=f"would now {what}", drifted=True))


def _shown_keys(planned: PlannedStep) -> set[str]:
    """The keys of the targets that the plan showed, at once or as the reach of a conditional step."""
    if isinstance(planned.decision, Change):
        return {target.key for target in planned.decision.targets}
    idle = isinstance(planned.decision, Skip | NoChange)
    dormant = idle and planned.condition is not None  # its reach stands in its condition
    return {target.key for target in planned.reach} if dormant else set()


def _announced(change: Change, planned: PlannedStep) -> bool:
    """Whether the plan said that the step may come to do this, and nothing worse, at its turn."""
    then = planned.would
    if planned.condition is None or then is None or isinstance(planned.decision, Blocked):
        return False
    return then.commands == change.commands and then.risk.at_least(change.risk)


def named(change: Change, keys: frozenset[str]) -> str:
    """The targets of *change* with one of *keys*, for people."""
    return ", ".join(target.say for target in change.targets if target.key in keys)
