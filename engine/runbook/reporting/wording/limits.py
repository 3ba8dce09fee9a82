"""Describe the limits of a run in lines for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from runbook.text.name_ranges import fold
from runbook.values.playbook import HostOrder
from runbook.values.result import AppliedLimits, UsedLimits
from runbook.values.types import plural, seconds


def limit_lines(limits: AppliedLimits) -> list[str]:
    """Return a line for each limit on the run; none if all hosts may be changed at once."""
    lines = []
    total = plural(limits.hosts, "host")
    if limits.batches:
        sizes = [str(batch) for batch in limits.batches]
        shown = sizes if len(sizes) <= 8 else [*sizes[:6], "...", sizes[-1]]
        pause = f", {seconds(limits.pause_between)} apart" if limits.pause_between else ""
        lines.append(f"batches: {plural(sum(limits.batches), 'host')} in {len(sizes)} ({', '.join(shown)}){pause}")
    if limits.max_unavailable:
        lines.append(f"max_unavailable: {limits.max_unavailable} of {total}")
    if limits.stop_after:
        lines.append(f"stop_after: {limits.stop_after} of {total}")
    lines += [f"max_concurrent_per: {most} per {variable}" for variable, most in limits.max_concurrent_per.items()]
    if limits.order is not HostOrder.INVENTORY:
        lines.append(f"order: {limits.order}")
    if limits.host_deadline:
        lines.append(f"host_deadline: {seconds(limits.host_deadline)}")
    if limits.confirm_from:
        lines.append(f"confirm_from: {limits.confirm_from}")
    if limits.approvals:
        lines.append(f"approvals: {limits.approvals}")
    lines += _over_runs(limits, limits.used or UsedLimits())
    return [f"limits: {lines[0]}", *(f"        {line}" for line in lines[1:])] if lines else []


def _over_runs(limits: AppliedLimits, used: UsedLimits) -> Iterator[str]:
    """Yield the limits over several runs, each with the part that earlier runs have used up."""
    if limits.attempts:
        counted = {count: [host for host, it in used.attempts.items() if it == count] for count in _numbers(used)}
        spent = "; ".join(f"{count} used on {fold(hosts)}" for count, hosts in counted.items()) or "none used"
        yield f"attempts: {limits.attempts} per host within {seconds(limits.attempts_within)}; {spent}"
    if limits.cooldown:
        resting = f"{fold(used.cooldown)} must rest for {_span(used.cooldown.values())}" if used.cooldown else ""
        yield f"cooldown: {seconds(limits.cooldown)}; {resting or 'no host must rest'}"
    if limits.breaker:
        most = plural(limits.breaker, "host")
        yield f"breaker: {most} within {seconds(limits.breaker_within)}; {used.breaker} used"
    yield from (f"unknown, so that nothing is changed: {why}" for why in used.unknown)


def _numbers(used: UsedLimits) -> list[int]:
    """Return the numbers of attempts that hosts have used, the highest first."""
    return sorted({*used.attempts.values()}, reverse=True)


def _span(left: Collection[float]) -> str:
    shortest, longest = (seconds(round(number)) for number in (min(left), max(left)))
    return shortest if shortest == longest else f"{shortest} to {longest}"
