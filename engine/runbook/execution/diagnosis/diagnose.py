"""Run the probes of a playbook on one host: all probes, or again those whose state may have changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from runbook.codec import UNKNOWN, to_json
from runbook.dataclass import dataclass
from runbook.execution.diagnosis.host_context import HostContext, States
from runbook.execution.diagnosis.items import SkippedInstance, StepInstance, step_instances
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.refusal import refused_step
from runbook.execution.diagnosis.retries import probe_with_retries
from runbook.execution.diagnosis.sampling import REPORTED_FROM_SECONDS, remark, sample, shortened
from runbook.language.expressions.templates import is_template, names
from runbook.text.shortened import first_few
from runbook.values.plan import Blocked, Skip
from runbook.values.playbook import Let, Phase, Playbook, Step
from runbook.values.result import Fault, Status, StepResult, failure
from runbook.values.sampling import Series
from runbook.values.types import Json, Raw, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The result and the state of every probe of a playbook on one host."""

    results: tuple[StepResult, ...]
    states: States
    taken: Mapping[str, tuple[StepInstance | SkippedInstance, ...]]
    """The instances of each probe, with their arguments, keyed by probe id; a probe that could not run at all is
    missing.
    """


def diagnose(context: HostContext) -> Diagnosis:
    """Run every probe of the playbook, and return their results; probes that do not need each other run together.

    Taking samples lasts a while: the other probes of a finding that uses samples are run again afterwards.
    """
    states: dict[str, Json | Unknown] = {}
    taken: dict[str, tuple[StepInstance | SkippedInstance, ...]] = {}
    results: dict[str, StepResult] = {}
    for wave in _waves(context.playbook):
        ready: list[Step] = []
        for step in wave:
            match step_instances(step, context, states):
                case Skip() | Blocked() as refusal:
                    refused = refused_step(step, refusal)
                    results[step.id], states[step.id] = refused, _unanswered(step, refused)
                case times:
                    taken[step.id] = times
                    ready.append(step)
        for step, outcomes in zip(ready, _run_steps(ready, taken, context, fresh=False), strict=True):
            results[step.id], states[step.id], taken[step.id] = outcomes
    ordered = tuple(results[each.id] for each in context.playbook.diagnose)
    first = Diagnosis(results=ordered, states=states, taken=taken)
    return probe_again(context, first, stale) if (stale := _beside_samples(context.playbook, results)) else first


def _beside_samples(playbook: Playbook, results: Mapping[str, StepResult]) -> set[str]:
    """Return the probes to run again after long samples: quick probes without ``samples`` that findings use.

    Empty if no probe took samples for long.
    """
    probes = {step.id: step for step in playbook.diagnose}
    if not any(probe.samples and results[probe.id].seconds >= REPORTED_FROM_SECONDS for probe in probes.values()):
        return set()
    weighed = {probe for rule in playbook.findings for probe in rule.probes}
    again = {
        probe
        for probe in weighed & probes.keys()
        if results[probe].status is Status.OK and results[probe].seconds < REPORTED_FROM_SECONDS
    }
    return {word for word in again if not probes[word].samples and not probes[word].scratch}


def probe_again(context: HostContext, first: Diagnosis, wanted: Collection[str]) -> Diagnosis:
    """Run the probes named in *wanted* again with their earlier arguments; return *first* with the new states.

    A probe with ``samples`` takes one more sample, so that nobody waits for a whole series again.
    """
    context.recent.forget()
    steps = [each for each in context.playbook.diagnose if each.id in wanted and each.id in first.taken]
    states = dict(first.states)
    results, taken = {result.id: result for result in first.results}, dict(first.taken)
    for step, (result, state, times) in zip(steps, _run_steps(steps, first.taken, context, fresh=True), strict=True):
        states[step.id], taken[step.id] = state, times
        before = results[step.id]
        if result.status is not Status.OK or before.status is not Status.OK:
            results[step.id] = replace(result, commands=(*before.commands, *result.commands))
    return Diagnosis(results=tuple(results[result.id] for result in first.results), states=states, taken=taken)


Times = tuple[StepInstance | SkippedInstance, ...]
StepOutcome = tuple[StepResult, Json | Unknown]
"""The result of a probe for the report, and its value for expressions."""


def _run_steps(
    steps: Sequence[Step], taken: Mapping[str, Times], context: HostContext, *, fresh: bool
) -> list[tuple[StepResult, Json | Unknown, Times]]:
    """Run *steps* with all their items, and return the result, the state and the current instances of each step.

    Steps with ``samples`` run last, so that a slow probe does not delay a sample.  *fresh*: something was changed.
    """
    due = [(step, instance) for step in steps for instance in taken[step.id] if isinstance(instance, StepInstance)]
    plain = [(step, it) for step, it in due if not step.samples]
    often = [(step, it) for step, it in due if step.samples]
    probed = [
        *probe_with_retries([ProbeRequest(step=step, args=it.args) for step, it in plain], context, fresh=fresh),
        *sample(
            [ProbeRequest(step=step, args=it.args) for step, it in often],
            context,
            [it.series for _, it in often],
            fresh=fresh,
        ),
    ]
    found = dict(zip([id(it) for _, it in (*plain, *often)], probed, strict=True))
    outcomes = []
    for step in steps:
        times = [(instance, found.get(id(instance))) for instance in taken[step.id]]
        now = tuple(replace(it, series=saw.series) if isinstance(it, StepInstance) and saw else it for it, saw in times)
        outcomes.append((*_outcome_of(step, times), now))
    return outcomes


