"""Check the assertions of ``verify`` on the host after its changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runbook.errors import Cancelled, TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.polling import poll
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.refusal import refused_result
from runbook.execution.diagnosis.retries import MIN_ATTEMPT_SECONDS, probe_with_retries
from runbook.execution.diagnosis.sampling import sample, shortened
from runbook.execution.executor.dependencies import comes_after
from runbook.execution.executor.recheck import MOST_COMMANDS
from runbook.protocols import Fails, Holds
from runbook.values.plan import Skip
from runbook.values.playbook import Phase, Step, written_id
from runbook.values.result import Fault, HostPlan, Sent, SentCommand, Status, StepResult, failure
from runbook.values.types import plural, seconds


def verify(
    context: HostContext, plan: HostPlan, earlier: list[StepResult], *, wrote: bool, lost: str
) -> Iterator[tuple[Step, StepResult]]:
    """Yield every step of ``verify`` with its result; *lost*: the reason why the host cannot be asked, or empty."""
    written = {each.id: each for each in context.playbook.verify}
    for plain in [result for result in plan.results if result.phase is Phase.VERIFY]:
        step, began = replace(written[written_id(plain.id)], id=plain.id), context.clock.now()
        try:
            result = _verify(context, step, plan, plain, earlier, wrote, lost)
        except Cancelled as error:
            lost = context.why_ended() or str(error)
            result = replace(plain, status=Status.CANCELLED, why=str(error), sent=Sent.NOTHING)
        except TransportError as error:
            lost = str(error)
            result = replace(plain, status=Status.UNKNOWN, why=lost, fault=Fault.PROBE)
        except Exception as error:  # a fault of ours: the other results are kept
            why = f"internal error: {type(error).__name__}: {error}"
            result = replace(plain, status=Status.FAILED, why=why, fault=Fault.PROBE)
        yield step, replace(result, seconds=round(context.clock.now() - began, 3))


def _verify(
    context: HostContext,
    step: Step,
    plan: HostPlan,
    plain: StepResult,
    earlier: list[StepResult],
    wrote: bool,
    lost: str,
) -> StepResult:
    if lost:
        why = f"no more commands can be sent to the host: {lost}"
        return replace(plain, status=Status.BLOCKED, why=why, fault=Fault.PROBE)
    if context.playbook.remediate and not wrote:
        return replace(plain, status=Status.SKIPPED, why="nothing was changed")
    for other in earlier:
        if (
            written_id(other.id) in step.after
            and other.status not in (Status.OK, Status.CHANGED, Status.SKIPPED)
            and not other.ignored
        ):
            return refused_result(plain, comes_after(other))
    if step.id not in plan.verify_args:
        return plain
    return _until_it_holds(context, ProbeRequest(step=step, args=plan.verify_args[step.id]), plain)


def _until_it_holds(context: HostContext, request: ProbeRequest, plain: StepResult) -> StepResult:
    step, began = request.step, context.clock.now()
    commands: tuple[SentCommand, ...] = ()

    def check() -> StepResult:
        nonlocal commands
        left = step.within - (context.clock.now() - began) if step.within else 0.0
        limited = replace(request, left=max(left, MIN_ATTEMPT_SECONDS) if step.within else 0.0)
        probed, result = (_in_every_sample if step.samples else _once)(context, limited, plain)
        commands = (*commands, *probed.commands)[-MOST_COMMANDS:]
        return result

    ends = (Status.OK, Status.SKIPPED)
    result = poll(context, check, lambda result: result.status in ends, within=step.within, every=step.every)
    return replace(result, commands=commands, ignored=step.ignore_failure and result.status not in ends)


def _once(context: HostContext, request: ProbeRequest, plain: StepResult) -> tuple[ProbeResult, StepResult]:
    (probed,) = probe_with_retries([replace(request, step=replace(request.step, within=0.0))], context)
    return probed, _judged(context, request.step, probed.outcome, replace(plain, commands=probed.commands))


def _in_every_sample(context: HostContext, request: ProbeRequest, plain: StepResult) -> tuple[ProbeResult, StepResult]:
    """Check an assertion in every sample, and return its result.

    The first sample that does not satisfy the assertion, or that is unknown, ends the samples.
    """
    judged: list[StepResult] = []

    def enough(outcome: ProbeAnswer | ProbeFailure) -> bool:
        judged.append(_judged(context, request.step, outcome, plain))
        return judged[-1].status is not Status.OK

    (probed,) = sample([replace(request, step=replace(request.step, within=0.0))], context, enough=enough)
    series, last = probed.series, judged[-1]
    assert series is not None
    if last.status is Status.SKIPPED and len(judged) == 1:
        return probed, last
    which = plural(len(judged), "sample") if last.status is Status.OK else f"sample {len(judged)} of {series.asked}"
    why = f"{last.why} ({which}, {seconds(series.seconds)})"
    if last.status is Status.SKIPPED:  # it was there before
        last = replace(last, status=Status.FAILED, fault=Fault.PROBE)
    return probed, replace(last, why=why, state=shortened(series))


def _judged(context: HostContext, step: Step, outcome: ProbeAnswer | ProbeFailure, plain: StepResult) -> StepResult:
    action = context.action(step)
    match outcome:
        case ProbeFailure(why=why):
            return replace(plain, status=failure(plain.commands), why=why, fault=Fault.PROBE)
        case ProbeAnswer(absent=why) if why:
            return refused_result(plain, Skip(why=why))
        case ProbeAnswer(args=args) if action.holds is None:
            assert action.waits is not None
            return replace(plain, status=Status.OK, why=action.waits(args), verified=True)
        case ProbeAnswer(args=args, state=state):
            assert action.holds is not None
            return _assertion_result(plain, action.holds(args, state))


def _assertion_result(plain: StepResult, judged: Holds | Fails) -> StepResult:
    match judged:
        case Holds(why=why):
            return replace(plain, status=Status.OK, why=why, verified=True)
        case Fails(why=why):
            return replace(plain, status=Status.FAILED, why=why, fault=Fault.GOAL)
