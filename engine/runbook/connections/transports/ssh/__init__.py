"""Run commands over SSH, on connections that Fabric makes."""

from __future__ import annotations

import logging

from runbook.connections.sessions.connection import SessionConnection
from runbook.connections.without_mock import without_mock
from runbook.errors import Unreachable
from runbook.protocols import Connection, ConnectOptions, Interrupt
from runbook.values.inventory import Address, Host

with without_mock():
    from runbook.connections.transports.ssh.connection import SshConnection
    from runbook.connections.transports.ssh.error_translation import GatewayFailed, GatewayLost, NextAddress
    from runbook.connections.transports.ssh.gateway_connection import BehindGateway
    from runbook.connections.transports.ssh.gateways import GatewayPool
    from runbook.connections.transports.ssh.interruptible import waited_for
    from runbook.connections.transports.ssh.private_keys import locked
    from runbook.connections.transports.ssh.route import Route, Router

__all__ = ["connect", "locked", "opener"]


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """Return a connection to *host*; see ``opener``."""
    line = opener(host, options, interrupt)
    made = SessionConnection(line, interrupt, options.become_password, host.name, shell_within=options.shell_within)
    return BehindGateway(made, line.gateway) if line.gateway else made


def opener(host: Host, options: ConnectOptions, interrupt: Interrupt) -> SshConnection:
    """Return a connection to the first address of *host* that answers.

    Raises Unreachable with the reason of each address.  The next address is tried on connection failures only, never
    after a refused login or a wrong host key.  Gateways are shared with the other hosts of the run
    (``options.shared``).
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    if options.shared:
        return _connected(host, options, interrupt, options.shared.of(GatewayPool))
    own = GatewayPool()
    try:
        made = _connected(host, options, interrupt, own)
    except BaseException:
        own.close()
        raise
    made.closes_too = own
    return made


def _connected(host: Host, options: ConnectOptions, interrupt: Interrupt, pool: GatewayPool) -> SshConnection:
    router, reasons = Router(options, pool), list[str]()
    for way in _ways(host):
        if interrupt.level():
            raise Unreachable("asked to stop before the host was connected to")
        try:
            return waited_for(lambda way=way: _opened(router, host, way, options), interrupt)  # type: ignore[misc]
        except NextAddress as error:
            by = " by proxy" if way.proxy else ""
            reasons.append(str(error) if error.gateway else f"{way.address}{by}: {error}")
        except GatewayFailed as error:
            reasons.append(str(error))
            break
        except Unreachable as error:
            reasons.append(f"{way.address}: {error}")
            break
    raise Unreachable("; ".join(dict.fromkeys(reasons)))


def _opened(router: Router, host: Host, way: Route, options: ConnectOptions) -> SshConnection:
    try:
        line = router.opened(host, way)
    except GatewayLost:  # nothing was sent to the host
        line = router.opened(host, way)
    return SshConnection(line, options)


def _ways(host: Host) -> list[Route]:
    ways = [Route(address=address) for address in host.addresses or (Address(host=host.name),)]
    return [*ways, Route(address=Address(host=host.name), proxy=host.proxy)] if host.proxy else ways
