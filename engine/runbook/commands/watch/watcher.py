"""Run the watcher: one loop over the store of events, the cycle, and the programs that do the work."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from runbook.commands.sources import inventory_for
from runbook.commands.watch.event_store import FILE, LOCK, Stored, StoreError
from runbook.commands.watch.known import Known
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.programs import Programs
from runbook.commands.watch.rule_files import hosts_of_rules
from runbook.dataclass import dataclass
from runbook.errors import RunbookError
from runbook.inventory.listing_program import forget_lists
from runbook.records.private_folder import PrivateFolder
from runbook.text.printable import on_one_line
from runbook.values.plan import Presence
from runbook.values.types import seconds
from runbook.values.watch_rule import Rule
from runbook.watch.alerts import AlertSeen, Payload, hosts_named
from runbook.watch.cycle import Cycle
from runbook.watch.events import Alerted, Faulted, NotProposed, Probed, Proposed, Reading, Started, Stopped, WatchEvent
from runbook.watch.memory import NOTHING

PAUSE = 0.5
"""Seconds after which the events that others have stored are read."""
LATE = 60.0
"""Seconds without a cycle after which the watcher says that it is stuck."""
AFTER_A_FAULT = 5.0
"""Seconds until the watcher begins again after a fault of its own."""
READ_AGAIN = 60.0
"""Seconds after which the inventory is read again."""
PRUNED_EVERY = 86400.0
CLOCK_STEP = 5.0
"""Seconds by which the clock may be put back before the times of what was seen count for nothing."""


class ClockPutBack(RunbookError):
    """The clock of this machine was put back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The number of alerts of one payload that led to something, and of those that did not."""

    taken: int = 0
    """Alerts that began or were resolved, for a host of a rule: they were stored."""
    known: int = 0
    """Alerts that say nothing new."""
    unlistened: int = 0
    """Alerts to which no rule listens."""
    unknown_hosts: int = 0
    """Alerts that a rule listens to, about a host that it may not touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the watcher is at work."""

    is_well: bool
    why: str = ""
    """The reason why it is not; anybody may read it, so that it names no host and no file."""
    cycle_age: float = 0.0
    """Seconds since the last cycle ended."""


class Watcher:
    """A watcher with a thread of its own; all that it knows may be read under ``lock``."""

    def __init__(
        self, rules: tuple[Rule, ...], folder: PrivateFolder, options: ServeOptions, say: Callable[[str], None]
    ) -> None:
        """Open the store in *folder*, and read the inventory.  Raises ConfigError.

        The *rules* stay as they are now: one that is being edited must not become true by itself.
        """
        self.lock = threading.RLock()
        self._rules, self._options, self._say = rules, options, say
        self._heard: queue.SimpleQueue[WatchEvent] = queue.SimpleQueue()
        self._wake, self._stop = threading.Event(), threading.Event()
        self.known = Known(rules, folder)
        self.hosts: Mapping[str, tuple[str, ...]] = self._read_hosts()
        self._read_at = self._cycle_at = time.monotonic()
        self._pruned_at = -PRUNED_EVERY
        self._reading: threading.Thread | None = None
        """The thread that reads the inventory again."""
        self._now = 0.0
        """The time of the last cycle, by the clock that may be put back."""
        self._files = _identities(folder)
        self._fault = ""
        self.listeners: list[Callable[[Stored], None]] = []
        """Called with each event that is taken in, in a thread of the watcher or of who appends, under ``lock``."""
        self._programs = Programs(folder, options, self._hear)
        self._cycle: Cycle | None = None
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def end(self) -> None:
        """End probes, and stop to decide; runs that change a host go on by themselves."""
        self._stop.set()
        self._wake.set()
        self._programs.end()
        self._thread.join(timeout=10)

    def wake(self) -> None:
        """Have the next cycle begin now."""
        self._wake.set()

    def stop(self, digest: str, by: str) -> bool:
        """Interrupt the run of the plan *digest* for *by*; returns whether there is one that can be interrupted."""
        with self.lock:
            if (place := self.known.remembered.running(digest)) is None:
                return False
            rule, host = place
            stopped = Stopped(at=time.time(), rule=rule, host=host, digest=digest, by=by)
            return self._programs.stop(digest, lambda: self.known.append(stopped))

    def is_closing(self) -> bool:
        """Whether the watcher is about to end."""
        return self._stop.is_set()

    def health(self) -> Health:
        """Return whether the watcher decides, without waiting for ``lock``."""
        age = time.monotonic() - self._cycle_at
        why = self._fault and "the watcher does not decide; its output says why"
        if not why and age > LATE:
            why = f"the last cycle was {seconds(age)} ago"
        return Health(is_well=not why, why=why, cycle_age=age)

    def heard(self, payload: Payload) -> Heard:
        """Store what is new in *payload*, and count it; nothing is decided here.  Raises StoreError."""
        now, new = time.time(), list[WatchEvent]()
        known = unlistened = unknown_hosts = 0
        here: set[tuple[str, str, str]] = set()
        with self.lock:
            for alert in payload.alerts:
                named = [*hosts_named(alert, self.known.rules)]
                unlistened += not named
                for rule, host in named:
                    if host not in self.hosts.get(rule.name, ()):
                        unknown_hosts += 1
                    elif (rule.name, host, alert.episode) in here or self._is_known(rule.name, host, alert, now):
                        known += 1
                    else:
                        here.add((rule.name, host, alert.episode))
                        new.append(_alerted(rule.name, host, alert, now))
            if new:
                self.known.append(*new)
        if new:
            self._wake.set()
        return Heard(taken=len(new), known=known, unlistened=unlistened, unknown_hosts=unknown_hosts)

    def _is_known(self, rule: str, host: str, alert: AlertSeen, now: float) -> bool:
        """Whether *alert* says nothing that is not known; one that goes on is stored again after an hour."""
        for each in self.known.remembered.host(rule, host).alerts:
            if each.episode == alert.episode:
                return not each.firing or (alert.firing and now - each.heard < 3600.0)
        return not alert.firing

    def _hear(self, event: WatchEvent) -> None:
        self._heard.put(event)
        self._wake.set()

    def _read_hosts(self) -> Mapping[str, tuple[str, ...]]:
        forget_lists()
        return hosts_of_rules(self._rules, inventory_for(self._options.choosing, ""))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._refuse_exchange()
                if self._cycle is None:
                    self._begin()
                following = self._once()
                self._fault = ""
            except Exception as error:  # a cycle that fails does not keep the next one from starting
                self._fail(error)
                self._stop.wait(AFTER_A_FAULT)
                continue
            self._wake.wait(max(0.01, min(PAUSE, following - time.time())))
            self._wake.clear()

    def _begin(self) -> None:
        """Begin again from the store: what was seen before does not count, and runs that are not over are followed."""
        with self.lock:
            if self._fault:
                self.known.close()
                self.known = Known(self._rules, self.known.folder)
            known = self.known
            cycle = Cycle(known.remembered, self.hosts, known.decided, self._programs, next_cron)
            known.listeners[:] = [lambda stored: cycle.note(stored.event), self._tell]
            if self._fault:
                known.append(Faulted(at=time.time(), rule="", why=on_one_line(self._fault, 500)))
            known.append(Started(at=time.time()))
            self._cycle = cycle
            for rule, host in known.remembered.remembered_hosts():
                for run in known.remembered.host(rule, host).runs:
                    if not run.ended:
                        self._programs.follow(rule, host, run.digest)

    def _tell(self, stored: Stored) -> None:
        for listener in self.listeners:
            try:
                listener(stored)
            except Exception as error:  # it is stored, and others hear of it
                self._say(f"an event could not be passed on: {type(error).__name__}: {error}")

    def _once(self) -> float:
        """Carry out one cycle.  Returns the time of the next step."""
        assert self._cycle
        before, self._now = self._now, time.time()
        if self._now < before - CLOCK_STEP:
            raise ClockPutBack(f"the clock was put back by {seconds(before - self._now)}; all is probed again")
        self._refresh()
        with self.lock:
            self.known.catch_up()
            while not self._heard.empty():
                event = self._heard.get()
                try:
                    self.known.append(self._fitting(event))
                except RunbookError:
                    self._heard.put(event)  # it has happened, and is stored later
                    raise
            following = self._cycle.step(time.time())
            self._cycle_at = time.monotonic()
        return following

    def _fitting(self, event: WatchEvent) -> WatchEvent:
        """Return *event* as it is stored now that it is heard: nobody has to approve a plan whose trigger is over."""
        if isinstance(event, Proposed) and not self.known.remembered.is_live(event.rule, event.host, event.episode):
            why = "what it was to be made for is over"
            return NotProposed(at=event.at, rule=event.rule, host=event.host, episode=event.episode, why=why)
        return self._sparing(event)

    def _sparing(self, event: WatchEvent) -> WatchEvent:
        """Return *event* without the readings that say nothing new, of hosts about which nothing is to be decided."""
        if not isinstance(event, Probed) or not event.whole:
            return event
        remembered = self.known.remembered

        def says_something(reading: Reading) -> bool:
            known = remembered.host(event.rule, reading.host)
            if known is NOTHING:
                return reading.presence is not Presence.ABSENT
            is_new = known.seen is None or known.seen.presence is not reading.presence
            return is_new or reading.presence is Presence.PRESENT or any(remembered.triggers(event.rule, reading.host))

        return replace(event, readings=tuple(filter(says_something, event.readings)))

    def _refresh(self) -> None:
        """Have the inventory read again, for which nobody has to wait, and remove what is old."""
        now = time.monotonic()
        if now - self._read_at > READ_AGAIN and not (self._reading and self._reading.is_alive()):
            self._reading = threading.Thread(target=self._read_again, name="inventory", daemon=True)
            self._reading.start()
        if now - self._pruned_at > PRUNED_EVERY:
            self._pruned_at = now
            with self.lock:
                self.known.prune(time.time())
            self._programs.prune(time.time())

    def _read_again(self) -> None:
        try:
            hosts = self._read_hosts()
            with self.lock:
                self.hosts = hosts
                if self._cycle:
                    self._cycle.know_hosts(hosts)
        except Exception as error:  # the hosts stay as they were
            self._say(f"the inventory cannot be read: {error}")
            self._heard.put(
                Faulted(at=time.time(), rule="", why=on_one_line(f"the inventory cannot be read: {error}", 500))
            )
        finally:
            self._read_at = time.monotonic()

    def _refuse_exchange(self) -> None:
        """Raise StoreError if the files of the state are not those that were opened at the start.

        A person may have removed them, or brought back older ones: this watcher would not hear of what others store
        there, and must not go on as if nothing had been.
        """
        if _identities(self.known.folder) != self._files:
            raise StoreError(f"the state in {self.known.folder.path} was removed or exchanged: start the watcher again")

    def _fail(self, error: Exception) -> None:
        """Note a fault, after which all is begun again: an event may have been stored that was not taken in."""
        words = str(error) if isinstance(error, RunbookError) else f"{type(error).__name__}: {error}"
        self._say(f"the watcher does not decide: {words}")
        self._fault = words
        with self.lock:
            self._cycle = None


def _identities(folder: PrivateFolder) -> dict[str, tuple[int, int]]:
    """Return the device and the inode of the files of the state that are there."""
    found = {}
    for name in (FILE, LOCK):
        with suppress(OSError):
            there = os.stat(folder.path / name, follow_symlinks=False)
            found[name] = (there.st_dev, there.st_ino)
    return found


def next_cron(text: str, after: float) -> float:
    """Return the next time of the five fields of cron *text* after the time *after*; in the local time zone."""
    from datetime import UTC, datetime

    from apscheduler.triggers.cron import CronTrigger

    trigger = CronTrigger.from_crontab(text)
    found = trigger.get_next_fire_time(None, datetime.fromtimestamp(after + 0.001, UTC))
    return found.timestamp() if found else float("inf")


def _alerted(rule: str, host: str, alert: AlertSeen, now: float) -> Alerted:
    return Alerted(at=now, rule=rule, host=host, episode=alert.episode, since=alert.since, firing=alert.firing)
