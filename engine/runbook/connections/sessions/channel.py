"""The channels to a shell on the host that a transport provides."""

from __future__ import annotations

from typing import Protocol

from runbook.errors import ConnectionLost


class ShellRefused(Exception):
    """The host starts no shell: sudo refused, there is no ``sh``, or no further channel is granted.

    The message is the host's own.  Nothing was sent.
    """


class NoAnswer(ShellRefused):
    """The host has not answered in time, so that it is unknown whether it would start a shell."""


class Channel(Protocol):
    """A program on the host, by its three streams.  Every method raises ConnectionLost when the line is gone."""

    def send(self, data: bytes) -> None:
        """Write all of *data* to its stdin."""
        ...

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """Return the bytes of stdout and of stderr, and whether both have ended; waits for *seconds* at most."""
        ...

    def close(self) -> None:
        """Let go of it.  Never raises."""
        ...


class Opener(Protocol):
    """A live line to the host."""

    def open(self, line: str) -> Channel:
        """Hand *line* to the login shell on a channel of its own.  Raises ConnectionLost, or Refused."""
        ...

    def stands(self) -> bool:
        """Whether the line is still there."""
        ...

    def lost_because(self) -> str:
        """Return the reason why we have given up the connection ourselves; empty where the far end is gone."""
        ...

    def close(self) -> None:
        """Hang up.  Never raises."""
        ...


__all__ = ["Channel", "ConnectionLost", "Opener", "ShellRefused"]