def _outcome_of(step: Step, times: Sequence[tuple[StepInstance | SkippedInstance, ProbeResult | None]]) -> StepOutcome:
    each: list[StepOutcome] = []
    for taking, probed in times:
        match taking:
            case SkippedInstance(refusal=refusal):
                refused = refused_step(step, refusal)
                each.append((refused, _unanswered(step, refused)))
            case StepInstance():
                assert probed is not None
                each.append(reported(step, probed))
    if not step.each:
        return each[0]
    kept = [(it, outcomes) for (it, _), outcomes in zip(times, each, strict=True) if not _is_left_out(it)]
    items = [_with_item(taking.item, state) for taking, (_, state) in kept]
    return _result_of_items(step, kept, items), items


Kept = Sequence[tuple[StepInstance | SkippedInstance, StepOutcome]]
"""The items of an ``each`` for which ``when`` is true, with the outcome of each."""


def _result_of_items(step: Step, kept: Kept, items: list[Json]) -> StepResult:
    """Return one result for all items of *step*; it is failed if one of the items could not be probed."""
    results = [result for _, (result, _) in kept]
    bad = [(taking, result) for taking, (result, _) in kept if result.status not in (Status.OK, Status.SKIPPED)]
    remarks = [result.why for result in results if step.samples and result.why]
    why = _why_items_failed(bad) if bad else "; ".join([plural(len(kept), "item"), *remarks])
    return replace(
        StepResult.of(step, Status.FAILED if bad else Status.OK, why),
        fault=Fault.PROBE if bad else Fault.NONE,
        ignored=bool(bad) and step.ignore_failure,
        verified=not bad,
        seconds=max((result.seconds for result in results), default=0.0),
        state={"items": _shown_items(kept) if step.samples else items},
        commands=tuple(command for result in results for command in result.commands),
    )


def _why_items_failed(bad: Sequence[tuple[StepInstance | SkippedInstance, StepResult]]) -> str:
    """Return the reasons of the first three failed items, and the number of the others."""
    return first_few((f"{taking.item}: {result.why}" for taking, result in bad), 3, "; ")


def _shown_items(kept: Kept) -> list[Json]:
    """Return each item with its state, as a result shows it; a series of samples is shortened."""
    blind = [
        (taking.item, Unknown(why=result.why) if isinstance(state, Unknown) else result.state)
        for taking, (result, state) in kept
    ]
    return [_with_item(item, state) for item, state in blind]


def _is_left_out(taking: StepInstance | SkippedInstance) -> bool:
    """Whether the item is not in the list: its ``when`` is false."""
    return isinstance(taking, SkippedInstance) and isinstance(taking.refusal, Skip)


def _with_item(item: Json, state: Json | Unknown) -> Json:
    match state:
        case Unknown(why=why):
            return {UNKNOWN: why}
        case Mapping():
            return {**state, "item": item}
    return {"value": state, "item": item}


def reported(step: Step, probed: ProbeResult) -> tuple[StepResult, Json | Unknown]:
    """Return the result of *step* for a report, and the state that expressions can read."""
    match probed.outcome:
        case ProbeFailure(why=why):
            result = replace(
                StepResult.of(step, failure(probed.commands), why),
                fault=Fault.PROBE,
                ignored=step.ignore_failure,
                seconds=probed.seconds,
                commands=probed.commands,
            )
            return result, _unanswered(step, result)
        case ProbeAnswer(state=state, absent=absent):
            seen = to_json(state)
            shown = shortened(state) if isinstance(state, Series) else seen
            why = absent or (remark(state) if isinstance(state, Series) else "")
            result = replace(
                StepResult.of(step, Status.SKIPPED if absent else Status.OK, why),
                verified=True,
                seconds=probed.seconds,
                state=shown if isinstance(shown, Mapping) else {"value": shown},
                commands=probed.commands,
            )
            return result, seen


def _unanswered(step: Step, result: StepResult) -> Unknown:
    """Return the Unknown that replaces the state of *step*, because *result* is not an answer.

    The Unknown names the probe that *step* depends on, if that probe failed; otherwise *step* itself.
    """
    return Unknown(why=f"{step.id}: {result.why}", probe=next(iter(result.rests_on), step.id))


def _waves(playbook: Playbook) -> list[list[Step]]:
    """Divide the probes of *playbook* into groups; a probe needs only answers of earlier groups.

    Each probe is in the latest possible group, so that probes of one finding run at about the same time.
    """
    earliest: dict[str, int] = {}
    needs: dict[str, set[str]] = {}
    steps = playbook.diagnose
    for step in steps:
        needs[step.id] = names_used(step, playbook) & earliest.keys()
        earliest[step.id] = 1 + max((earliest[need] for need in needs[step.id]), default=-1)
    count = max(earliest.values(), default=-1) + 1
    level = dict.fromkeys(earliest, count - 1)
    for step in reversed(steps):
        level |= {need: min(level[need], level[step.id] - 1) for need in needs[step.id]}
    assert all(step.phase is Phase.DIAGNOSE for step in steps)
    return [[step for step in steps if level[step.id] == number] for number in range(count)]


def names_used(step: Step, playbook: Playbook) -> set[str]:
    """Return the first part of every name (``a`` of ``a.b``) that *step* uses in ``when``, ``each`` and its
    arguments.
    """
    let = playbook.let_of(step.part)
    texts = [word for word in (step.when, step.each) if word]
    found = {root for text in texts for root, _ in names(text, let)} | _names_in(step.args, let)
    return {f"{step.part}_{word}" for word in found} if step.part else found


def _names_in(tree: object, let: Let) -> set[str]:
    match tree:
        case Raw():
            return set()
        case str():
            return {root for root, _ in names(tree, let)} if is_template(tree) else set()
        case Mapping():
            return set().union(*(_names_in(each, let) for each in tree.values()))
        case list() | tuple():
            return set().union(*(_names_in(each, let) for each in tree))
    return set()
