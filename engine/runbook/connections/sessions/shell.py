"""Open a shell on the host as a given user, or explain why that is not possible."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import field
from secrets import token_hex

from runbook.connections.sessions.channel import Channel, NoAnswer, Opener, ShellRefused
from runbook.connections.sessions.framed_output import UNREAD, Stream
from runbook.connections.sessions.programs import EXEC, LINE_BY_LINE, enter, enter_with_password
from runbook.dataclass import dataclass
from runbook.errors import ConnectionLost
from runbook.protocols import Trial

GREETED_WITHIN = 20.0
"""The seconds that a shell may take to start."""

LONGEST_WORDS = 300
"""The characters of the host's own text that are repeated in a refusal."""

PATIENCE = 0.2
"""The seconds of one wait for output."""


CATCH_UP = 1.0
"""The seconds of the last wait: this program may have been stopped while the answer arrived."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The user for whom a shell is opened, and the way to become this user."""

    user: str = ""
    """The user to become; empty: the login user."""
    password: str = field(default="", repr=False)
    """The password for sudo; empty: sudo must not ask for one."""
    trial: Trial = field(default_factory=Trial)
    """Receives the outcome of the password."""
    own_group: bool = False
    """Whether ``setsid`` is needed, because the login shell starts programs without a process group of their own."""
    within: float = 0.0
    """Seconds that the shell may take to start; 0: ``GREETED_WITHIN``."""


class PasswordRefused(ShellRefused):
    """Sudo refused the password or did not run the command with it, or its answer is unknown."""


class UserShell:
    """A channel to a shell that runs the text that it is sent, once it has started."""

    def __init__(self, opener: Opener, access: Access, first: str) -> None:
        self.out, self.err = Stream(), Stream()
        self.ended = False
        self._access, self._told = access, False
        self._patience = access.within or GREETED_WITHIN
        self._prompt = f"runbook-{token_hex(8)}:"
        self._first = first.encode()
        self._channel: Channel = opener.open(LINE_BY_LINE if access.user or access.own_group else EXEC)
        if access.password:  # it is sent when sudo asks, and never before: a shell would take it for a command
            self._open_with(enter_with_password(access.user, self._prompt).encode())
        else:
            self._open_with(enter(access.user, own_group=access.own_group).encode() + self._first)

    def await_line(self, beginning: str, check: Callable[[], None], stream: Stream | None = None) -> str:
        """Wait for the line that begins with *beginning* on stdout (or on *stream*), and return it.

        Raises ShellRefused if no shell starts, and whatever *check* raises.
        """
        deadline, late = time.monotonic() + self._patience, False
        while (line := (stream or self.out).line(beginning)) is None:
            if self._access.password and self.err.passes(self._prompt):
                self._tell_password()
            if self.ended or self.flooded or late:
                raise self._refusal()
            check()
            late = time.monotonic() > deadline  # and what has come until now is read once more
            self.pump(CATCH_UP if late else PATIENCE)
        self._access.trial.taken = True
        return line

    def pump(self, seconds: float = PATIENCE) -> None:
        """Read the output that has arrived; wait at most *seconds* for it."""
        out, err, ended = self._channel.receive(seconds)
        self.out.feed(out)
        self.err.feed(err)
        self.ended = self.ended or ended

    @property
    def flooded(self) -> bool:
        """Whether the shell has sent more output than can be kept."""
        return self.out.flooded or self.err.flooded

    def send(self, data: bytes) -> None:
        """Write *data* to the shell's stdin."""
        self._channel.send(data)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _tell_password(self) -> None:
        if self._told:
            raise PasswordRefused("the password was not accepted; it was tried once")
        self._told = self._access.trial.reported = True
        self._open_with(f"{self._access.password}\n".encode() + self._first)

    def _open_with(self, data: bytes) -> None:
        """Send the first *data*; if the shell has already ended, do not raise: its output has the reason."""
        with suppress(ConnectionLost):
            self._channel.send(data)

    def _refusal(self) -> ShellRefused:
        said = [line.strip() for line in self.err.rest().text.splitlines() if line.strip()]
        reported = [line.strip() for line in self.out.rest().text.splitlines() if line.strip()]
        kind = PasswordRefused if self._told else ShellRefused
        if self.flooded:
            return kind(f"its login shell, or what it starts, printed over {UNREAD // 1024} KiB and no shell answered")
        said, reported = ([line[:LONGEST_WORDS] for line in lines] for lines in (said, reported))
        if said and self.ended:
            words = "; ".join([word for word in said if word.startswith("sudo: ")][-3:]) or said[-1]
            if "sudoers" in words or "not allowed" in words:  # it had the right one, and the account may not
                self._access.trial.taken = True
            return kind(words)
        words = f"; it says: {(said or reported)[-1]}" if said or reported else ""
        if not self.ended:
            kind = kind if self._told else NoAnswer
            return kind(f"no shell answers within {self._patience:.0f} s (--shell-timeout gives it longer){words}")
        return kind(f"the account's login shell, or a ForceCommand, runs no commands of ours{words}")
