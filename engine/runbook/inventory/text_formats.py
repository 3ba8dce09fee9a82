"""A file of hosts that is not YAML, read into the same tree with places that a YAML file gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.inventory.fields import Path
from runbook.values.playbook import Where


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDocument:
    """A file, read into a tree."""

    file: str
    value: Mapping[str, object]
    places: Mapping[Path, tuple[int, int]] = field(repr=False)
    """Line and column of the value at each path of the tree."""

    def where(self, path: Path) -> Where:
        """Return the place of the value at *path*, or of the nearest value around it."""
        for length in range(len(path), 0, -1):
            if place := self.places.get(path[:length]):
                return Where(file=self.file, line=place[0], column=place[1])
        return Where(file=self.file, line=1, column=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextNotes:
    """Collects the mistakes of one text, by line and column."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: int, column: int, message: str, hint: str = "") -> None:
        """Add the mistake *message* at *line* and *column*.  The message must not repeat a possible secret."""
        self.problems.append(Problem(file=self.file, line=line, column=column, message=message, hint=hint))
