"""Keep what a host answers while its plan is made, for the next probe that asks the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from runbook.protocols import Clock
from runbook.values.command import Command, Completed, Effect


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """What a host said, and when."""

    answer: Completed
    number: int
    """Its place among all answers of the host: a probe that asks twice wants a later one than it has."""
    at: float
    """Seconds on the clock: when the command was sent."""


class RecentAnswers:
    """The answers to commands with ``valid_for``, by the place that was asked and the command."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, Command], list[RecentAnswer]] = {}
        self._count = 0
        self._planning = self._lasting = False

    @contextmanager
    def while_planning(self) -> Iterator[None]:
        """Keep answers, and forget them at the end, unless the plan is carried out at once."""
        self._planning = True
        try:
            yield
        finally:
            self._planning = False
            if not self._lasting:
                self.forget()

    @contextmanager
    def while_carried_out_at_once(self) -> Iterator[None]:
        """Keep the answers of planning for the steps, which may use them until something is waited for or changed."""
        self._lasting = True
        try:
            yield
        finally:
            self._lasting = False
            self.forget()

    def note(self, place: str, command: Command, answer: Completed, sent: float) -> int:
        """Keep *answer* to *command*, which was *sent* then, while a plan is made; the number of the answer."""
        self._count += 1
        if self._planning and command.valid_for and command.effect is Effect.READ and answer.exit_code == 0:
            self._kept.setdefault((place, _question(command)), []).append(RecentAnswer(answer, self._count, sent))
        return self._count

    def known(self, place: str, command: Command, after: int) -> RecentAnswer | None:
        """The first answer to *command* that is valid still, and later than number *after*; None: it is to be sent.

        The first, so that a probe which asks twice gets the same two answers as another that did so.
        """
        oldest = self._clock.now() - command.valid_for
        kept = self._kept.get((place, _question(command)), ())
        return next((answer for answer in kept if answer.number > after and answer.at >= oldest), None)

    def forget(self) -> None:
        """Drop every answer: what is asked from now on is sent to the host."""
        self._kept.clear()


def _question(command: Command) -> Command:
    """*command* without what has no part in its answer."""
    return replace(command, timeout=0.0, owed=False)
