"""Judge a host with one verdict, and a run with one exit code."""

from __future__ import annotations

from collections.abc import Iterable

from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Playbook, written_id
from runbook.values.result import Fault, HostResult, Status, StepResult, Verdict


def verdict(playbook: Playbook, steps: tuple[StepResult, ...], findings: tuple[Finding, ...]) -> Verdict:
    """Return the verdict of a host: the first that applies, in the documented order."""
    statuses = {step.status for step in steps if not step.ignored}
    unresolved = not playbook.findings and Status.BLOCKED in statuses
    table = (
        (Status.UNREACHABLE in statuses, Verdict.UNREACHABLE),
        (Status.CANCELLED in statuses, Verdict.CANCELLED),
        (Status.DRIFTED in statuses, Verdict.DRIFTED),
        (any(_is_failure(step, playbook, findings) for step in steps), Verdict.FAILED),
        (any(map(_leaves_unknown, steps)) or _any_error(findings, Presence.UNKNOWN), Verdict.UNKNOWN),
        (Status.WOULD_CHANGE in statuses, Verdict.PLANNED),
        (_any_error(findings, Presence.PRESENT) or unresolved, Verdict.UNRESOLVED),
        (any(map(_assertion_not_run, steps)), Verdict.UNKNOWN),
        (any(map(sent, steps)), Verdict.RESOLVED),
    )
    return next((answer for applies, answer in table if applies), Verdict.HEALTHY)


def _any_error(findings: Iterable[Finding], status: Presence) -> bool:
    """Whether one of *findings* with the severity error has this *status*."""
    return any(finding.severity.drives and finding.status is status for finding in findings)


def exit_code(hosts: Iterable[HostResult], *, interrupted: bool, over: bool, detailed: bool) -> int:
    """Return the exit code of a run: the first that applies.

    *over*: a limit of the run or its deadline ended it.  *detailed*: 3 means that a host would be changed.
    """
    verdicts = {host.verdict for host in hosts}
    table = (
        (interrupted, 130),
        (Verdict.DRIFTED in verdicts, 6),
        (over, 5),
        (verdicts & BAD_VERDICTS, 1),
        (Verdict.UNREACHABLE in verdicts, 4),
        (detailed and Verdict.PLANNED in verdicts, 3),
    )
    return next((code for applies, code in table if applies), 0)


BAD_VERDICTS = {Verdict.FAILED, Verdict.UNRESOLVED, Verdict.UNKNOWN, Verdict.CANCELLED, Verdict.NOT_STARTED}
"""The verdicts of hosts that are in a bad state, or whose state is unknown."""


def _is_failure(step: StepResult, playbook: Playbook, findings: tuple[Finding, ...]) -> bool:
    """Whether the failed *step* makes the verdict of the host *failed*.

    A failed step of ``remediate`` with ``for`` does not, if all its findings are gone in the end.  A step whose goal
    was
    not reached does not, if a finding of severity error is still present or unknown: then that finding decides.  The
    same
    rule applies to an assertion.  Warnings have no effect.
    """
    if not step.status.is_failure or step.ignored or step.phase is Phase.DIAGNOSE:
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


def _leaves_unknown(step: StepResult) -> bool:
    """Whether *step* leaves something about the host unknown."""
    if step.ignored:
        return False
    blind = step.fault in (Fault.PROBE, Fault.ARGUMENTS) and (step.status.is_failure or step.status is Status.BLOCKED)
    return step.status in (Status.UNKNOWN, Status.OWED) or blind


def _assertion_not_run(step: StepResult) -> bool:
    """Whether *step* is an assertion that was never checked on the host, so that nobody knows whether it is true."""
    return step.phase is Phase.VERIFY and step.status is Status.BLOCKED and not step.ignored


def sent(step: StepResult) -> bool:
    """Whether *step* sent a command that writes; a change that was only planned was not sent."""
    if step.status is Status.WOULD_CHANGE:
        return False
    still = step.status in (Status.OK, Status.SKIPPED, Status.BLOCKED)  # then what has no answer was not sent
    return any(
        command.effect == "write" and (command.exit_code is not None or command.timed_out or not still)
        for command in step.commands
    )
