"""The recap at the end of a run: the worst first, equal results grouped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.grouping import HostGroup, together
from runbook.reporting.wording.host_digest import HostDigest, host_digest, listed
from runbook.reporting.wording.host_lines import MOST, brief_lines, host_lines, plan_lines, without_addresses
from runbook.reporting.wording.limits import limit_lines
from runbook.reporting.wording.step_lines import grouped
from runbook.text.name_ranges import fold
from runbook.text.similar_texts import line_of
from runbook.values.plan import Finding, Presence
from runbook.values.result import HostPlan, HostResult, Mode, RunResult, Verdict
from runbook.values.types import plural, seconds
from runbook.values.verbosity import Verbosity

SHOWN_GROUPS = 40
"""The maximum number of groups of hosts that are shown in full; the others are counted."""
SCREEN = 40
"""The maximum number of hosts and of lines for a recap on one screen; a longer recap has one line for each reason."""
EACH = "each host, and what was done or would be done there: -v"
INTERRUPTED = 130


def recap(result: RunResult, verbosity: Verbosity = Verbosity.NORMAL) -> list[str]:
    """Return the recap: every host, the worst first, equal hosts together; then the counts, and the exit code if not
    0.

    With *verbosity* QUIET, returns only unwell hosts, and nothing if there are none.
    """
    quiet, is_exec = verbosity is Verbosity.QUIET, result.playbook == "exec"
    hosts = _unwell(result.hosts) if quiet and not is_exec else result.hosts
    if quiet and not result.exit_code and not hosts:
        return []
    reported = _reported(_groups(hosts, lambda host: _lines(host, result, verbosity)), whole=is_exec)
    if len(hosts) > SCREEN and len(reported) > SCREEN and verbosity is not Verbosity.VERBOSE:
        reported = [*reported, *_reasons(_unwell(hosts))] if is_exec else [*_reasons(hosts), EACH]
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items())
    counted = f"{result.playbook}: {counts or 'no host'} in {seconds(result.seconds)}"
    if _is_declined(result):
        counted += "; nothing was changed"
    held = limit_lines(result.limits) if result.limits and Verdict.PLANNED in result.totals else []
    return [
        *([""] if verbosity is Verbosity.VERBOSE else []),
        *reported,
        *([] if quiet else ["", *held]),
        counted,
        *_end(result),
    ]


def _reported(groups: Sequence[HostGroup], *, whole: bool = False) -> list[str]:
    """Return the lines of *groups*: of all groups if *whole*, else of the worst groups."""
    shown = groups if whole else _shown(groups)
    lines = [
        line
        for group in shown
        for line in (f"{fold(group.hosts)}: {group.lines[0]}", *(f"  {line}" for line in group.lines[1:]))
    ]
    if len(shown) == len(groups):
        return lines
    rest = [name for group in groups if group not in shown for name in group.hosts]
    more = plural(len(groups) - len(shown), "more group")
    return [*lines, f"... and {more} of hosts ({short(fold(rest), 60)}): see --output json"]


def _lines(host: HostResult, result: RunResult, verbosity: Verbosity) -> list[str]:
    if result.playbook == "exec" or verbosity is Verbosity.VERBOSE:
        return host_lines(host)
    return brief_lines(host, declined=_is_declined(result))


def _is_declined(result: RunResult) -> bool:
    """Whether the person saw the plan and declined it, or pressed Ctrl-C."""
    return result.mode is Mode.PLAN and result.exit_code == INTERRUPTED


def _shown(groups: Sequence[HostGroup]) -> list[HostGroup]:
    """Return the groups to show, the worst first, with at least one group of each verdict."""
    ordered = sorted(groups, key=lambda group: group.verdict.rank)
    firsts = {group.verdict.rank: id(group) for group in reversed(ordered)}.values()
    chosen = sorted(ordered, key=lambda group: id(group) not in firsts)[:SHOWN_GROUPS]
    return sorted(chosen, key=lambda group: group.verdict.rank)


def _end(result: RunResult) -> Iterator[str]:
    if result.left_out:
        yield f"left out: {fold([host.host for host in result.left_out])}"
    if result.exit_code:
        yield f"exit code {result.exit_code}"


def plans(hosts: Iterable[HostPlan]) -> list[str]:
    """Return the plans of all hosts that have changes; equal plans are combined."""
    blocks = [(host.host, plan_lines(host)) for host in hosts]
    reported = []
    for names, lines in together([(host, (), lines, False) for host, lines in blocks if lines]):
        reported += [f"{fold(names)}:", *(f"  {line}" for line in lines)]
    return reported


def _groups(hosts: Sequence[HostResult], lines: Callable[[HostResult], list[str]]) -> list[HostGroup]:
    """Return *hosts* in groups with equal lines.

    Unreachable hosts with the same reason are equal, whatever their addresses.
    """
    whole = {host.host: host for host in hosts}
    folded = map(_without_own_address, hosts)
    said = [(host.host, _identity(host), lines(host), not host.verdict.is_fine) for host in folded]
    return [
        HostGroup(
            hosts=names, lines=group if len(names) > 1 else lines(whole[names[0]]), verdict=whole[names[0]].verdict
        )
        for names, group in together(said)
    ]


def _unwell(hosts: Iterable[HostResult]) -> list[HostResult]:
    return [host for host in hosts if not host_digest(host).is_well]


def _reasons(hosts: Iterable[HostResult]) -> list[str]:
    """Return *hosts* by verdict and cause, one line each; below it the next action, if it is the same for all.

    A finding is one cause, although its texts differ by host.  If the texts differ in more than amounts, some are
    shown.
    """
    groups: list[HostGroup] = []
    digests = map(host_digest, map(_without_own_address, hosts))
    for alike in grouped((_cause_key(digest), digest) for digest in digests).values():
        verdict = alike[0].result.verdict
        reasons = _alike((digest.result.host, digest.reason) for digest in alike)
        actions = _alike((digest.result.host, digest.next_line) for digest in alike)
        lines = [short(f"{verdict}: {listed(reasons)}" if reasons else verdict, MOST)]
        lines += actions if len(actions) == 1 else []
        if owing := [digest.result.host for digest in alike if digest.result.owed]:
            lines.append(f"clean-ups are owed to {fold(owing)} (-v)")
        groups.append(HostGroup(hosts=[digest.result.host for digest in alike], verdict=verdict, lines=lines))
    return _reported(groups)


def _cause_key(digest: HostDigest) -> tuple[str, ...]:
    """Return a key that is equal for two hosts with the same cause."""
    sources = digest.cause.sources if digest.cause else ()
    if sources and all(isinstance(source, Finding) for source in sources):
        return (digest.result.verdict, *(source.id for source in sources))
    return (digest.result.verdict, "", line_of(digest.reason, digest.result.host, strict=False).key)


def _alike(texts: Iterable[tuple[str, str]]) -> list[str]:
    """Return the texts about hosts; texts that differ only in amounts are combined."""
    return [lines[0] for _, lines in together((host, (), [text], False) for host, text in texts if text)]


def _without_own_address(host: HostResult) -> HostResult:
    return without_addresses(host) if host.verdict is Verdict.UNREACHABLE else host


def _identity(host: HostResult) -> tuple[str, ...]:
    """Return the parts of a result that must be equal before two hosts are shown together, however similar the words
    are.
    """
    there = (finding for finding in host.findings if finding.status is not Presence.ABSENT)
    return (host.verdict, *(f"{each.id} {each.severity} {each.status}" for each in there))
