"""Connections that restrict another connection: read-only, recording, redacting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ReadOnlyViolation
from runbook.protocols import Connection
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
