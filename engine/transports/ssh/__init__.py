"""Commands over SSH, on connections that Fabric makes."""

from __future__ import annotations

import logging

from engine.errors import Unreachable
from engine.protocols import Connection, ConnectOptions, Interrupt
from engine.sessions.connection import SessionConnection
from engine.transports.ssh.connection import SshConnection
from engine.transports.ssh.error_translation import NextAddress
from engine.transports.ssh.interruptible import waited_for
from engine.transports.ssh.private_keys import locked
from engine.transports.ssh.route import Route, opened
from engine.values.inventory import Address, Host

__all__ = ["connect", "locked"]


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """A connection to the first address that answers.  Raises Unreachable with the reason of each that does not.

    The next address is tried on connection failures only, never after a refused login or a wrong host key.
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    reasons: list[str] = []
    for way in _ways(host):
        if interrupt.level():
            raise Unreachable("asked to stop before it was connected to")
        try:
            line = waited_for(lambda way=way: SshConnection(opened(host, way, options), options), interrupt)  # type: ignore[misc]
        except NextAddress as error:
            reasons.append(f"{way.address}{' by proxy' if way.proxy else ''}: {error}")
        except Unreachable as error:
            reasons.append(f"{way.address}: {error}")
            break
        else:
            return SessionConnection(
                line, interrupt, options.become_password, host.name, shell_within=options.shell_within
            )
    raise Unreachable("; ".join(reasons))


def _ways(host: Host) -> list[Route]:
    ways = [Route(address=it) for it in host.addresses or (Address(host=host.name),)]
    return [*ways, Route(address=Address(host=host.name), proxy=host.proxy)] if host.proxy else ways
