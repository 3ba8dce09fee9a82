"""The root file system of a lab host: it sees copies of this machine's files, and never changes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from runbook.dataclass import dataclass
from runbook.shell import program

OWN = "overlay"
"""All files are the host's own: copies of this machine's as soon as they are written to."""
READ_ONLY = "bind"
"""This machine's files are seen read-only, beside some directories that are the host's own."""

MADE = ("/dev", "/proc", "/run", "/sys")
"""The directories that the script makes."""
EMPTY = ("/home", "/root", "/tmp", "/var/tmp")  # noqa: S108 - names of directories, nothing is opened
"""The directories that are empty on a new host."""
EMPTY_TOO = ("/var/log", "/var/spool")
"""The directories that are empty as well where nothing can be copied on writing."""
SYSTEM = frozenset(
    (
        *("/bin", "/etc", "/gnu", "/gnu/store", "/lib", "/lib64", "/nix", "/nix/store", "/opt", "/sbin", "/srv"),
        *("/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool"),
    )
)
"""The directories that are seen even as file systems of their own; other file systems are not seen at all."""
KEPT_FLAGS = ("nosuid", "nodev", "noexec")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Mount point to its options, and which of them are directories."""

    flags: Mapping[str, str]

    def above(self, path: str) -> str:
        """The mount point that *path* lies on."""
        return max((flag for flag in self.flags if _is_in(path, flag)), key=len, default="/")

    def below(self, path: str) -> list[str]:
        """The mount points below *path*, without itself."""
        return sorted(flag for flag in self.flags if flag != path and _is_in(flag, path))


def mounts(text: str) -> Mounts:
    """The mounts that ``/proc/self/mountinfo`` tells of."""
    found = {}
    for line in text.splitlines():
        words = line.split(" ")
        point = words[4].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        found[point] = ",".join(part for part in words[5].split(",") if part in KEPT_FLAGS)
    return Mounts(found)


def plan(files: str, needed: Iterable[str], there: Mounts) -> str:
    """Lines ``VERB FLAGS PATH`` for the script that makes a host's root; *needed* are paths that it must see."""
    rows = _overlays(there) if files == OWN else _binds("/", there)
    for path in _outermost(word for word in needed if _is_hidden(word, there)):
        rows.append(("see", path))
        rows += [("shut", word) for word in there.below(path)]
    return "".join(
        f"{verb} {there.flags.get(there.above(path)) or '-'} {path}\n" for verb, path in rows if "\n" not in path
    )


def _overlays(there: Mounts) -> list[tuple[str, str]]:
    """Return the mounts over an overlay of ``/``, which shows no other file system."""
    system = [flag for flag in sorted(there.flags) if flag in SYSTEM]
    files = [flag for flag in sorted(there.flags) if flag.startswith("/etc/") and os.path.isfile(flag)]
    return [*(("over", word) for word in system), *(("copy", file) for file in files)]


def _binds(folder: str, there: Mounts) -> list[tuple[str, str]]:
    """Return the read-only mounts of *folder*; directories with other file systems below them entry by entry."""
    rows: list[tuple[str, str]] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return rows
    for name in names:
        path = os.path.join(folder, name)
        if path in (*MADE, *EMPTY, *EMPTY_TOO) or (path in there.flags and path not in SYSTEM):
            continue
        if path == "/etc" or os.path.islink(path):
            rows.append(("copy", path))
        elif os.path.isdir(path) and (path == "/var" or there.below(path)):
            rows += [("dir", path), *_binds(path, there)]
        elif os.path.isdir(path) or os.path.isfile(path):
            rows.append(("bind", path))
    return rows


def needed_paths(paths: Iterable[str]) -> list[str]:
    """Return the paths that are there, as they are written and as they resolve."""
    there = [os.path.abspath(path) for path in paths if path and os.path.exists(path)]
    return sorted({*there, *(os.path.realpath(word) for word in there)})


def _is_hidden(path: str, there: Mounts) -> bool:
    """Whether a host would not see *path*: it is in what is made or empty there, or on another file system."""
    if path == "/" or path in (*MADE, *EMPTY):
        return False  # else all of it would be seen
    above = there.above(path)
    return any(_is_in(path, word) for word in (*MADE, *EMPTY)) or (above != "/" and above not in SYSTEM)


def _outermost(paths: Iterable[str]) -> list[str]:
    """*paths*, without those below another one."""
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not _is_in(path, kept[-1]):
            kept.append(path)
    return kept


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def mounts_here() -> Mounts:
    """The mounts of this program."""
    return mounts(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))


ROOT = program(__package__, "root_filesystem")

LO = """import fcntl, socket, struct
with socket.socket() as it:
    flags, = struct.unpack_from("16xh", fcntl.ioctl(it, 0x8913, struct.pack("16sh14x", b"lo", 0)))
    fcntl.ioctl(it, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
"""
"""Brings the loopback up (netdevice(7)), for machines without iproute2."""
