"""Summarise what is wrong, the worst first: hosts that share a cause, the cause, and the next action."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.text.name_ranges import fold
from engine.values.plan import Presence
from engine.values.result import HostResult, Status, Verdict
from engine.values.types import plural
from engine.wording.evidence import short
from engine.wording.grouping import together
from engine.wording.host_lines import NEXT_AFTER_CANCEL, by_name, cause, next_action

SHOWN_CAUSES = 6
"""Causes that are shown with their next action: with a headline and the rest counted, fifteen lines."""
SHOWN_REASONS = 12
"""Causes that are shown where there are so many that each has one line."""
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


def next_line(host: HostResult) -> str:
    """What comes next for *host*: what a person can do, or what its plan does first; empty where nothing is known."""
    if host.verdict is Verdict.UNREACHABLE:
        advice = next(
            (value for said, value in UNREACHED.items() if re.search(said, host.error or "", re.IGNORECASE)), BY_HAND
        )
        return f"what to do: {advice.replace('HOST', host.host)}"
    if host.verdict is Verdict.PLANNED:
        planned = [step for step in host.steps if step.status is Status.WOULD_CHANGE]
        return f"would change {planned[0].id}: {short(by_name(planned[0]), SHOWN_CAUSE)}" if planned else ""
    if host.verdict is Verdict.DRIFTED:
        return f"what to do: {_after_drift(host)}"
    if host.verdict is Verdict.CANCELLED:
        return NEXT_AFTER_CANCEL
    if any(step.status is Status.BLOCKED and step.why.startswith("needs --yes") for step in host.steps):
        return "what to do: nothing was changed without a yes: run it again with --yes, or on a terminal"
    if action := next_action(host):
        return f"what to do: {short(action, SHOWN_CAUSE)}"
    held_back = (LIMIT.search(step.why) for step in host.steps if step.status is Status.BLOCKED)
    found = next((match_ for match_ in held_back if match_), None)
    return f"what to do: {found[1]} holds the host back; see what the earlier runs did: {found[2]}" if found else ""


def _after_drift(host: HostResult) -> str:
    """What a person does about a host that has changed since its plan was shown, or since the run to undo."""
    if any(step.status is Status.DRIFTED and step.action == "restore_file" for step in host.steps):
        return "read what differs; to restore the file all the same, copy it by hand from where its step says"
    if (host.error or "").startswith(NOT_AS_PLANNED):
        again = f"`runbook plan PLAYBOOK --hosts {host.host} -o FILE`"
        return f"nothing was sent to this host; see what has changed there, and make a new plan: {again}"
    return "see what has changed on the host, then run it again and read the new plan"


def headlines(hosts: Sequence[HostResult]) -> list[str]:
    """Each cause with its hosts and the next action, the worst first; nothing where there is only one cause."""
    worst = causes(hosts)
    if len(worst) < 2:
        return []
    lines = [line for each in worst[:SHOWN_CAUSES] for line in _told(each)]
    return ["the worst first:", *lines, *_more(worst[SHOWN_CAUSES:], "more cause")]


def reasons(hosts: Sequence[HostResult]) -> list[str]:
    """Why hosts are not well, one line each, the worst first; with the next action where there is room for it."""
    worst = causes(hosts)
    if len(worst) <= SHOWN_CAUSES:
        return [line for each in worst for line in _told(each)]
    lines = [_told(each)[0] for each in worst[:SHOWN_REASONS]]
    return [*lines, *_more(worst[SHOWN_REASONS:], "more reason")]


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


def _told(cause: Cause) -> list[str]:
    many = f"({len(cause.hosts)}) " if len(cause.hosts) > 1 else ""
    first, *more = cause.lines
    return [
        f"  {short(fold(cause.hosts), 60)} {many}{short(first)}",
        *(f"    {short(word, SHOWN_CAUSE)}" for word in more),
    ]


def _more(causes: Sequence[Cause], noun: str) -> list[str]:
    count = sum(len(each.hosts) for each in causes)
    return [f"  ... and {plural(len(causes), noun)} on {plural(count, 'host')}"] if causes else []
