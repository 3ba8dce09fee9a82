"""Retry probes until they answer, and share one probe between hosts if a step has ``once``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.probing import run_probes
from runbook.values.playbook import Step

MIN_ATTEMPT_SECONDS = 0.1
"""The minimum seconds for the last attempt of a ``within``, if the pause before it has used up the time."""


def probe_with_retries(
    requests: Sequence[ProbeRequest], context: HostContext, *, fresh: bool = False
) -> tuple[ProbeResult, ...]:
    """Run the probes; a probe without an answer is run again if its step has ``within`` or ``retry``.

    *fresh*: something was changed.  Then results of other hosts are not used, and ``within`` does not wait.
    """
    began = context.clock.now()
    probed = list(_shared_or_own(requests, context, fresh=fresh))
    tries = 0
    while True:
        spent, tries = context.clock.now() - began, tries + 1
        again = [
            number
            for number, result in enumerate(probed)
            if isinstance(result.outcome, ProbeFailure)
            and _may_repeat(requests[number].step, spent, tries, fresh=fresh)
        ]
        if not again:
            return tuple(probed)
        context.clock.sleep(min(_pause(requests[each].step, tries) for each in again))
        context.hangs.forget()
        context.recent.forget()
        spent = context.clock.now() - began
        later = [_with_what_is_left(requests[each], spent) for each in again]
        for number, result in zip(again, _shared_or_own(later, context, fresh=True), strict=True):
            probed[number] = replace(result, commands=(*probed[number].commands, *result.commands))


def _with_what_is_left(request: ProbeRequest, spent: float) -> ProbeRequest:
    within = request.step.within
    return replace(request, left=max(within - spent, MIN_ATTEMPT_SECONDS)) if within else request


def _may_repeat(step: Step, spent: float, tries: int, *, fresh: bool) -> bool:
    return tries <= step.retry.times or (spent < step.within and not fresh)


def _pause(step: Step, tries: int) -> float:
    return step.retry.every if tries <= step.retry.times else step.every


def _shared_or_own(requests: Sequence[ProbeRequest], context: HostContext, *, fresh: bool) -> tuple[ProbeResult, ...]:
    return probe_shared(requests, context, lambda them: run_probes(them, context), fresh=fresh)


def probe_shared(
    requests: Sequence[ProbeRequest],
    context: HostContext,
    take: Callable[[Sequence[ProbeRequest]], Sequence[ProbeResult]],
    *,
    fresh: bool,
) -> tuple[ProbeResult, ...]:
    """Run the probes of *requests* with *take*, and return the results in order.

    The probes of this host run in one call.  A probe of a step with ``once`` runs once for all hosts.
    """
    own = [request for request in requests if not (request.step.once and context.run.once)]
    seen = dict(zip(map(id, own), take(own), strict=True))
    for request in requests:
        if id(request) not in seen:
            assert context.run.once is not None
            key = json.dumps([request.step.id, request.step.on, request.args], sort_keys=True, default=str)
            seen[id(request)] = context.run.once.answer(key, lambda it=request: take([it])[0], fresh=fresh)  # type: ignore[misc]
    return tuple(seen[id(request)] for request in requests)
