"""A run over pretended hosts that fail in their own ways, and what was going on in it at every moment."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from runbook.errors import ConnectionLost, Unreachable
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.fleet import UNWELL, Cancellation, Fleet
from runbook.language.loader import load_playbook
from runbook.values.command import Effect
from runbook.values.inventory import Host
from runbook.values.result import HostResult, Verdict
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost
from tests.support.waiting import soon

BOOK = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error}
remediate:
  - {id: stop, for: held, end: {word: zombie}}
"""

WAYS = {
    "cured": Verdict.RESOLVED,
    "idle": Verdict.HEALTHY,
    "broken": Verdict.FAILED,
    "stuck": Verdict.UNRESOLVED,
    "blind": Verdict.UNKNOWN,
    "dropped": Verdict.UNKNOWN,
    "down": Verdict.UNREACHABLE,
}
"""How a host fares, and the verdict if its turn comes: a kill that fails, one that ends nothing, no answer from `ps`, a
line that is lost over the kill, no way in."""


@dataclass
class Machine(ToyHost):
    """A host that says when it is being changed."""

    name: str = ""
    watch: Watch | None = None
    seconds: float = 0.0
    """How long a probe takes."""
    hangs: int = 0
    """A probe is answered once so many hosts have ended."""
    after: int = 0
    """It is changed once so many hosts have ended."""
    falls_ill_at: int = -1
    """The number of the command from which on something is to be changed; -1 never."""

    def _run(self, command):
        if len(self.sent) == self.falls_ill_at:
            self.procs[4] = (1, "zombie")
        if self.seconds and command.effect is Effect.READ:
            time.sleep(self.seconds)  # noqa: TID251 hosts take different times
        late = self.after if command.effect is Effect.WRITE else self.hangs
        if self.watch and late:
            ended = self.watch.ended
            soon(lambda: len(ended) >= late)
        if command.effect is Effect.WRITE and self.watch:
            self.watch.changes(self.name)
        return super()._run(command)


@dataclass
class Watch:
    """What is going on, by what hosts are sent and by the events."""

    rack: dict[str, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_work: set[str] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)
    ended: dict[str, Verdict] = field(default_factory=dict)
    reported: Counter[str] = field(default_factory=Counter)
    waves: list[tuple[str, ...]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    most_unavailable: int = 0
    """The most hosts that were being changed or unwell at a moment at which one was being changed."""
    most_per_rack: int = 0

    def changes(self, name: str) -> None:
        """*name* is sent a change."""
        with self.lock:
            self.at_work.add(name)
            self.changed.append(name)
            self._measure()

    def note(self, event) -> None:
        """Take note of *event*."""
        with self.lock:
            match event.kind:
                case "host_finished":
                    self.at_work.discard(event.result.host)
                    self.ended[event.result.host] = event.result.verdict
                    self.reported[event.result.host] += 1
                    self._measure()
                case "batch_finished":
                    assert set(event.hosts) <= set(self.ended), "a batch is over when all of its hosts are"
                    self.waves.append(event.hosts)
                    self.pauses.append(event.pause)

    def _measure(self) -> None:
        if not self.at_work:
            return
        unwell = [name for name, verdict in self.ended.items() if verdict in UNWELL]
        self.most_unavailable = max(self.most_unavailable, len(self.at_work) + len(unwell))
        racks = Counter(self.rack[name] for name in self.at_work if name in self.rack)
        self.most_per_rack = max([self.most_per_rack, *racks.values()])


@dataclass
class Ran:
    """What became of a run."""

    results: tuple[HostResult, ...]
    watch: Watch
    machines: dict[str, Machine]
    stop: Cancellation

    def ends(self) -> dict[str, list[str]]:
        """The hosts by their verdicts."""
        found: dict[str, list[str]] = {}
        for it in self.results:
            found.setdefault(it.verdict.value, []).append(it.host)
        return found


def ran(
    ways: dict[str, str],
    limits: str,
    *,
    two_phases: bool = False,
    consent: Consent | None = None,
    parallel: int = 32,
    rack: dict[str, str] | None = None,
    seconds: float = 0.0,
    slow: dict[str, float] | None = None,
    hangs: dict[str, int] | None = None,
    after: dict[str, int] | None = None,
    clock=None,
    stop: Cancellation | None = None,
) -> Ran:
    """A run over hosts that fare as *ways* says, by their names, under *limits*.

    A host in *hangs* answers a probe, and one in *after* is changed, once so many have ended.
    """
    watch, stop, rack = Watch(rack=rack or {}), stop or Cancellation(), rack or {}
    machines = {name: _machine(name, way, watch, (slow or {}).get(name, seconds)) for name, way in ways.items()}
    for name, machine in machines.items():
        machine.hangs, machine.after = (hangs or {}).get(name, 0), (after or {}).get(name, 0)

    def connect(host):
        if ways[host.name] == "down":
            raise Unreachable("no route to host")
        return machines[host.name]

    fleet = Fleet(playbook=load_playbook(f"{BOOK}limits: {limits}\n" if limits else BOOK, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=watch.note), connect=connect, clock=clock or ToyClock(), stop=stop, parallel=parallel)  # fmt: skip
    hosts = [Host(name=name, vars={"rack": rack[name]} if name in rack else {}) for name in ways]
    if two_phases:
        results = fleet.carry_out(fleet.plan(hosts), consent or Consent.SHOWN)
    else:
        results = fleet.plan_and_carry_out(hosts, consent or Consent.YES)
    return Ran(results=results, watch=watch, machines=machines, stop=stop)


def _machine(name: str, way: str, watch: Watch, seconds: float) -> Machine:
    procs = {} if way == "idle" else {4: (1, "zombie")}
    stubborn = frozenset({"zombie"} if way in ("broken", "stuck") else ())
    machine = Machine(procs=procs, stubborn=stubborn, name=name, watch=watch, seconds=seconds)
    machine.kill_exit = 3 if way == "broken" else 0
    machine.blind = way == "blind"
    if way == "dropped":
        machine._kill = _lost  # type: ignore[method-assign]
    return machine


def _lost(key: str) -> None:
    raise ConnectionLost("the line went dead")
