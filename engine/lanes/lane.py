"""One lane: a shell on the host that runs frames; and the leash that can end it."""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import token_hex

from engine.errors import ConnectionLost
from engine.lanes.channel import Channel, Opener
from engine.lanes.program import LEASH, READER, exec_line, frame, greeting
from engine.lanes.streams import Stream

GREETED_WITHIN = 20.0
"""Seconds that a shell may take to start."""

PATIENCE = 0.05
"""Seconds of one wait for something to come."""


class Refused(Exception):
    """The shell did not start: sudo said no, or there is no ``sh``; the text is what the host said."""


class Lane:
    """A shell on the host that runs one frame after the other."""

    def __init__(self, opener: Opener, become: str) -> None:
        self.name = token_hex(8)
        self.group = ""
        self.user = ""
        self.out, self.err = Stream(), Stream()
        self.ended = False
        self.used = 0
        self._channel: Channel = opener.open(exec_line(become))
        self._channel.send(f"{READER}\n".encode() + frame(greeting(self.name)))

    def wait_until_ready(self) -> None:
        """Read the greeting.  Raises Refused when the shell did not start."""
        deadline = time.monotonic() + GREETED_WITHIN
        while (line := self.out.line(f"lane {self.name} ")) is None:
            if self.ended or time.monotonic() > deadline:
                said = (self.err.rest().strip() or self.out.rest().strip()).splitlines()
                raise Refused(said[-1] if said else "the host started no shell")
            self.pump()
        _, _, self.group, self.user = line.split(" ", 3)

    def token(self) -> str:
        """A mark that no output can contain by chance."""
        self.used += 1
        return f"{self.name}.{self.used}"

    def send(self, text: str) -> None:
        """Send one frame."""
        self._channel.send(frame(text))

    def pump(self, seconds: float = PATIENCE) -> None:
        """Take in what has come; wait for it at most *seconds*."""
        out, err, ended = self._channel.receive(seconds)
        self.out.feed(out)
        self.err.feed(err)
        self.ended = self.ended or ended

    def close(self) -> None:
        """Let go of the channel."""
        self._channel.close()


class Leash:
    """A shell on the host that ends lanes: when it is told to, when their time is up, or when the line is gone."""

    def __init__(self, opener: Opener, become: str) -> None:
        self._channel: Channel = opener.open(exec_line(become))
        self._channel.send(f"{READER}\n".encode() + frame(LEASH))
        self._said = Stream()
        self._lost = False
        self._over: dict[str, list[str]] = {}
        self.late: set[str] = set()

    def holds(self, lane: Lane) -> None:
        """From now on *lane* is ended when the line is gone."""
        self._order("hold", lane)

    def begins(self, lane: Lane, seconds: float, *, write: bool = False, kill: bool = True, tenths: int = 5) -> None:
        """Something begins on *lane* that is ended on the host after *seconds* (``kill`` false: only reported).

        *tenths* of a second lie between TERM and KILL.  A *write* runs on when the line is gone.
        """
        verb = "write" if write else "begin"
        self._order(verb, lane, str(max(1, -int(-seconds // 1))), "kill" if kill else "never", str(tenths))

    def ends(self, lane: Lane) -> None:
        """What began on *lane* is over."""
        self._order("end", lane)

    def drops(self, lane: Lane) -> None:
        """*lane* is no longer of interest."""
        self._order("drop", lane)

    def finish(self, lane: Lane, tenths: int, within: float = 8.0) -> tuple[str, ...] | None:
        """End everything on *lane*: TERM, *tenths* of a second, KILL.

        What survives, each as ``pid N (state) name``; None when the host gave no answer *within* so many seconds.
        """
        self._order("finish", lane, str(tenths))
        return self.wait_over(lane, within)

    def wait_over(self, lane: Lane, within: float) -> tuple[str, ...] | None:
        """Wait until the host says that *lane* has been ended; what survives, or None without an answer."""
        deadline = time.monotonic() + within
        return self._wait(lambda: tuple(self._over[lane.name]) if self._is_over(lane) else None, deadline)

    def listen(self, seconds: float = 0.0) -> None:
        """Take in what the leash has said."""
        out, _, ended = self._channel.receive(seconds)
        self._said.feed(out)
        while (line := self._said.line("")) is not None:
            self._heard(line.split(" ", 4))
        if ended:
            self._lost = True

    def close(self) -> None:
        """Let go of the channel: everything that is held is ended."""
        self._channel.close()

    def _heard(self, words: list[str]) -> None:
        match words:
            case ["survivor", lane, pid, state, name]:
                self._over.setdefault(lane, []).append(f"pid {pid} ({state}) {name}")
            case ["over", lane]:
                self._over.setdefault(lane, []).append("")
            case ["late", lane]:
                self.late.add(lane)
            case _:
                pass

    def _is_over(self, lane: Lane) -> bool:
        return bool(self._over.get(lane.name)) and self._over[lane.name][-1] == ""

    def _wait(self, found: Callable[[], tuple[str, ...] | None], deadline: float) -> tuple[str, ...] | None:
        while time.monotonic() < deadline and not self._lost:
            answer = found()
            if answer is not None:
                return tuple(it for it in answer if it)
            self.listen(PATIENCE)
        return None

    def _order(self, verb: str, lane: Lane, *words: str) -> None:
        if self._lost:
            raise ConnectionLost("the shell that holds our commands is gone")
        self._channel.send(" ".join((verb, lane.group, lane.name, *words)).encode() + b"\n")
