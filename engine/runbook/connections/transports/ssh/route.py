"""Open one route to a host: gateways (jump hosts) first, then the host itself."""

from __future__ import annotations

import os

import fabric

from runbook.connections.transports.ssh.error_translation import GatewayFailed, GatewayLost, NextAddress, translated
from runbook.connections.transports.ssh.gateway_connection import GatewayConnection, Line
from runbook.connections.transports.ssh.gateways import Gateway, GatewayKey, GatewayPool
from runbook.connections.transports.ssh.host_key_check import Trust
from runbook.connections.transports.ssh.private_keys import Login
from runbook.connections.transports.ssh.proxy_command import ProxyCommand
from runbook.connections.transports.ssh.ssh_config import ssh_config
from runbook.dataclass import dataclass
from runbook.errors import Unreachable
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Address, Host
from runbook.values.login_names import fault_in_host, fault_in_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An address of a host, and the ProxyCommand that connects to it, if any."""

    address: Address
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class Router:
    """Opens connections to hosts; connections to gateways are shared in *pool*."""

    options: ConnectOptions
    pool: GatewayPool

    def opened(self, host: Host, way: Route) -> Line:
        """Open a connection to *host*.  Raises Unreachable, or NextAddress if another address may work."""
        _refuse_unsafe(way.address.host, host.user)
        try:
            connection = self._made(host, way)
        except Exception as error:
            raise translated(error) from error
        return self._open(connection, host, self._before(connection, host, way))

    def _made(self, host: Host, way: Route) -> fabric.Connection:
        config = fabric.Config(lazy=True, ssh_config=ssh_config(way.address, host.user))
        connection = fabric.Connection(
            way.address.host, user=host.user or None, port=way.address.port or None, config=config,
            gateway=False if way.proxy or host.via else None,
        )  # fmt: skip
        if isinstance(connection.gateway, fabric.Connection):
            connection.gateway = _chain(connection)
        return connection

    def _before(self, connection: fabric.Connection, host: Host, way: Route | None = None) -> Before:
        """Return the gateway or ProxyCommand before *host*, from the inventory or else from ssh_config; None if
        there is none.
        """
        if way and way.proxy:
            return _Program(way.proxy, host.proxy_env)
        if jump := host.via:
            return self.pool.gateway(self._key_of_host(jump), lambda: self._by_first_address(jump))
        hop = connection.gateway
        if isinstance(hop, fabric.Connection):
            return self.pool.gateway(self._key_of_hop(hop), lambda: self._by_hop(hop))
        return _Program(hop, ()) if hop else None

    def _by_first_address(self, jump: Host) -> GatewayConnection:
        """Connect to a gateway that the inventory names, at the first of its addresses that answers."""
        reasons, dropped = [], False
        for address in jump.addresses or (Address(host=jump.name),):
            try:
                return GatewayConnection(jump.name, self.opened(jump, Route(address=address)), self.options.keepalive)
            except GatewayLost:
                raise
            except NextAddress as error:
                reasons.append(str(error) if error.gateway else f"{address}: {error}")
                dropped = dropped or error.dropped
            except Unreachable as error:
                raise GatewayFailed(f"via the gateway {jump.name}: {error}") from error
        why = "; ".join(dict.fromkeys(reasons))
        raise NextAddress(f"via the gateway {jump.name}: {why}", gateway=True, dropped=dropped)

    def _by_hop(self, hop: fabric.Connection) -> GatewayConnection:
        """Connect to the gateway *hop* of ssh_config; *hop* is not changed, because the next attempt needs it again."""
        host, name = Host(name=hop.host, user=hop.user), hop.original_host
        config = fabric.Config(lazy=True, ssh_config=hop.config.base_ssh_config)
        fresh = fabric.Connection(name, user=hop.user, port=hop.port, config=config, gateway=hop.gateway or False)
        try:
            return GatewayConnection(name, self._open(fresh, host, self._before(fresh, host)), self.options.keepalive)
        except GatewayLost:
            raise
        except NextAddress as error:
            raise NextAddress(f"via the gateway {name}: {error}", gateway=True, dropped=error.dropped) from error
        except Unreachable as error:
            raise GatewayFailed(f"via the gateway {name}: {error}") from error

    def _open(self, connection: fabric.Connection, host: Host, before: Before) -> Line:
        """Open *connection* through *before*, and return it.  Raises Unreachable or NextAddress."""
        line, connection.gateway = Line(connection), None
        try:
            if isinstance(before, Gateway):
                channel = before.forward((connection.host, int(connection.port)), self.options.connect_timeout)
                connection.connect_kwargs["sock"], line.through = channel.sock, channel.through
            elif before:
                connection.connect_kwargs["sock"] = ProxyCommand(before.command, before.env)
            _prepare(connection, host, self.options)
            connection.open()
        except Exception as error:
            transport, through = connection.client.get_transport(), line.through
            line.close()
            if through and (why := through.lost()):
                raise GatewayLost(why) from error
            raise translated(error, greeted=bool(transport and transport.remote_version)) from error
        return line

    def _key_of_host(self, jump: Host) -> GatewayKey:
        return GatewayKey(
            name=jump.name,
            addresses=jump.addresses,
            user=jump.user,
            keys=(jump.key,),
            host_keys=jump.host_keys,
            through=self._key_of_host(jump.via) if jump.via else None,
            policy=self._policy(),
        )

    def _key_of_hop(self, hop: fabric.Connection) -> GatewayKey:
        files, before = hop.connect_kwargs.get("key_filename") or (), hop.gateway
        return GatewayKey(
            name=hop.original_host,
            addresses=(Address(host=hop.host, port=int(hop.port)),),
            user=hop.user,
            keys=(files,) if isinstance(files, str) else tuple(dict.fromkeys(files)),
            host_keys=Host(name=hop.host).host_keys,
            through=self._key_of_hop(before) if isinstance(before, fabric.Connection) else before or None,
            policy=self._policy(),
        )

    def _policy(self) -> tuple[object, ...]:
        it = self.options
        return it.strict_host_keys, it.known_hosts, it.connect_timeout, it.keepalive, os.environ.get("SSH_AUTH_SOCK")


@dataclass(frozen=True, slots=True)
class _Program:
    """A ProxyCommand, and the secrets in its environment."""

    command: str
    env: tuple[tuple[str, str], ...]


Before = Gateway | _Program | None
"""The gateway or the ProxyCommand before a host on the way to it."""


def _refuse_unsafe(name: str, user: str) -> None:
    """Refuse unsafe host and user names before ssh_config is read for them; raises Unreachable.

    A shell runs the ``Match exec`` and the ProxyCommand of ssh_config with these names.
    """
    if fault := fault_in_host(name):
        raise Unreachable(f"the address {name!r} is refused: it {fault}")
    if fault := fault_in_user(user):
        raise Unreachable(f"the user name {user!r} is refused: it {fault}")


def _chain(connection: fabric.Connection) -> fabric.Connection | None:
    """Return the gateways of ``ProxyJump`` in the order in which ssh goes through them; Fabric reverses this order."""
    jumps = connection.ssh_config["proxyjump"]
    hops = [] if jumps == "none" else [part.strip() for part in jumps.split(",")]
    last: fabric.Connection | None = connection.gateway if len(hops) == 1 else None
    for hop in hops if len(hops) > 1 else ():
        config = fabric.Config(lazy=True, ssh_config=connection.config.base_ssh_config)
        last = fabric.Connection(hop, config=config, gateway=last)
    return last


def _prepare(connection: fabric.Connection, host: Host, options: ConnectOptions) -> None:
    """Set the login, the host key check and the timeouts of *connection*."""
    given, wait = dict(connection.connect_kwargs), options.connect_timeout
    trust, name = Trust(host, options), connection.host
    connection.client.set_missing_host_key_policy(trust)
    connection.connect_timeout = int(max(1, wait))
    connection.connect_kwargs = {
        **given,
        "auth_strategy": Login(connection.user, host.key, given.pop("key_filename", ()), options),
        "transport_factory": trust.transport_factory(
            name if connection.port == 22 else f"[{name}]:{connection.port}", connection.ssh_config.get("ciphers", "")
        ),
        "banner_timeout": wait,
        "auth_timeout": 2 * wait,
        "channel_timeout": wait,
    }
