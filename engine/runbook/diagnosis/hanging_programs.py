"""Remember programs that did not answer on a host, so that not every probe waits for them."""

from __future__ import annotations

from dataclasses import dataclass

from runbook.protocols import Clock
from runbook.values.command import Command, Completed, Effect

RESTS = 60.0
"""Seconds for which a program that did not answer is not asked again, unless something is changed before."""


@dataclass(frozen=True, slots=True)
class _Hang:
    at: float
    patience: float
    """Seconds that it was given."""
    answer: Completed


class HangingPrograms:
    """What did not answer within its time, by the place that was asked and the program (``Command.hangs``)."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[tuple[str, str], _Hang] = {}

    def note(self, place: str, command: Command, answer: Completed) -> None:
        """Remember *answer*, if *command* timed out; forget what did not answer before, if it did answer."""
        if not command.hangs:
            return
        if answer.timed_out:
            silent = Completed(exit_code=None, timed_out=True, seconds=answer.seconds)
            self._noted[place, command.hangs] = _Hang(self._clock.now(), command.timeout, silent)
        elif not answer.refused:
            self._noted.pop((place, command.hangs), None)

    def known(self, place: str, command: Command) -> Completed | None:
        """The answer to *command* that need not be waited for: its program has just had as long there, in vain."""
        noted = self._noted.get((place, command.hangs))
        if noted is None or command.effect is not Effect.READ or command.timeout > noted.patience:
            return None
        return noted.answer if self._clock.now() - noted.at <= RESTS else None

    def forget(self) -> None:
        """Ask everything again: something was changed, or an author asks for another try."""
        self._noted.clear()
