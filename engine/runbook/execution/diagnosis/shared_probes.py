"""Share probes (``once``) and connections to other hosts (``on``) between the hosts of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from runbook.errors import ConnectionLost, TransportError, Unreachable
from runbook.execution.diagnosis.probe_types import ProbeResult
from runbook.protocols import Clock, Connection
from runbook.values.command import Command, Completed

RESTS = 30.0
"""The seconds for which a host that could not be reached is not connected to again."""


@dataclass(slots=True)
class _Answer:
    lock: threading.Lock
    probed: ProbeResult | None = None
    began: float = 0.0


class SharedProbes:
    """Probes that run once for all hosts: the first host that needs a probe runs it, and the others wait for its
    answer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[str, _Answer] = {}
        self._lock = threading.Lock()

    def answer(self, key: str, take: Callable[[], ProbeResult], *, fresh: bool) -> ProbeResult:
        """Return the result of *take*, or the result that another host got for the same *key*.

        *fresh*: something was changed, so that only a probe that began after this call counts.  A failed probe is a
        result for all hosts.  An exception of *take* is raised for its own host only: the next host runs the probe.
        """
        asked = self._clock.now()
        with self._lock:
            answer = self._answers.setdefault(key, _Answer(threading.Lock()))
        with answer.lock:
            if answer.probed is not None and (not fresh or answer.began > asked):
                return replace(answer.probed, commands=(), seconds=0.0)
            began = self._clock.now()
            answer.probed, answer.began = take(), began
            return answer.probed


class OtherHosts:
    """Connections to the hosts that steps name with ``on``: one connection for each host, used by one thread at a
    time.
    """

    def __init__(self, connect: Callable[[str], Connection], clock: Clock) -> None:
        self._connect, self._clock = connect, clock
        self._places: dict[str, _Place] = {}
        self._lock = threading.Lock()

    def to(self, name: str) -> Connection:
        """Return the connection to the host *name*; it is opened when the first command is sent."""
        with self._lock:
            if name not in self._places:
                self._places[name] = _Place(name, lambda: self._connect(name), self._clock)
            return self._places[name]

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for place in self._places.values():
                place.hang_up()


class _Place:
    """A connection that many threads use, one at a time; it is opened again after it was lost."""

    def __init__(self, name: str, connect: Callable[[], Connection], clock: Clock) -> None:
        self._name, self._connect, self._clock = name, connect, clock
        self._connection: Connection | None = None
        self._refused: Unreachable | None = None
        self._refused_at = 0.0
        self._lock = threading.Lock()

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* as a connection does; an error about a lost connection names the host."""
        with self._lock:
            connection = self._opened()
            try:
                return connection.run(*commands)
            except ConnectionLost as error:
                self._drop()
                raise ConnectionLost(f"on {self._name}: {error}") from error

    def close(self) -> None:
        """Do nothing: the run closes the connection, not its user."""

    def hang_up(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _opened(self) -> Connection:
        if self._connection is not None:
            return self._connection
        if self._refused and self._clock.now() - self._refused_at < RESTS:
            raise self._refused
        try:
            self._connection = self._connect()
        except TransportError as error:
            self._refused = Unreachable(f"on {self._name}: {error}")
            self._refused_at = self._clock.now()
            raise self._refused from error
        return self._connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def no_other_hosts(name: str) -> Connection:
    """Raise Unreachable for every *name*: this run has no connections to other hosts."""
    raise Unreachable(f"on {name}: no other host can be reached from here")
