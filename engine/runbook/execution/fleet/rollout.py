"""Decide which host may be changed now: batches, unavailable hosts, hosts that share a rack."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from itertools import takewhile
from typing import Any

from runbook.execution.fleet.bounds import Bounds, Group
from runbook.protocols import Clock
from runbook.values.result import Verdict
from runbook.values.types import Json, plural

UNWELL = (Verdict.FAILED, Verdict.UNKNOWN, Verdict.UNRESOLVED, Verdict.UNREACHABLE, Verdict.CANCELLED)
"""The verdicts that count for ``stop_after`` and ``max_unavailable``; a batch with only such verdicts ends the rollout.
"""

BatchEnded = Callable[[int, tuple[str, ...], float], None]
"""Called when a batch has ended and another follows: its number (from 1), its hosts, the seconds until the next batch.
"""


class Turn(Enum):
    """The stage of a host in a rollout."""

    PROBED = "not probed yet, or being probed"
    WAITS = "has something to be changed, and waits for its turn"
    CHANGED = "is being changed"
    ENDED = "has its result"


CLAIMING = (Turn.PROBED, Turn.WAITS)
"""The stages of hosts that may need a place in a batch."""


class Rollout:
    """The hosts of a run in their order, and which of them may be changed now.  Called from many threads.

    A host takes a place in a batch when its change begins; the hosts of a batch are the next hosts in the order that
    need
    a change.  So a host waits while earlier hosts, which may still be being probed, could fill the batch.  A host to
    which
    nothing was sent in the end releases its place, because it has tested nothing.
    """

    def __init__(self, hosts: Sequence[str], bounds: Bounds, clock: Clock, batch_ended: BatchEnded) -> None:
        self._bounds, self._clock, self._batch_ended = bounds, clock, batch_ended
        self._lock = threading.Lock()
        self._turns = dict.fromkeys(hosts, Turn.PROBED)
        self._turns_of = Counter(self._turns.values())
        self._changing: set[str] = set()
        self._at_once: Counter[Group] = Counter()
        """The number of hosts of each group that are being changed."""
        self._unwell: dict[str, Verdict] = {}
        self._number = 0
        self._batch: list[str] = []
        self._quiet_since = 0.0
        self._rests_until = 0.0
        self._failed = ""

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Keep others out while hosts are looked at and moved on."""
        with self._lock:
            yield

    def kept(self) -> Json:
        """Return the stage of every host, in their order, and the batches as JSON, for ``take_over``."""
        return {
            "turns": {host: turn.name for host, turn in self._turns.items()},
            "changing": sorted(self._changing),
            "unwell": {host: str(verdict) for host, verdict in self._unwell.items()},
            "number": self._number,
            "batch": list(self._batch),
            "quiet_since": self._quiet_since,
            "rests_until": self._rests_until,
            "failed": self._failed,
        }

    def take_over(self, kept: Mapping[str, Any]) -> None:
        """Go on where another process was when it returned *kept*."""
        self._turns = {host: Turn[name] for host, name in kept["turns"].items()}
        self._turns_of = Counter(self._turns.values())
        self._changing = set(kept["changing"])
        self._at_once = Counter(group for host in self._changing for group in self._bounds.groups.get(host, ()))
        self._unwell = {host: Verdict(word) for host, word in kept["unwell"].items()}
        self._number, self._batch = kept["number"], list(kept["batch"])
        self._quiet_since, self._rests_until = kept["quiet_since"], kept["rests_until"]
        self._failed = kept["failed"]

    @property
    def bounded(self) -> bool:
        """Whether a host may ever have to wait for its turn."""
        return self._bounds.any

    def ask(self, host: str) -> bool:
        """Whether the change of *host*, which was just probed and needs one, may begin now."""
        with self._turn():
            if host in self._changing:  # it was begun by a process that has ended
                return True
            self._is(host, Turn.WAITS)
            self._roll()
            if self._open() and self._free(host) and self._has_place(host):
                self._begin(host)
                return True
            self._is(host, Turn.PROBED)
            return False

    def waits(self, host: str) -> None:
        """Record that *host* waits for its change; ``next`` returns the host when the change may begin."""
        with self._turn():
            self._is(host, Turn.WAITS)

    def next(self, among: Collection[str]) -> str | None:
        """Return a waiting host of *among* whose change begins now; None if none of them may begin."""
        with self._turn():
            self._roll()
            room, left = (self._room(), self._left()) if self._open() else (0, 0)
            for host in among:
                if host in self._changing:  # its beginning was recorded, and the answer to that was lost
                    return host
            for host, turn in self._turns.items():
                if room <= 0 or left <= 0:
                    return None
                may_begin = turn is Turn.WAITS and self._free(host)
                if may_begin and host in among:
                    self._begin(host)
                    return host
                room -= turn in CLAIMING
                left -= may_begin  # it is another process's to begin
            return None

    def ended(self, host: str, verdict: Verdict, *, touched: bool) -> None:
        """Record that *host* has its result; *touched*: a command was sent that may have changed it."""
        with self._turn():
            self._end(host, verdict, touched=touched)

    def _end(self, host: str, verdict: Verdict, *, touched: bool) -> None:
        self._is(host, Turn.ENDED)
        if host in self._changing:
            self._changing.remove(host)
            self._at_once.subtract(self._bounds.groups.get(host, ()))
        if verdict in UNWELL:
            self._unwell[host] = verdict
        if not touched and host in self._batch:
            self._batch.remove(host)
        if self._batch and not self._changing:
            self._quiet_since = self._clock.now()

    def stopped(self) -> str:
        """Return the reason why no further host is started, not even for a probe; empty: hosts may start."""
        with self._turn():
            self._roll()
            return f"stop_after {self._bounds.words.stop_after}: {self._counted()}" if self._enough() else self._failed

    def used_up(self) -> str:
        """Return the reason why the change of no further host will begin in this run; empty if changes may still
        begin.
        """
        with self._turn():
            limit = self._bounds.max_unavailable
            if limit and len(self._unwell) >= limit:
                given = self._bounds.words.max_unavailable
                most = f" ({plural(limit, 'host')})" if given and given.percent else ""
                return f"max_unavailable {given}{most}: {self._counted()}"
            return ""

    def _enough(self) -> bool:
        """Whether so many hosts have failed or are unavailable that no further host is started."""
        return 0 < self._bounds.stop_after <= len(self._unwell)

    def _open(self) -> bool:
        """Whether any change may begin now, as far as this does not depend on the host."""
        bounds = self._bounds
        if self._failed or self._enough():
            return False
        if self._clock.now() < self._rests_until:
            return False
        if not bounds.max_unavailable:
            return True
        known = self._turns_of[Turn.PROBED] == 0  # else one of them may yet turn out to be unavailable
        return known and self._left() > 0

    def _free(self, host: str) -> bool:
        """Whether the groups of *host* (``max_concurrent_per``) allow one more host to be changed."""
        groups = self._bounds.groups.get(host, ())
        return all(self._at_once[group] < self._bounds.most[group[0]] for group in groups)

    def _room(self) -> int:
        """Return the number of places that are left in the batch."""
        return self._bounds.size(self._number) - len(self._batch) if self._bounds.batches else len(self._turns) + 1

    def _left(self) -> int:
        """Return the number of hosts whose change may begin before ``max_unavailable`` is reached."""
        limit = self._bounds.max_unavailable
        return limit - len(self._changing) - len(self._unwell) if limit else len(self._turns) + 1

    def _has_place(self, host: str) -> bool:
        """Whether there is a place for *host*, after a place for each earlier host that may still need one."""
        bounds = self._bounds
        if not (bounds.batches or bounds.max_unavailable):
            return True
        before = [turn for _, turn in takewhile(lambda it: it[0] != host, self._turns.items())]
        return sum(turn in CLAIMING for turn in before) < self._room() and before.count(Turn.WAITS) < self._left()

    def _begin(self, host: str) -> None:
        self._is(host, Turn.CHANGED)
        self._changing.add(host)
        self._at_once.update(self._bounds.groups.get(host, ()))
        if self._bounds.batches:
            self._batch.append(host)

    def _is(self, host: str, turn: Turn) -> None:
        self._turns_of[self._turns[host]] -= 1
        self._turns_of[turn] += 1
        self._turns[host] = turn

    def _roll(self) -> None:
        """Begin the next batch when a batch is full and done; end the rollout if all hosts of the batch have failed."""
        if self._failed or self._enough() or self._changing or not self._turns_of[Turn.WAITS]:
            return
        if not self._bounds.batches or len(self._batch) < self._bounds.size(self._number):
            return
        if all(host in self._unwell for host in self._batch):
            what = "the only host" if len(self._batch) == 1 else f"each of the {len(self._batch)} hosts"
            self._failed = f"{what} of batch {self._number + 1} is {self._hosts_in_words(self._in_order(self._batch))}"
            return
        self._rests_until = self._quiet_since + self._bounds.pause_between
        self._batch_ended(
            self._number + 1, self._in_order(self._batch), max(0.0, self._rests_until - self._clock.now())
        )
        self._number, self._batch = self._number + 1, []

    def _counted(self) -> str:
        unwell = self._in_order(self._unwell)
        are = "is" if len(unwell) == 1 else "are"
        return f"{len(unwell)} of {plural(self._bounds.total, 'host')} {are} {self._hosts_in_words(unwell)}"

    def _in_order(self, hosts: Collection[str]) -> tuple[str, ...]:
        return tuple(host for host in self._turns if host in hosts)

    def _hosts_in_words(self, unwell: Sequence[str]) -> str:
        words = " or ".join(dict.fromkeys(str(self._unwell[host]) for host in unwell))
        return f"{words}: {', '.join(unwell[:5])}{' ...' if len(unwell) > 5 else ''}"
