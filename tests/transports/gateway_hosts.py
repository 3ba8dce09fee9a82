"""Hosts behind a gateway, connected to at the same time as those of one run are."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from runbook.connections.transports import SharedConnections, ssh
from runbook.errors import TransportError
from runbook.protocols import Connection, ConnectOptions
from runbook.values.inventory import Address, Host, HostKeys
from tests.support.sshd import Sshd
from tests.transports.commands import look


def behind(gateway: Host, target: Sshd, number: int = 1, **fields) -> list[Host]:
    """*number* names of *target*, all reached through *gateway*."""
    return [target.host(f"far-{it}", via=gateway, host_keys=HostKeys.IGNORE, **fields) for it in range(1, number + 1)]


def at(host: Host, port: int) -> Host:
    """*host* where something else listens."""
    return Host(
        **{**{it: getattr(host, it) for it in host.__slots__}, "addresses": (Address(host="127.0.0.1", port=port),)}
    )


def logins(server: Sshd) -> int:
    """How often somebody has logged in at *server*."""
    return (server.folder / "log").read_text().count("Accepted publickey")


def relay(one: socket.socket, other: socket.socket) -> None:
    """Hand on what comes from *one*, until its end."""
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
        other.shutdown(socket.SHUT_RDWR)


@dataclass
class Reach:
    """The connections of a run."""

    interrupt: object
    options: ConnectOptions = field(default_factory=ConnectOptions)
    shared: SharedConnections = field(default_factory=SharedConnections)

    def connected(self, host: Host) -> Connection:
        """A connection to *host*."""
        keys = {it: getattr(self.options, it) for it in self.options.__slots__}
        return ssh.connect(host, ConnectOptions(**{**keys, "shared": self.shared}), self.interrupt)

    def said(self, host: Host) -> str:
        """What *host* answers, or why it does not."""
        try:
            connection = self.connected(host)
        except TransportError as error:
            return str(error)
        try:
            return connection.run(look("echo", host.name, timeout=60.0))[0].stdout.strip()
        except TransportError as error:
            return str(error)
        finally:
            connection.close()

    def all_said(self, hosts: Sequence[Host], parallel: int = 32) -> list[str]:
        """What each of *hosts* answers, or why it does not."""
        with ThreadPoolExecutor(parallel) as pool:
            return list(pool.map(self.said, hosts))


def reach(interrupt, **options) -> Reach:
    """Connections that share their gateways."""
    return Reach(interrupt, ConnectOptions(**{"connect_timeout": 20, "shell_within": 120, **options}))
