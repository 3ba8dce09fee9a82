"""Connections that narrow a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import ReadOnlyViolation
from engine.protocols import Connection
from engine.values.command import Command, Completed, Effect


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A connection that raises, rather than pretends, when it is asked to write."""

    inner: Connection
    scratch: bool = False
    """Whether commands that clean up after themselves may pass."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* if every one of them only looks.  Raises ReadOnlyViolation."""
        allowed = (Effect.READ, Effect.SCRATCH) if self.scratch else (Effect.READ,)
        for it in commands:
            if it.effect not in allowed:
                raise ReadOnlyViolation(f"a look may not send this ({it.effect}): {it.brief()}")
        return self.inner.run(*commands)

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class Recording:
    """A connection that remembers what was sent, and what came back."""

    inner: Connection
    sent: list[tuple[Command, Completed]] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*, and remember them with their answers."""
        answers = self.inner.run(*commands)
        self.sent.extend(zip(commands, answers, strict=True))
        return answers

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()
