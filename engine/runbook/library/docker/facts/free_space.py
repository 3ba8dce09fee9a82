"""Free space and inodes of the disk that holds Docker's files."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

_ROOM = script(__package__, "free_space")


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The file system that Docker keeps its files on."""

    path: str
    """The directory that Docker keeps its files in (`docker info`: Docker Root Dir); empty without Docker."""
    size: int
    """Usable bytes: the used and the available ones together."""
    available: int
    """Bytes that may still be written by those who are not root."""
    used_percent: float
    """The used share of `size`, in percent, as df counts."""
    inodes_percent: float | Unknown = field(default_factory=lambda: Unknown(why="df does not report inodes"))
    """The used share of its inodes, in percent: without a free inode a disk is as full as without a byte."""
    fullest: float = 0.0
    """The higher of the two percentages, as far as df says."""


NO_ROOM = Room(path="", size=0, available=0, used_percent=0.0)
"""Of a host without Docker."""


def ask_room(root: str) -> Command:
    """Ask for the fill level of the disk of *root*."""
    return read_script(_ROOM, root)


def read_room(done: Completed, root: str, endpoint: str) -> Room | Unknown:
    """Parse df's answer for *root*, where the engine's files are on this host at all."""
    if endpoint and not endpoint.startswith("unix://"):
        return Unknown(why=f"the docker command talks to the engine at {endpoint}, which may be on another host")
    if done.timed_out or done.exit_code != 0:
        return Unknown(why=f"df did not report how full {root} is: {done.why_not()}")
    rows = [line.split(None, 5) for line in done.stdout.splitlines()]
    try:
        _, _, used, available, percent, _ = rows[0][-6:]
        size = (int(used) + int(available)) * 1024
        known = finite(percent.rstrip("%"))
    except (IndexError, ValueError):
        return Unknown(why=f"the output of df for {root} could not be parsed: {done.stdout[:100]!r}")
    inodes: float | Unknown = Unknown(why="df does not report inodes")
    if len(rows) > 1 and rows[1][-2:-1] and rows[1][-2].rstrip("%").isdigit():
        inodes = float(rows[1][-2].rstrip("%"))
    return Room(
        path=root,
        size=size,
        available=int(available) * 1024,
        used_percent=known,
        inodes_percent=inodes,
        fullest=known if isinstance(inodes, Unknown) else max(known, inodes),
    )
