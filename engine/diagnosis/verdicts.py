"""One word for a host, and one number for a run (design: contracts)."""

from __future__ import annotations

from collections.abc import Iterable

from engine.values.plan import Finding, Presence
from engine.values.playbook import Phase, Playbook, written_id
from engine.values.result import Fault, HostResult, Status, StepResult, Verdict


def verdict(playbook: Playbook, steps: tuple[StepResult, ...], findings: tuple[Finding, ...]) -> Verdict:
    """The first verdict that applies, in the order of the contract."""
    statuses = {it.status for it in steps if not it.ignored}
    for status, answer in (
        (Status.UNREACHABLE, Verdict.UNREACHABLE),
        (Status.CANCELLED, Verdict.CANCELLED),
        (Status.DRIFTED, Verdict.DRIFTED),
    ):
        if status in statuses:
            return answer
    if any(_breaks(it, playbook, findings) for it in steps):
        return Verdict.FAILED
    if any(_ignorant(it) for it in steps) or any(
        it.severity.drives and it.status is Presence.UNKNOWN for it in findings
    ):
        return Verdict.UNKNOWN
    if Status.WOULD_CHANGE in statuses:
        return Verdict.PLANNED
    if any(it.severity.drives and it.status is Presence.PRESENT for it in findings):
        return Verdict.UNRESOLVED
    if not playbook.findings and Status.BLOCKED in statuses:
        return Verdict.UNRESOLVED
    if any(_unheld(it) for it in steps):
        return Verdict.UNKNOWN
    if any(_sent(it) for it in steps):
        return Verdict.RESOLVED
    return Verdict.HEALTHY


def exit_code(hosts: Iterable[HostResult], *, interrupted: bool, over: bool, detailed: bool) -> int:
    """The exit code of a run: the first that applies (*over*: a budget or the deadline ended it)."""
    verdicts = {it.verdict for it in hosts}
    if interrupted:
        return 130
    if Verdict.DRIFTED in verdicts:
        return 6
    if over:
        return 5
    if verdicts & {Verdict.FAILED, Verdict.UNRESOLVED, Verdict.UNKNOWN, Verdict.CANCELLED, Verdict.NOT_STARTED}:
        return 1
    if Verdict.UNREACHABLE in verdicts:
        return 4
    if detailed and Verdict.PLANNED in verdicts:
        return 3
    return 0


def _breaks(step: StepResult, playbook: Playbook, findings: tuple[Finding, ...]) -> bool:
    """Whether a failed step makes the host failed.

    A rung of remediation does not when its finding is gone in the end; one that merely did not reach its goal, and an
    assertion that does not hold, leave the judgement to an error that is still found; a warning judges nobody.
    """
    if step.status is not Status.FAILED or step.ignored or step.phase is Phase.DIAGNOSE:
        return False
    if not playbook.findings:
        return step.fault is not Fault.LOOK or step.phase is not Phase.VERIFY
    if step.phase is Phase.VERIFY:
        explained = any(it.severity.drives and it.status is Presence.PRESENT for it in findings)
        return step.fault is Fault.GOAL and not explained
    named = next((it.for_ for it in playbook.remediate if it.id == written_id(step.id)), ())
    wanted = [it for it in findings if it.id in named or (not named and it.severity.drives)]
    there = [it for it in wanted if it.status in (Presence.PRESENT, Presence.UNKNOWN)]
    judged = any(it.severity.drives for it in there)
    return bool(there) and (step.fault is Fault.COMMAND or (step.fault is Fault.GOAL and not judged))


def _ignorant(step: StepResult) -> bool:
    """Whether something about the host is not known because of this step."""
    if step.ignored:
        return False
    blind = step.fault is Fault.LOOK and step.status in (Status.FAILED, Status.BLOCKED)
    return step.status in (Status.UNKNOWN, Status.OWED) or blind


def _unheld(step: StepResult) -> bool:
    """Whether an assertion was never held against the host: nobody knows whether it would have held."""
    return step.phase is Phase.VERIFY and step.status is Status.BLOCKED and not step.ignored


def _sent(step: StepResult) -> bool:
    """Whether the step sent a write; what a plan says of a later turn was not sent."""
    if step.status is Status.WOULD_CHANGE:
        return False
    still = step.status in (Status.OK, Status.SKIPPED, Status.BLOCKED)
    return any(it.effect == "write" and (it.exit_code is not None or it.timed_out or not still) for it in step.commands)
