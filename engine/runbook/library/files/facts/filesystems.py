"""Read the usage of the file systems that contain given paths, and whether they are read-only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

_ROW = re.compile(r"(.*?)\s+(\d+|-)\s+(-?\d+|-)\s+(-?\d+|-)\s+(-|\d+%)\s+(/.*|-)", re.DOTALL)
_TABLE = Unknown(why="/proc/self/mountinfo cannot be read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system of one path; sizes in bytes, as a user other than root sees them."""

    path: str
    """The path as given in `paths`."""
    mount: str
    """The mount point of the file system."""
    device: str
    """The source of the mount, as df prints it: a device, a server with its directory, overlay ..."""
    kind: str | Unknown
    """The type of the file system: ext4, xfs, nfs4, overlay ..."""
    size: int | Unknown
    """The bytes of the whole file system, including those that only root may use."""
    used: int | Unknown
    """The bytes in use."""
    avail: int | Unknown
    """The bytes that a user other than root may still write."""
    percent: float | Unknown
    """The used share, in percent, of the space that users may use."""
    inodes_percent: float | Unknown
    """The used share of the inodes in percent; 0 if the file system has no limit on the number of files."""
    inodes_free: int | Unknown
    """The number of files that can still be created, as in `df -i`; also 0 if the file system has no limit."""
    read_only: bool | Unknown
    """Whether the mount or the file system is read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disks:
    """The answers for all paths."""

    disks: tuple[Disk, ...]
    missing: tuple[str, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)
    """The paths about whose file system nothing is known, each with the reason."""


def ask_disks(paths: tuple[str, ...]) -> Command:
    """Return the command that asks df twice for each of *paths*, and reads the table of mounts."""
    return read_script(_ASK, *paths)


_ASK = script(__package__, "filesystems_probe")


def read_disks(done: Completed, paths: tuple[str, ...]) -> Disks:
    """Return the file systems of *paths* in *done*.  Raises ProbeError if the probe did not finish."""
    if done.timed_out:
        raise ProbeError("the file systems did not answer in time: a network mount may hang")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("df failed"))
    table, parts = _parts(done.stdout)
    disks: list[Disk] = []
    missing: list[str] = []
    unknown: dict[str, str] = {}
    for path, part in zip(paths, parts, strict=True):
        if "late" in part:
            unknown[path] = "its file system did not answer within 8 s"
        elif "missing" in part:
            said = part["missing"] or part.get("", "")
            if said and "No such file" not in said:
                unknown[path] = said.strip().rpartition(": ")[2]
            else:
                missing.append(path)
        elif found := _row(part.get("blocks", "")):
            disks.append(_disk(path, found, _row(part.get("inodes", "")), table))
        else:
            unknown[path] = (
                part.get("blocks", "").strip().splitlines()[-1:][0] if part.get("blocks") else "df printed nothing"
            )
    return Disks(disks=tuple(disks), missing=tuple(missing), unknown=unknown)


def _parts(output: str) -> tuple[str | None, list[dict[str, str]]]:
    """Return the table of mounts, and the output about each path by its heading."""
    table: list[str] = []
    parts: list[dict[str, str]] = []
    at = ""
    for line in output.split("\n"):
        if line.startswith(" "):
            if not parts:
                table.append(line[1:])
            else:
                parts[-1][at] = f"{parts[-1].get(at, '')}{line[1:]}\n"
        elif line.startswith("path "):
            parts.append({})
            at = ""
        elif line and parts:
            at = line
            parts[-1].setdefault(at, "")
    return "\n".join(table) or None, parts


def _row(text: str) -> re.Match[str] | None:
    """Return the row under df's heading; a long device name may have moved the rest of it to the next line."""
    head, _, rest = text.partition("\n")
    return _ROW.fullmatch(rest.strip()) if head.startswith("Filesystem") else None


def _disk(path: str, blocks: re.Match[str], inodes: re.Match[str] | None, table: str | None) -> Disk:
    device, size, used, avail, _, mount = blocks.groups()
    kind, read_only = _mounted(mount, table)
    return Disk(
        path=path,
        mount=mount,
        device=device,
        kind=kind,
        size=_bytes(size),
        used=_bytes(used),
        avail=_bytes(avail),
        percent=_percent(used, avail, f"{device} has no size"),
        inodes_percent=_inodes(inodes),
        inodes_free=_number(inodes[4]) if inodes else Unknown(why="df does not report inodes here"),
        read_only=read_only,
    )


def _number(text: str) -> int | Unknown:
    return Unknown(why="df prints -") if text == "-" else int(text)


def _bytes(text: str) -> int | Unknown:
    number = _number(text)
    return number if isinstance(number, Unknown) else number * 1024


def _percent(used: str, avail: str, why: str) -> float | Unknown:
    if "-" in (used, avail) or int(used) + max(0, int(avail)) <= 0:
        return Unknown(why=why)
    return round(100 * int(used) / (int(used) + max(0, int(avail))), 1)


def _inodes(found: re.Match[str] | None) -> float | Unknown:
    if found is None:
        return Unknown(why="df does not report inodes here")
    if found[2] in ("0", "-"):
        return 0.0
    return _percent(found[3], found[4], "df does not report inodes here")


def _mounted(mount: str, table: str | None) -> tuple[str | Unknown, bool | Unknown]:
    """Return the type of the last mount at *mount*, and whether the mount or the file system is read-only."""
    if table is None:
        return _TABLE, _TABLE
    for line in reversed(table.split("\n")):
        here, dash, there = line.partition(" - ")
        words, more = here.split(" "), there.split(" ")
        if dash and len(words) > 5 and len(more) > 2 and _unescaped(words[4]) == mount:
            return more[0], "ro" in words[5].split(",") or "ro" in more[2].split(",")
    why = Unknown(why=f"{mount} is not in the table of mounts")
    return why, why


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda it: chr(int(it[1], 8)), text)
