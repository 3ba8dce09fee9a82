"""What was answered while this program slept is read before anything is concluded from the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from runbook.connections.sessions.command_run import CommandRun
from runbook.connections.sessions.framed_output import Stream
from runbook.values.command import Command, Effect
from tests.support.tables import every_row
from tests.transports.interrupts import Pressed

TOKEN = "mark"


@dataclass
class SleptSession:
    """A session whose answer is on its way: it comes with the *at*-th wait, or, where that is 0, never."""

    at: int
    ended: bool = False
    out: Stream = field(default_factory=Stream)
    err: Stream = field(default_factory=Stream)
    waits: int = 0

    def pump(self, seconds: float = 0.0) -> int:
        self.waits += 1
        if not self.at:
            time.sleep(0.01)  # noqa: TID251 a session that is waited for; it says nothing
        if self.waits == self.at:
            self.out.feed(b"well\n\nmark 0\n")
            self.err.feed(b"\nmark\n")
        return 0


class Standing:
    def stands(self) -> bool:
        return True


def attempt(effect: Effect, session: SleptSession, slept: float, left: tuple[str, ...] | None = ()) -> CommandRun:
    """A command that was sent so long ago; *left* is what is said to survive its end."""
    command = Command(argv=("x",), effect=effect, timeout=3.0)
    then = time.monotonic() - slept
    made: Any = CommandRun(command, TOKEN, session, lambda _: left, Standing(), Pressed(), began=then)  # type: ignore[arg-type]
    made.seen = then
    return made


@every_row("at", [1, 2, 5])
def test_an_answer_that_has_come_counts_however_late_it_is_read(at):
    """Mutants: no ``_asleep`` in ``change``, in ``probe``."""
    changed = attempt(Effect.WRITE, SleptSession(at), 1000.0).change()
    assert (changed.exit_code, changed.stdout, changed.timed_out) == (0, "well\n", False)
    probed = attempt(Effect.READ, SleptSession(at), 1000.0).probe()
    assert (probed.exit_code, probed.stdout, probed.timed_out) == (0, "well\n", False)


@every_row("at", [1, 2])
def test_a_change_that_ended_before_its_time_was_up_is_over(at):
    """Mutant: ``change`` without ``_caught_up`` before the command is ended."""
    done = attempt(Effect.WRITE, SleptSession(at), 3.1).change()
    assert (done.exit_code, done.timed_out) == (0, False)


def test_without_an_answer_the_clock_counts():
    late = attempt(Effect.WRITE, SleptSession(0), 1000.0, left=None).change()
    assert (late.timed_out, late.survivors) == (True, ("the host did not say whether the command ended",))
    assert attempt(Effect.READ, SleptSession(0), 1000.0).probe().timed_out
