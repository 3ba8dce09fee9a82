"""Hold what would be done now against what a person was shown, and do no more than that (law 2)."""

from __future__ import annotations

from engine.diagnosis.probe_types import ProbeAnswer
from engine.protocols import Action
from engine.values.plan import Blocked, Change, Decision, PlannedStep, Skip


def without_drift(
    change: Change, planned: PlannedStep, fresh: ProbeAnswer, action: Action
) -> tuple[Decision, frozenset[str]] | str:
    """*change* without the targets that the plan did not show, and the keys of those; or why the step has drifted."""
    shown_change = planned.decision if isinstance(planned.decision, Change) else None
    dormant = isinstance(planned.decision, Skip) and planned.condition is not None  # its reach stands in its condition
    shown = {it.key for it in (shown_change.targets if shown_change else planned.reach if dormant else ())}
    if shown_change and change.risk is not shown_change.risk and change.risk.at_least(shown_change.risk):
        return f"would now {change.summary}, of risk {change.risk}; the plan showed {shown_change.risk}"
    if not change.targets:
        if shown_change and change.commands == shown_change.commands:
            return change, frozenset()
        if not shown_change and _announced(change, planned):
            return change, frozenset()
        return f"would now {change.summary}; the plan did not show that"
    wanted = {it.key for it in change.targets}
    extra = frozenset(wanted - shown)
    if not extra:
        return change, frozenset()
    if extra == wanted or action.without is None or action.decide is None:
        return f"would now {change.summary}; the plan did not show {named(change, extra)}"
    less = action.decide(fresh.args, action.without(fresh.state, extra))
    if isinstance(less, Change) and not {it.key for it in less.targets} <= shown:
        return f"would now {less.summary}; the plan did not show that"
    return less, extra


def _announced(change: Change, planned: PlannedStep) -> bool:
    """Whether the plan said that the step may come to do this, and nothing worse, at its turn."""
    then = planned.would
    if planned.condition is None or then is None or isinstance(planned.decision, Blocked):
        return False
    return then.commands == change.commands and then.risk.at_least(change.risk)


def named(change: Change, keys: frozenset[str]) -> str:
    """The targets of *change* with one of *keys*, for people."""
    return ", ".join(it.say for it in change.targets if it.key in keys)
