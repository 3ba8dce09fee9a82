"""Run one command on a lane, from sending it to its end on the host."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from engine.errors import Cancelled, ConnectionLost
from engine.protocols import Interrupt
from engine.sessions.channel import Opener
from engine.sessions.framed_output import KEPT, CapturedOutput
from engine.sessions.shell_programs import HARMED, REFUSED
from engine.sessions.shell_session import ShellSession, Watchdog
from engine.values.command import Command, Completed, Effect

GRACE = 10.0
"""Seconds after a command's own timeout until a silent host counts as lost."""

ASLEEP = 2.0
"""Seconds without listening after which this program was stopped, or the machine slept: answers may have come since."""

CATCH_UP = 2.0
"""Seconds in which what has come meanwhile is read, before anything is concluded from the clock."""

LATEST = 5.0
"""Seconds more for the host to end a write that is past its timeout."""


def require_open_connection(opener: Opener) -> None:
    """Raise ConnectionLost when the line is gone."""
    if not opener.stands():
        why = opener.lost_because()
        raise ConnectionLost("the connection to the host was lost" + (f": {why}" if why else ""))


@dataclass(slots=True)
class CommandRun:
    """A command that was sent on *lane*, with *token* behind what it says."""

    command: Command
    token: str
    lane: ShellSession
    watchdog: Watchdog
    opener: Opener
    interrupt: Interrupt
    began: float = field(default_factory=time.monotonic)
    marks: dict[str, CapturedOutput] = field(default_factory=dict)
    seen: float = field(default_factory=time.monotonic)
    """When the host was last listened to."""
    room: int = 4 * KEPT
    """Bytes that may be kept of what it says."""

    def __post_init__(self) -> None:
        """Set aside the room: two ends of two streams."""
        for stream in (self.lane.out, self.lane.err):
            stream.keep(self.room // 4)

    def look(self) -> Completed:
        """Wait for a probe; end it when its time is up, or when the run is asked to stop."""
        while not self._over():
            if self.lane.ended:
                return self._broken_off()
            if self._asleep() and self._caught_up(CATCH_UP):
                break
            if self.interrupt.level() > (1 if self.command.owed else 0):
                self._end_for_interrupt()
            if self._spent() >= self.command.timeout:
                return self._late_look()
            self.lane.pump(min(0.25, max(0.0, self.command.timeout - self._spent())))
        return self._completed()

    def write(self) -> Completed:
        """Wait for a write, which the host ends when its time is up; the run's second wish to stop ends it too."""
        while not self._over():
            if self._asleep() and self._caught_up(CATCH_UP):
                break
            self.watchdog.listen()
            if self.lane.name in self.watchdog.late:  # what it said before it was ended comes before that word
                return self._completed() if self._caught_up(0.3) else self._late_write()
            if self.interrupt.level() > 1:
                self._cut_write()
            if self.lane.ended:
                if self._spent() < self.command.timeout:
                    return self._broken_off()
                self.watchdog.listen(0.1)
            if self.watchdog.ended and self._spent() > self.command.timeout:
                return self._unheld_write()
            if self._spent() > self.command.timeout + GRACE + LATEST:
                raise ConnectionLost("the host stopped answering while the command ran")
            self.lane.pump(0.1) if not self.lane.ended else time.sleep(0.05)
        return self._completed()

    def _spent(self) -> float:
        return time.monotonic() - self.began

    def _asleep(self) -> bool:
        """Whether much time has passed since this was asked last."""
        before, self.seen = self.seen, time.monotonic()
        return self.seen - before > ASLEEP

    def _caught_up(self, seconds: float) -> bool:
        """Whether the command is over, once all that has already come is read; it is waited for so many seconds."""
        until = time.monotonic() + seconds
        while not (over := self._over()) and not self.lane.ended and time.monotonic() < until:
            self.lane.pump(0.05)
        self.seen = time.monotonic()
        return over

    def _over(self) -> bool:
        for name, stream in (("out", self.lane.out), ("err", self.lane.err)):
            if name not in self.marks and (found := stream.take(self.token)):
                self.marks[name] = found
        return len(self.marks) == 2

    def _completed(self) -> Completed:
        out, err = self.marks["out"], self.marks["err"]
        if err.word == HARMED:
            self.lane.harmed = True
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

    def _ended(self, *, note: str = "", timed_out: bool = False, survivors: tuple[str, ...] = ()) -> Completed:
        """A command without an exit code, and what it said until then."""
        out, err = (self.marks.get(name) or it.rest() for name, it in (("out", self.lane.out), ("err", self.lane.err)))
        return Completed(
            exit_code=None,
            stdout=out.text,
            stderr=err.text + note,
            seconds=self._spent(),
            timed_out=timed_out,
            survivors=survivors,
            missing=(out.missing, err.missing),
        )

    def _late_look(self) -> Completed:
        """End the probe on the host, without waiting for its pipes."""
        spent = self._spent()
        left = self.watchdog.finish(self.lane, self._to_tidy())
        self.lane.ended = True
        if left is None:
            require_open_connection(self.opener)
            left = ("the host did not say whether the command ended",)
        self.began = time.monotonic() - spent
        return self._ended(timed_out=True, survivors=left)

    def _end_for_interrupt(self) -> None:
        left = self.watchdog.finish(self.lane, self._to_tidy())
        self.lane.ended = True
        raise Cancelled(f"asked to stop; this probe was ended on the host: {self._named(left)}", sent=True)

    def _to_tidy(self) -> int:
        """Tenths of a second that the probe has between TERM and KILL: one that made a file of its own removes it."""
        return 20 if self.command.effect is Effect.SCRATCH else 3

    def _broken_off(self) -> Completed:
        """The lane ended under the command: the line is gone, or something on the host killed our shell."""
        require_open_connection(self.opener)
        self.watchdog.listen(0.2)
        late = self.lane.name in self.watchdog.late
        note = f"\nrunbook: the shell that ran this command was killed on the host ({self.command.effect})"
        return self._ended(note="" if late else note, timed_out=late)

    def _late_write(self) -> Completed:
        if self.command.unkillable:
            left: tuple[str, ...] = (f"left running: {self.command.brief()}",)
        else:
            left = self.watchdog.wait_over(self.lane, 2.0) or ()
        return self._ended(timed_out=True, survivors=left)

    def _unheld_write(self) -> Completed:
        """The shell that was to end it is gone, and it is past its time."""
        require_open_connection(self.opener)
        return self._ended(timed_out=True, survivors=("left running: the shell that was to end it was killed",))

    def _cut_write(self) -> None:
        if self.command.unkillable:
            words = f"asked to stop twice; this command cannot be ended and was left running: {self.command.brief()}"
            raise Cancelled(words, sent=True)
        left = self.watchdog.finish(self.lane, 10)
        raise Cancelled(f"asked to stop twice; this change was ended half-way: {self._named(left)}", sent=True)

    def _named(self, left: tuple[str, ...] | None) -> str:
        return self.command.meant() + (f"; still there: {', '.join(left)}" if left else "")
