"""Lock hosts, so that two runs do not change one host at the same time."""

from __future__ import annotations

from contextlib import suppress
from math import inf
from posixpath import dirname

from runbook.errors import Cancelled, TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.polling import poll
from runbook.onhost.host_lock import AGAIN, LockBusy, LockHeld, LockUnavailable, ask_lock, ask_unlock, read_lock
from runbook.values.plan import Change
from runbook.values.playbook import written_step
from runbook.values.result import HostPlan
from runbook.values.types import seconds

POLL = 1.0


class Lock:
    """The locks of one run, on its host and on the hosts that its steps name with ``on``, taken before changes.

    A host has one lock for each account that changes it (see ``facts.system.host_lock``).  All locks of the plan are
    taken together, root's last.  If another run holds one of them, the others are released before the wait, so that two
    runs never wait for each other.
    """

    def __init__(self, context: HostContext, plan: HostPlan) -> None:
        self._context, self._plan = context, plan
        self._taken: dict[tuple[str, str], LockHeld | LockUnavailable] = {}
        """Keyed by the host that a step names (empty: this host) and the user to become (empty: the login user)."""
        self._untold: dict[str, str] = {}
        self._waits_until: dict[str, float] = {}
        """Keyed by host: the run waits once for another run's lock, however many steps need the lock."""
        self.waited = False
        """Whether another run has worked on the host since this run probed it."""

    def take(self, place: str, become: str = "") -> LockBusy | None:
        """Take the locks of the host *place* that a change as the user *become* needs; wait if another run has one.

        Returns None on success.  Raises TransportError and Cancelled: then nothing was changed.
        """
        clock, wait = self._context.clock, self._context.run.wait_lock
        attempts = 0
        has_waited = place in self._waits_until

        def attempt() -> LockBusy | None:
            nonlocal attempts
            attempts += 1
            busy = self._ask_all(place, become)
            if busy:
                self._waits_until.setdefault(place, clock.now() + wait)
            return busy

        def waiting(busy: LockBusy | None) -> str:
            return f"{busy.why.removesuffix(AGAIN)}; waiting up to {seconds(wait)}" if busy and not has_waited else ""

        busy = poll(
            self._context,
            attempt,
            lambda busy: busy is None or clock.now() >= self._waits_until[place],
            within=inf,
            every=POLL,
            waiting=waiting,
        )
        self.waited = self.waited or attempts > 1
        return busy

    def renew(self, become: str) -> LockBusy | None:
        """Take the locks of this host again after a reboot, which has removed them.

        Raises TransportError and Cancelled.
        """
        for key in [key for key in self._taken if not key[0]]:
            del self._taken[key]
        self._waits_until.pop("", None)
        return self.take("", become)

    def has(self, place: str, become: str) -> bool:
        """Whether the run has the lock of *place* for the user *become*, or the host cannot keep a lock."""
        return (place, become) in self._taken

    def held(self, place: str, become: str) -> str:
        """Return the directory of the lock that this run has on *place* for changes as *become*; empty if it has
        none.
        """
        answer = self._taken.get((place, become))
        return answer.place if isinstance(answer, LockHeld) else ""

    def untold(self, place: str) -> str:
        """Return the reason why no lock protects *place* from other runs, as the end of a sentence; at most once."""
        why = self._untold.pop(place, "")
        return f"; changed without the host's lock, so another run would not have been noticed: {why}" if why else ""

    def _ask_all(self, place: str, become: str) -> LockBusy | None:
        """Take every lock on *place* that this run does not have yet; if one lock is busy, release the new ones."""
        fresh: list[str] = []
        for user in self._users(place, become):
            if (place, user) in self._taken:
                continue
            answer = self._ask(place, user)
            if isinstance(answer, LockBusy):
                for locked_user in fresh:
                    self._give(place, locked_user)
                return answer
            if self._was_used(place, answer):
                self.waited = True
            self._taken[place, user] = answer
            fresh.append(user)
            if isinstance(answer, LockUnavailable):
                self._untold.setdefault(place, answer.why)
        return None

    def _was_used(self, place: str, answer: LockHeld | LockUnavailable) -> bool:
        """Whether another run has held the lock of *answer* since this run began to probe the host.

        The login user and the user *become* may be the same user.  Then the lock was not idle because this run holds
        it.
        """
        if not isinstance(answer, LockHeld) or answer.idle > self._context.clock.now() - self._context.began + 1:
            return False
        ours = (it for (where, _), it in self._taken.items() if where == place and isinstance(it, LockHeld))
        return dirname(answer.place) not in {dirname(held.place) for held in ours}

    def _users(self, place: str, become: str) -> list[str]:
        """Return the users whose locks on *place* the plan needs, *become* included; every run takes them in this
        order.
        """
        users = {become}
        for planned in self._plan.steps:
            step = written_step(self._context.playbook.remediate, planned.id)
            if step.on == place and (isinstance(planned.decision, Change) or not planned.ready):
                users.add(step.become)
        login = "" if place else self._context.host.user
        return sorted(users, key=lambda user: ((user or login) == "root", user or login))

    def _ask(self, place: str, user: str) -> LockHeld | LockBusy | LockUnavailable:
        facts = {name: str(value) for name, value in self._context.run.facts.items()}
        run, by = facts.get("id", ""), facts.get("by") or "somebody"
        words = f"run {run} of {self._context.playbook.name}, by {by}, since {facts.get('started_at') or 'some time'}"
        (done,) = self._context.at(place).run(ask_lock(self._holder(), self._name(place), words, user))
        return read_lock(done)

    def _holder(self) -> str:
        """Return what the host knows this run by: another worker of the same run is kept out like another run."""
        run = self._context.run
        return ".".join(filter(None, (str(run.facts.get("id", "")), run.attempt)))

    def _name(self, place: str) -> str:
        """Return the name of this run's lock on *place*; hosts that change one other host each have their own name
        there.
        """
        return f"{place}-{self._context.host.name}" if place else self._context.host.name

    def _give(self, place: str, user: str) -> None:
        """Release the lock of *user* on *place*.  Never raises: the lock ends with the connection at the latest."""
        if isinstance(self._taken.pop((place, user)), LockHeld):
            with suppress(TransportError, Cancelled):
                self._context.at(place).run(ask_unlock(self._holder(), self._name(place), user))

    def give(self) -> None:
        """Release all locks of this run."""
        for place, user in list(self._taken):
            self._give(place, user)
