"""Turn the plan of a host into what can be compared later, without the commands and without secrets."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from runbook.codec import to_json
from runbook.values.command import Command
from runbook.values.plan import Blocked, Change, NoChange, PlannedStep, Skip
from runbook.values.result import HostPlan
from runbook.values.shown import LaterChange, ShownHost, ShownStep, short_digest, shown_lines
from runbook.values.types import Json


def saved_host(plan: HostPlan) -> ShownHost:
    """What is kept of *plan*, in which secrets are masked."""
    shown = {result.id: shown_lines(result) for result in plan.results}
    steps = (replace(_saved_step(step), lines=shown.get(step.id, "")) for step in plan.steps)
    return ShownHost(host=plan.host, steps=tuple(steps))


def _saved_step(planned: PlannedStep) -> ShownStep:
    args = {name: short_digest(value) for name, value in _tree(planned.args).items() if not isinstance(value, list)}
    match planned.decision:
        case Change() as change:
            return ShownStep(
                id=planned.id,
                decision=change.kind,
                summary=change.summary,
                risk=change.risk,
                condition=planned.condition,
                targets=change.targets,
                diff=change.diff,
                commands=_commands(change),
                args=args,
                then=_later(planned),
            )
        case NoChange(why=why, kind=kind) | Blocked(why=why, kind=kind):
            return ShownStep(
                id=planned.id, decision=kind, summary=why, condition=planned.condition, args=args, then=_later(planned)
            )
        case Skip(why=why, kind=kind):
            dormant = planned.condition is not None
            return ShownStep(
                id=planned.id,
                decision=kind,
                summary=why,
                condition=planned.condition,
                targets=planned.reach if dormant else (),
                args=args,
                then=_later(planned),
            )
        case _:
            assert_never(planned.decision)


def _later(planned: PlannedStep) -> LaterChange | None:
    """What the step may come to do although the plan does not do it, as the executor allows it (``drift``)."""
    would = planned.would
    if would is None or planned.condition is None or isinstance(planned.decision, Blocked):
        return None
    return LaterChange(summary=would.summary, risk=would.risk, commands=_commands(would))


def _commands(change: Change) -> str:
    return short_digest([_shape(command) for command in (*change.commands, *change.finally_)])


def _shape(command: Command) -> Json:
    tree = _tree(command)
    return {name: value for name, value in tree.items() if name not in ("lock", "called", "stands_for")}


def _tree(value: object) -> dict[str, Json]:
    tree = to_json(value)
    assert isinstance(tree, dict)
    return tree
