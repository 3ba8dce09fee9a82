"""Commands over SSH, on connections that Fabric makes."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

import fabric
import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from engine.errors import ConnectionLost, Unreachable
from engine.lanes.channel import Refused
from engine.lanes.connection import LaneConnection
from engine.lanes.hostkeys import OwnFile, known_files, place_of
from engine.ports import Connection, ConnectOptions, Interrupt
from engine.values.inventory import Address, Host, HostKeys

CHUNK = 256 * 1024
DEAD_AFTER_MS = 45_000
"""Milliseconds without any answer from the peer's kernel until the line counts as dead (TCP_USER_TIMEOUT)."""


class _Next(Exception):
    """This address cannot be connected to; the next one may."""


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """A connection to the first address that answers.  Raises Unreachable with the reason of each that does not.

    The next address is tried on connection failures only, never after a refused login or a wrong host key.
    """
    logging.getLogger("paramiko").setLevel(logging.CRITICAL)
    reasons: list[str] = []
    ways: list[tuple[Address, str]] = [(it, "") for it in host.addresses or (Address(host=host.name),)]
    if host.proxy:
        ways.append((Address(host=host.name), host.proxy))
    for address, proxy in ways:
        if interrupt.level():
            raise Unreachable("asked to stop before it was connected to")
        try:
            line = _Line(_open(host, address, proxy, options), options)
            return LaneConnection(line, interrupt, options.become_password)
        except _Next as error:
            reasons.append(f"{address}{' by proxy' if proxy else ''}: {error}")
        except Unreachable as error:
            reasons.append(f"{address}: {error}")
            break
    raise Unreachable("; ".join(reasons))


def _open(host: Host, address: Address, proxy: str, options: ConnectOptions) -> fabric.Connection:
    config = fabric.Config(lazy=True)
    config.load_ssh_config()
    wait = options.connect_timeout
    kwargs: dict[str, Any] = {"banner_timeout": wait, "auth_timeout": 2 * wait, "channel_timeout": wait}
    if host.key and Path(host.key).expanduser().is_file():
        kwargs |= {"key_filename": str(Path(host.key).expanduser()), "look_for_keys": False}
    if proxy:
        kwargs["sock"] = _Proxy(proxy, host.proxy_env)
    connection = fabric.Connection(
        address.host,
        user=host.user or None,
        port=address.port or None,
        config=config,
        connect_timeout=int(max(1, wait)),
        connect_kwargs=kwargs,
    )
    _set_host_keys(connection.client, host, options)
    try:
        connection.open()
    except Exception as error:
        connection.close()
        raise _translated(error, connection, host, options) from error
    return connection


class _Proxy(paramiko.ProxyCommand):
    """A ProxyCommand whose secrets stand in its environment, never on its command line."""

    def __init__(self, command: str, env: tuple[tuple[str, str], ...]) -> None:
        self.cmd = shlex.split(command)
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(self.cmd, bufsize=0, env={**os.environ, **dict(env)}, **pipes)
        self.timeout = None


def _translated(error: Exception, connection: fabric.Connection, host: Host, options: ConnectOptions) -> Exception:
    """The one place where the words of paramiko and of the sockets become ours."""
    match error:
        case paramiko.BadHostKeyException():
            return Unreachable(_changed_key(error, connection.port, OwnFile(options.known_hosts)))
        case _UnknownKey():
            return Unreachable(str(error))
        case paramiko.PasswordRequiredException():
            return Unreachable(f"the key {host.key or 'found'} is encrypted, and no agent holds it (ssh-add it)")
        case paramiko.AuthenticationException():
            key = f" with {host.key}" if host.key else ""
            return Unreachable(f"login as {connection.user}{key} was refused")
        case NoValidConnectionsError():
            causes = {_reason(it) for it in error.errors.values()}
            return _Next(", ".join(sorted(causes)))
        case paramiko.SSHException() if "banner" in str(error).lower() or "No existing session" in str(error):
            return _Next("it accepts connections but says no SSH banner")
        case OSError() | EOFError() | paramiko.SSHException():
            return _Next(_reason(error))
    return error


def _reason(error: Exception) -> str:
    match error:
        case socket.gaierror():
            return "the name is not known"
        case ConnectionRefusedError():
            return "connection refused"
        case TimeoutError():
            return "no answer in time"
        case EOFError() | ConnectionResetError():
            return "the connection was closed while it was being made"
        case OSError() if error.strerror:
            return error.strerror.lower()
    return str(error) or type(error).__name__


