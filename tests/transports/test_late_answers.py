"""What was answered while this program slept is read before anything is concluded from the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.errors import ConnectionLost
from engine.sessions.command_run import CommandRun
from engine.sessions.framed_output import Stream
from engine.values.command import Command, Effect
from tests.transports.interrupts import Pressed

TOKEN = "mark"


@dataclass
class SleptLane:
    """A lane whose answer is on its way: it comes with the *at*-th wait, or, where that is 0, never."""

    at: int
    name: str = "lane"
    ended: bool = False
    out: Stream = field(default_factory=Stream)
    err: Stream = field(default_factory=Stream)
    waits: int = 0

    def pump(self, seconds: float = 0.0) -> None:
        self.waits += 1
        if not self.at:
            time.sleep(0.01)  # noqa: TID251 a lane that is waited for; it says nothing
        if self.waits == self.at:
            self.out.feed(b"well\n\nmark 0\n")
            self.err.feed(b"\nmark\n")


@dataclass
class SleptWatchdog:
    late: set[str] = field(default_factory=set)
    says: str = ""
    ended: bool = False

    def listen(self, seconds: float = 0.0) -> None:
        self.late |= {self.says} - {""}

    def finish(self, *_: Any) -> tuple[str, ...]:
        return ()

    def wait_over(self, *_: Any) -> tuple[str, ...]:
        return ()


class Standing:
    def stands(self) -> bool:
        return True


def attempt(effect: Effect, lane: SleptLane, watchdog: SleptWatchdog, slept: float) -> CommandRun:
    command = Command(argv=("x",), effect=effect, timeout=3.0)
    then = time.monotonic() - slept
    made: Any = CommandRun(command, TOKEN, lane, watchdog, Standing(), Pressed(), began=then)  # type: ignore[arg-type]
    made.seen = then
    return made


@pytest.mark.parametrize("at", [1, 2, 5])
def test_an_answer_that_has_come_counts_however_late_it_is_read(at):
    """Mutants: no ``_asleep`` in ``write``, in ``look``."""
    written = attempt(Effect.WRITE, SleptLane(at), SleptWatchdog(), 1000.0).write()
    assert (written.exit_code, written.stdout, written.timed_out) == (0, "well\n", False)
    looked = attempt(Effect.READ, SleptLane(at), SleptWatchdog(), 1000.0).look()
    assert (looked.exit_code, looked.stdout, looked.timed_out) == (0, "well\n", False)


@pytest.mark.parametrize("at", [1, 2])
def test_what_ended_before_the_watchdog_ended_its_shell_is_over(at):
    """Mutant: the watchdog's word counts before the lane is read."""
    done = attempt(Effect.WRITE, SleptLane(at), SleptWatchdog(says="lane"), 0.0).write()
    assert (done.exit_code, done.timed_out) == (0, False)


def test_without_an_answer_the_clock_counts():
    with pytest.raises(ConnectionLost, match="stopped answering"):
        attempt(Effect.WRITE, SleptLane(0), SleptWatchdog(), 1000.0).write()
    assert attempt(Effect.WRITE, SleptLane(0), SleptWatchdog(says="lane"), 0.0).write().timed_out
    assert attempt(Effect.READ, SleptLane(0), SleptWatchdog(), 1000.0).look().timed_out
