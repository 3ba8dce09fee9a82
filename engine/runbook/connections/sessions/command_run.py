"""Run one command in a session, from sending the command to its end on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from runbook.connections.sessions.channel import Opener
from runbook.connections.sessions.framed_output import KEPT, CapturedOutput
from runbook.connections.sessions.programs import HARMED, REFUSED, tenths_to_end
from runbook.connections.sessions.session import ShellSession
from runbook.errors import Cancelled, ConnectionLost
from runbook.protocols import Interrupt
from runbook.values.command import Command, Completed

ASLEEP = 2.0
"""After so many seconds without reading, this program was stopped, or the machine slept: answers may be waiting."""

CATCH_UP = 2.0
"""The seconds for reading waiting output, before anything is concluded from the clock."""

SILENT = ("the host did not say whether the command ended",)
"""The survivors of a command if the host could not be asked about them."""


def require_open_connection(opener: Opener) -> None:
    """Raise ConnectionLost if the connection of *opener* is lost."""
    if not opener.stands():
        why = opener.lost_because()
        raise ConnectionLost("the connection to the host was lost" + (f": {why}" if why else ""))


End = Callable[[int], tuple[str, ...] | None]
"""Ends the whole session, with so many tenths of a second between TERM and KILL, and returns the survivors.

None: the host does not report them.
"""


@dataclass(slots=True)
class CommandRun:
    """A command that was sent to *session*; *token* is the mark that follows its output."""

    command: Command
    token: str
    session: ShellSession
    end: End
    opener: Opener
    interrupt: Interrupt
    began: float = field(default_factory=time.monotonic)
    marks: dict[str, CapturedOutput] = field(default_factory=dict)
    seen: float = field(default_factory=time.monotonic)
    """The time of the last read from the host."""
    room: int = 4 * KEPT
    """The maximum number of bytes of the output that are kept."""

    def __post_init__(self) -> None:
        """Divide the room for the output: the beginning and the end of both streams."""
        for stream in (self.session.out, self.session.err):
            stream.keep(self.room // 4)

    def probe(self) -> Completed:
        """Wait for a probe and return its result; end the probe when its time is up, or when the run is asked to
        stop.
        """
        while not self._over():
            if self.session.ended:
                return self._broken_off()
            if self._asleep() and self._caught_up(CATCH_UP):
                break
            if self.interrupt.level() > (1 if self.command.owed else 0):
                ended = self._ended_now(tenths_to_end([self.command]))
                raise Cancelled(f"asked to stop; this probe was ended on the host: {ended}", sent=True)
            if self._spent() >= self.command.timeout:
                return self._late_probe()
            self.session.pump(min(0.25, max(0.0, self.command.timeout - self._spent())))
        return self._completed()

    def change(self) -> Completed:
        """Wait for a change and return its result; end the change when its time is up, or when the run is asked to
        stop twice.
        """
        while not self._over():
            if self._asleep() and self._caught_up(CATCH_UP):
                break
            if self.interrupt.level() > 1:
                self._cut_change()
            if self._spent() >= self.command.timeout:
                return self._completed() if self._caught_up(0.3) else self._late_change()
            if self.session.ended:
                return self._broken_off()
            self.session.pump(min(0.25, max(0.0, self.command.timeout - self._spent())))
        return self._completed()

    def _spent(self) -> float:
        return time.monotonic() - self.began

    def _asleep(self) -> bool:
        """Whether much time has passed since the last call, because this machine was asleep."""
        before, self.seen = self.seen, time.monotonic()
        return self.seen - before > ASLEEP

    def _caught_up(self, seconds: float) -> bool:
        """Whether the command is over; reads the output that has arrived, for at most *seconds*."""
        until = time.monotonic() + seconds
        while not (over := self._over()) and not self.session.ended and time.monotonic() < until:
            self.session.pump(0.05)
        self.seen = time.monotonic()
        return over

    def _over(self) -> bool:
        for name, stream in (("out", self.session.out), ("err", self.session.err)):
            if name not in self.marks and (found := stream.take(self.token)):
                self.marks[name] = found
        return len(self.marks) == 2

    def _completed(self) -> Completed:
        out, err = self.marks["out"], self.marks["err"]
        if err.word == HARMED:
            self.session.harmed = True
        if out.word == REFUSED:
            why = err.text.strip() or "root must not run it there"
            return Completed(exit_code=None, refused=why, seconds=self._spent())
        code = int(out.word) if out.word.isdigit() else None
        note = "" if code is not None else "\nrunbook: the process that passed the output on was killed on the host"
        return Completed(
            exit_code=code,
            stdout=out.text,
            stderr=err.text + note,
            seconds=self._spent(),
            missing=(out.missing, err.missing),
        )

    def _broken(self, *, note: str = "", timed_out: bool = False, survivors: tuple[str, ...] = ()) -> Completed:
        """Return a result without an exit code, with the output until now."""
        streams = (("out", self.session.out), ("err", self.session.err))
        out, err = (self.marks.get(name) or it.rest() for name, it in streams)
        return Completed(
            exit_code=None,
            stdout=out.text,
            stderr=err.text + note,
            seconds=self._spent(),
            timed_out=timed_out,
            survivors=survivors,
            missing=(out.missing, err.missing),
        )

    def _late_probe(self) -> Completed:
        """End the probe on the host after its timeout, and return its result; does not wait for its pipes."""
        spent = self._spent()
        left = self._survivors()
        self.began = time.monotonic() - spent
        return self._broken(timed_out=True, survivors=left)

    def _late_change(self) -> Completed:
        if self.command.unkillable:
            return self._broken(timed_out=True, survivors=(f"left running: {self.command.brief()}",))
        left = self._survivors()
        return self._completed() if self._caught_up(0.0) else self._broken(timed_out=True, survivors=left)

    def _survivors(self) -> tuple[str, ...]:
        """End the command, and return its processes that are still there.  Raises ConnectionLost."""
        left = self.end(tenths_to_end([self.command]))
        if left is None:
            require_open_connection(self.opener)
            return SILENT
        return left

    def _broken_off(self) -> Completed:
        """Return the result of a command whose shell was killed on the host.

        Raises ConnectionLost if the connection was lost instead.
        """
        require_open_connection(self.opener)
        note = f"\nrunbook: the shell that ran this command was killed on the host ({self.command.effect})"
        return self._broken(note=note)

    def _cut_change(self) -> None:
        if self.command.unkillable:
            words = f"asked to stop twice; this command cannot be ended and was left running: {self.command.brief()}"
            raise Cancelled(words, sent=True)
        raise Cancelled(f"asked to stop twice; this change was ended half-way: {self._ended_now(10)}", sent=True)

    def _ended_now(self, tenths: int) -> str:
        """End the command, and return its name and its processes that are still there."""
        left = self.end(tenths)
        return self.command.meant() + (f"; still there: {', '.join(left)}" if left else "")
