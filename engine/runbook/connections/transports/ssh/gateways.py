"""Share connections to gateways: all hosts of a run behind one gateway use one connection to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import field

import paramiko
from paramiko.common import (
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_FAILED_CONNECT_FAILED,
    OPEN_FAILED_RESOURCE_SHORTAGE,
)

from runbook.connections.transports.ssh.bounded_transport import ChannelRefused
from runbook.connections.transports.ssh.error_translation import GatewayLost, NextAddress
from runbook.connections.transports.ssh.gateway_connection import GatewayConnection
from runbook.dataclass import dataclass
from runbook.errors import Unreachable
from runbook.values.inventory import Address, HostKeys

MOST_CONNECTIONS = 4
"""The maximum number of connections to one gateway: a new one is made only if the others have no free channel."""

OPENING = 64
"""The maximum number of channels that are being opened at once through one gateway."""

FAILED_FOR = 5.0
"""The seconds for which a failed attempt to connect to a gateway counts for every host behind it."""

DROPPED = (0.3, 0.7, 1.5)
"""The seconds before each further attempt after a gateway closed the connection before the login (its MaxStartups)."""

SHORTAGE = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
"""The seconds before each further attempt to open a channel after the gateway lacked a resource."""

CLOSED_WITHIN = 2.0
"""The seconds that closing may take, for all gateways together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayKey:
    """The identity of a connection to a gateway; hosts with equal keys share one connection."""

    name: str
    """The name that a person uses."""
    addresses: tuple[Address, ...]
    user: str
    keys: tuple[str, ...]
    """The files of private keys."""
    host_keys: HostKeys
    through: GatewayKey | str | None
    """The gateway before this one, or its ProxyCommand."""
    policy: tuple[object, ...]
    """The connection options of the run, and its agent."""


@dataclass(slots=True)
class _Attempt:
    """One attempt to connect to a gateway; all threads that need the connection wait for it."""

    over: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    at: float = 0.0
    """The time when the attempt ended."""

    def is_the_answer(self) -> bool:
        """Whether the attempt is still running, or has failed a short time ago; then no new attempt is made."""
        if not self.over.is_set():
            return True
        lately = self.error is not None and time.monotonic() - self.at < FAILED_FOR
        return lately and not isinstance(self.error, GatewayLost)

    def again(self) -> Exception:
        """Return the error of the attempt, as a new exception for the calling thread."""
        match self.error:
            case NextAddress(gateway=gateway):
                return type(self.error)(str(self.error), gateway=gateway)
            case Unreachable():
                return type(self.error)(str(self.error))
        assert self.error
        return self.error


@dataclass(slots=True)
class Channel:
    """A channel through a gateway to a host."""

    sock: paramiko.Channel
    through: GatewayConnection


