"""A live SSH connection, and the programs that run over it."""

from __future__ import annotations

import contextlib
import socket
import threading

import fabric
import paramiko

from engine.errors import ConnectionLost
from engine.protocols import ConnectOptions
from engine.sessions.channel import ShellRefused
from engine.transports.ssh.keepalive import keep_alive
from engine.transports.ssh.route import close_route

CHUNK = 256 * 1024
DEAD_AFTER_MS = 45_000
"""Milliseconds without any answer from the peer's kernel until the line counts as dead (TCP_USER_TIMEOUT)."""


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


class SshChannel:
    """A program on the host."""

    def __init__(self, channel: paramiko.Channel, line: str, answered_within: float) -> None:
        self._channel = channel
        channel.settimeout(60)
        self._bell = _Bell()
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)
        patience = threading.Timer(answered_within, self.close)  # paramiko itself waits for ever
        patience.daemon = True
        patience.start()
        try:
            channel.exec_command(line)
        finally:
            patience.cancel()

    def send(self, data: bytes) -> None:
        """Write all of *data* to its stdin."""
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise ConnectionLost("the connection to the host was lost while sending") from error

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """See ``engine.sessions.channel.Channel``."""
        channel = self._channel
        self._bell.listen()
        if not channel.recv_ready() and not channel.recv_stderr_ready() and not self._at_end():
            self._bell.wait(seconds)
        if flooded := getattr(channel.get_transport(), "flooded", ""):
            raise ConnectionLost(f"the connection was given up: {flooded}")
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


class SshConnection:
    """A live SSH connection."""

    def __init__(self, connection: fabric.Connection, options: ConnectOptions) -> None:
        self._connection, self._options = connection, options
        self._transport: paramiko.Transport = connection.client.get_transport()
        _watch(self._transport, options)
        hop = connection.gateway
        while isinstance(hop, fabric.Connection):
            _watch(hop.client.get_transport(), options)
            hop = hop.gateway

    def open(self, line: str) -> SshChannel:
        """A channel of its own."""
        try:
            return SshChannel(self._transport.open_session(timeout=30), line, self._options.answered_within)
        except paramiko.ChannelException as error:
            raise ShellRefused(f"it gives no further channel ({error}); its MaxSessions may be too low") from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise ConnectionLost(f"the connection to the host was lost ({error or type(error).__name__})") from error

    def stands(self) -> bool:
        """Whether the connection is there; a dying one is given a moment to be noticed."""
        self._transport.join(0.3)
        return self._transport.is_active() and self._transport.is_alive()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(Exception):  # hanging up has nobody left to complain to
            close_route(self._connection)


def _watch(transport: paramiko.Transport, options: ConnectOptions) -> None:
    """Notice when the far end of *transport* is gone."""
    keep_alive(transport, options.keepalive)
    if isinstance(transport.sock, socket.socket) and transport.sock.family != socket.AF_UNIX:
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MS)
