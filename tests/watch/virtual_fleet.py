"""A watcher with a virtual clock, and a fleet of simulated hosts that it probes and changes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import Rule
from runbook.watch.cycle import Cycle
from runbook.watch.events import Ended, Probed, Proposed, Reading, Started, WatchEvent
from runbook.watch.memory import Proposal, Remembered, Trigger

T0 = 1_800_000_000.0
"""The time at which the watcher is started."""


@dataclass
class SimulatedHost:
    """A host with a fault, or without."""

    faulty: bool = False
    answers: bool = True
    cures: bool = True
    """Whether a run takes the fault away."""
    work: str = "kill 1"
    """What a plan would do."""
    risk: Risk = Risk.KILLS_PROCESSES
    runs: list[float] = field(default_factory=list)


class VirtualFleet:
    """The watcher's cycle over simulated hosts; plans take two seconds, runs five."""

    def __init__(self, rules: list[Rule], hosts: Mapping[str, SimulatedHost]) -> None:
        self.now = T0
        self.hosts = dict(hosts)
        self.rules = {rule.name: rule for rule in rules}
        self.kept: list[WatchEvent] = []
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._own: list[tuple[float, int, Callable[[], None]]] = []
        """The ends of the watcher's own work."""
        self._number = count()
        self.before_store: Callable[[WatchEvent], None] = lambda event: None
        """May raise, so that an event is not stored."""
        self.after_store: Callable[[WatchEvent], None] = lambda event: None
        """May raise, so that the watcher ends with the event stored."""
        self.others_say: Callable[[WatchEvent], list[WatchEvent]] = lambda event: []
        """The events that others store in the moment before the watcher stores one."""
        self.next_cron: Callable[[str, float], float] = lambda text, after: float("inf")
        self.probe_takes = 1.0
        """The seconds of a probe."""
        self.probing = self.most_probing = 0
        """The probes under way now, and the most that ever were."""
        self.steps = 0
        """The steps of the cycle until now."""
        self._started()

    def _started(self) -> Cycle:
        remembered = Remembered(self.rules.values())
        for event in self.kept:
            remembered.take(event)
        cycle = Cycle(
            remembered,
            {name: tuple(sorted(self.hosts)) for name in self.rules},
            self.decided,
            self,
            lambda text, after: self.next_cron(text, after),
        )
        self.cycle = cycle
        self.say(Started(at=self.now))
        return cycle

    def _take(self, event: WatchEvent) -> None:
        self.cycle.remembered.take(event)
        self.cycle.note(event)

    def store(self, event: WatchEvent) -> bool:
        """Keep *event*, and take it in."""
        self.before_store(event)
        self.kept.append(event)
        self._take(event)
        self.after_store(event)
        return True

    def decided(self, event: WatchEvent) -> bool:
        """Keep *event* of the watcher itself, unless others say something in this very moment."""
        if says := self.others_say(event):
            for each in says:
                self.store(each)
            return False
        return self.store(event)

    def restart(self) -> None:
        """End the watcher without a word, and start it again: it knows what it has kept.

        What was to happen at a time happens nevertheless; the watcher's own work is lost.
        """
        self._own.clear()
        self.probing = 0
        self.cycle = self._started()

    def at(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something *seconds* after the start."""
        heapq.heappush(self._later, (T0 + seconds, next(self._number), do))

    def say(self, event: WatchEvent) -> None:
        """Hand in *event*, as a person or a webhook does."""
        self.store(event)

    def run_until(self, seconds: float) -> None:
        """Let time pass until *seconds* after the start."""
        end = T0 + seconds
        while self.now <= end:
            for times in (self._later, self._own):
                while times and times[0][0] <= self.now:
                    heapq.heappop(times)[2]()
            self.steps += 1
            due = self.cycle.step(self.now)
            following = min((times[0][0] for times in (self._later, self._own) if times), default=float("inf"))
            self.now = max(self.now + 0.001, min(due, following))
        self.now = end

    def runs(self, host: str) -> list[float]:
        """Return the seconds after the start at which *host* was changed."""
        return [at - T0 for at in self.hosts[host].runs]

    def of(self, kind: type) -> list[WatchEvent]:
        """Return all events of a kind."""
        return [event for event in self.kept if isinstance(event, kind)]

    def _after(self, seconds: float, event: Callable[[], WatchEvent]) -> None:
        heapq.heappush(self._own, (self.now + seconds, next(self._number), lambda: self.say(event())))

    def reading(self, name: str) -> Reading:
        """Return what a probe of the host *name* says now."""
        host = self.hosts[name]
        if not host.answers:
            return Reading(host=name, presence=Presence.UNKNOWN, say="no answer")
        if not host.faulty:
            return Reading(host=name, presence=Presence.ABSENT)
        return Reading(
            host=name, presence=Presence.PRESENT, say="faulty", changes=1, risk=host.risk, signature=host.work
        )

    def probe(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> None:
        self.probing += 1
        self.most_probing = max(self.most_probing, self.probing)

        def made() -> Probed:
            self.probing -= 1
            readings = tuple(map(self.reading, hosts))
            well = sum(each.presence is Presence.ABSENT for each in readings)
            return Probed(at=self.now, rule=rule.name, readings=readings, well=well, whole=whole)

        self._after(self.probe_takes, made)

    def plan(self, rule: Rule, trigger: Trigger) -> None:
        number = next(self._number)

        def made() -> Proposed:
            host = self.hosts[trigger.host]
            return Proposed(
                at=self.now, rule=rule.name, host=trigger.host, episode=trigger.episode, digest=f"{number:064x}",
                file=f"/plans/{number}", until=self.now + rule.approve.within, risk=host.risk, signature=host.work,
                say="it would end 1 process", requester=trigger.by,
            )  # fmt: skip

        self._after(2.0, made)

    def apply(self, rule: Rule, proposal: Proposal) -> None:
        host = self.hosts[proposal.host]
        host.runs.append(self.now)

        def made() -> Ended:
            host.faulty = host.faulty and not host.cures
            return Ended(
                at=self.now, rule=rule.name, host=proposal.host, digest=proposal.digest, run=f"run-{len(host.runs)}",
                verdict="unresolved" if host.faulty else "resolved", cured=not host.faulty, changed=True,
            )  # fmt: skip

        self._after(5.0, made)
