"""Measure how fast a directory's disk writes and reads: once through a file of our own, past the memory if it can be.

The file has no name while it is used, so that nothing is left of it however the measuring ends; where a file system
does not allow that, it is deleted on every way out.  A file system that compresses (zfs, btrfs) is faster here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Any

from engine.errors import ProbeError
from engine.facts.files.dd_output import rate
from engine.facts.files.filesystems import Disk, ask_disks, read_disks
from engine.facts.files.scratch_script import SCRATCH_HEAD, errno_of, must_not_be_refused
from engine.protocols import Probe
from engine.text.sizes import bytes_of
from engine.values.command import Command, Completed, Effect
from engine.values.types import Duration, Size, Unknown

SCRATCH = True
MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where, how much, and what slow is."""

    path: str = field(metadata={"about": "A directory: absolute, or ~/ for the home of the login user."})
    size: Size = field(
        default=Size(1 << 30),
        metadata={"about": "How much to write and to read; whole MiB.", "minimum": MIB, "maximum": 1 << 40},
    )
    leave: Size = field(
        default=Size(1 << 30), metadata={"about": "It is not begun unless so much stays free beside it."}
    )
    slow_below: Size = field(
        default=Size(100_000_000), metadata={"about": "Slow is less than this a second.", "minimum": 1}
    )
    at_most: Duration = field(
        default=Duration(120), metadata={"about": "After this long it is given up.", "minimum": 1, "maximum": 3600}
    )

    def __post_init__(self) -> None:
        if not (self.path.startswith(("/", "~/")) or self.path == "~"):
            raise ValueError(f"`path`: {self.path!r} is no absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How fast it was; bytes a second."""

    write: float | Unknown = field(metadata={"about": "Writing."})
    read: float | Unknown = field(
        metadata={"about": "Reading; unknown where it could only be read from memory, which says nothing of the disk."}
    )
    slow: bool | Unknown = field(metadata={"about": "Whether one of them is below `slow_below`."})
    how: str = field(
        default="",
        metadata={"about": "direct: past the memory; fsync: that was refused, and writing was flushed at its end."},
    )
    avail: int | Unknown = field(metadata={"about": "Bytes that were free before."})


def probe(args: Args) -> Probe[State]:
    """Look at the free space, then write and read in one script."""
    disk = yield from _room(args)
    count = -(-args.size // MIB)
    command = Command(script=_MEASURE, argv=(args.path, str(count)), effect=Effect.SCRATCH)
    done: Completed = yield replace(command, timeout=args.at_most)
    reported = _told(done.stdout)
    if done.timed_out:
        return _late(args, reported, disk)
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the measuring ended with exit code {done.exit_code}")
    must_not_be_refused({**reported, "become": reported.get("become head", "")})
    if "failed" in reported:
        words = reported["failed"]
        raise ProbeError(f"{args.path}: {errno_of(words)[1] or words.strip() or 'nothing could be written'}")
    return _state(args, _rate(reported, "write", count), _rate(reported, "read", count), reported, disk)


def _room(args: Args) -> Generator[Command, Any, Disk]:
    """The disk, if there is room on it."""
    seen = read_disks((yield ask_disks((args.path,))), (args.path,))
    if not seen.disks:
        raise ProbeError(f"{args.path}: {seen.unknown.get(args.path) or 'it is not there'}")
    (disk,) = seen.disks
    if not isinstance(disk.avail, Unknown) and disk.avail - args.size < args.leave:
        raise ProbeError(
            f"{args.path}: {bytes_of(disk.avail)} are free on {disk.mount}; writing {bytes_of(args.size)} would leave "
            f"less than {bytes_of(args.leave)} (see `leave`)"
        )
    return disk


_MEASURE = (
    SCRATCH_HEAD
    + r"""
settle
file=./$made/file
words=$( { true >"$file"; } 2>&1) || { echo failed; said "$words"; exit 0; }
exec 9<>"$file"
rm -f -- "$file"
if { true >>/proc/self/fd/9; } 2>/dev/null; then
    file=/proc/self/fd/9
    rmdir -- "./$made" 2>/dev/null && work=
fi
go() {  # what is measured, how, dd's words for it
    name=$1 how=$2; shift 2
    began=$(uptime)
    words=$(dd bs=1M "$@" 2>&1); rc=$?
    echo "$name $how $rc $began $(uptime)"; said "$words"
    return $rc
}
go write direct if=/dev/zero of="$file" count="$2" oflag=direct conv=notrunc && direct=yes ||
    go write fsync if=/dev/zero of="$file" count="$2" conv=notrunc,fsync || exit 0
[ -n "$direct" ] || exit 0
go read direct if="$file" of=/dev/null count="$2" iflag=direct
exit 0
"""
)


def _told(output: str) -> dict[str, str]:
    """What was said, by the line above it; the last one of each kind."""
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
            return Unknown(why="this file system cannot be read past the memory (O_DIRECT is refused)")
        return Unknown(why="nothing was written")
    _, code, began, ended = (*reported[f"{name} head"].split(" "), "", "", "")[:4]
    if code != "0":
        words = reported[name]
        return Unknown(why=errno_of(words)[1] or words.strip().rpartition(": ")[2] or f"dd ended with exit code {code}")
    if (speed := rate(reported[name])) is not None:
        return round(speed)
    if all(re.fullmatch(r"\d+\.\d+", it) for it in (began, ended)) and float(ended) > float(began):
        return round(count * MIB / (float(ended) - float(began)))
    return Unknown(why="it was over too soon to be timed; raise `size`")


def _late(args: Args, reported: dict[str, str], disk: Disk) -> State:
    """Time was up: what was not done is slower than its size in all the time that it had."""
    write = _rate(reported, "write", -(-args.size // MIB))
    spent = 0.0 if isinstance(write, Unknown) else args.size / write
    bound = args.size / max(0.1, args.at_most - spent)
    why = Unknown(why=f"not done within {args.at_most:g} s: less than {bytes_of(bound)} a second")
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
    """Lines that a person would paste."""
    place, count = shlex.quote(f"{args.path.rstrip('/')}/speed-probe"), -(-args.size // MIB)
    return (
        f"dd if=/dev/zero of={place} bs=1M count={count} oflag=direct",
        f"dd if={place} of=/dev/null bs=1M iflag=direct",
        f"rm -f {place}",
    )
