"""Believe that a change is done only when a second look agrees (law 3)."""

from __future__ import annotations

from dataclasses import replace

from engine.diagnosis.host_context import HostContext
from engine.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from engine.diagnosis.probing import run_probes
from engine.protocols import Action
from engine.values.event import Waiting
from engine.values.plan import Change, NoChange
from engine.values.result import Fault, SentCommand, Status, StepResult
from engine.values.types import seconds


def confirmed_result(
    site: HostContext,
    request: ProbeRequest,
    fresh: ProbeAnswer,
    change: Change,
    left_alone: frozenset[str],
    plain: StepResult,
) -> StepResult:
    """How a step ends whose commands were all answered as they should be, *fresh* being what was seen before them.

    Its ``within`` is the time that it has to come true: until then it is probed repeatedly.
    Raises TransportError and Cancelled as the connection does.
    """
    step, began = request.step, site.clock.now()
    commands: tuple[SentCommand, ...] = ()
    while True:
        probed, result = _looked_again(site, request, fresh, change, left_alone, plain)
        commands = (*commands, *probed.commands)[-20:]
        if result.status is Status.CHANGED or site.clock.now() - began >= step.within:
            return replace(result, commands=(*plain.commands, *commands))
        if len(commands) == len(probed.commands):  # the first time
            words = f"waiting up to {seconds(step.within)} for {step.id} to have worked"
            site.emit(Waiting(host=site.host.name, why=words))
        site.clock.sleep(step.every)


def _looked_again(
    site: HostContext,
    request: ProbeRequest,
    fresh: ProbeAnswer,
    change: Change,
    left_alone: frozenset[str],
    plain: StepResult,
) -> tuple[ProbeResult, StepResult]:
    step, action = request.step, site.action(request.step)
    (probed,) = run_probes([request], site)
    if isinstance(probed.outcome, ProbeFailure):
        why = f"done, but a second probe gave no answer: {probed.outcome.why}"
        return probed, replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.LOOK)
    after = probed.outcome.state
    if left_alone and action.without:
        after = action.without(after, left_alone)
    if probed.outcome.absent or settled(action, fresh, after):
        return probed, replace(plain, status=Status.CHANGED, why=change.summary, verified=True)
    words = action.explain(fresh.args, fresh.state, after) if action.explain else ""
    why = words or "done, but a second probe still sees what it was to change"
    return probed, replace(plain, status=Status.FAILED, why=why, fault=Fault.GOAL, ignored=step.ignore_failure)


def settled(action: Action, before: ProbeAnswer, after: object) -> bool:
    """Whether the second look agrees that the change is done; by default, when nothing is left to decide."""
    if action.settled is not None:
        return action.settled(before.args, before.state, after)
    assert action.decide is not None
    return isinstance(action.decide(before.args, after), NoChange)
