"""An SSH transport that limits how much a server may send; paramiko itself has no such limits."""

from __future__ import annotations

import hmac
import threading
import time
from typing import Any, ClassVar

import paramiko
import paramiko.util
from paramiko.common import (
    CONNECTION_FAILED_CODE,
    MSG_CHANNEL_DATA,
    MSG_CHANNEL_EXTENDED_DATA,
    cMSG_CHANNEL_CLOSE,
)
from paramiko.packet import Packetizer

LARGEST_PACKET = 256 * 1024
"""The maximum number of bytes of one SSH packet, as in OpenSSH (PACKET_MAX_SIZE in its packet.h)."""

LONGEST_IDENTIFICATION = 64 * 1024
"""The bytes that a server may send before and with its identification (RFC 4253, section 4.2, sets no limit)."""

UNREAD = 4 * 1024 * 1024
"""The bytes that may wait in one channel: twice the window that we grant, which a server must not exceed."""

LONGEST_WORDS = 300
"""The bytes that are kept of a server's reason to refuse a channel or to disconnect."""

TALKS = "it sends endless text instead of an SSH identification"


AEAD = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""Ciphers with their own integrity check: without a MAC computed in Python, they take a third of the time."""

paramiko.util.constant_time_bytes_eq = hmac.compare_digest  # type: ignore[assignment]  # its own is slow: byte by byte


class Flooded(paramiko.SSHException):
    """The server has sent more than it may; the connection is closed."""


class ChannelRefused(paramiko.ChannelException):
    """The server refuses to open a channel; *words* are the server's own."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(code, CONNECTION_FAILED_CODE.get(code, f"reason {code}"))
        self.words = words


class _Packetizer(Packetizer):
    """A packetizer that refuses a packet that is longer than SSH allows, before it is read."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._identification = 0
        self.heard = time.monotonic()

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:
        """Return *n* bytes.  Raises Flooded if that is more than a packet may have."""
        if n > LARGEST_PACKET + 1024:
            raise Flooded(f"it announces an SSH packet of {n} bytes, more than SSH programs send")
        got = super().read_all(n, check_rekey)
        self.heard = time.monotonic()
        return got

    def _read_timeout(self, timeout: float) -> bytes:
        """Return some bytes of the server's identification.  Raises Flooded if the identification is too long."""
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
        error = Flooded("it sends more data than the SSH window allows")
        transport = channel.get_transport()
        assert isinstance(transport, BoundedTransport)
        transport.flooded = str(error)
        raise error


class BoundedTransport(paramiko.Transport):
    """One connection; ``flooded`` is the reason why it was closed, if the server sent too much.

    Unlike paramiko's class, it can be shared by threads: each refused channel has its own reason, and the reason of the
    connection's end is kept.
    """

    flooded = ""
    silent = ""
    """The reason why the connection was closed, if the server has stopped answering."""
    _channels: Any
    """The stubs leave it out, and so they do the four methods below that stand for paramiko's own."""
    _preferred_ciphers = (*AEAD, *(each for each in paramiko.Transport._preferred_ciphers if each not in AEAD))  # type: ignore[attr-defined]
    _channel_handler_table: ClassVar = {
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]
        MSG_CHANNEL_DATA: _fed,
        MSG_CHANNEL_EXTENDED_DATA: _fed_extended,
    }

    def __init__(self, *args: Any, **keys: Any) -> None:
        self._opening = threading.local()
        self._refused: dict[int, ChannelRefused] = {}
        self._saved: Exception | None = None
        self._ended_by: Exception | None = None
        self._goodbye = ""
        super().__init__(*args, **{**keys, "packetizer_class": _Packetizer})

    @property
    def heard(self) -> float:
        """Return the time (monotonic clock) when bytes last arrived from the server."""
        assert isinstance(self.packetizer, _Packetizer)
        return self.packetizer.heard

    @property
    def saved_exception(self) -> Exception | None:
        """Return the exception that paramiko raises in the next thread that asks, and then forgets."""
        return self._saved

    @saved_exception.setter
    def saved_exception(self, error: Exception | None) -> None:
        self._saved = error
        self._ended_by = error or self._ended_by

    def ended(self) -> str:
        """Return the reason why the connection has ended."""
        error = self._ended_by
        if known := self.silent or self.flooded or self._goodbye:
            return known
        if isinstance(error, OSError) and error.strerror:
            return error.strerror.lower()
        return "closed by the other end" if isinstance(error, EOFError) or not str(error or "") else str(error)

    def logged_in(self) -> None:
        """Forget the errors so far, such as refused keys, because the login has succeeded."""
        self._ended_by = None

    def forward(self, address: tuple[str, int], seconds: float) -> paramiko.Channel:
        """Return a channel to *address*, which the server resolves.

        Raises ChannelRefused, TimeoutError, or SSHException, EOFError or OSError if the connection has ended.
        """
        try:
            return self.open_channel("direct-tcpip", address, ("", 0), timeout=seconds)
        except ChannelRefused:
            raise
        except paramiko.SSHException as error:
            if not self.is_active():
                raise
            with self.lock:  # a late answer finds nobody: see below
                self._channels.delete(self._opening.chanid)
                self.channel_events.pop(self._opening.chanid, None)
            raise TimeoutError("no answer in time") from error

    def get_exception(self) -> Exception | None:
        """Return the refusal of the channel that the calling thread opens, otherwise the last exception."""
        return self._refused.pop(getattr(self._opening, "chanid", -1), None) or super().get_exception()

    def _next_channel(self) -> int:
        self._opening.chanid = super()._next_channel()  # type: ignore[misc] # see _channels
        return int(self._opening.chanid)

    def _parse_disconnect(self, message: paramiko.Message) -> None:
        message.get_int()
        words = message.get_string()[:LONGEST_WORDS].decode(errors="replace")
        self._goodbye = f"the other end hung up: {' '.join(words.split())}"

    def _parse_channel_open_failure(self, message: paramiko.Message) -> None:
        number, code, words = message.get_int(), message.get_int(), message.get_string()
        with self.lock:
            if event := self.channel_events.pop(number, None):
                self._channels.delete(number)
                self._refused[number] = ChannelRefused(code, words[:LONGEST_WORDS].decode(errors="replace"))
                event.set()

    def _parse_channel_open_success(self, message: paramiko.Message) -> None:
        number, theirs = message.get_int(), message.get_int()
        if self._channels.get(number) is None:
            close = paramiko.Message()
            close.add_byte(cMSG_CHANNEL_CLOSE)
            close.add_int(theirs)
            self._send_user_message(close)  # type: ignore[attr-defined] # see _channels
            return
        message.rewind()
        super()._parse_channel_open_success(message)  # type: ignore[misc] # see _channels
