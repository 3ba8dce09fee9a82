"""A file of hosts that is text of its own kind, not YAML, as the tree and the places that a parsed file has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from runbook.errors import Problem
from runbook.inventory.fields import Path
from runbook.values.playbook import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDocument:
    """A file, read into a tree."""

    file: str
    value: Mapping[str, object]
    places: Mapping[Path, tuple[int, int]] = field(repr=False)
    """Line and column of what stands at a path of the tree."""

    def where(self, path: Path) -> Where:
        """The place of what stands at *path*, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if place := self.places.get(path[:length]):
                return Where(file=self.file, line=place[0], column=place[1])
        return Where(file=self.file, line=1, column=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextNotes:
    """Where mistakes in one text are written down, by line and column."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: int, column: int, message: str, hint: str = "") -> None:
        """Note that *message* is wrong at that place.  It repeats nothing that may be a secret."""
        self.problems.append(Problem(file=self.file, line=line, column=column, message=message, hint=hint))
