"""Take from the arguments of a planned step what its expressions do not give any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from runbook.execution.diagnosis.diagnose import named
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import prepare, skipped_now
from runbook.execution.executor.finding_watch import FindingWatch
from runbook.protocols import NARROWS
from runbook.text.shortened import first_few
from runbook.values.plan import PlannedStep
from runbook.values.playbook import Step
from runbook.values.result import Status, StepResult
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowedArguments:
    """The arguments of a step at its turn."""

    args: Mapping[str, Json]
    dropped: tuple[Json, ...] = ()
    """What the plan names, and the expression does not any more."""

    def in_words(self) -> str:
        """Who was dropped, as the end of a sentence; empty where nobody was."""
        if not self.dropped:
            return ""
        said = (
            f"pid {each['pid']}" if isinstance(each, Mapping) and "pid" in each else str(each) for each in self.dropped
        )
        return f"; left alone, because it is not called for any more: {first_few(said, 5)}"


def is_narrowed(step: Step, context: HostContext) -> bool:
    """Whether *step* acts on what an expression gives, which may have become less since the plan was made."""
    return bool(_keys(context.action(step).Args).keys() & step.args.keys()) and bool(named(step))


def narrowed(
    step: Step, planned: PlannedStep, context: HostContext, watch: FindingWatch, plain: StepResult
) -> NarrowedArguments | StepResult:
    """The arguments that *planned* has, without what the probes of this moment do not give any more.

    Where the step is not called for any more, or that is not known: how it ends, as *plain* is otherwise.  The probes
    that the arguments rest on are run again, unless they were since the last change.  Raises TransportError and
    Cancelled as the connection does.
    """
    watch.refresh(named(step))
    states = watch.diagnosis.states
    if refused := skipped_now(step, planned.item, context, states):
        return _held_back(refused, plain)
    now = prepare(step, context.scope(states, step.part, planned.item))
    if isinstance(now, StepResult):
        return _held_back(now, plain)
    args, dropped = dict(planned.args), list[Json]()
    for name, keys in _keys(context.action(step).Args).items():
        listed, fresh = args.get(name), now.get(name)
        if isinstance(listed, Sequence) and isinstance(fresh, Sequence):
            there = [_identity(each, keys) for each in fresh]
            args[name] = [each for each in listed if _identity(each, keys) in there]
            dropped += [each for each in listed if _identity(each, keys) not in there]
    return NarrowedArguments(args=args, dropped=tuple(dropped))


def _held_back(refused: StepResult, plain: StepResult) -> StepResult:
    gone = "no longer called for: " if refused.status is Status.SKIPPED else ""
    return replace(
        plain,
        status=refused.status,
        why=gone + refused.why,
        fault=refused.fault,
        ignored=refused.ignored,
        rests_on=refused.rests_on,
    )


def _keys(kind: type[Any]) -> Mapping[str, Collection[str]]:
    return {field.name: field.metadata[NARROWS] for field in fields(kind) if NARROWS in field.metadata}


def _identity(each: Json, keys: Collection[str]) -> Json:
    return [each.get(key) for key in keys] if isinstance(each, Mapping) else each
