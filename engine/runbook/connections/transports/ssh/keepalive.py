"""Detect a server that has stopped although its kernel still answers, by requests that want a reply.

paramiko's own keepalive asks for no reply, and the kernel of a stopped sshd acknowledges it for minutes.  As with
OpenSSH's ServerAliveCountMax, any data from the server counts as a sign of life.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence

import paramiko
from paramiko.common import cMSG_GLOBAL_REQUEST

from runbook.connections.transports.ssh.bounded_transport import BoundedTransport

UNANSWERED = 3
"""The number of requests in a row without a sign of life after which the connection counts as dead."""

DEAD_AFTER_MS = 45_000
"""The milliseconds without an answer from the peer's kernel after which the connection counts as dead
(TCP_USER_TIMEOUT).
"""

_REQUEST = "keepalive@openssh.com"
"""A server answers this request with a refusal (RFC 4254, section 4): it must answer each request that wants a reply.
"""


def watch(transport: paramiko.Transport, every: float, gateways: Sequence[BoundedTransport] = ()) -> None:
    """Detect the end of the connection *transport*, which goes through *gateways* (see ``keep_alive``)."""
    keep_alive(transport, every, gateways)
    if isinstance(transport.sock, socket.socket) and transport.sock.family != socket.AF_UNIX:
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER_MS)


def keep_alive(transport: paramiko.Transport, every: float, gateways: Sequence[BoundedTransport] = ()) -> None:
    """Send a request to the server of *transport* every *every* seconds; 0: never.

    Closes the connection after ``UNANSWERED`` requests in a row without an answer.  If one of *gateways* was silent for
    the same time, the connection to this gateway is closed, with all connections through it.
    """
    if every > 0:
        threading.Thread(target=_watch, args=(transport, every, gateways), daemon=True).start()


def _watch(transport: paramiko.Transport, every: float, gateways: Sequence[BoundedTransport]) -> None:
    asked_since = time.monotonic()
    """The time of the first request after the last answer."""
    asking: threading.Thread | None = None
    while not _ended(transport, every):
        now, heard = time.monotonic(), _heard(transport)
        if heard >= asked_since:
            asked_since = now
        elif now - asked_since >= UNANSWERED * every:
            _hang_up(
                next((gateway for gateway in gateways if gateway.heard < asked_since), transport), UNANSWERED * every
            )
            return
        if asking is None or not asking.is_alive():  # a server that takes nothing in blocks who writes to it
            asking = threading.Thread(target=_ask, args=(transport,), daemon=True)
            asking.start()


def _hang_up(transport: paramiko.Transport, seconds: float) -> None:
    if isinstance(transport, BoundedTransport):
        transport.silent = f"no answer for {seconds:g} s"
    with contextlib.suppress(Exception):  # hanging up has nobody left to complain to
        transport.close()


def _ended(transport: paramiko.Transport, seconds: float) -> bool:
    """Whether the connection has ended; waits at most *seconds* for its end."""
    transport.join(seconds)
    return not transport.is_active()


def _heard(transport: paramiko.Transport) -> float:
    """Return the time (monotonic clock) when data last arrived from the server."""
    return transport.heard if isinstance(transport, BoundedTransport) else time.monotonic()


def _ask(transport: paramiko.Transport) -> None:
    message = paramiko.Message()
    message.add_byte(cMSG_GLOBAL_REQUEST)
    message.add_string(_REQUEST)
    message.add_boolean(True)
    with contextlib.suppress(Exception):  # the connection has ended
        transport._send_user_message(message)  # type: ignore[attr-defined] # global_request() would wait for the reply
