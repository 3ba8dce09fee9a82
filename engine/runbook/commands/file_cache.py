"""A cache of values that were made from files; a value is valid while its files and runbook are unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from runbook.commands.input_files import FilesRead, playbook_files
from runbook.commands.program_cache import ProgramCache
from runbook.dataclass import dataclass
from runbook.values.types import Json

MOST_KEPT = 300
"""The maximum number of values; the oldest are dropped first."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: Json
    files: Mapping[str, str]
    """A digest of each file."""


class FileCache:
    """The values in the cache file *name*, by the path of their playbook.

    A new playbook, which another one may include instead of the file that was read, makes all values invalid.
    """

    def __init__(self, name: str) -> None:
        self._cache = ProgramCache(name)
        self._digest = cache(_digest)
        there = "\0".join(str(path.absolute()) for path in playbook_files())
        self._there = sha256(there.encode()).hexdigest()
        self._kept, self._changed = self._read(), False

    def recall(self, path: Path) -> Json:
        """Return the value of *path*; None if there is none, or if one of its files has changed."""
        kept = self._kept.get(str(path.absolute()))
        if kept and all(self._digest(file) == digest for file, digest in kept.files.items()):
            return kept.value
        return None

    def keep(self, path: Path, files: FilesRead, value: Json) -> None:
        """Keep *value*, which was made of *files*, until it is written."""
        self._kept.pop(str(path.absolute()), None)
        kept = _Kept(value, files.digests)
        self._kept[str(path.absolute())], self._changed = kept, True

    def write(self) -> None:
        """Write the values, if one is new; a failure only costs time later."""
        if self._changed:
            newest = list(self._kept.items())[-MOST_KEPT:]
            kept = {path: {"value": each.value, "files": dict(each.files)} for path, each in newest}
            self._cache.write({"there": self._there, "kept": kept})

    def _read(self) -> dict[str, _Kept]:
        try:
            tree: Any = self._cache.read()
            if tree["there"] != self._there:
                return {}
            return {path: _Kept(each["value"], _texts(each["files"])) for path, each in tree["kept"].items()}
        except (ValueError, KeyError, TypeError, AttributeError):  # none is there, or it is damaged: made again
            return {}


def _texts(tree: Mapping[str, Any]) -> dict[str, str]:
    if not all(isinstance(text, str) for pair in tree.items() for text in pair):
        raise TypeError("texts are expected")
    return dict(tree)


def _digest(file: str) -> str:
    try:
        return sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
