"""A host in a few lines: what is wrong with it, what was done or would be done, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.host_digest import BROKEN, HELD_UP, advised, driving, next_actions
from runbook.reporting.wording.host_lines import believed_lines, cancelled_lines, owed_lines, sampled_lines
from runbook.reporting.wording.step_lines import grouped, in_short, step_line, step_lines
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import Fault, HostResult, Status, StepResult, Verdict

SHOWN_ALSO = 3
"""Further findings that are shown of a host."""
SHOWN_UNKNOWN = 2
"""Reasons for unknown findings that are shown."""
SHOWN_NAMES = 6
"""Ids that are shown in a list."""
MOST = 300
"""Letters of the first line."""
MOST_BELOW = 200
"""Letters of a line below it that nobody pastes."""
ADDRESS = re.compile(r"(^|; )\S+: ")
"""What stands before each reason why an address of a host cannot be reached."""


def brief_lines(host: HostResult, *, declined: bool = False) -> list[str]:
    """What a person should read of *host* at first; of a plan that was *declined*, only what it was for."""
    if host.verdict is Verdict.CANCELLED:
        return [str(host.verdict), *cancelled_lines(host), *owed_lines(host)]
    failed = [step for step in host.steps if step.phase is Phase.DIAGNOSE and step.status in BROKEN]
    changes = [] if declined or _is_only_error(host) else _changes(host, failed)
    found, blind = [*_causes(host)], [*_blind(host, failed)]
    warnings = [*_warnings(host)]
    advice = advised(host)
    if not found and host.verdict is Verdict.UNKNOWN and advice and advice[0].severity is Severity.WARNING:
        found, warnings = [line.partition(" ")[2] for line in warnings], []
    if not found:
        found, blind = blind[:1], blind[1:]
    if not found and host.verdict is Verdict.FAILED:
        found, changes = changes[:1], changes[1:]
    first, *others = found or [""]
    said = first.removeprefix(f"{host.verdict} ").removeprefix(f"{host.verdict}: ")
    lines = [
        short(f"{host.verdict}: {said}" if said else str(host.verdict), MOST),
        *(short(line, MOST_BELOW) for line in [*others, *warnings]),
        *changes,
        *_next(host),
        *(short(line, MOST_BELOW) for line in blind),
    ]
    return [*_with_gpus_by_index(lines, host), *believed_lines(host), *owed_lines(host)]


def _with_gpus_by_index(lines: Sequence[str], host: HostResult) -> list[str]:
    """*lines* with ``GPU 0`` for what a probe of *host* says is that GPU's UUID; command lines stay as they are."""
    listed = [gpu for step in host.steps if isinstance(gpus := step.state.get("gpus"), list) for gpu in gpus]
    pairs = [(gpu.get("uuid"), gpu.get("index")) for gpu in listed if isinstance(gpu, Mapping)]
    names = {str(uuid): f"GPU {index}" for uuid, index in pairs if uuid and isinstance(index, int)}
    if not names:
        return list(lines)
    form = re.compile("|".join(rf"(?:GPU \d+ )?\(({uuid})\)|(?:GPU )?({uuid})" for uuid in map(re.escape, names)))
    return [
        line if line.lstrip().startswith("$ ") else form.sub(lambda it: names[it[it.lastindex or 0]], line)
        for line in lines
    ]


def without_addresses(host: HostResult) -> HostResult:
    """*host* as others that cannot be reached for the same reason are shown together with it."""
    if not host.error:
        return host
    error = ADDRESS.sub(r"\1", host.error)
    steps = (replace(step, why=step.why.replace(host.error, error)) for step in host.steps)
    return replace(host, error=error, steps=tuple(steps))


def _is_only_error(host: HostResult) -> bool:
    """Whether the error of *host* says all there is to say of its steps."""
    same = all(step.why.startswith(host.error or "") for step in host.steps)
    return bool(host.error) and (same or host.verdict is Verdict.NOT_STARTED)


def _causes(host: HostResult) -> Iterator[str]:
    """Why *host* has its verdict; each in a line."""
    if host.error:
        yield host.error
    drivers = sorted(driving(host), key=lambda finding: finding.severity is not Severity.CRITICAL)
    yield from map(_named, drivers[:1])
    if further := drivers[1:]:
        yield f"also {_listed([_named(finding) for finding in further])}"
    gone = [finding for finding in host.findings if finding.status is Presence.GONE]
    if gone:
        yield _listed([f"{finding.id} is gone (was: {finding.say or finding.id})" for finding in gone])


