"""Format the summary of a host as lines for people: a few lines (``brief_lines``), or everything (``host_lines``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.host_digest import HostDigest, host_digest, says_all
from runbook.reporting.wording.step_lines import finding_lines, grouped, in_short, step_line, step_lines
from runbook.values.owed import NotedIn
from runbook.values.plan import Presence
from runbook.values.playbook import Phase
from runbook.values.result import HostPlan, HostResult, Status, StepResult, Verdict

MOST = 300
"""The maximum number of letters of the first line."""
MOST_BELOW = 200
"""The maximum number of letters of a line below it that nobody would paste."""
ADDRESS = re.compile(r"(^|; )\S+: ")
"""Matches the address before each reason why a host cannot be reached."""


def brief_lines(host: HostResult, *, declined: bool = False) -> list[str]:
    """Return the first lines about *host* for a person; if its plan was *declined*, only the purpose of the plan."""
    digest, verdict = host_digest(host), host.verdict
    if verdict is Verdict.CANCELLED:
        return [*_cancelled_lines(digest), *owed_lines(host)]
    first, *others = [line.text for line in digest.found] or [""]
    reason = first.removeprefix(f"{verdict} ").removeprefix(f"{verdict}: ")
    below = [*others, *(line.text for line in digest.also)]
    lines = [
        short(f"{verdict}: {reason}" if reason else str(verdict), MOST),
        *(short(text, MOST_BELOW) for text in below),
        *([] if declined else _change_lines(digest)),
        *_next_lines(digest),
        *(short(line.text, MOST_BELOW) for line in digest.unknown),
    ]
    return [*_with_gpus_by_index(lines, host), *believed_lines(host), *owed_lines(host)]


def _change_lines(digest: HostDigest) -> Iterator[str]:
    """Yield the changes (for a plan, with what each affects), then the steps that were held back."""
    for step in digest.changes:
        if step.status is Status.WOULD_CHANGE:
            yield from _plan(step, digest.changes)
        else:
            yield short(step_line(step), MOST_BELOW if step.status is Status.OK else MOST)
    yield from (short(line.text, MOST_BELOW) for line in digest.held_back)


def _next_lines(digest: HostDigest) -> Iterator[str]:
    """Yield the next action, an alternative if the first does not help, and the number of further actions."""
    actions = [" ".join(action.split()) for action in digest.next]
    more = f" ({len(actions) - 2} more: -v)" if len(actions) > 2 else ""
    for word, action in zip(("next", "else"), actions, strict=False):
        yield f"{word}: {action}{more if word == 'else' else ''}"


def _plan(step: StepResult, steps: Sequence[StepResult]) -> list[str]:
    """Return the lines about the planned change of *step*, without runbook's scripts and without a diff that was
    already shown.
    """
    before = next((other.id for other in steps[: steps.index(step)] if step.diff and other.diff == step.diff), "")
    lines = step_lines(replace(step, diff=None) if before else step)
    shown = [line for line in lines if not line.startswith("  script ")]
    return [*shown, f"  | the same as {before}"] if before else shown


def _with_gpus_by_index(lines: Sequence[str], host: HostResult) -> list[str]:
    """Return *lines* with ``GPU 0`` in place of the UUID of this GPU, as a probe of *host* reported it.

    Command lines are not changed.
    """
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
    """Return *host* with the addresses removed from its error, so that hosts with the same reason can be shown
    together.
    """
    if not host.error:
        return host
    error = ADDRESS.sub(r"\1", host.error)
    steps = (replace(step, why=step.why.replace(host.error, error)) for step in host.steps)
    return replace(host, error=error, steps=tuple(steps))


def host_lines(host: HostResult) -> list[str]:
    """Return everything about *host* that a person should read: its verdict, the cause and its remedy, then
    the rest.
    """
    digest, lines = host_digest(host), [str(host.verdict)]
    if host.verdict is Verdict.CANCELLED:
        return [*_cancelled_lines(digest), *owed_lines(host)]
    if host.error:
        lines.append(host.error)
        if says_all(host):
            return [*lines, *(line.text for line in digest.unknown), *owed_lines(host)]
    lines += _findings_with_advice(digest)
    lines += [line for step in digest.failed for line in step_lines(step)]
    unknown = [finding for finding in host.findings if finding.status is Presence.UNKNOWN]
    for why, ids in grouped((in_short(finding, digest.failed), finding.id) for finding in unknown).items():
        lines.append(f"unknown: {', '.join(ids)}: {why}")
    return [*lines, *_other_steps(host, digest.failed), *believed_lines(host), *owed_lines(host)]


def _cancelled_lines(digest: HostDigest) -> list[str]:
    """Return the lines of a cancelled host: the reason, the findings, what was done and what not, and
    the next action.
    """
    lines = (*digest.found, *digest.also, *digest.unknown, *digest.held_back)
    return [str(digest.result.verdict), *(line.text for line in lines), *_next_lines(digest)]


def believed_lines(host: HostResult) -> list[str]:
    """Return a line if authors' probes ran with write access and were only believed to read; it gives the common
    reason.
    """
    believed = [(command.unconfined, step.id) for step in host.steps for command in step.commands if command.unconfined]
    if not believed:
        return []
    probes = ", ".join(dict.fromkeys(id for _, id in believed))
    return [f"believed, not enforced, to only read: {probes} ({believed[0][0]})"]


def _other_steps(host: HostResult, failed: Sequence[StepResult]) -> Iterator[str]:
    """Yield the lines of every step except the *failed* probes."""
    planned = any(step.status is Status.WOULD_CHANGE for step in host.steps)
    changing = planned or any(step.planned for step in host.steps)
    for step in (replace(other, why=in_short(other, failed)) for other in host.steps if other not in failed):
        if step.inapplicable and changing and step.phase is Phase.REMEDIATE:  # a restart that its author counts on
            yield step_line(step)
        elif planned or step.status is not Status.SKIPPED or step.phase is Phase.DIAGNOSE:
            yield from step_lines(step)


def owed_lines(host: HostResult) -> list[str]:
    """Return a line for each clean-up that is owed to *host*, and what to do about it."""
    lines = []
    for owed in host.owed:
        by = f", by {owed.by}" if owed.by else ""
        lines.append(
            f"clean-up owed by run {owed.run} of {owed.playbook}{by}, since {owed.since}: {'; '.join(owed.steps)}"
        )
    here = any(NotedIn.CONTROLLER in owed.noted for owed in host.owed)
    where = "" if here else ", on the machine of the user who started that run"
    return [*lines, f"next: `runbook settle --hosts {host.host}`{where}"] if lines else []


def _findings_with_advice(digest: HostDigest) -> list[str]:
    """Return the findings, first the cause (an error or a repaired error), each with its advice right below it."""
    host = digest.result
    cause = digest.cured if host.verdict is Verdict.RESOLVED else digest.errors
    lines: list[str] = []
    given: set[str] = set()
    shown: set[str] = set()
    for finding in sorted(host.findings, key=lambda finding: finding not in cause):
        wanted = finding.status is Presence.PRESENT and (not finding.severity.drives or host.verdict.needs_advice)
        advice = [word for word in dict.fromkeys(finding.advise) if word not in given] if wanted else []
        given.update(advice)
        lines += finding_lines(finding, shown, advice)
    return lines


def plan_lines(plan: HostPlan) -> list[str]:
    """Return the lines of a plan: its findings and changes; none if nothing would be done."""
    planned = [
        line
        for result in plan.results
        if result.status is Status.WOULD_CHANGE or result.condition
        for line in step_lines(result)
    ]
    shown: set[str] = set()
    return [*(line for finding in plan.findings for line in finding_lines(finding, shown)), *planned] if planned else []
