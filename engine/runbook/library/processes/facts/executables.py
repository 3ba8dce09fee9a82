"""The program that a process really runs, and whether only root can have put it there."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runbook.shell import script

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_DELETED = " (deleted)"

PROGRAMS = script(__package__, "executables")
"""Goes after the table of processes, which has asked (``want``) for the programs of some of them.  Lines:

``exe`` (pid, kind, path): what the link says; the kind is ``same`` where the process has our mount namespace, ``other``
where root has made it another one, and ``foreign`` where any user may have.  ``inode`` (device:inode, owner, mode in
hexadecimal, links, /proc/PID/exe): what it runs.  ``file`` (the same, of that path and all directories above it).
Only what lies where root keeps programs is touched, and under a time limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """The program that a process runs."""

    path: str
    """As its own mounts have it, ``(deleted)`` behind it where it is gone."""
    roots: bool
    """Whether it is what lies at *path*, and only root can write that or any directory above it."""

    @property
    def name(self) -> str:
        """Return its name: the last part of the path."""
        return self.path.removesuffix(_DELETED).rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    key: str
    owner: str
    mode: int
    links: str

    def only_roots(self, kind: int) -> bool:
        """Whether it is of that *kind* (``S_IFMT``), root's, and nobody else may write it."""
        return self.owner == "0" and stat.S_IFMT(self.mode) == kind and not self.mode & _WRITABLE


def programs_of(reported: Iterable[tuple[str, str]]) -> dict[int, Executable]:
    """The programs in the lines of the script, by pid; who is not in it could not be inspected."""
    lines = list(reported)
    inodes = dict(_file(rest) for kind, rest in lines if kind == "inode")
    files = dict(_file(rest) for kind, rest in lines if kind == "file")
    found: dict[int, Executable] = {}
    for kind, rest in lines:
        if kind == "exe":
            pid, whose, path = rest.split(" ", 2)
            inode = inodes.get(f"/proc/{pid}/exe")
            before = f"/proc/{pid}/root" if whose == "other" else ""
            roots = whose != "foreign" and inode is not None and _is_roots(path, before, inode, files)
            found[int(pid)] = Executable(path=path, roots=roots)
    return found


def _file(text: str) -> tuple[str, _File]:
    key, owner, mode, links, path = text.split(" ", 4)
    return path, _File(key=key, owner=owner, mode=int(mode, 16), links=links)


def _is_roots(path: str, before: str, inode: _File, files: Mapping[str, _File]) -> bool:
    """A user may give any file of root's any path in a mount namespace of his own: only the inode tells.

    A deleted one has no path any more to be compared with, but then it has no link left either, which takes root.
    """
    bare = path.removesuffix(_DELETED)
    there = files.get(before + bare)
    if path == bare or inode.links != "0":
        bare, there = path, files.get(before + path)
        if there is None or there.key != inode.key:
            return False
    parents = bare.split("/")[1:-1]
    folders = [f"{before}/.", *(f"{before}/{'/'.join(parents[: at + 1])}" for at in range(len(parents)))]
    above = [files.get(folder) for folder in folders]
    return inode.only_roots(stat.S_IFREG) and all(file is not None and file.only_roots(stat.S_IFDIR) for file in above)
