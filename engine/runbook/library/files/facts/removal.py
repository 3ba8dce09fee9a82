"""Find files and directories that could be removed, resolve their real paths, and remove them with a script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.path_safety import refusal
from runbook.shell import SAFE, script
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed, read_script, write_script
from runbook.values.types import long_ago

_SYSTEM = "/ /bin /boot /dev /etc /lib /lib64 /proc /root /run /sbin /sys /usr /var"
_PLACES = (
    "/home /lib32 /libx32 /media /mnt /opt /srv /tmp /usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share "
    "/var/cache /var/lib /var/log /var/run /var/tmp"
)
TOO_WIDE = frozenset(_SYSTEM.split())
"""Directories that must not be used as a root, because they contain too much."""

NEVER = TOO_WIDE | frozenset(_PLACES.split())
"""Directories of every host that are never removed, not even with ``allowed_roots``."""

_KINDS = {"4": "directory", "8": "file", "a": "link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file or directory that matches a pattern."""

    path: str
    """The real path: no directory in it is a symbolic link."""
    kind: str
    """``file``, ``directory``, ``link`` (the link itself is removed, never its target) or ``other``."""
    inode: str
    """The numbers of the file system and the inode: ``device:inode``."""
    modified: int
    """The time of the last change in seconds since 1970; for a directory, the latest change of anything in it."""
    moment: str
    """The time of the last change as the host prints it, with all digits."""
    bytes: int
    """The bytes on disk, including the content of a directory."""
    patterns: tuple[int, ...]
    """The numbers of the patterns that match."""
    owner: str = "0"
    """The number of the owner."""
    in_use: bool = False
    """Whether a process has the file open or mapped; known only if ``unused`` was requested."""
    say: str = ""
    """The path with size, owner and age."""
    refusal: str = ""
    """The reason why the entry is not removed, and a remedy: another user could redirect the removal (law 9)."""

    @property
    def key(self) -> str:
        """Return the identity of the entry."""
        return f"{self.path} {self.inode} {self.modified}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The matches of some patterns."""

    entries: tuple[Entry, ...]
    roots: tuple[str, ...]
    """The real paths of the allowed roots; roots that do not exist are left out."""
    home: str
    mounts: tuple[str, ...]
    now: int


def ask_entries(patterns: tuple[str, ...], roots: tuple[str, ...], *, unused: bool = False) -> Command:
    """Return the command that finds the matches of *patterns*, and the real paths of *roots*.

    *unused*: find also the files that a process uses.
    """
    return read_script(_LOOK, "unused" if unused else "", str(len(roots)), *roots, *patterns)


_STEADY = script(__package__, "removal_steady")
"""The check for GNU's rm, which opens each directory from the one above it, so that it follows no link that appears
meanwhile.
"""

_IN_USE = script(__package__, "removal_in_use")

_LOOK = SAFE + _STEADY + _IN_USE + script(__package__, "removal_probe")
"""The script; ``$1``: whether to find files in use, ``$2``: number of roots, then the roots, then the patterns."""


def read_entries(done: Completed) -> Found:
    """Return the matches in *done*, the answer to ``ask_entries``.  Raises ProbeError if there is no answer."""
    if done.timed_out:
        raise ProbeError("the files to remove could not be inspected in time")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the files to remove could not be determined"))
    words = done.stdout.split("\0")
    if words[-1] != "" or len(words) < 2 or words[-3] != "mounts":
        raise ProbeError("the files to remove could not be determined: the output from the host is truncated")
    try:
        return _parsed_entries(words)
    except (ValueError, IndexError) as error:
        raise ProbeError(
            "the files to remove could not be determined: the output from the host is truncated"
        ) from error


def _parsed_entries(words: list[str]) -> Found:
    roots: list[str] = []
    home, now = "/root", 0
    found: dict[str, Entry] = {}
    at = 0
    while words[at] != "mounts":
        match words[at]:
            case "root":
                roots.append(words[at + 1])
            case "home":
                home = words[at + 1]
            case "now":
                now = int(words[at + 1])
            case "stats":
                at = _take(words, at, found)
                continue
        at += 2
    return Found(
        entries=tuple(replace(entry, say=_entry_in_words(entry, now)) for entry in found.values()),
        roots=tuple(dict.fromkeys(roots)),
        home=home,
        mounts=tuple(_mounts(words[at + 1])),
        now=now,
    )


