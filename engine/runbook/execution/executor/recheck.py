"""Probe again after a change: the result is `changed` only if the second probe confirms it (law 3)."""

from __future__ import annotations

from dataclasses import replace

from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.polling import poll
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.probing import run_probes
from runbook.protocols import Action
from runbook.values.plan import Change, NoChange
from runbook.values.playbook import Step
from runbook.values.result import Fault, SentCommand, Status, StepResult
from runbook.values.types import seconds

MOST_COMMANDS = 20
"""The number of commands of repeated probes that a result keeps: those sent last."""


def confirmed_result(
    context: HostContext,
    request: ProbeRequest,
    fresh: ProbeAnswer,
    change: Change,
    left_alone: frozenset[str],
    plain: StepResult,
) -> StepResult:
    """Probe again, and return the result of a step whose commands all succeeded; *fresh*: the state before the
    commands.

    The step is probed repeatedly until its change has taken effect, at most for the time of its ``within``.
    Files that were fetched need no second probe.
    Raises TransportError and Cancelled as the connection does.
    """
    if plain.kept and context.run.files:  # nothing was changed on the host; the file is on the disk, with its digest
        words = "; ".join(f"{context.run.files.where}/{file.path} ({file.about()})" for file in plain.kept)
        return replace(plain, status=Status.CHANGED, why=f"kept as {words}", verified=True)
    step = request.step
    commands: tuple[SentCommand, ...] = ()

    def probe_again() -> StepResult:
        nonlocal commands
        probed, result = _probed_again(context, request, fresh, change, left_alone, plain)
        commands = (*commands, *probed.commands)[-MOST_COMMANDS:]
        return result

    result = poll(
        context,
        probe_again,
        lambda result: result.status is Status.CHANGED,
        within=step.within,
        every=step.every,
        waiting=lambda _: f"waiting up to {seconds(step.within)} for {step.id} to take effect",
    )
    return replace(result, commands=(*plain.commands, *commands))


def patient(step: Step, change: Change) -> Step:
    """Return *step* with at least the time that *change* may take to have its effect; a long wait probes less often."""
    return replace(
        step, within=max(step.within, change.patience), every=max(step.every, min(10.0, change.patience / 60))
    )


def _probed_again(
    context: HostContext,
    request: ProbeRequest,
    fresh: ProbeAnswer,
    change: Change,
    left_alone: frozenset[str],
    plain: StepResult,
) -> tuple[ProbeResult, StepResult]:
    step, action = request.step, context.action(request.step)
    (probed,) = run_probes([request], context)
    if isinstance(probed.outcome, ProbeFailure):
        why = f"done, but a second probe gave no answer: {probed.outcome.why}"
        return probed, replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.PROBE)
    after = probed.outcome.state
    if left_alone and action.without:
        after = action.without(after, left_alone)
    if probed.outcome.absent or settled(action, fresh, after):
        return probed, replace(plain, status=Status.CHANGED, why=change.summary, verified=True)
    words = action.explain(fresh.args, fresh.state, after) if action.explain else ""
    if words and action.outcome:
        words = action.outcome(words, tuple(command.stdout for command in plain.commands))
    why = words or "done, but a second probe still finds what the step was to change"
    return probed, replace(plain, status=Status.FAILED, why=why, fault=Fault.GOAL, ignored=step.ignore_failure)


def settled(action: Action, before: ProbeAnswer, after: object) -> bool:
    """Whether the second probe *after* confirms the change; by default, if the action would now change nothing."""
    if action.settled is not None:
        return action.settled(before.args, before.state, after)
    assert action.decide is not None
    return isinstance(action.decide(before.args, after), NoChange)
