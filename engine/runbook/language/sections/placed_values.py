"""Read single values of a playbook's tree; a wrong value is reported with its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.yaml_source import Document, Path
from runbook.values.playbook import Share, Where
from runbook.values.units import duration, share


class PlacedValues:
    """Reads values of *document*; mistakes are added to *problems*, each with its place."""

    def __init__(self, document: Document, problems: list[Problem]) -> None:
        self._document, self._problems = document, problems

    def wrong(self, path: Path, message: str, hint: str = "") -> None:
        """Add the mistake *message* at *path*."""
        self._problems.append(self._document.problem(path, message, hint))

    def where(self, path: Path) -> Where:
        """Return the place of *path* in the file."""
        return self._document.where(path)

    def seconds(
        self,
        tree: Mapping[str, Any],
        key: str,
        path: Path,
        default: float = 0.0,
        read: Callable[[object], float] = duration,
    ) -> float:
        """Return the duration *key* of *tree* in seconds; *default* if the key is missing.  *path* is the path of
        *tree*.
        """
        if key not in tree or not isinstance(tree[key], str | int | float):
            return default
        try:
            return read(tree[key])
        except ConfigError as error:
            self.wrong((*path, key), f"{key}: {error}")
            return default

    def share(self, value: Any, path: Path) -> Share | None:
        """Return *value*, which is at *path* in ``limits``, as a share of the hosts; None if it is not a share."""
        try:
            return share(value)
        except ConfigError as error:
            self.wrong(path, f"{path[1]}: {error}")
            return None


@dataclass(frozen=True, slots=True)
class Entry:
    """A mapping of a playbook (a step, a finding, the limits) with its place."""

    tree: Mapping[str, Any]
    path: Path
    values: PlacedValues


Reader = Callable[[Entry, str], Any]
"""A function from an entry and the name of a key to the value of a field; it adds mistakes to the problems of the
entry.
"""


def value_of(read: Callable[[Any], Any]) -> Reader:
    """Return a reader that calls *read* with the value of the key, or with None."""
    return lambda entry, key: read(entry.tree.get(key))


def duration_of(read: Callable[[object], float] = duration, default: float = 0.0) -> Reader:
    """Return a reader of a duration in seconds."""
    return lambda entry, key: entry.values.seconds(entry.tree, key, entry.path, default, read)
