"""The end of a run for people: what is alike is told once, and the last screen tells all that went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.facts.alike import Block, block_of, told_together
from engine.facts.folding import fold
from engine.reporters.console.evidence import short
from engine.reporters.console.wording import cause, host_lines, plan_lines
from engine.values.plan import Presence
from engine.values.result import HostPlan, HostResult, RunResult, Verdict
from engine.values.text import plural, seconds

SHOWN_GROUPS = 40
"""Groups of hosts that are told in full; the rest is counted."""
SHOWN_REASONS = 12
ONE_SCREEN = 20
"""Lines after which the reasons are told once more, in short, at the very end."""
FINE = frozenset({Verdict.PLANNED, Verdict.RESOLVED, Verdict.HEALTHY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Hosts of which the same is said."""

    hosts: list[str]
    lines: list[str]
    fine: bool


def recap(result: RunResult) -> list[str]:
    """Every host once, those that are alike together, then the counts, and the exit code where it is not 0."""
    groups = _groups(result.hosts)
    shown = groups if result.playbook == "exec" else _worst(groups)
    told = [line for it in shown for line in (f"{fold(it.hosts)}: {it.lines[0]}", *(f"  {it}" for it in it.lines[1:]))]
    if len(shown) < len(groups):
        rest = [name for it in groups if it not in shown for name in it.hosts]
        more = plural(len(groups) - len(shown), "more group")
        told.append(f"... and {more} of hosts ({short(fold(rest), 60)}): see --output json")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items())
    lines = ["", *told, "", f"{result.playbook}: {counts or 'no host'} in {seconds(result.seconds)}"]
    if len(told) > ONE_SCREEN:
        lines += _reasons(result.hosts)
    if result.left_out:
        lines.append(f"left out: {fold([it.host for it in result.left_out])}")
    if result.exit_code:
        lines.append(f"exit code {result.exit_code}")
    return lines


def plans(hosts: Iterable[HostPlan]) -> list[str]:
    """The plans of all hosts for whom something would be done, those that are alike together."""
    blocks = [(it.host, plan_lines(it)) for it in hosts]
    told = []
    for names, lines in _together([(host, (), lines, False) for host, lines in blocks if lines]):
        told += [f"{fold(names)}:", *(f"  {it}" for it in lines)]
    return told


def _groups(hosts: Sequence[HostResult]) -> list[Group]:
    said = [(it.host, _identity(it), host_lines(it), it.verdict not in FINE) for it in hosts]
    fine = {it.host: it.verdict in FINE for it in hosts}
    return [Group(hosts=names, lines=lines, fine=fine[names[0]]) for names, lines in _together(said)]


def _identity(host: HostResult) -> tuple[str, ...]:
    """What is never told together when it differs, however alike the words are."""
    there = (it for it in host.findings if it.status is not Presence.ABSENT)
    return (host.verdict, *(f"{it.id} {it.severity} {it.status}" for it in there))


def _together(said: Iterable[tuple[str, tuple[str, ...], list[str], bool]]) -> list[tuple[list[str], list[str]]]:
    """The hosts of whom the like is said, with what is said; takes host, identity, lines and whether to be strict."""
    groups: dict[tuple[object, ...], list[tuple[str, list[str], Block]]] = {}
    for host, identity, lines, strict in said:
        block = block_of(lines, host, strict=strict)
        groups.setdefault((identity, block.key), []).append((host, lines, block))
    return [([host for host, _, _ in it], _as_one(it)) for it in groups.values()]


def _as_one(group: Sequence[tuple[str, list[str], Block]]) -> list[str]:
    first = group[0][1]
    same = all(lines == first for _, lines, _ in group)
    return first if same else told_together([block for _, _, block in group])


def _worst(groups: list[Group]) -> list[Group]:
    """As many groups as are shown, in their order; where there are too many, those that are fine go first."""
    if len(groups) <= SHOWN_GROUPS:
        return groups
    kept = sorted(range(len(groups)), key=lambda it: (groups[it].fine, it))[:SHOWN_GROUPS]
    return [groups[it] for it in sorted(kept)]


def _reasons(hosts: Sequence[HostResult]) -> list[str]:
    """Why hosts are not fine: one line a reason, of fixed number, the most serious verdict first."""
    bad = sorted((it for it in hosts if it.verdict not in FINE), key=lambda it: list(Verdict).index(it.verdict))
    why = _together([(it.host, (it.verdict,), [f"{it.verdict}: {cause(it)}"], True) for it in bad])
    lines = [f"  {short(fold(names), 60)} {_how_many(names)}{short(lines[0])}" for names, lines in why[:SHOWN_REASONS]]
    if len(why) > SHOWN_REASONS:
        rest = [name for names, _ in why[SHOWN_REASONS:] for name in names]
        lines.append(f"  ... and {plural(len(why) - SHOWN_REASONS, 'more reason')} on {plural(len(rest), 'host')}")
    return lines


def _how_many(names: Sequence[str]) -> str:
    """How many there are, where it is more than one."""
    return f"({len(names)}) " if len(names) > 1 else ""
