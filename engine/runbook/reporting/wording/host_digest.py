"""Summarise what is wrong, the worst first: hosts that share a cause, the cause, and the next action."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.grouping import together
from runbook.reporting.wording.step_lines import EXPRESSION, by_name, step_line
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Severity
from runbook.values.result import Fault, HostResult, Status, StepResult, Verdict

NEXT_AFTER_CANCEL = "run it again: hosts are probed again, and what was done is not repeated"

ADVISED = frozenset({Verdict.UNRESOLVED, Verdict.FAILED, Verdict.UNKNOWN})
"""Verdicts under which a person reads what to do about errors; else the plan, or the run, does it."""

FINE = frozenset({Verdict.PLANNED, Verdict.RESOLVED, Verdict.HEALTHY})
SHOWN_CAUSE = 200
"""Letters of a cause, and of what to do; the recap has all of them."""

LIMIT = re.compile(r"^(limits\.\w+): .*(`runbook history [^`]+`)", re.DOTALL)
"""Why a step is blocked that a limit over several runs holds back: the limit, and the command that lists those runs."""
NOT_AS_PLANNED = "not as planned: "
"""How the error of a host begins on which a saved plan is not true any more."""
BY_HAND = "connect by hand: `ssh -v`, with the address and the user that `runbook hosts HOST` shows"
UNREACHED = {
    "connection to the gateway .* was lost|via the gateway .*(connection refused|no answer|no SSH|timed out)": (
        "check the gateway: no host behind it can be reached without it"
    ),
    "the gateway .* refuses to connect": "allow it in the gateway's sshd_config (AllowTcpForwarding, PermitOpen)",
    "host key": "compare the key with what the machine's own console says before you trust either",
    "login as .* was refused": "check the user and the key that the inventory and ~/.ssh/config give this host",
    "no shell could be started": "log in by hand, and see what the login shell of this user does",
    "connection refused": "nothing listens on this port: check that host and sshd are up, and the address and port",
    "the name cannot be resolved": "check the address in the inventory, and whether DNS or a VPN is down here",
    "no SSH banner|handshake": "sshd hangs or is overloaded: look at the console; `--connect-timeout 1m` waits longer",
    "no answer|no route|unreachable|timed out": "check that the host is powered on, and the way to it (VPN, firewall)",
}
"""What a host that cannot be reached says, and what a person does about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What is wrong with some hosts, or what a plan would do there."""

    hosts: tuple[str, ...]
    verdict: Verdict
    lines: tuple[str, ...]
    """The verdict and why, and what comes next where that is known."""


def driving(host: HostResult) -> list[Finding]:
    """The findings that are there and that something has to be done about."""
    return [finding for finding in host.findings if finding.severity.drives and finding.status is Presence.PRESENT]


def cause(host: HostResult) -> str:
    """Why a host is not fine, in one line; never empty for one that is not."""
    if host.error:
        return host.error
    present = [finding for finding in host.findings if finding.severity.drives and finding.status is Presence.PRESENT]
    if host.verdict in (Verdict.UNRESOLVED, Verdict.PLANNED) and present:
        return "; ".join(f"{finding.id}: {finding.say or finding.id}" for finding in present)
    judged = [step for step in host.steps if not step.ignored]
    causes = (
        *_lines_with(BROKEN, judged),
        *_unknown_causes(host),
        *_lines_with(HELD_UP, judged),
        *_lines_with((*BROKEN, *HELD_UP), host.steps),
    )
    return next(iter(causes), "no step and no finding says why: see --output json")


BROKEN = (Status.FAILED, Status.UNKNOWN, Status.DRIFTED, Status.OWED)
HELD_UP = (Status.BLOCKED, Status.CANCELLED)


def _lines_with(statuses: Iterable[Status], steps: Sequence[StepResult]) -> list[str]:
    """The lines of the steps with one of *statuses*, in the order of these."""
    return [step_line(step) for status in statuses for step in steps if step.status is status]


def _unknown_causes(host: HostResult) -> list[str]:
    """The findings that are not known; before them, where that is the verdict, what is found and has advice."""
    blind = (finding for finding in host.findings if finding.status is Presence.UNKNOWN)
    unknown = [f"{finding.id} is unknown: {EXPRESSION.sub('', finding.why or '')}" for finding in blind]
    if host.verdict is not Verdict.UNKNOWN or not unknown:
        return unknown
    found = (finding for finding in advised(host) if finding.severity is not Severity.INFO)
    return [*(f"{finding.id}: {finding.say or finding.id}" for finding in found), *unknown]


def advised(host: HostResult) -> list[Finding]:
    """What is found on *host* and has advice: errors first, then warnings."""
    there = [finding for finding in host.findings if finding.status is Presence.PRESENT and finding.advise]
    return sorted(there, key=lambda it: (not it.severity.drives, it.severity is not Severity.WARNING))


def advice(host: HostResult) -> tuple[str, ...]:
    """What a person can do about *host*, the first thing first; empty where nothing is advised.

    Where no error is found, which may be because something is not known, a warning has to do.
    """
    found = advised(host)
    wanted = found and (host.verdict in ADVISED or found[0].severity is Severity.WARNING)
    return found[0].advise if wanted else ()


def next_line(host: HostResult) -> str:
    """What comes next for *host*: what a person can do, or what its plan does first; empty where nothing is known."""
    if host.verdict is Verdict.PLANNED:
        planned = [step for step in host.steps if step.status is Status.WOULD_CHANGE]
        return f"would change {planned[0].id}: {short(by_name(planned[0]), SHOWN_CAUSE)}" if planned else ""
    actions = next_actions(host)
    return f"next: {short(actions[0], SHOWN_CAUSE)}" if actions else ""


def next_actions(host: HostResult) -> Sequence[str]:
    """What a person can do about *host*, the first thing first; nothing where its plan is what comes next."""
    match host.verdict:
        case Verdict.UNREACHABLE:
            error = host.error or ""
            found = (value for said, value in UNREACHED.items() if re.search(said, error, re.IGNORECASE))
            return [next(found, BY_HAND).replace("HOST", host.host)]
        case Verdict.PLANNED:
            return []
        case Verdict.DRIFTED:
            return [_after_drift(host)]
        case Verdict.CANCELLED:
            return [NEXT_AFTER_CANCEL]
    blocked = [step.why for step in host.steps if step.status is Status.BLOCKED]
    if any(why.startswith("needs --yes") for why in blocked):
        return ["nothing was changed without a yes: run it again with --yes, or on a terminal"]
    held_back = (
        f"{limit[1]} holds the host back; see what the earlier runs did: {limit[2]}"
        for why in blocked
        if (limit := LIMIT.search(why))
    )
    return advice(host) or list(held_back)[:1] or _to_measure(host)


def _to_measure(host: HostResult) -> Sequence[str]:
    """How to know what a dry run does not measure, where that is what is missing."""
    left_out = any(step.fault is Fault.SCRATCH for step in host.steps)
    return ["measure it, too: the same with --scratch"] if left_out and host.verdict is Verdict.UNKNOWN else []


def _after_drift(host: HostResult) -> str:
    """What a person does about a host that has changed since its plan was shown, or since the run to undo."""
    if any(step.status is Status.DRIFTED and step.action == "restore_file" for step in host.steps):
        return "read what differs; to restore the file all the same, copy it by hand from where its step says"
    if (host.error or "").startswith(NOT_AS_PLANNED):
        again = f"`runbook plan PLAYBOOK --hosts {host.host} -o FILE`"
        return f"nothing was sent to this host; see what has changed there, and make a new plan: {again}"
    return "see what has changed on the host, then run it again and read the new plan"


def rank(host: HostResult) -> int:
    """How bad *host* is, 0 being the worst: verdicts that are not fine in their order, then those that are."""
    return list(Verdict).index(host.verdict) + (len(Verdict) if host.verdict in FINE else 0)


def not_well(host: HostResult) -> bool:
    """Whether something is wrong with *host*, which a plan may be for."""
    found = any(finding.severity.drives and finding.status is Presence.PRESENT for finding in host.findings)
    return host.verdict not in FINE or (host.verdict is Verdict.PLANNED and found)


def causes(hosts: Sequence[HostResult]) -> list[Cause]:
    """The hosts that are not well, the worst first, those with the same cause together."""
    sick = sorted(filter(not_well, hosts), key=rank)
    verdicts = {result.host: result.verdict for result in sick}
    said = [
        (result.host, (result.verdict,), [f"{result.verdict}: {cause(result)}", next_line(result)], True)
        for result in sick
    ]
    return [
        Cause(hosts=tuple(names), verdict=verdicts[names[0]], lines=tuple(line for line in lines if line))
        for names, lines in together(said)
    ]
