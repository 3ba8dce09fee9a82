"""Measure once how fast a directory's disk writes and reads, with a temporary file, past the page cache if possible.

The file has no name while it is used, so that nothing remains however the measurement ends; if a file system does not
allow that, the file is always deleted at the end. A file system that compresses (zfs, btrfs) appears faster here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator
from dataclasses import field, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.files.facts.dd_output import rate
from runbook.library.files.facts.filesystems import Disk, ask_disks, read_disks
from runbook.library.files.facts.scratch_script import SCRATCH_HEAD, errno_of, must_not_be_refused
from runbook.protocols import Probe
from runbook.shell import script
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Duration, Size, Unknown

SCRATCH = True
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The directory, the size of the file, and the limits."""

    path: str
    """The directory; an absolute path, or ~/ for the home of the login user."""
    size: Size = field(default=Size(1 << 30), metadata={"minimum": MIB, "maximum": 1 << 40})
    """The size of the file that is written and read, in whole MiB."""
    leave: Size = Size(1 << 30)
    """The bytes that must stay free beside the file; otherwise the measurement does not start."""
    slow_below: Size = field(default=Size(100_000_000), metadata={"minimum": 1})
    """A speed below this (bytes per second) is slow."""
    at_most: Duration = field(default=Duration(120), metadata={"minimum": 1, "maximum": 3600})
    """Stop the measurement after this time."""

    def __post_init__(self) -> None:
        if not (self.path.startswith(("/", "~/")) or self.path == "~"):
            raise ValueError(f"`path`: {self.path!r} is not an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The speed of the disk, in bytes per second."""

    write: float | Unknown
    """Bytes written per second."""
    read: float | Unknown
    """Bytes read per second; unknown if only the page cache could be read, not the disk."""
    slow: bool | Unknown
    """Whether `write` or `read` is below `slow_below`."""
    how: str = ""
    """direct: the page cache was bypassed; fsync: O_DIRECT was refused, and the data was flushed at the end."""
    avail: int | Unknown
    """The bytes that were free before the measurement."""


def probe(args: Args) -> Probe[State]:
    """Read the free space, then write and read in one script."""
    disk = yield from _room(args)
    count = -(-args.size // MIB)
    command = Command(script=_MEASURE, argv=(args.path, str(count)), effect=Effect.SCRATCH)
    done: Completed = yield replace(command, timeout=args.at_most)
    reported = _parts_by_line(done.stdout)
    if done.timed_out:
        return _late(args, reported, disk)
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the measurement failed"))
    must_not_be_refused({**reported, "become": reported.get("become head", "")})
    if "failed" in reported:
        words = reported["failed"]
        raise ProbeError(f"{args.path}: {errno_of(words)[1] or words.strip() or 'nothing could be written'}")
    return _state(args, _rate(reported, "write", count), _rate(reported, "read", count), reported, disk)


def _room(args: Args) -> Generator[Command, Any, Disk]:
    """Return the disk; raise ProbeError if it has too little room."""
    seen = read_disks((yield ask_disks((args.path,))), (args.path,))
    if not seen.disks:
        raise ProbeError(f"{args.path}: {seen.unknown.get(args.path) or 'the path does not exist'}")
    (disk,) = seen.disks
    if not isinstance(disk.avail, Unknown) and disk.avail - args.size < args.leave:
        raise ProbeError(
            f"{args.path}: {bytes_of(disk.avail)} are free on {disk.mount}; writing {bytes_of(args.size)} would leave "
            f"less than {bytes_of(args.leave)} (see `leave`)"
        )
    return disk


_MEASURE = SCRATCH_HEAD + script(__package__, "disk_speed_measure")


def _parts_by_line(output: str) -> dict[str, str]:
    """Return the parts of *output*; the key of each part is the line above it. The last part of each kind is used."""
    reported: dict[str, str] = {}
    at = ""
    for line in output.split("\n"):
        if line.startswith(" "):
            reported[at] = f"{reported.get(at, '')}{line[1:]}\n"
        elif line:
            at, _, rest = line.partition(" ")
            reported |= {at: "", f"{at} head": rest}
    return reported


def _rate(reported: dict[str, str], name: str, count: int) -> float | Unknown:
    if name not in reported:
        if name == "read":
            return Unknown(why="this file system cannot be read past the page cache (O_DIRECT is refused)")
        return Unknown(why="nothing was written")
    _, code, began, ended = (*reported[f"{name} head"].split(" "), "", "", "")[:4]
    if code != "0":
        words = reported[name]
        return Unknown(why=errno_of(words)[1] or words.strip().rpartition(": ")[2] or f"dd ended with exit code {code}")
    if (speed := rate(reported[name])) is not None:
        return round(speed)
    if all(re.fullmatch(r"\d+\.\d+", word) for word in (began, ended)) and float(ended) > float(began):
        return round(count * MIB / (float(ended) - float(began)))
    return Unknown(why="the measurement ended too soon to be timed; raise `size`")


def _late(args: Args, reported: dict[str, str], disk: Disk) -> State:
    """Return the state if the time was up: an unfinished part is slower than its size divided by the time
    that it had.
    """
    write = _rate(reported, "write", -(-args.size // MIB))
    spent = 0.0 if isinstance(write, Unknown) else args.size / write
    bound = args.size / max(0.1, args.at_most - spent)
    why = Unknown(why=f"not done within {args.at_most:g} s: less than {bytes_of(bound)} per second")
    slow = bound < args.slow_below or (not isinstance(write, Unknown) and write < args.slow_below)
    how = reported.get("write head", "").split(" ")[0]
    known = why if isinstance(write, Unknown) else write
    return State(write=known, read=why, slow=slow or why, how=how, avail=disk.avail)


def _state(args: Args, write: float | Unknown, read: float | Unknown, reported: dict[str, str], disk: Disk) -> State:
    if isinstance(write, Unknown):
        raise ProbeError(f"{args.path}: {write.why}")
    how = reported["write head"].split(" ")[0]
    slow: bool | Unknown = write < args.slow_below or (read if isinstance(read, Unknown) else read < args.slow_below)
    return State(write=write, read=read, slow=slow, how=how, avail=disk.avail)


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    place, count = shlex.quote(f"{args.path.rstrip('/')}/speed-probe"), -(-args.size // MIB)
    return (
        f"dd if=/dev/zero of={place} bs=1M count={count} oflag=direct",
        f"dd if={place} of=/dev/null bs=1M iflag=direct",
        f"rm -f {place}",
    )
