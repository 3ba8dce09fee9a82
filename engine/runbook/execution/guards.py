"""Connections that restrict another connection: read-only, recording, redacting, limited in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import Cancelled, ReadOnlyViolation
from runbook.protocols import Connection, Interrupt
from runbook.values.command import Command, Completed, Effect


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A connection that raises ReadOnlyViolation if it is asked to send a command that writes."""

    inner: Connection
    scratch: bool = False
    """Whether commands that clean up after themselves are allowed."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* if every one of them only reads.  Raises ReadOnlyViolation."""
        allowed = (Effect.READ, Effect.SCRATCH) if self.scratch else (Effect.READ,)
        for command in commands:
            if command.effect not in allowed:
                raise ReadOnlyViolation(f"a probe may not send this command ({command.effect}): {command.brief()}")
        return self.inner.run(*commands)

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class Recording:
    """A connection that remembers the commands that were sent, and their answers."""

    inner: Connection
    sent: list[tuple[Command, Completed]] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*, and remember them with their answers."""
        answers = self.inner.run(*commands)
        self.sent.extend(zip(commands, answers, strict=True))
        return answers

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class Redacting:
    """A connection that masks secrets in the output of the author's commands, as soon as the output arrives.

    So no expression, excerpt or record contains a part of a secret.  The output of our own scripts is not masked here,
    because later commands use it to write files back and to end processes; it is masked when it is shown.  Files for
    the
    record arrive packed, and are masked before they are written.
    """

    inner: Connection
    redacted: Callable[[str, bool], str]
    """Returns a text without secrets; the second argument says whether the end of the text was cut off."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*; the answers to commands of authors are returned with their secrets masked."""
        answers = self.inner.run(*commands)
        return tuple(
            self._without_secrets(answer) if command.foreign and not command.keep else answer
            for command, answer in zip(commands, answers, strict=True)
        )

    def _without_secrets(self, answer: Completed) -> Completed:
        cut = answer.exit_code is None
        return replace(
            answer,
            stdout=self.redacted(answer.stdout, cut),
            stderr=self.redacted(answer.stderr, cut),
            refused=self.redacted(answer.refused, False),
            survivors=tuple(self.redacted(survivor, False) for survivor in answer.survivors),
        )

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimit:
    """The time at which the probes of a run are given up; what they have not answered by then is unknown."""

    end: float
    """The time on the clock *now*, in seconds."""
    now: Callable[[], float]
    words: str
    """The limit in words, such as ``5 s (--within)``."""

    def level(self) -> int:
        """1 once the time is up, so that probes are ended as if the run were asked to stop; else 0."""
        return int(self.now() >= self.end)


@dataclass(frozen=True, slots=True)
class Either:
    """The more urgent one of two interrupts."""

    one: Interrupt
    other: Interrupt

    def level(self) -> int:
        """Return the higher level."""
        return max(self.one.level(), self.other.level())


@dataclass(frozen=True, slots=True)
class WithinTime:
    """A connection that answers no command any more once its time is up; earlier answers stay.

    A command that is ended for want of time is refused, not timed out: that it hangs is then not known.  One command
    gets at most half of the time that is left, so that one that hangs leaves time for others; a program that is known
    to hang comes last, and gets all of it.
    """

    inner: Connection
    limit: TimeLimit

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* one after the other, so that a hanging one costs no answer but its own.  Raises Cancelled."""
        ordered = sorted(range(len(commands)), key=lambda number: bool(commands[number].hangs))
        answers = {number: self._run(commands[number]) for number in ordered}
        return tuple(answers[number] for number in range(len(commands)))

    def _run(self, command: Command) -> Completed:
        left = self.limit.end - self.limit.now()
        if left <= 0:
            return Completed(exit_code=None, refused=f"not asked within {self.limit.words}")
        share = left if command.hangs else left / 2
        try:
            (answer,) = self.inner.run(replace(command, timeout=min(share, command.timeout or share)))
        except Cancelled:
            if not self.limit.level():  # the run itself is asked to stop
                raise
            return self._unanswered(command, left)
        cut_short = answer.timed_out and not 0 < command.timeout <= share
        return self._unanswered(command, share) if cut_short else answer

    def _unanswered(self, command: Command, had: float) -> Completed:
        called = command.hangs or command.meant()
        words = f"no answer from {called} in {had:.1f} s, its part of {self.limit.words}"
        return Completed(exit_code=None, refused=words)

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()
