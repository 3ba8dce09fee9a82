"""Everything on a host that a person should read, in lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from runbook.reporting.wording.host_digest import ADVISED, BROKEN, NEXT_AFTER_CANCEL, driving
from runbook.reporting.wording.step_lines import finding_line, finding_lines, grouped, in_short, step_line, step_lines
from runbook.values.owed import NotedIn
from runbook.values.plan import Presence
from runbook.values.playbook import Phase
from runbook.values.result import HostPlan, HostResult, Sent, Status, StepResult, Verdict


def host_lines(host: HostResult) -> list[str]:
    """Everything on a host that a person should read: its verdict, the cause and what to do about it, then the rest."""
    lines = [str(host.verdict)]
    if host.verdict is Verdict.CANCELLED:
        return [*lines, *cancelled_lines(host), *owed_lines(host)]
    if host.error:
        lines.append(host.error)
        if all(step.why.startswith(host.error) or host.verdict is Verdict.NOT_STARTED for step in host.steps):
            return [*lines, *sampled_lines(host, host.steps), *owed_lines(host)]
    lines += _findings_with_advice(host)
    failed = [step for step in host.steps if step.phase is Phase.DIAGNOSE and step.status in BROKEN]
    lines += [line for step in failed for line in step_lines(step)]
    unknown = [finding for finding in host.findings if finding.status is Presence.UNKNOWN]
    for why, ids in grouped((in_short(finding, failed), finding.id) for finding in unknown).items():
        lines.append(f"unknown: {', '.join(ids)}: {why}")
    return [*lines, *_other_steps(host, failed), *believed_lines(host), *owed_lines(host)]


def believed_lines(host: HostResult) -> list[str]:
    """That probes of authors could have written, in one line; the reason is the same for all of them on a host."""
    believed = [(command.unconfined, step.id) for step in host.steps for command in step.commands if command.unconfined]
    if not believed:
        return []
    probes = ", ".join(dict.fromkeys(id for _, id in believed))
    return [f"believed, not enforced, to only read: {probes} ({believed[0][0]})"]


def sampled_lines(host: HostResult, steps: Iterable[StepResult]) -> Iterator[str]:
    """What is known of probes that were ended in the middle of their samples."""
    return (f"{step.id}: {step.why.removeprefix(f'{host.error}; ')}" for step in steps if step.state)


def _other_steps(host: HostResult, failed: Sequence[StepResult]) -> Iterator[str]:
    """The lines of every step but the *failed* probes."""
    planned = any(step.status is Status.WOULD_CHANGE for step in host.steps)
    changing = planned or any(step.planned for step in host.steps)
    for step in (replace(other, why=in_short(other, failed)) for other in host.steps if other not in failed):
        if step.inapplicable and changing and step.phase is Phase.REMEDIATE:  # a restart that its author counts on
            yield step_line(step)
        elif planned or step.status is not Status.SKIPPED or step.phase is Phase.DIAGNOSE:
            yield from step_lines(step)


def cancelled_lines(host: HostResult) -> list[str]:
    """Why the run was ended here, what was found, what was done, what nobody knows, what was not done, what is next."""
    changes = [step for step in host.steps if step.phase is not Phase.DIAGNOSE]
    groups = {key: ", ".join(ids) for key, ids in grouped((_end(step), step.id) for step in changes).items()}
    touched = any(_end(step) in TOUCHED or (step.status is Status.FAILED and step.sent in SOME) for step in changes)
    lines = [
        host.error or "",
        *map(finding_line, driving(host)),
        *sampled_lines(host, [step for step in host.steps if step.status is Status.CANCELLED]),
        "" if touched else "done: nothing was changed",
        *(f"{end}: {groups[end]}" for end in ENDS if end in groups),
        f"next: {NEXT_AFTER_CANCEL}",
    ]
    return [line for line in lines if line]


DONE, UNPROBED, FAILED, DOUBTFUL, LEFT = ENDS = (
    "done",
    "done, and not probed again",
    "failed",
    "not known, perhaps done, or half",
    "not done",
)
"""Groups of the steps of a host on which the run was ended."""
TOUCHED = (DONE, UNPROBED, DOUBTFUL)
SOME = (Sent.PART, Sent.ALL)


def _end(step: StepResult) -> str:
    """The group of a step of a host on which the run was ended; empty: there was nothing to do."""
    match step.status:
        case Status.CHANGED:
            return DONE
        case Status.FAILED:
            return FAILED
        case Status.UNKNOWN | Status.CANCELLED if step.sent is Sent.ALL:
            return UNPROBED
        case Status.CANCELLED if step.sent is Sent.NOTHING:
            return LEFT
        case Status.UNKNOWN | Status.CANCELLED:
            return DOUBTFUL
        case Status.BLOCKED | Status.DRIFTED | Status.OWED:
            return LEFT
    return ""


def owed_lines(host: HostResult) -> list[str]:
    """The clean-ups that are owed to *host*, a line each, and what to do about them."""
    lines = []
    for owed in host.owed:
        by = f", by {owed.by}" if owed.by else ""
        lines.append(
            f"clean-up owed by run {owed.run} of {owed.playbook}{by}, since {owed.since}: {'; '.join(owed.steps)}"
        )
    here = any(NotedIn.CONTROLLER in owed.noted for owed in host.owed)
    where = "" if here else ", on the machine of the user who started that run"
    return [*lines, f"next: `runbook settle --hosts {host.host}`{where}"] if lines else []


def _findings_with_advice(host: HostResult) -> list[str]:
    """The findings of *host*: errors first, for they are the cause, each with what to do right below it."""
    order = sorted(
        host.findings, key=lambda finding: not (finding.severity.drives and finding.status is Presence.PRESENT)
    )
    lines: list[str] = []
    said: set[str] = set()
    shown: set[str] = set()
    for finding in order:
        wanted = finding.status is Presence.PRESENT and (not finding.severity.drives or host.verdict in ADVISED)
        advice = [word for word in dict.fromkeys(finding.advise) if word not in said] if wanted else []
        said.update(advice)
        lines += finding_lines(finding, shown, advice)
    return lines


def plan_lines(plan: HostPlan) -> list[str]:
    """What is found on a host, and what would be done; nothing where nothing would be done."""
    planned = [
        line
        for result in plan.results
        if result.status is Status.WOULD_CHANGE or result.condition
        for line in step_lines(result)
    ]
    shown: set[str] = set()
    return [*(line for finding in plan.findings for line in finding_lines(finding, shown)), *planned] if planned else []
