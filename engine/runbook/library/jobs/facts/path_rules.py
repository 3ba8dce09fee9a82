"""Check the paths whose holders may be listed and ended."""

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
    """Return the reason why the holders of *paths* (globs) must not be chosen; empty if they may."""
    for path in paths:
        if not path.startswith("/") or "/../" in f"{path}/" or "//" in path:
            return f"{path!r} is not an absolute path: write it as /dev/nvidia*"
        if path.startswith(("/proc/", "/sys/")):
            return f"{path!r} is in /proc or /sys, where an open file blocks nobody: name the device or the file"
        if any(_matches(one, path) for one in EVERYBODYS):
            return f"{path!r} is a file that processes of the system have open: name the device or the file"
    return ""


def _matches(path: str, glob: str) -> bool:
    """Return whether *path* matches *glob* as in a shell: ``*`` matches no slash."""
    parts, globs = path.split("/"), glob.split("/")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))
