"""One way to a host, opened: jump hosts first, then the host itself."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from dataclasses import dataclass
from typing import Any

import fabric

from engine.errors import Unreachable
from engine.protocols import ConnectOptions
from engine.transports.ssh.error_translation import NextAddress, translated
from engine.transports.ssh.host_key_check import Trust
from engine.transports.ssh.private_keys import Login
from engine.transports.ssh.ssh_config import ssh_config
from engine.values.inventory import Address, Host
from engine.values.login_names import fault_in_host, fault_in_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An address, and the ProxyCommand that goes there, if any."""

    address: Address
    proxy: str = ""


def opened(host: Host, way: Route, options: ConnectOptions) -> fabric.Connection:
    """A connection to *host*.  Raises Unreachable, or NextAddress where another address may do."""
    _refuse_unsafe(way.address.host, host.user)
    try:
        connection = _made(host, way, options)
    except Exception as error:
        raise translated(error) from error
    try:
        if way.proxy:
            connection.connect_kwargs["sock"] = _Proxy(way.proxy, host.proxy_env)
        _open(connection, host, options)
    except (Unreachable, NextAddress):
        close_route(connection)
        raise
    return connection


def _refuse_unsafe(name: str, user: str) -> None:
    """Refuse names before ssh_config is read for them: its ``Match exec`` and ProxyCommand are run by a shell."""
    if fault := fault_in_host(name):
        raise Unreachable(f"the address {name!r} is refused: it {fault}")
    if fault := fault_in_user(user):
        raise Unreachable(f"the user name {user!r} is refused: it {fault}")


def _made(host: Host, way: Route, options: ConnectOptions) -> fabric.Connection:
    config = fabric.Config(lazy=True, ssh_config=ssh_config(way.address, host.user))
    jump: Any = False if way.proxy else None
    if host.via and not way.proxy:
        jump = _to(host.via, options)
    connection = fabric.Connection(
        way.address.host, user=host.user or None, port=way.address.port or None, config=config, gateway=jump,
        connect_timeout=int(max(1, options.connect_timeout)),
    )  # fmt: skip
    if isinstance(connection.gateway, fabric.Connection) and connection.ssh_config.get("proxyjump") == "none":
        connection.gateway = None
    return connection


def _to(jump: Host, options: ConnectOptions) -> fabric.Connection:
    """A jump host that the inventory names, by the first of its addresses that answers."""
    reasons = []
    for address in jump.addresses or (Address(host=jump.name),):
        try:
            return opened(jump, Route(address=address), options)
        except NextAddress as error:
            reasons.append(f"{address}: {error}")
        except Unreachable as error:
            raise Unreachable(f"by the jump host {jump.name}: {error}") from error
    raise NextAddress(f"by the jump host {jump.name}: {'; '.join(reasons)}")


def _open(connection: fabric.Connection, host: Host, options: ConnectOptions) -> None:
    """Open *connection*, and before it those that it leads through.  Raises Unreachable or NextAddress."""
    hop = connection.gateway
    if isinstance(hop, fabric.Connection) and not hop.is_connected:
        try:
            _open(hop, Host(name=hop.host, user=hop.user), options)
        except (Unreachable, NextAddress) as error:
            raise type(error)(f"by the jump host {hop.host}: {error}") from error
    try:
        _prepare(connection, host, options)
        connection.open()
    except Exception as error:
        transport = connection.client.get_transport()
        raise translated(error, greeted=bool(transport and transport.remote_version)) from error


def _prepare(connection: fabric.Connection, host: Host, options: ConnectOptions) -> None:
    """Say how *connection* is to be made, in what Fabric leaves open."""
    given, wait = dict(connection.connect_kwargs), options.connect_timeout
    if isinstance(connection.gateway, str):
        given["sock"], connection.gateway = _Proxy(connection.gateway, ()), None
    trust, name = Trust(host, options), connection.host
    connection.client.set_missing_host_key_policy(trust)
    connection.connect_timeout = int(max(1, wait))
    connection.connect_kwargs = {
        **given,
        "auth_strategy": Login(connection.user, host.key, given.pop("key_filename", ()), options),
        "transport_factory": trust.transport_factory(name if connection.port == 22 else f"[{name}]:{connection.port}"),
        "banner_timeout": wait,
        "auth_timeout": 2 * wait,
        "channel_timeout": wait,
    }


def close_route(connection: fabric.Connection) -> None:
    """Close *connection*, and those that it leads through."""
    sock = connection.connect_kwargs.get("sock")
    with contextlib.suppress(Exception):  # it may be half open
        connection.client.close()
    if isinstance(sock, _Proxy):
        sock.end()
    if isinstance(connection.gateway, fabric.Connection):
        close_route(connection.gateway)


class _Proxy(socket.socket):
    """A ProxyCommand at the other end of a socket; its secrets stand in its environment, never on its command line.

    It is in a session of its own: Ctrl-C is for us, and a write in flight must not lose its line by it.
    """

    def __init__(self, command: str, env: tuple[tuple[str, str], ...]) -> None:
        ours, its = socket.socketpair()
        super().__init__(ours.family, ours.type, ours.proto, fileno=ours.detach())
        with its:
            self.process = subprocess.Popen(
                ("/bin/sh", "-c", f"exec {command}"), stdin=its.fileno(), stdout=its.fileno(),
                stderr=subprocess.DEVNULL, env={**os.environ, **dict(env)}, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """Close it, and end the program."""
        self.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
