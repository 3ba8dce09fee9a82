"""The recap at the end of a run: the worst first, equal results grouped, all causes on the last screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.text.name_ranges import fold
from engine.values.plan import Presence
from engine.values.result import HostPlan, HostResult, Mode, RunResult, Verdict
from engine.values.types import plural, seconds
from engine.wording.evidence import short
from engine.wording.grouping import together
from engine.wording.host_lines import host_lines, plan_lines
from engine.wording.limits import limit_lines
from engine.wording.summary import FINE, headlines, rank, reasons

SHOWN_GROUPS = 40
"""Groups of hosts that are shown in full; the rest is counted."""
FIRST_SCREEN = 15
"""Lines that are read at first; where all of it is longer, they hold each cause and the next action."""
INTERRUPTED = 130
ONE_SCREEN = 20
"""Lines after which the causes are shown once more, in short, at the very end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGroup:
    """Hosts of which the same is said."""

    hosts: list[str]
    lines: list[str]
    rank: int
    """How bad it is with them; see ``summary.rank``."""


def recap(result: RunResult) -> list[str]:
    """Every host once, the worst first, those that are alike together; then the counts, and an exit code but 0."""
    groups = _groups(result.hosts)
    shown = groups if result.playbook == "exec" else sorted(groups, key=lambda group: group.rank)[:SHOWN_GROUPS]
    reported = [
        line
        for group in shown
        for line in (f"{fold(group.hosts)}: {group.lines[0]}", *(f"  {group}" for group in group.lines[1:]))
    ]
    if len(shown) < len(groups):
        rest = [name for group in groups if group not in shown for name in group.hosts]
        more = plural(len(groups) - len(shown), "more group")
        reported.append(f"... and {more} of hosts ({short(fold(rest), 60)}): see --output json")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items())
    head = headlines(result.hosts) if len(reported) > FIRST_SCREEN else []
    counted = f"{result.playbook}: {counts or 'no host'} in {seconds(result.seconds)}"
    if result.mode is Mode.PLAN and result.exit_code == INTERRUPTED:  # the plan was declined, or Ctrl-C came first
        counted += "; nothing was changed"
    held = limit_lines(result.limits) if result.limits and Verdict.PLANNED in result.totals else []
    lines = ["", *head, *([""] if head else []), *reported, "", *held, counted]
    return [*lines, *_end(result, is_long=len(reported) > ONE_SCREEN)]


def _end(result: RunResult, *, is_long: bool) -> Iterator[str]:
    if is_long:
        yield from reasons(result.hosts)
    if result.left_out:
        yield f"left out: {fold([host.host for host in result.left_out])}"
    if result.exit_code:
        yield f"exit code {result.exit_code}"


def plans(hosts: Iterable[HostPlan]) -> list[str]:
    """The plans of all hosts for whom something would be done, those that are alike together."""
    blocks = [(host.host, plan_lines(host)) for host in hosts]
    reported = []
    for names, lines in together([(host, (), lines, False) for host, lines in blocks if lines]):
        reported += [f"{fold(names)}:", *(f"  {line}" for line in lines)]
    return reported


def _groups(hosts: Sequence[HostResult]) -> list[HostGroup]:
    said = [(host.host, _identity(host), host_lines(host), host.verdict not in FINE) for host in hosts]
    ranks = {host.host: rank(host) for host in hosts}
    return [HostGroup(hosts=names, lines=lines, rank=ranks[names[0]]) for names, lines in together(said)]


def _identity(host: HostResult) -> tuple[str, ...]:
    """What is never shown together when it differs, however alike the words are."""
    there = (finding for finding in host.findings if finding.status is not Presence.ABSENT)
    return (host.verdict, *(f"{each.id} {each.severity} {each.status}" for each in there))
