"""The limits of a run as numbers of hosts: the meaning of ``limits:`` for the selected hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.execution.diagnosis.host_context import host_variables
from runbook.values.inventory import Host
from runbook.values.playbook import Limits
from runbook.values.result import AppliedLimits
from runbook.values.types import Json

Group = tuple[str, str]
"""A variable, and one of its values as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The limits of a run over *total* hosts."""

    total: int
    batches: tuple[int, ...] = ()
    """The number of hosts that are changed together in each batch; the last number repeats; empty: all at once."""
    pause_between: float = 0.0
    """The seconds between two batches."""
    stop_after: int = 0
    """After so many hosts in a bad state, no further host is started; 0: no limit."""
    max_unavailable: int = 0
    """The maximum number of hosts that are unavailable at once; 0: no limit."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The maximum number of hosts with the same value of a variable that are changed at once, keyed by variable."""
    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    """The groups of each host, one for each of these variables, keyed by host."""
    words: Limits = field(default_factory=Limits)
    """The limits as the user wrote them."""

    @classmethod
    def of(cls, limits: Limits, hosts: Sequence[Host]) -> Bounds:
        """Return *limits* as numbers for a run over *hosts*; a percentage is of all *hosts*."""
        total = len(hosts)
        return cls(
            total=total,
            batches=tuple(batch.of(total) for batch in limits.batches),
            pause_between=limits.pause_between,
            stop_after=limits.stop_after.of(total) if limits.stop_after else 0,
            max_unavailable=limits.max_unavailable.at_most(total) if limits.max_unavailable else 0,
            most={limit.variable: limit.most for limit in limits.max_concurrent_per},
            groups={host.name: tuple(groups_of(host, limits)) for host in hosts} if limits.max_concurrent_per else {},
            words=limits,
        )

    @property
    def any(self) -> bool:
        """Whether a host may ever have to wait for its turn."""
        return bool(self.batches or self.stop_after or self.max_unavailable or self.most)

    def size(self, number: int) -> int:
        """Return the number of hosts that batch *number* may have; the first batch is 0."""
        return self.batches[min(number, len(self.batches) - 1)] if self.batches else self.total

    def applied(self, count: int, deadline: float, pool: int) -> AppliedLimits:
        """Return the limits for a report; *count*: the hosts to be changed; *deadline*: that of the run, in seconds.

        *pool*: the number of hosts of which the limit ``breaker`` is a percentage.
        """
        attempts, breaker = self.words.attempts, self.words.breaker
        return AppliedLimits(
            hosts=self.total,
            batches=self.sizes(count) if self.batches else (),
            order=self.words.order,
            stop_after=self.stop_after,
            max_unavailable=self.max_unavailable,
            max_concurrent_per=self.most,
            pause_between=self.pause_between,
            host_deadline=self.words.host_deadline,
            deadline=deadline,
            confirm_from=self.words.confirm_from,
            approvals=self.words.approvals,
            attempts=attempts.per_host if attempts else 0,
            attempts_within=attempts.within if attempts else 0.0,
            cooldown=self.words.cooldown,
            breaker=breaker.hosts.at_most(pool) if breaker else 0,
            breaker_within=breaker.within if breaker else 0.0,
        )

    def sizes(self, count: int) -> tuple[int, ...]:
        """Return the sizes of the batches in which *count* hosts are changed."""
        made: list[int] = []
        while count > 0:
            made.append(min(count, self.size(len(made))))
            count -= made[-1]
        return tuple(made)


def groups_of(host: Host, limits: Limits) -> Iterator[Group]:
    """Yield the groups that *host* belongs to: one for each variable of ``max_concurrent_per``.

    A variable that the host does not have gives no group.
    """
    for limit in limits.max_concurrent_per:
        value = value_of(host, limit.variable)
        if value is not None:
            yield limit.variable, json.dumps(value, sort_keys=True)


def value_of(host: Host, variable: str) -> Json:
    """Return the value of *variable* on *host*, as templates get it with ``host.``; None if the host has no such
    variable.
    """
    value: Json = host_variables(host)
    for name in variable.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