class Gateway:
    """One gateway, and the connections to it: usually one."""

    def __init__(self, name: str, make: Callable[[], GatewayConnection], closed: threading.Event) -> None:
        self.name, self._make, self._closed = name, make, closed
        self._lock, self._opening = threading.Lock(), threading.BoundedSemaphore(OPENING)
        self._connections: list[GatewayConnection] = []
        self._attempt: _Attempt | None = None

    def forward(self, address: tuple[str, int], within: float) -> Channel:
        """Open a channel to *address* within *within* seconds, and return it.

        Raises GatewayLost if the connection to the gateway was lost meanwhile, NextAddress if the gateway cannot
        connect to
        *address*, and the error of a failed attempt to connect to the gateway.
        """
        deadline, pauses = time.monotonic() + within, iter(SHORTAGE)
        while True:
            connection = self._taken()
            try:
                return self._opened(connection, address, within)
            except ChannelRefused as error:
                connection.give_back()
                pause = next(pauses, None)
                if not _short(error) or pause is None or time.monotonic() + pause > deadline:
                    raise NextAddress(self._refusal(error)) from error
                self._closed.wait(pause)
            except BaseException:
                connection.give_back()
                raise

    def close(self) -> list[GatewayConnection]:
        """Remove all connections, and return them for the caller to close."""
        with self._lock:
            taken, self._connections = self._connections, []
        return taken

    def _opened(self, connection: GatewayConnection, address: tuple[str, int], within: float) -> Channel:
        try:
            with self._opening:
                return Channel(connection.transport.forward(address, within), connection)
        except ChannelRefused as error:
            if _short(error):
                connection.is_full()
            raise
        except TimeoutError as error:
            raise NextAddress(f"no answer in time through the gateway {self.name}") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            why = connection.lost() or f"the gateway {self.name} opens no channel: {error}"
            raise GatewayLost(why) from error

    def _refusal(self, error: ChannelRefused) -> str:
        words = " ".join(error.words.split())
        if error.code == OPEN_FAILED_CONNECT_FAILED:
            return f"the gateway {self.name} cannot connect to the host: {words.lower() or 'connect failed'}"
        forbidden = error.code == OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED
        hint = " (its AllowTcpForwarding or PermitOpen may forbid it)" if forbidden else ""
        said = f"{error.text.lower()}: {words}" if words else error.text.lower()
        return f"the gateway {self.name} refuses to connect to the host: {said}{hint}"

    def _taken(self) -> GatewayConnection:
        """Return a connection on which one more channel is counted; a new connection if no other has room."""
        for _ in range(MOST_CONNECTIONS):
            self._let_go_of_the_dead()
            with self._lock:
                if taken := self._with_room():
                    return taken
                attempt, mine = self._attempt, False
                if not attempt or not attempt.is_the_answer():
                    attempt = self._attempt = _Attempt()
                    mine = True
            if mine:
                self._carry_out(attempt)
            attempt.over.wait()
            if attempt.error:
                raise attempt.again()
        raise NextAddress(f"via the gateway {self.name}: each connection to it ends at once", gateway=True)

    def _let_go_of_the_dead(self) -> None:
        with self._lock:
            dead = [connection for connection in self._connections if not connection.stands()]
            self._connections = [connection for connection in self._connections if connection not in dead]
        for connection in dead:
            connection.close()

    def _with_room(self) -> GatewayConnection | None:
        for connection in self._connections:
            if connection.take():
                return connection
        failed = self._attempt and self._attempt.over.is_set() and self._attempt.is_the_answer()
        if self._connections and (failed or len(self._connections) >= MOST_CONNECTIONS):
            least = min(self._connections, key=lambda it: it.channels)
            least.take(beyond=True)
            return least
        return None

    def _carry_out(self, attempt: _Attempt) -> None:
        try:
            made = self._made()
            with self._lock:
                if not (late := self._closed.is_set()):
                    self._connections.append(made)
            if late:
                made.close()
                raise Unreachable("the run ended while the gateway was being connected to")
        except Exception as error:
            attempt.error = error
        finally:
            attempt.at = time.monotonic()
            attempt.over.set()

    def _made(self) -> GatewayConnection:
        for pause in DROPPED:
            try:
                return self._make()
            except NextAddress as error:
                if not error.dropped:
                    raise
            if self._closed.wait(pause):
                break
        return self._make()


class GatewayPool:
    """The gateways of a run, keyed by their identity."""

    def __init__(self) -> None:
        self._lock, self._closed = threading.Lock(), threading.Event()
        self._gateways: dict[GatewayKey, Gateway] = {}

    def gateway(self, key: GatewayKey, make: Callable[[], GatewayConnection]) -> Gateway:
        """Return the gateway for *key*; *make* connects to it, once for all concurrent callers."""
        with self._lock:
            return self._gateways.setdefault(key, Gateway(key.name, make, self._closed))

    def close(self) -> None:
        """Close the connections to all gateways, and open no new ones.  Never raises."""
        self._closed.set()
        with self._lock:
            there = [connection for gateway in self._gateways.values() for connection in gateway.close()]
        closing = [threading.Thread(target=connection.close, daemon=True) for connection in there]
        deadline = time.monotonic() + CLOSED_WITHIN
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))


def _short(error: ChannelRefused) -> bool:
    """Whether the gateway lacked a resource, which may be free later or on another connection."""
    return error.code == OPEN_FAILED_RESOURCE_SHORTAGE or "too many open files" in error.words.lower()
