"""The owner of a process, as a value."""

from __future__ import annotations

from typing import Literal

from runbook.dataclass import dataclass

Kind = Literal["allocated", "service", "container", "session", "supervised", "orphan", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of a process."""

    kind: Kind
    """allocated: owned by an unfinished job of the scheduler; unknown: the scheduler did not answer; orphan: the owner
    is gone."""
    name: str
    """The owner as text: ``slurm job 4711 (RUNNING)``, ``service ollama.service (active)``, ``none: its launcher has
    gone``.
    """

    @property
    def lives(self) -> bool:
        """Whether somebody answers for the process, so that it is not left over however idle it is."""
        return self.kind in ("allocated", "service", "container", "session")

    @property
    def why(self) -> str:
        """Return the reason why it is unknown."""
        return self.name.removeprefix("unknown: ")

    def __str__(self) -> str:
        return self.name
