"""What is wrong in a few lines, the worst first: hosts that share a cause, the cause, and the next action."""

from __future__ import annotations

import re
from collections.abc import Sequence

from engine.reporters.console.evidence import short
from engine.reporters.console.grouping import together
from engine.reporters.console.wording import by_name, cause, next_action
from engine.text.name_ranges import fold
from engine.values.plan import Presence
from engine.values.result import HostResult, Status, Verdict
from engine.values.types import plural

SHOWN_CAUSES = 6
"""Causes that are shown with their next action: with a headline and the rest counted, fifteen lines."""
SHOWN_REASONS = 12
"""Causes that are shown where there are so many that each has one line."""
FINE = frozenset({Verdict.PLANNED, Verdict.RESOLVED, Verdict.HEALTHY})
SHOWN_CAUSE = 200
"""Letters of a cause, and of what to do; the recap has all of them."""

BY_HAND = "connect by hand: `ssh -v`, with the address and the user that `runbook hosts HOST` shows"
UNREACHED = {
    "host key": "compare the key with what the machine's own console says before you trust either",
    "login as .* was refused": "check the user and the key that the inventory and ~/.ssh/config give this host",
    "no shell for us": "log in by hand, and see what the login shell of this user does",
    "connection refused": "nothing listens there: check that the host is up, that sshd runs, and the address and port",
    "the name is not known": "check the address in the inventory, and whether DNS or a VPN is down here",
    "no SSH banner|handshake": "sshd hangs or is overloaded: look at the console; `--connect-timeout 1m` waits longer",
    "no answer|no route|unreachable|timed out": "check that the host is powered on, and the way to it (VPN, firewall)",
}
"""What a host that cannot be reached says, and what a person does about it."""


def next_line(host: HostResult) -> str:
    """What comes next for *host*: what a person can do, or what its plan does first; empty where nothing is known."""
    if host.verdict is Verdict.UNREACHABLE:
        advice = next(
            (it for said, it in UNREACHED.items() if re.search(said, host.error or "", re.IGNORECASE)), BY_HAND
        )
        return f"what to do: {advice.replace('HOST', host.host)}"
    if host.verdict is Verdict.PLANNED:
        planned = [it for it in host.steps if it.status is Status.WOULD_CHANGE]
        return f"would change {planned[0].id}: {short(by_name(planned[0]), SHOWN_CAUSE)}" if planned else ""
    if any(it.status is Status.BLOCKED and it.why.startswith("needs --yes") for it in host.steps):
        return "what to do: run it again with --yes, or on a terminal: nothing was changed, for nobody could be asked"
    action = next_action(host)
    return f"what to do: {short(action, SHOWN_CAUSE)}" if action else ""


def headlines(hosts: Sequence[HostResult]) -> list[str]:
    """Each cause with its hosts and the next action, the worst first; nothing where there is only one cause."""
    causes = _causes(hosts)
    if len(causes) < 2:
        return []
    lines = [line for names, said in causes[:SHOWN_CAUSES] for line in _told(names, said)]
    return ["the worst first:", *lines, *_more(causes[SHOWN_CAUSES:], "more cause")]


def reasons(hosts: Sequence[HostResult]) -> list[str]:
    """Why hosts are not well, one line each, the worst first; with the next action where there is room for it."""
    causes = _causes(hosts)
    if len(causes) <= SHOWN_CAUSES:
        return [line for names, said in causes for line in _told(names, said)]
    lines = [_told(names, said)[0] for names, said in causes[:SHOWN_REASONS]]
    return [*lines, *_more(causes[SHOWN_REASONS:], "more reason")]


def rank(host: HostResult) -> int:
    """How bad *host* is, 0 being the worst: verdicts that are not fine in their order, then those that are."""
    return list(Verdict).index(host.verdict) + (len(Verdict) if host.verdict in FINE else 0)


def not_well(host: HostResult) -> bool:
    """Whether something is wrong with *host*, which a plan may be for."""
    found = any(it.severity.drives and it.status is Presence.PRESENT for it in host.findings)
    return host.verdict not in FINE or (host.verdict is Verdict.PLANNED and found)


def _causes(hosts: Sequence[HostResult]) -> list[tuple[list[str], list[str]]]:
    """The hosts that are not well, those with the same cause together, with the lines that are said of them."""
    sick = sorted(filter(not_well, hosts), key=rank)
    said = [(it.host, (it.verdict,), [f"{it.verdict}: {cause(it)}", next_line(it)], True) for it in sick]
    return [(names, [it for it in lines if it]) for names, lines in together(said)]


def _told(names: Sequence[str], said: Sequence[str]) -> list[str]:
    many = f"({len(names)}) " if len(names) > 1 else ""
    return [f"  {short(fold(names), 60)} {many}{short(said[0])}", *(f"    {short(it, SHOWN_CAUSE)}" for it in said[1:])]


def _more(causes: Sequence[tuple[list[str], list[str]]], noun: str) -> list[str]:
    count = sum(len(names) for names, _ in causes)
    return [f"  ... and {plural(len(causes), noun)} on {plural(count, 'host')}"] if causes else []
