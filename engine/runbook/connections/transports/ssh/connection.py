"""A live SSH connection, and the programs that run over it."""

from __future__ import annotations

import threading
import time

import paramiko
from paramiko.common import cMSG_CHANNEL_REQUEST

from runbook.connections.sessions.channel import ShellRefused
from runbook.connections.sessions.shell import GREETED_WITHIN
from runbook.connections.transports.ssh.bounded_transport import BoundedTransport
from runbook.connections.transports.ssh.gateway_connection import Line
from runbook.connections.transports.ssh.keepalive import watch
from runbook.errors import ConnectionLost
from runbook.protocols import Closing, ConnectOptions

CHUNK = 256 * 1024

GATHER = 0.005
"""The seconds in which the packets behind the first one may arrive, so that a thread wakes once for many of them."""


class _Bell(threading.Event):
    """An event that is set when data has arrived on a channel, or when the channel has ended.

    A channel's own ``fileno`` is a pipe that paramiko may still write to while the channel is being closed.  By then,
    the
    number of the pipe can belong to the socket of another host.
    """

    def clear(self) -> None:
        """Clear the event only if both streams have ended."""

    def listen(self) -> None:
        """Clear the event in any case."""
        super().clear()


class SshChannel:
    """A program that runs on the host."""

    def __init__(self, channel: paramiko.Channel, line: str) -> None:
        self._channel = channel
        channel.settimeout(60)
        self._bell = _Bell()
        channel.in_buffer.set_event(self._bell)
        channel.in_stderr_buffer.set_event(self._bell)
        _request_exec(channel, line)

    def send(self, data: bytes) -> None:
        """Write all of *data* to the program's stdin."""
        try:
            self._channel.sendall(data)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise ConnectionLost("the connection to the host was lost while sending") from error

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """See ``runbook.connections.sessions.channel.Channel``."""
        channel = self._channel
        self._bell.listen()
        waits = not channel.recv_ready() and not channel.recv_stderr_ready() and not self._at_end()
        if waits and self._bell.wait(seconds):
            time.sleep(GATHER)
        if flooded := getattr(channel.get_transport(), "flooded", ""):
            raise ConnectionLost(f"the connection was given up: {flooded}")
        out = channel.recv(CHUNK) if channel.recv_ready() else b""
        err = channel.recv_stderr(CHUNK) if channel.recv_stderr_ready() else b""
        return out, err, not out and not err and self._at_end()

    def close(self) -> None:
        """Close the channel."""
        try:
            self._channel.close()
        except (OSError, EOFError, paramiko.SSHException):
            return

    def _at_end(self) -> bool:
        return bool(self._channel.closed or self._channel.eof_received)


class SshConnection:
    """An open SSH connection."""

    def __init__(self, line: Line, options: ConnectOptions) -> None:
        self._line, self._within = line, options.shell_within or GREETED_WITHIN
        self.gateway = line.through
        """The connection to the gateway that this connection goes through."""
        self.closes_too: Closing | None = None
        """Connections to gateways that are this connection's own, not the run's: they are closed with it."""
        self._transport: paramiko.Transport = line.connection.client.get_transport()
        watch(self._transport, options.keepalive, [gateway.transport for gateway in line.gateways()])

    def open(self, line: str) -> SshChannel:
        """Return a new channel on which the server runs *line*."""
        try:
            return SshChannel(self._transport.open_session(timeout=self._within), line)
        except paramiko.ChannelException as error:
            raise ShellRefused(
                f"the server opens no more channels ({error}); its MaxSessions may be too low"
            ) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise ConnectionLost(f"the connection to the host was lost ({error or type(error).__name__})") from error

    def stands(self) -> bool:
        """Whether the connection is alive; waits a short time, so that the end of a connection is noticed."""
        self._transport.join(0.3)
        return self._transport.is_active() and self._transport.is_alive()

    def lost_because(self) -> str:
        """Return the reason why runbook has closed the connection: the server sent too much; empty if it did not."""
        return self._transport.flooded if isinstance(self._transport, BoundedTransport) else ""

    def close(self) -> None:
        """Close the connection, and what is closed with it."""
        self._line.close()
        if self.closes_too:
            self.closes_too.close()


def _request_exec(channel: paramiko.Channel, line: str) -> None:
    """Ask the server to pass *line* to the login shell, without waiting for the answer, which costs a round trip.

    If the server refuses, paramiko closes the channel, and data that was sent meanwhile is lost.
    """
    message = paramiko.Message()
    message.add_byte(cMSG_CHANNEL_REQUEST)
    message.add_int(channel.remote_chanid)
    message.add_string("exec")
    message.add_boolean(True)
    message.add_string(line)
    channel.get_transport()._send_user_message(message)  # type: ignore[attr-defined] # exec_command() would wait
