"""Keep two runs from changing one host at the same time."""

from __future__ import annotations

from contextlib import suppress

from engine.diagnosis.host_context import HostContext
from engine.errors import Cancelled, TransportError
from engine.facts.system.host_lock import LockBusy, LockHeld, LockUnavailable, ask_lock, ask_unlock, read_lock
from engine.values.event import Waiting
from engine.values.plan import Change
from engine.values.playbook import written_id
from engine.values.result import HostPlan

PATIENCE = 60.0
"""Seconds for which we wait until another run has done with a host."""

POLL = 1.0


class Lock:
    """The locks of one run on a host, and on those that its steps name with ``on``; taken before the first change.

    A host has one for each user as whom it is changed (see ``engine.facts.system.host_lock``).  All that the plan calls
    for are taken at once, root's last; where one of them is another run's, none is kept while we wait, so that two runs
    never wait for each other.
    """

    def __init__(self, site: HostContext, plan: HostPlan) -> None:
        self._site, self._plan = site, plan
        self._taken: dict[tuple[str, str], LockHeld | LockUnavailable] = {}
        """By the host that a step names (empty: this one) and the user to become (empty: who logged in)."""
        self._untold: dict[str, str] = {}
        self.waited = False
        """Another run has been at work meanwhile."""

    def take(self, place: str, become: str = "") -> LockBusy | None:
        """Take the locks of *place* for a change as the user *become*, unless we have them; wait if need be.

        Raises TransportError and Cancelled: then nothing was changed.
        """
        clock, began = self._site.clock, self._site.clock.now()
        reported = False
        while (busy := self._ask_all(place, become)) and clock.now() - began < PATIENCE:
            self.waited = True
            if not reported:
                self._site.emit(Waiting(host=self._site.host.name, why=busy.why))
                reported = True
            clock.sleep(POLL)
        return busy

    def held(self, place: str, become: str) -> str:
        """The directory of the lock on *place* for changes as *become*; empty where there is none."""
        answer = self._taken.get((place, become))
        return answer.place if isinstance(answer, LockHeld) else ""

    def untold(self, place: str) -> str:
        """Why nothing keeps other runs from *place* while we change it, as the end of a sentence; said once."""
        why = self._untold.pop(place, "")
        return f"; without a lock, so that another run would not have been noticed: {why}" if why else ""

    def _ask_all(self, place: str, become: str) -> LockBusy | None:
        """Ask for every lock on *place* that we do not have; all, or none of them."""
        fresh: list[str] = []
        for user in self._users(place, become):
            if (place, user) in self._taken:
                continue
            answer = self._ask(place, user)
            if isinstance(answer, LockBusy):
                for it in fresh:
                    self._give(place, it)
                return answer
            self._taken[place, user] = answer
            fresh.append(user)
            if isinstance(answer, LockUnavailable):
                self._untold.setdefault(place, answer.why)
        return None

    def _users(self, place: str, become: str) -> list[str]:
        """Those as whom the plan changes *place*, and *become*, in the order in which every run asks."""
        written = {it.id: it for it in self._site.playbook.remediate}
        users = {become}
        for planned in self._plan.steps:
            step = written[written_id(planned.id)]
            if step.on == place and (isinstance(planned.decision, Change) or not planned.ready):
                users.add(step.become)
        login = "" if place else self._site.host.user
        return sorted(users, key=lambda user: ((user or login) == "root", user or login))

    def _ask(self, place: str, user: str) -> LockHeld | LockBusy | LockUnavailable:
        facts = {name: str(it) for name, it in self._site.run.items()}
        run, by = facts.get("id", ""), facts.get("by") or "somebody"
        words = f"run {run} of {self._site.playbook.name}, by {by}, since {facts.get('started_at') or 'some time'}"
        (done,) = self._site.at(place).run(ask_lock(run, self._name(place), words, user))
        return read_lock(done)

    def _name(self, place: str) -> str:
        """Hosts of one run that change another one each have a lock of their own there."""
        return f"{place}-{self._site.host.name}" if place else self._site.host.name

    def _give(self, place: str, user: str) -> None:
        """Give one back.  Never raises: with the connection, the lock ends anyway."""
        if isinstance(self._taken.pop((place, user)), LockHeld):
            with suppress(TransportError, Cancelled):
                run = str(self._site.run.get("id", ""))
                self._site.at(place).run(ask_unlock(run, self._name(place), user))

    def give(self) -> None:
        """Give back what we have."""
        for place, user in list(self._taken):
            self._give(place, user)