class _UnknownKey(Exception):
    """A host whose key nobody knows, where that is not allowed."""


class _Policy(paramiko.MissingHostKeyPolicy):
    """What happens with a key that is in no known_hosts file."""

    def __init__(self, mode: HostKeys, own: OwnFile) -> None:
        self._mode, self._own = mode, own

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Accept it and keep it, or refuse it."""
        if self._mode is HostKeys.IGNORE:
            return
        if self._mode is HostKeys.STRICT:
            raise _UnknownKey(
                f"its host key is not known ({key.fingerprint}), and --strict-host-keys refuses that; "
                f"compare the fingerprint and add the key to {self._own.path}"
            )
        self._own.keep(hostname, key.get_name(), key.get_base64())


def _set_host_keys(client: paramiko.SSHClient, host: Host, options: ConnectOptions) -> None:
    own = OwnFile(options.known_hosts)
    mode = HostKeys.STRICT if options.strict_host_keys and host.host_keys is not HostKeys.IGNORE else host.host_keys
    if mode is not HostKeys.IGNORE:
        for path in known_files(own):
            client.load_system_host_keys(str(path))
    client.set_missing_host_key_policy(_Policy(mode, own))


def _changed_key(error: paramiko.BadHostKeyException, port: int, own: OwnFile) -> str:
    name = error.hostname if port == 22 or error.hostname.startswith("[") else f"[{error.hostname}]:{port}"
    where = place_of(name, known_files(own))
    known = f" (known from {where})" if where else ""
    return (
        f"its host key has changed: expected {error.expected_key.fingerprint}{known}, got {error.key.fingerprint}; "
        f"if the machine was really set up anew, remove the old key: ssh-keygen -R '{name}'"
        + (f" -f {own.path}" if where.startswith(str(own.path)) else "")
    )


class _Bell(threading.Event):
    """Rings when something has come on a channel, or when it has ended.

    A channel's own ``fileno`` is a pipe that paramiko may still write to while it is being closed; by then the number
    can be that of another host's socket.
    """

    def clear(self) -> None:
        """What one stream has no more of, the other may have."""

    def listen(self) -> None:
        """Forget every earlier ring."""
        super().clear()


class _SshChannel:
    """A program on the host."""

    def __init__(self, channel: paramiko.Channel, line: str) -> None:
        self._channel = channel
        channel.settimeout(60)
        self._bell = _Bell()
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)
        channel.exec_command(line)

    def send(self, data: bytes) -> None:
        """Write all of *data* to its stdin."""
        try:
            self._channel.sendall(data)
        except OSError as error:
            raise ConnectionLost("the connection to the host was lost while sending") from error

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """See ``engine.lanes.channel.Channel``."""
        channel = self._channel
        self._bell.listen()
        if not channel.recv_ready() and not channel.recv_stderr_ready() and not self._at_end():
            self._bell.wait(seconds)
        out = channel.recv(CHUNK) if channel.recv_ready() else b""
        err = channel.recv_stderr(CHUNK) if channel.recv_stderr_ready() else b""
        return out, err, not out and not err and self._at_end()

    def close(self) -> None:
        """Let go of it."""
        try:
            self._channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            return

    def _at_end(self) -> bool:
        return bool(self._channel.closed or self._channel.eof_received)


class _Line:
    """A live SSH connection."""

    def __init__(self, connection: fabric.Connection, options: ConnectOptions) -> None:
        self._connection = connection
        self._transport: paramiko.Transport = connection.client.get_transport()
        self._transport.set_keepalive(int(options.keepalive))
        if isinstance(self._transport.sock, socket.socket):
            self._transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MS)

    def open(self, line: str) -> _SshChannel:
        """A channel of its own."""
        try:
            return _SshChannel(self._transport.open_session(timeout=30), line)
        except paramiko.ChannelException as error:
            raise Refused(f"it gives no further channel ({error}); its MaxSessions may be too low") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise ConnectionLost(f"the connection to the host was lost ({error or type(error).__name__})") from error

    def stands(self) -> bool:
        """Whether the connection is there; a dying one is given a moment to be noticed."""
        self._transport.join(0.3)
        return self._transport.is_active() and self._transport.is_alive()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(Exception):  # hanging up has nobody left to complain to
            self._connection.close()
