"""Judge a host with one verdict, and a run with one exit code."""

from __future__ import annotations

from collections.abc import Iterable

from engine.values.plan import Finding, Presence
from engine.values.playbook import Phase, Playbook, written_id
from engine.values.result import Fault, HostResult, Status, StepResult, Verdict


def verdict(playbook: Playbook, steps: tuple[StepResult, ...], findings: tuple[Finding, ...]) -> Verdict:
    """The first verdict that applies, in the order of the contract."""
    statuses = {step.status for step in steps if not step.ignored}
    for status, answer in (
        (Status.UNREACHABLE, Verdict.UNREACHABLE),
        (Status.CANCELLED, Verdict.CANCELLED),
        (Status.DRIFTED, Verdict.DRIFTED),
    ):
        if status in statuses:
            return answer
    if any(_breaks(step, playbook, findings) for step in steps):
        return Verdict.FAILED
    if any(_ignorant(step) for step in steps) or _any_error(findings, Presence.UNKNOWN):
        return Verdict.UNKNOWN
    if Status.WOULD_CHANGE in statuses:
        return Verdict.PLANNED
    if _any_error(findings, Presence.PRESENT) or (not playbook.findings and Status.BLOCKED in statuses):
        return Verdict.UNRESOLVED
    if any(_unheld(step) for step in steps):
        return Verdict.UNKNOWN
    if any(sent(step) for step in steps):
        return Verdict.RESOLVED
    return Verdict.HEALTHY


def _any_error(findings: Iterable[Finding], status: Presence) -> bool:
    """Whether a finding that judges the host, an error, has this *status*."""
    return any(finding.severity.drives and finding.status is status for finding in findings)


def exit_code(hosts: Iterable[HostResult], *, interrupted: bool, over: bool, detailed: bool) -> int:
    """The exit code of a run: the first that applies (*over*: a budget or the deadline ended it)."""
    verdicts = {host.verdict for host in hosts}
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

    A rung of remediation does not when its finding is gone in the end; one that names no finding counts by itself. One
    that merely did not reach its goal, and an assertion that does not hold, leave the judgement to an error that is
    still found; a warning judges nobody.
    """
    if step.status is not Status.FAILED or step.ignored or step.phase is Phase.DIAGNOSE:
        return False
    if not playbook.findings:
        return step.fault is not Fault.PROBE or step.phase is not Phase.VERIFY
    if step.phase is Phase.VERIFY:
        return step.fault is Fault.GOAL and not _any_error(findings, Presence.PRESENT)
    named = next((planned.for_ for planned in playbook.remediate if planned.id == written_id(step.id)), ())
    if not named:
        return step.fault in (Fault.COMMAND, Fault.GOAL)
    still = [each for each in findings if each.id in named and each.status in (Presence.PRESENT, Presence.UNKNOWN)]
    if not still:
        return False
    judged = any(finding.severity.drives for finding in still)
    return step.fault is Fault.COMMAND or (step.fault is Fault.GOAL and not judged)


def _ignorant(step: StepResult) -> bool:
    """Whether something about the host is not known because of this step."""
    if step.ignored:
        return False
    blind = step.fault in (Fault.PROBE, Fault.ARGUMENTS) and step.status in (Status.FAILED, Status.BLOCKED)
    return step.status in (Status.UNKNOWN, Status.OWED) or blind


def _unheld(step: StepResult) -> bool:
    """Whether an assertion was never held against the host: nobody knows whether it would have held."""
    return step.phase is Phase.VERIFY and step.status is Status.BLOCKED and not step.ignored


def sent(step: StepResult) -> bool:
    """Whether the step sent a write; what a plan says of a later turn was not sent."""
    if step.status is Status.WOULD_CHANGE:
        return False
    still = step.status in (Status.OK, Status.SKIPPED, Status.BLOCKED)
    return any(
        command.effect == "write" and (command.exit_code is not None or command.timed_out or not still)
        for command in step.commands
    )
