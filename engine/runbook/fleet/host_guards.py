"""Connections and a clock that keep one host within its limits: its own deadline, and its turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from runbook.errors import Cancelled, ConnectionLost
from runbook.executor.cancellation import HostCancellation
from runbook.protocols import Clock, Connection
from runbook.values.command import Command, Completed, Effect

Spent = tuple[tuple[Command, ...], float]


class Renewable:
    """A connection that can be re-established once the host has been away.

    *spent*: commands that an earlier connection was lost with, and for how many seconds they had run: when they are
    retried, once, they have the rest of their timeout.
    """

    def __init__(
        self, connect: Callable[[], Connection], spent: Spent = ((), 0.0), now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._connect, self._before, self._now = connect, spent, now
        self._inner = connect()
        self.spent = spent

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*."""
        sent, began = commands, self._now()
        if commands == self._before[0]:
            sent = tuple(
                replace(command, timeout=command.timeout and max(1.0, command.timeout - self._before[1]))
                for command in commands
            )
            self._before = (), 0.0
        try:
            return self._inner.run(*sent)
        except ConnectionLost:
            self.spent = commands, self._now() - began
            raise

    def renew(self) -> None:
        """Give the connection up, and open another one.  Raises Unreachable."""
        self._inner.close()
        self._inner = self._connect()

    def close(self) -> None:
        """Hang up."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class UntilDeadline:
    """A connection over which nothing more begins once the host's own deadline has passed."""

    inner: Connection
    own: HostCancellation

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*.  Raises Cancelled, which names the deadline where that is the reason."""
        if self.own.passed and not all(command.owed for command in commands):
            raise Cancelled(f"{self.own.why}; not sent any more: {commands[0].brief()}")
        try:
            return self.inner.run(*commands)
        except Cancelled as error:
            if not self.own.is_why:
                raise
            raise Cancelled(f"{self.own.why}: {error}", sent=error.sent) from error

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()


@dataclass(slots=True)
class WithoutTurn:
    """A connection to a host whose turn to be changed has not come: probes pass, and a change is noted, not sent."""

    inner: Connection
    asked: bool = False
    """A change was to be sent."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* if none of them is a change.  Raises Cancelled."""
        for command in commands:
            if command.effect is Effect.WRITE:
                self.asked = True
                raise Cancelled(f"not sent, because the host's turn has not come: {command.brief()}")
        return self.inner.run(*commands)

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class HostClock:
    """A clock on which no sleep lasts longer than the host's own deadline."""

    inner: Clock
    own: HostCancellation

    def now(self) -> float:
        """Seconds."""
        return self.inner.now()

    def sleep(self, seconds: float) -> None:
        """Wait; return early when the run is asked to end, or the host's deadline passes."""
        self.inner.sleep(min(seconds, max(0.0, self.own.left())))
