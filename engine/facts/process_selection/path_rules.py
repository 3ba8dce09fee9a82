"""Paths whose holders may be asked for, and ended."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

EVERYBODYS = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/tty1", "/dev/ptmx",
    "/dev/console", "/dev/pts/0", "/dev/fuse", "/dev/kmsg", "/dev/log",
    "/bin/sh",
    "/usr/bin/bash",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
)  # fmt: skip
"""Files that processes of the system have open everywhere."""


def objection_to_paths(paths: Iterable[str]) -> str:
    """Why the holders of *paths* (globs) must not be chosen; empty: they may."""
    for it in paths:
        if not it.startswith("/") or "/../" in f"{it}/" or "//" in it:
            return f"{it!r} is no absolute path: write it as /dev/nvidia*"
        if it.startswith(("/proc/", "/sys/")):
            return f"{it!r} is no file that a process could hold against anybody"
        if any(_matches(one, it) for one in EVERYBODYS):
            return f"{it!r} is held by processes of the system: name the device or the file"
    return ""


def _matches(path: str, glob: str) -> bool:
    """As a shell matches: ``*`` stands for nothing with a slash in it."""
    parts, globs = path.split("/"), glob.split("/")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))
