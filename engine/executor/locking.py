"""Keep two runs from changing one host at the same time."""

from __future__ import annotations

from engine.errors import Cancelled, TransportError
from engine.facts.locking import Busy, Held, NoLock, ask_lock, ask_unlock, read_lock
from engine.judge.site import Site
from engine.values.event import Waiting

PATIENCE = 60.0
"""Seconds for which we wait until another run has done with a host."""

POLL = 1.0


class Lock:
    """The lock of one run on a host, and on those that its steps name with ``on``; taken before the first change."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._places: dict[str, Held | NoLock] = {}
        self.waited = False
        """Another run has been at work meanwhile."""

    def take(self, place: str) -> Held | Busy | NoLock:
        """Take the lock, unless we have it; wait for it if need be.

        Raises TransportError and Cancelled: then nothing was changed.
        """
        if known := self._places.get(place):
            return known
        clock, began = self._site.clock, self._site.clock.now()
        told = False
        while isinstance(answer := self._ask(place), Busy) and clock.now() - began < PATIENCE:
            self.waited = True
            if not told:
                self._site.emit(Waiting(host=self._site.host.name, why=answer.why))
                told = True
            clock.sleep(POLL)
        if not isinstance(answer, Busy):
            self._places[place] = answer
        return answer

    def _ask(self, place: str) -> Held | Busy | NoLock:
        facts = {name: str(it) for name, it in self._site.run.items()}
        run, by = facts.get("id", ""), facts.get("by") or "somebody"
        words = f"run {run} of {self._site.playbook.name}, by {by}, since {facts.get('started_at') or 'some time'}"
        (done,) = self._site.at(place).run(ask_lock(run, self._name(place), words))
        return read_lock(done)

    def _name(self, place: str) -> str:
        """Hosts of one run that change another one each have a lock of their own there."""
        return f"{place}-{self._site.host.name}" if place else self._site.host.name

    def give(self) -> None:
        """Give back what we have.  Never raises: with the connection, the lock ends anyway."""
        for place, answer in self._places.items():
            if isinstance(answer, Held):
                try:
                    run = str(self._site.run.get("id", ""))
                    self._site.at(place).run(ask_unlock(run, self._name(place)))
                except (TransportError, Cancelled):
                    continue
