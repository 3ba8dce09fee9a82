"""Look at the file systems behind paths: space, inodes, and whether they can be written to."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import ProbeError
from engine.facts.files.filesystems import Disk, ask_disks, read_disks
from engine.protocols import Fails, Holds, Probe
from engine.text.sizes import bytes_of
from engine.values.command import Completed
from engine.values.types import Size, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which paths, and what full means."""

    paths: tuple[str, ...] = field(
        default=("/",), metadata={"about": "Absolute, or ~/ for the home of the login user.", "min_items": 1}
    )
    below: float = field(
        default=90, metadata={"about": "Full is so much used (percent) or more.", "minimum": 1, "maximum": 100}
    )
    inodes_below: float = field(
        default=90, metadata={"about": "The same for the number of files.", "minimum": 1, "maximum": 100}
    )
    avail_at_least: Size = field(
        default=Size(0), metadata={"about": "Full is also less than this free; 0 does not check."}
    )
    writable: bool = field(default=False, metadata={"about": "Hold also that no file system is mounted read-only."})

    def __post_init__(self) -> None:
        for it in self.paths:
            if not (it.startswith(("/", "~/")) or it == "~"):
                raise ValueError(f"`paths`: {it!r} is no absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The file systems behind the paths."""

    disks: tuple[Disk, ...] = field(
        default=(),
        metadata={"about": "Each: path, mount, device, kind, size, used, avail (bytes), percent, inodes_percent ..."},
    )
    full: tuple[str, ...] | Unknown = field(
        default=(), metadata={"about": "Paths whose file system is full: of data, or of files."}
    )
    read_only: tuple[str, ...] | Unknown = field(
        default=(), metadata={"about": "Paths whose file system is mounted read-only."}
    )
    missing: tuple[str, ...] = field(default=(), metadata={"about": "Paths that are not there."})
    unknown: Mapping[str, str] = field(
        default_factory=dict, metadata={"about": "Path to why nothing is known of its file system."}
    )
    percent: float | Unknown = field(metadata={"about": "Used, in percent, on the fullest of them."})
    inodes_percent: float | Unknown = field(metadata={"about": "Inodes used, in percent, on the fullest of them."})
    avail: int | Unknown = field(metadata={"about": "Bytes free on the one with the fewest."})


def probe(args: Args) -> Probe[State]:
    """Ask df for blocks and for inodes, each path by itself: one that hangs keeps no other from its answer."""
    done: Completed = yield ask_disks(args.paths)
    seen = read_disks(done, args.paths)
    lost = next((Unknown(why=f"{path}: {why}") for path, why in seen.unknown.items()), None)
    full = tuple(it.path for it in seen.disks if _troubles(it, args))
    vague = lost or next((it.percent for it in seen.disks if isinstance(it.percent, Unknown)), None)
    read_only = tuple(it.path for it in seen.disks if it.read_only is True)
    untold = lost or next((it.read_only for it in seen.disks if isinstance(it.read_only, Unknown)), None)
    absent = Unknown(why=f"not there: {', '.join(seen.missing)}")
    return State(
        disks=seen.disks,
        full=full or vague or (),
        read_only=read_only or untold or (),
        missing=seen.missing,
        unknown=seen.unknown,
        percent=_worst([it.percent for it in seen.disks], lost or absent),
        inodes_percent=_worst([it.inodes_percent for it in seen.disks], lost or absent),
        avail=_least([it.avail for it in seen.disks], lost or absent),
    )


def _worst(values: list[float | Unknown], otherwise: Unknown) -> float | Unknown:
    blind = next((it for it in values if isinstance(it, Unknown)), None)
    return blind or max((it for it in values if not isinstance(it, Unknown)), default=otherwise)


def _least(values: list[int | Unknown], otherwise: Unknown) -> int | Unknown:
    blind = next((it for it in values if isinstance(it, Unknown)), None)
    return blind or min((it for it in values if not isinstance(it, Unknown)), default=otherwise)


def _troubles(disk: Disk, args: Args) -> list[str]:
    """What is too full on *disk*, in words."""
    said: list[str] = []
    if not isinstance(disk.percent, Unknown) and disk.percent >= args.below:
        said.append(f"{disk.percent:g} % of {disk.mount} is used")
    if not isinstance(disk.inodes_percent, Unknown) and disk.inodes_percent >= args.inodes_below:
        said.append(f"{disk.inodes_percent:g} % of the inodes of {disk.mount} are used")
    if args.avail_at_least and not isinstance(disk.avail, Unknown) and disk.avail < args.avail_at_least:
        said.append(f"{bytes_of(disk.avail)} are free on {disk.mount}")
    return said


def holds(args: Args, state: State) -> Holds | Fails:
    """Every path is there, and no file system is too full."""
    said = [f"{it} is not there" for it in state.missing]
    said += [word for it in state.disks for word in _troubles(it, args)]
    said += [f"{it.mount} is mounted read-only" for it in state.disks if args.writable and it.read_only is True]
    if said:
        return Fails(why="; ".join(dict.fromkeys(said)))
    for value in (state.full, state.read_only if args.writable else ()):
        if isinstance(value, Unknown):
            raise ProbeError(value.why)
    return Holds(why=f"less than {args.below:g} % used on {plural(len(state.disks), 'file system')}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste."""
    paths = shlex.join(args.paths)
    return (f"df -P -h -- {paths}", f"df -P -i -- {paths}")
