"""In a run on many hosts, show the first of the lines that say the same, and how far the run is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import assert_never

from runbook.text.similar_texts import line_of
from runbook.values.event import (
    Answered,
    Asked,
    BatchFinished,
    ChangeStarted,
    Event,
    HostFinished,
    HostPlanned,
    HostStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Waiting,
)
from runbook.values.result import Verdict
from runbook.values.types import plural

MANY = 40
"""Hosts up to which every line of a verbose run is shown: about a screen of them."""

PARTS = 5
"""How often a long run says how far it is, where no live region does."""


class RepeatedLines:
    """Drops lines that say of another host what has been said of one; the recap names all hosts."""

    def __init__(self, *, progress: bool, many: int = MANY) -> None:
        self._progress = progress
        self._many = many
        """Hosts up to which every line is shown."""
        self._name = ""
        self._all = 0
        self._ended: Counter[Verdict] = Counter()
        self._shown: set[tuple[str, ...]] = set()

    def without(self, event: Event, lines: Sequence[str]) -> Sequence[str]:
        """*lines*, which are what *event* is worth, if they are the first of their kind."""
        match event:
            case RunStarted():
                return self._begun(event, lines)
            case HostFinished(result=result):
                self._ended[result.verdict] += 1
                return [*self._first(result.host, lines), *self._how_far()]
            case StepFinished(host=host) | Waiting(host=host):
                return self._first(host, lines)
            case HostStarted() | HostPlanned() | StepStarted() | ChangeStarted() | Asked() | Answered():
                return lines
            case BatchFinished() | RunFinished():
                return lines
            case _:
                assert_never(event)

    def _begun(self, event: RunStarted, lines: Sequence[str]) -> Sequence[str]:
        self._name, self._all = event.playbook, len(event.hosts)
        if self._all <= MANY or self._many < MANY:
            return lines
        return [*lines[:-1], "the first host with each result is shown here, and all of them in the recap", ""]

    def _first(self, host: str, lines: Sequence[str]) -> Sequence[str]:
        if self._all <= self._many:
            return lines
        key = tuple(line_of(line.removeprefix(f"{host}: "), host, strict=True).key for line in lines)
        if key in self._shown:
            return []
        self._shown.add(key)
        return lines

    def _how_far(self) -> list[str]:
        """A line on the progress of the run, each time another fifth of the hosts has ended."""
        done = sum(self._ended.values())
        before, now = ((number * PARTS) // self._all if self._all else 0 for number in (done - 1, done))
        if not self._progress or self._all <= MANY or before == now or done == self._all:
            return []
        counts = ", ".join(f"{self._ended[verdict]} {verdict}" for verdict in reversed(Verdict) if self._ended[verdict])
        return [f"{self._name}: {done} of {plural(self._all, 'host')} done: {counts}"]
