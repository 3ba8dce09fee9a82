"""A file of the cache that is valid for one version of runbook; another version makes the file again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from runbook.extensions import ACTIONS, installed
from runbook.records.private_folder import PrivateFolder
from runbook.version import __version__


class ProgramCache:
    """The file *name* in ``$XDG_CACHE_HOME/runbook``; without a home directory nothing is stored."""

    def __init__(self, name: str) -> None:
        self._name, self._folder = name, _folder()
        self._program = _program() if self._folder else ""

    def read(self) -> Any:
        """Return the stored value; None if there is none, if another version has stored it, or if the file is
        damaged.
        """
        if self._folder is None:
            return None
        try:
            tree = json.loads(self._folder.read(self._name))
            return tree["kept"] if tree["program"] == self._program else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, kept: Any) -> None:
        """Store *kept*, a JSON value, if possible; a failure, such as a full disk, only costs time later."""
        if self._folder is None:
            return
        try:
            self._folder.write(self._name, json.dumps({"program": self._program, "kept": kept}))
        except OSError:
            return


def _folder() -> PrivateFolder | None:
    named = os.environ.get("XDG_CACHE_HOME") or ""
    path = Path(named) if named.startswith("/") else Path(os.path.expanduser("~/.cache"))
    return PrivateFolder(path / "runbook") if path.is_absolute() else None


@cache  # the program that runs stays the same, whatever becomes of its files
def _program() -> str:
    """Return a digest of the files of runbook, from their sizes and times, and of the packages that add actions."""
    package = Path(__file__).parents[1]
    parts = [__version__, *(f"{each.name} {each.module} {each.package}" for each in installed(ACTIONS))]
    parts += _stamps(str(package))
    return sha256("\0".join(parts).encode()).hexdigest()


def _stamps(folder: str) -> Iterator[str]:
    entries: Sequence[os.DirEntry[str]] = sorted(os.scandir(folder), key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from () if entry.name == "__pycache__" else _stamps(entry.path)
        elif entry.name.endswith((".py", ".sh", ".csv")):
            there = entry.stat()
            yield f"{entry.path} {there.st_size} {there.st_mtime_ns}"
