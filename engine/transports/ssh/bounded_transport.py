"""An SSH transport that takes in no more than a server may send: paramiko itself keeps whatever comes."""

from __future__ import annotations

import time
from typing import Any, ClassVar

import paramiko
from paramiko.common import MSG_CHANNEL_DATA, MSG_CHANNEL_EXTENDED_DATA
from paramiko.packet import Packetizer

LARGEST_PACKET = 256 * 1024
"""Bytes of one SSH packet: what OpenSSH takes at most (PACKET_MAX_SIZE in its packet.h)."""

LONGEST_IDENTIFICATION = 64 * 1024
"""Bytes that a server may send before and with its identification (RFC 4253, section 4.2, sets no bound)."""

UNREAD = 4 * 1024 * 1024
"""Bytes that may wait in one channel: twice the window that we give, which a server must not send beyond."""

TALKS = "it sends text without end instead of an SSH identification"


class Flooded(paramiko.SSHException):
    """The server has sent more than it may; the connection is given up."""


class _Packetizer(Packetizer):
    """Refuses what is longer than SSH allows, before it is read."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._identification = 0
        self.heard = time.monotonic()

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """*n* bytes.  Raises Flooded."""
        if n > LARGEST_PACKET + 1024:
            raise Flooded(f"it announces an SSH packet of {n} bytes, more than SSH programs send")
        got = super().read_all(n, check_rekey)
        self.heard = time.monotonic()
        return got

    def _read_timeout(self, timeout: float) -> bytes:
        """Some bytes of the identification.  Raises Flooded."""
        got: bytes = super()._read_timeout(timeout)  # type: ignore[misc]
        self._identification += len(got)
        if self._identification > LONGEST_IDENTIFICATION:
            raise Flooded(TALKS)
        return got


def _fed(channel: paramiko.Channel, message: paramiko.Message) -> None:
    _refuse_flood(channel)
    paramiko.Channel._feed(channel, message)  # type: ignore[attr-defined] # the stubs leave it out


def _fed_extended(channel: paramiko.Channel, message: paramiko.Message) -> None:
    _refuse_flood(channel)
    paramiko.Channel._feed_extended(channel, message)  # type: ignore[attr-defined] # as above


def _refuse_flood(channel: paramiko.Channel) -> None:
    if len(channel.in_buffer) + len(channel.in_stderr_buffer) > UNREAD:
        error = Flooded("it sends more than the SSH protocol lets it, without waiting to be read")
        transport = channel.get_transport()
        assert isinstance(transport, BoundedTransport)
        transport.flooded = str(error)
        raise error


class BoundedTransport(paramiko.Transport):
    """One connection; ``flooded`` says why it was given up, where the server sent more than it may."""

    flooded = ""
    _channel_handler_table: ClassVar = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_DATA: _fed,
        MSG_CHANNEL_EXTENDED_DATA: _fed_extended,
    }

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **{**keys, "packetizer_class": _Packetizer})

    @property
    def heard(self) -> float:
        """When something last came from the server, by the monotonic clock."""
        assert isinstance(self.packetizer, _Packetizer)
        return self.packetizer.heard
