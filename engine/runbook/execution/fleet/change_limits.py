"""Decide from the records whether this run may change a host: attempts, cooldown, and the breaker over all hosts."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from runbook.protocols import RecordedPast
from runbook.values.playbook import Limits
from runbook.values.recorded_change import RecordedChange
from runbook.values.result import UsedLimits
from runbook.values.types import Unknown, plural, seconds


class ChangeLimits:
    """The limits on changes that count earlier runs of the same playbook; used by many threads.

    *total*: the number of hosts of which the limit ``breaker`` may be a percentage.  *cooldowns*: those of hosts that
    have their own, in seconds.  If the records cannot be read, nothing is changed.
    """

    def __init__(
        self,
        limits: Limits,
        past: RecordedPast,
        playbook: str,
        total: int,
        cooldowns: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._cooldowns = cooldowns
        self._limits, self._past, self._playbook = limits, past, playbook
        self._most = limits.breaker.hosts.at_most(total) if limits.breaker else 0
        self._lock = threading.Lock()
        self._begun: set[str] = set()
        """The hosts that this run has begun to change."""
        self._before: frozenset[str] | Unknown | None = None
        """The hosts that earlier runs have changed; None: not read yet."""
        self._of_host: dict[str, str] = {}
        self._attempt: dict[str, str] = {}

    def refused(self, host: str) -> str:
        """Return the reason why *host* must not be changed now.

        Empty if it may be changed, or if this run has already begun to change it.
        """
        with self._lock:
            return "" if host in self._begun else self._refusal(host)

    def begin(self, host: str) -> str:
        """Record that this run begins to change *host*; return the reason why it must not, or an empty text."""
        with self._lock:
            if host in self._begun:
                return ""
            if why := self._refusal(host):
                return why
            self._begun.add(host)
            return ""

    def _refusal(self, host: str) -> str:
        """Return the reason why this run must not begin to change *host*; empty if it may."""
        return "" if self._goes_on(host) else self._own(host) or self._tripped(host)

    def used(self, hosts: Iterable[str]) -> UsedLimits:
        """Return the part of the limits that earlier runs have used up, for each of *hosts* and for all hosts
        together.
        """
        with self._lock:
            attempts = {host: self._counted(host) for host in hosts}
            resting = {host: self._resting(host) for host in attempts}
            before = self._changed_before() if self._limits.breaker else frozenset[str]()
        answers = (*attempts.values(), *resting.values(), before)
        return UsedLimits(
            attempts={host: len(runs) for host, runs in attempts.items() if not isinstance(runs, Unknown) and runs},
            cooldown={host: rest[0] for host, rest in resting.items() if not isinstance(rest, Unknown) and rest},
            breaker=0 if isinstance(before, Unknown) else len(before),
            unknown=tuple(dict.fromkeys(answer.why for answer in answers if isinstance(answer, Unknown))),
        )

    def _own(self, host: str) -> str:
        """Return the reason why ``attempts`` or ``cooldown`` forbids a change of *host*; empty if they allow it."""
        if host not in self._of_host:
            self._of_host[host] = self._attempts(host) or self._cooldown(host)
        return self._of_host[host]

    def _goes_on(self, host: str) -> bool:
        """Whether this run continues a run that was interrupted while it changed *host*."""
        if host not in self._attempt:
            self._attempt[host] = self._past.attempt(host)
        return bool(self._attempt[host])

    def _attempts(self, host: str) -> str:
        limit = self._limits.attempts
        if limit is None:
            return ""
        runs = self._counted(host)
        if isinstance(runs, Unknown):
            return f"limits.attempts: nobody knows how often this playbook has changed the host: {runs.why}"
        if len(runs) < limit.per_host:
            return ""
        left = seconds(max(1, round(limit.within - runs[limit.per_host - 1])))
        return (
            f"limits.attempts: {plural(len(runs), 'run')} of this playbook changed the host within "
            f"{seconds(limit.within)}, and {limit.per_host} is the most; it may be changed again in {left}; "
            f"a person has to look at it: {self._limits_in_words(host)}"
        )

    def _counted(self, host: str) -> list[float] | Unknown:
        """Return how many seconds ago each attempt within the time of ``limits.attempts`` last changed *host*,
        sorted.
        """
        limit = self._limits.attempts
        if limit is None:
            return []
        found = self._past.changes(host, limit.within)
        if isinstance(found, Unknown):
            return found
        newest: dict[str, float] = {}
        for change in found:
            attempt = change.attempt or change.run
            newest[attempt] = min(change.ago, newest.get(attempt, change.ago))
        return sorted(newest.values())

    def _cooldown(self, host: str) -> str:
        match self._resting(host):
            case Unknown(why=why):
                return f"limits.cooldown: nobody knows when this playbook last changed the host: {why}"
            case (left, RecordedChange(run=run, ago=ago)):
                return (
                    f"limits.cooldown: run {run} changed the host {seconds(round(ago))} ago; it may be changed "
                    f"again in {seconds(round(left))}"
                )
        return ""

    def _resting(self, host: str) -> tuple[float, RecordedChange] | None | Unknown:
        """Return the seconds until the cooldown of *host* is over, and its last change; None if there is no
        cooldown left.
        """
        limit = self._cooldowns.get(host, self._limits.cooldown)
        found = self._past.last_change(host) if limit else None
        if found is None or isinstance(found, Unknown):
            return found
        return (limit - found.ago, found) if found.ago < limit else None

    def _changed_before(self) -> frozenset[str] | Unknown:
        """Return the hosts that earlier runs have changed within the time of ``limits.breaker``."""
        if self._before is None:
            within = self._limits.breaker.within if self._limits.breaker else 0.0
            self._before = self._past.changed_hosts(within)
        return self._before

    def _tripped(self, host: str) -> str:
        limit = self._limits.breaker
        if limit is None:
            return ""
        before = self._changed_before()
        if isinstance(before, Unknown):
            return f"limits.breaker: nobody knows how many hosts this playbook has changed: {before.why}"
        changed = before | self._begun
        if len(changed | {host}) <= self._most:
            return ""
        named = ", ".join(sorted(changed)[:5]) + (" ..." if len(changed) > 5 else "")
        return (
            f"limits.breaker: this playbook changed {plural(len(changed), 'host')} within {seconds(limit.within)} "
            f"({named}), and {limit.hosts} ({plural(self._most, 'host')}) is the most; a person has to look at it: "
            f"`runbook history list --playbook {shlex.quote(self._playbook)}`"
        )

    def _limits_in_words(self, host: str) -> str:
        return f"`runbook history list --host {shlex.quote(host)} --playbook {shlex.quote(self._playbook)}`"
