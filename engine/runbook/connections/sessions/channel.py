"""The channels to a shell on the host that a transport provides."""

from __future__ import annotations

from typing import Protocol

from runbook.errors import ConnectionLost


class ShellRefused(Exception):
    """The host starts no shell: sudo refuses, there is no ``sh``, or the server grants no further channel.

    The message is the host's own.  Nothing was sent.
    """


class NoAnswer(ShellRefused):
    """The host has not answered in time, so that it is unknown whether the host would start a shell."""


class Channel(Protocol):
    """A program that runs on the host, with its three streams.  Every method raises ConnectionLost if the
    connection is lost.
    """

    def send(self, data: bytes) -> None:
        """Write all of *data* to the program's stdin."""
        ...

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """Return the bytes of stdout and of stderr, and whether both have ended; waits for *seconds* at most."""
        ...

    def close(self) -> None:
        """Close the channel.  Never raises."""
        ...


class Opener(Protocol):
    """An open connection to the host."""

    def open(self, line: str) -> Channel:
        """Pass the command line *line* to the login shell on a new channel.  Raises ConnectionLost, or ShellRefused."""
        ...

    def stands(self) -> bool:
        """Whether the connection is still alive."""
        ...

    def lost_because(self) -> str:
        """Return the reason why runbook itself has closed the connection; empty if the other end closed it."""
        ...

    def close(self) -> None:
        """Close the connection.  Never raises."""
        ...


__all__ = ["Channel", "ConnectionLost", "Opener", "ShellRefused"]