def _blind(host: HostResult, failed: Sequence[StepResult]) -> Iterator[str]:
    """What is not known of *host*, and why: each probe that did not answer, then the findings that rest on others."""
    if _is_only_error(host):
        yield from sampled_lines(host, host.steps)
        return
    said = _without_times(" ".join(finding.say for finding in driving(host)))
    yield from (step_line(step) for step in failed if not step.ignored and _without_times(step.why) not in said)
    unknown = [finding for finding in host.findings if finding.status is Presence.UNKNOWN and finding.severity.drives]
    silent, left_out = {step.id for step in failed}, _left_out(host)
    if follows := [finding.id for finding in unknown if silent.intersection(finding.rests_on)]:
        yield f"not known, as {_names([step.id for step in failed])} did not answer: {_names(follows)}"
    if unmeasured := [finding.id for finding in unknown if left_out.intersection(finding.rests_on)]:
        yield f"not measured in a dry run without --scratch: {_names(unmeasured)}"
    others = [finding for finding in unknown if not (silent | left_out).intersection(finding.rests_on)]
    reasons = [*grouped((in_short(finding, ()), finding.id) for finding in others).items()]
    for why, names in reasons[:SHOWN_UNKNOWN]:
        yield f"unknown: {_names(names)}: {why}"
    if left := [name for _, names in reasons[SHOWN_UNKNOWN:] for name in names]:
        yield f"unknown, too: {_names(left)} (-v: why)"
    if held := _held_by_blindness(host, failed):
        yield f"not done, as that is not known: {_names(held)}"


def _left_out(host: HostResult) -> set[str]:
    """The probes of *host* that a dry run leaves out."""
    return {step.id for step in host.steps if step.fault is Fault.SCRATCH}


def _warnings(host: HostResult) -> Iterator[str]:
    """What is found and is no error; what only informs where there is nothing worse and nothing was done."""
    there = [finding for finding in host.findings if finding.status is Presence.PRESENT]
    warnings = [finding for finding in there if finding.severity is Severity.WARNING]
    if shown := warnings or (there if not driving(host) and host.verdict is not Verdict.RESOLVED else []):
        yield f"{shown[0].severity} {_listed([_named(finding) for finding in shown])}"


def _changes(host: HostResult, failed: Sequence[StepResult]) -> list[str]:
    """What was done, or would be: a plan with whom and what it hits; steps held back for one reason in one line."""
    steps = [replace(step, why=in_short(step, failed)) for step in host.steps if step.phase is not Phase.DIAGNOSE]
    planned = any(step.status is Status.WOULD_CHANGE for step in steps)
    lines: list[str] = []
    for step in steps:
        if step.status is Status.WOULD_CHANGE:
            lines += _plan(step, steps)
        elif _is_told(step, planned=planned, changing=planned or any(each.planned for each in steps)):
            lines.append(short(step_line(step), MOST))
        elif (
            host.verdict is Verdict.UNRESOLVED
            and step.phase is Phase.REMEDIATE
            and step.status is Status.OK
            and step.why
        ):
            lines.append(short(step_line(step), MOST_BELOW))  # it was called for, and found nothing to do
    follows = _held_by_blindness(host, failed)
    held = [step for step in steps if step.status in HELD_UP and step.id not in follows]
    reasons = grouped((step.why, step.id) for step in held)
    return [*lines, *(f"not done: {_names(names)}: {short(why, MOST_BELOW)}" for why, names in reasons.items())]


def _is_told(step: StepResult, *, planned: bool, changing: bool) -> bool:
    """Whether *step* has a line: what was done or failed, what a plan may come to, a restart that does not apply."""
    if step.status is Status.SKIPPED:
        return bool(step.condition and planned) or (step.inapplicable and changing)
    return step.status not in (Status.OK, *HELD_UP)


def _held_by_blindness(host: HostResult, failed: Sequence[StepResult]) -> list[str]:
    """The changes of *host* that rest on a probe without an answer; those that come after such a change, too."""
    silent = {step.id for step in failed} | _left_out(host)
    found: list[str] = []
    for step in host.steps:
        if step.phase is not Phase.DIAGNOSE and step.status in HELD_UP and silent.intersection(step.rests_on):
            found.append(step.id)
            silent.add(step.id)
    return found


def _next(host: HostResult) -> Iterator[str]:
    """What a person can do: the first thing, another one where that does not help, and how much more there is."""
    actions = [" ".join(action.split()) for action in next_actions(host)]
    more = f" ({len(actions) - 2} more: -v)" if len(actions) > 2 else ""
    for word, action in zip(("next", "else"), actions, strict=False):
        yield f"{word}: {action}{more if word == 'else' else ''}"


def _plan(step: StepResult, steps: Sequence[StepResult]) -> list[str]:
    """What *step* would do, but for scripts of ours, whose step says it, and a difference that one before it has."""
    before = next((other.id for other in steps[: steps.index(step)] if step.diff and other.diff == step.diff), "")
    lines = step_lines(replace(step, diff=None) if before else step)
    shown = [line for line in lines if not line.startswith("  script ")]
    return [*shown, f"  | the same as {before}"] if before else shown


def _without_times(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)? s\b", "", text)


def _named(finding: Finding) -> str:
    return f"{finding.id}: {finding.say or finding.id}"


def _listed(said: Sequence[str]) -> str:
    """Some of what is *said*, and how much more there is."""
    more = [f"{len(said) - SHOWN_ALSO} more (-v)"] if len(said) > SHOWN_ALSO else []
    return "; ".join([*said[:SHOWN_ALSO], *more])


def _names(names: Sequence[str]) -> str:
    """Ids of steps or findings."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more
