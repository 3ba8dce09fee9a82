"""The limits of a run: combined from the playbook and the command line, and their meaning for its hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runbook.errors import ConfigError, Problem
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host
from runbook.values.limit_options import LimitOptions
from runbook.values.playbook import HostOrder, Limits, Share
from runbook.values.types import Json
from runbook.values.units import duration, share, time_span

Shuffled = Callable[[list[Host]], None]
"""Puts a list in random order."""

READ: Mapping[str, Callable[[object], Any]] = {
    "host_deadline": time_span,
    "pause_between": duration,
    "stop_after": share,
    "max_unavailable": share,
    "batches": lambda text: tuple(share(part.strip()) for part in str(text).split(",")),
}
"""The options, each with its parser, keyed by the names in ``limits``; the deadline of the run is not included."""


def given_limits(options: LimitOptions) -> Limits:
    """Parse the limits of the command line.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    found: dict[str, Any] = {}
    for name, read in READ.items():
        try:
            if text := getattr(options, name):
                found[name] = read(text)
        except ConfigError as error:
            problems.append(Problem(message=f"--{name.replace('_', '-')}: {error}"))
    if problems:
        raise ConfigError(*problems)
    return Limits(**found)


def stricter(limits: Limits, options: LimitOptions, total: int) -> Limits:
    """Return the stricter of each limit of the playbook and of the command line, for *total* hosts.  Raises
    ConfigError.
    """
    given = given_limits(options)
    if given.pause_between and not (limits.batches or given.batches):
        raise ConfigError(Problem(message="--pause-between: there are no batches", hint="give --batches 1,100%"))
    longest = max(len(limits.batches), len(given.batches))
    both = [item for item in (limits.batches, given.batches) if item]
    return replace(
        limits,
        batches=tuple(
            min((one[min(number, len(one) - 1)] for one in both), key=lambda it: it.of(total))
            for number in range(longest)
        ),
        host_deadline=_least(limits.host_deadline, given.host_deadline),
        pause_between=max(limits.pause_between, given.pause_between),
        stop_after=_fewest(limits.stop_after, given.stop_after, lambda it: it.of(total)),
        max_unavailable=_fewest(limits.max_unavailable, given.max_unavailable, lambda it: it.at_most(total)),
        order=HostOrder(options.order or limits.order),
    )


def ordered(hosts: Sequence[Host], order: HostOrder, shuffle: Shuffled) -> tuple[Host, ...]:
    """Return *hosts*, which are in the order of the inventory, in the order *order*."""
    made = list(hosts)
    match order:
        case HostOrder.INVENTORY:
            pass
        case HostOrder.REVERSE:
            made.reverse()
        case HostOrder.SORTED:
            made.sort(key=lambda host: host.name)
        case HostOrder.REVERSE_SORTED:
            made.sort(key=lambda host: host.name, reverse=True)
        case HostOrder.SHUFFLE:
            shuffle(made)
    return tuple(made)


def problems_with_variables(limits: Limits, hosts: Sequence[Host]) -> list[Problem]:
    """Return a problem for each variable of ``max_concurrent_per`` that no host has: the limit would have no effect."""
    if not limits.max_concurrent_per:
        return []
    from runbook.execution.diagnosis.host_context import host_variables
    from runbook.execution.fleet.bounds import value_of

    problems = []
    for limit in limits.max_concurrent_per:
        if any(value_of(host, limit.variable) is not None for host in hosts):
            continue
        known = sorted({name for host in hosts for name in _names(host_variables(host))})
        words = f"max_concurrent_per: none of the selected hosts has a variable {limit.variable!r}"
        hint, where = suggest(limit.variable, known, ""), limit.where
        problems.append(Problem(file=where.file, line=where.line, column=where.column, message=words, hint=hint))
    return problems


def _names(variables: Mapping[str, Json], before: str = "") -> Iterator[str]:
    """Yield the names of all values in *variables*; a name within a mapping has a dot (``a.b``)."""
    for name, value in variables.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")
        elif value is not None:
            yield f"{before}{name}"


def _least(one: float, other: float) -> float:
    """Return the shorter of two times; 0 means no limit."""
    return min((number for number in (one, other) if number), default=0.0)


def _fewest(one: Share | None, other: Share | None, hosts: Callable[[Share], int]) -> Share | None:
    """Return the share that is the smaller number of hosts; None if both are None."""
    return min((each for each in (one, other) if each), key=hosts, default=None)
