"""The program that a process really runs, and whether only root can have put it there."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping

from runbook.dataclass import dataclass
from runbook.shell import script

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH
_DELETED = " (deleted)"

PROGRAMS = script(__package__, "executables")
"""Comes after the table of processes, which has asked (``want``) for the programs of some processes.  Lines:

``exe`` (pid, kind, path): the link of the program.  The kind is ``same`` if the process has our mount namespace,
``other`` if root has made its namespace, and ``foreign`` if any user may have made it.  ``inode`` (device:inode, owner,
mode in hexadecimal, links, /proc/PID/exe): the running program.  ``file`` (the same fields): its path and all
directories above it.  Only directories where root keeps programs are read, and under a time limit.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """The program that a process runs."""

    path: str
    """The path in the mount namespace of the process, with ``(deleted)`` after it if the file is gone."""
    roots: bool
    """Whether the program is the file at *path*, and only root can write this file and the directories above it."""

    @property
    def name(self) -> str:
        """Return the name of the program: the last part of the path."""
        return self.path.removesuffix(_DELETED).rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    key: str
    owner: str
    mode: int
    links: str

    def only_roots(self, kind: int) -> bool:
        """Whether the file is of type *kind* (``S_IFMT``), belongs to root, and nobody else may write it."""
        return self.owner == "0" and stat.S_IFMT(self.mode) == kind and not self.mode & _WRITABLE


def programs_of(reported: Iterable[tuple[str, str]]) -> dict[int, Executable]:
    """Return the programs in the lines of the script, by pid; a process that could not be inspected is missing."""
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
    """Whether the program is a file of root; only its inode proves it.

    In a mount namespace of his own, a user may give any file of root any path.  A deleted file cannot be compared by
    path.  It is accepted if it has no link left, because only root can remove its links.
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
