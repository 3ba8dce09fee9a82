"""A connection to a gateway (jump host, bastion), and the connections that go through it."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

import fabric

from runbook.connections.transports.ssh.bounded_transport import BoundedTransport
from runbook.connections.transports.ssh.keepalive import watch
from runbook.connections.transports.ssh.proxy_command import ProxyCommand
from runbook.errors import ConnectionLost
from runbook.protocols import Connection
from runbook.values.command import Command, Completed

MOST_CHANNELS = 500
"""Channels through one connection.

Each is a socket of the gateway's sshd, which may have 1024 files open (RLIMIT_NOFILE) where nobody has raised that.
Its MaxSessions does not count them: only shells, logins and subsystems (sshd_config(5)).
"""

DYING = 0.3
"""The seconds to wait for the end of a connection that may be about to end."""


@dataclass(slots=True)
class Line:
    """An SSH connection, and the connection to the gateway that it goes through, if any."""

    connection: fabric.Connection
    through: GatewayConnection | None = None

    def close(self) -> None:
        """Close the connection, and release its channel through the gateway.  Never raises."""
        sock = self.connection.connect_kwargs.get("sock")
        with contextlib.suppress(Exception):  # it may be half open
            self.connection.client.close()
        with contextlib.suppress(Exception):  # as above
            if isinstance(sock, ProxyCommand):
                sock.end()
            elif sock is not None:
                sock.close()
        through, self.through = self.through, None
        if through:
            through.give_back()

    def gateways(self) -> tuple[GatewayConnection, ...]:
        """Return the connections to all gateways that this connection goes through, in order from this machine."""
        return (*self.through.line.gateways(), self.through) if self.through else ()


@dataclass(slots=True)
class GatewayConnection:
    """An open connection to the gateway *name*, which hosts share.  Safe for threads."""

    name: str
    line: Line
    keepalive: float
    transport: BoundedTransport = field(init=False)
    before: tuple[GatewayConnection, ...] = field(init=False)
    """The gateways before this one, in order from this machine."""
    channels: int = 0
    """The number of channels that are open through this connection, or are about to be opened."""
    most: int = MOST_CHANNELS
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Start to watch the connection with keepalives."""
        transport = self.line.connection.client.get_transport()
        assert isinstance(transport, BoundedTransport)
        self.transport, self.before = transport, self.line.gateways()
        transport.logged_in()
        watch(transport, self.keepalive, [connection.transport for connection in self.before])

    def stands(self) -> bool:
        """Whether the connection is alive, as far as is known now."""
        return (
            self.transport.is_active()
            and self.transport.is_alive()
            and all(connection.stands() for connection in self.before)
        )

    def lost(self) -> str:
        """Return the reason why the connection is lost, with the same text for every host behind the gateway.

        Empty if the connection is alive.
        """
        for connection in (*self.before, self):
            connection.transport.join(DYING)  # what leads through it may notice before it does
            if not connection.transport.is_active():
                return f"the connection to the gateway {connection.name} was lost: {connection.transport.ended()}"
        return ""

    def take(self, *, beyond: bool = False) -> bool:
        """Whether one more channel may be opened; if so, count it.  *beyond*: count it even beyond the limit."""
        with self._lock:
            if self.channels >= self.most and not beyond:
                return False
            self.channels += 1
            return True

    def give_back(self) -> None:
        """Count one channel less."""
        with self._lock:
            self.channels -= 1

    def is_full(self) -> None:
        """Lower the limit of channels after the server refused one, to the number of the other open channels."""
        with self._lock:
            if self.channels > 1:
                self.most = min(self.most, self.channels - 1)

    def close(self) -> None:
        """Close the connection.  Never raises."""
        self.line.close()


class BehindGateway:
    """A connection to a host behind a gateway; if the connection to the gateway is lost, the error says so."""

    def __init__(self, inner: Connection, gateway: GatewayConnection) -> None:
        self._inner, self._gateway = inner, gateway

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """See ``runbook.protocols.Connection``."""
        try:
            return self._inner.run(*commands)
        except ConnectionLost as error:
            if why := self._gateway.lost():
                raise ConnectionLost(why, sent=error.sent) from error
            raise

    def close(self) -> None:
        """Close the connection to the host; the connection to the gateway stays open."""
        self._inner.close()