def _entry_in_words(entry: Entry, now: int) -> str:
    age = f"written {long_ago(max(0, now - entry.modified))} ago"
    return f"{entry.path} ({bytes_of(entry.bytes)}, uid {entry.owner}, {age})"


def _take(words: list[str], at: int, found: dict[str, Entry]) -> int:
    """Read the matches of one pattern into *found*, and return the position after them."""
    number, lines = int(words[at + 1]), words[at + 2].split("\n")
    at += 3
    for line in lines:
        if words[at] != "entry":
            raise ProbeError("the files to remove could not be determined: the output from the host is inconsistent")
        path, kib, newest, why, owner, held = words[at + 1 : at + 7]
        before = found.get(path)
        entry = _entry(path, kib, newest, line, (*before.patterns, number) if before else (number,))
        found[path] = replace(entry, refusal=refusal(why, owner), in_use=bool(held))
        at += 7
    return at


def _entry(path: str, kib: str, newest: str, line: str, patterns: tuple[int, ...]) -> Entry:
    raw, inode, modified, blocks, size, owner, moment = line.split(" ", 6)
    return Entry(
        path=path,
        kind=_KINDS.get(raw[0] if len(raw) == 4 else "", "other"),
        inode=inode,
        modified=int(newest or modified),
        moment=moment,
        owner=owner,
        bytes=int(kib) * 1024 if kib else int(blocks) * int(size),
        patterns=patterns,
    )


def _mounts(table: str) -> Iterable[str]:
    for line in table.split("\n"):
        fields = line.split(" ")
        if len(fields) > 4:
            yield re.sub(r"\\([0-7]{3})", lambda it: chr(int(it[1], 8)), fields[4])


def forbidden(entry: Entry, found: Found, *, directories: bool) -> str:
    """Return the reason why *entry* must not be removed; empty if it may be removed."""
    path = entry.path
    if why := _outside(path, found.roots):
        return why
    if found.home == path or found.home.startswith(f"{path}/"):
        return f"{path} is, or holds, the home directory {found.home}"
    if entry.kind != "link" and (
        below := next((mount for mount in found.mounts if f"{mount}/".startswith(f"{path}/")), "")
    ):
        return f"{path} is a mount point" if below == path else f"{path} holds the mount point {below}"
    if entry.refusal:
        return f"{path}: {entry.refusal}"
    if entry.kind == "directory" and not directories:
        return f"{path} is a directory: set `directories: true` to remove directories with all their contents"
    return ""


def _outside(path: str, roots: Sequence[str]) -> str:
    """Return the reason why *path* must not be removed, judged by its name alone: it must be below one of *roots*.
    Empty if it may be removed.
    """
    if "\ufffd" in path or any("\ud800" <= letter <= "\udfff" for letter in path):
        return f"{path!r}: its name is not UTF-8, so it cannot be passed to the host"
    if wide := next((root for root in roots if root in TOO_WIDE), ""):
        return f"{path}: an allowed root leads to {wide}, which is too broad"
    if path in NEVER or re.fullmatch("/home/[^/]+", path) or path.rpartition("/")[2] in ("", ".", ".."):
        return f"{path} belongs to the system"
    if path in roots:
        return f"{path} is itself an allowed root"
    if not any(path.startswith(f"{root}/") for root in roots):
        return f"{path} lies outside {' and '.join(roots) or 'the allowed roots, none of which exists'}"
    return ""


def remove(entries: Iterable[Entry], *, unused: bool = False) -> Command:
    """Remove *entries*, each only if it is unchanged; measure the free space before and after with df.

    *unused*: a file that a process has open or mapped is left alone; this is checked again right before the removal.

    Exit code 1: something was left alone or could not be removed; stderr has the reasons.
    """
    seen = tuple(entries)
    words = [word for entry in seen for word in (*_parted(entry.path), f"{entry.inode}:{entry.modified}", entry.kind)]
    return write_script(_REMOVE, "unused" if unused else "", *words, called=("remove", *(entry.path for entry in seen)))


def _parted(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or "/", name


_REMOVE = SAFE + _STEADY + _IN_USE + script(__package__, "removal_remove")
"""The script; its arguments for each entry: directory, name, ``device:inode:modified``, and kind."""
