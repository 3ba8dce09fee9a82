"""Arguments of actions that end processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.processes.facts.victims import Manner
from runbook.values.types import Duration


@dataclass(frozen=True, kw_only=True)
class EndArguments:
    """How processes are ended."""

    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"] = "TERM"
    """The first signal."""
    grace: Duration = field(default=Duration(10.0), metadata={"minimum": 0})
    """How long to wait after the first signal; the wait ends as soon as all are gone."""
    then: Literal["KILL", "nothing"] = "KILL"
    """The signal for the processes that remain."""
    max_victims: int = field(default=0, metadata={"minimum": 0})
    """If more processes than this would be ended, none is; 0: any number."""

    @property
    def manner(self) -> Manner:
        """How, as a change needs it."""
        return Manner(signal=self.signal, grace=self.grace, then=self.then, most=self.max_victims)

    def by_hand(self) -> tuple[str, ...]:
        """The lines that a person would paste to do it, once the processes were inspected."""
        first, second = f"kill -s {self.signal} PID...", f"sleep {self.grace:g}; kill -s {self.then} PID..."
        return (first,) if self.manner.last == self.signal else (first, second)


@dataclass(frozen=True, kw_only=True)
class EndJobArguments(EndArguments, JobArguments):
    """Which of the processes that match are ended, and how."""

    only: Literal["leftover", "all"] = "leftover"
    """leftover: spare every process that is at work, has just started, or listens on a port; all: only those with an
    owner are spared (`spare_owned`).
    """
    allow: tuple[str, ...] = ()
    """Protected programs, by name, that may be ended all the same."""
