"""Check the file systems behind paths: space, inodes, and whether they are mounted read-only."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.files.facts.filesystems import Disk, ask_disks, read_disks
from runbook.protocols import Fails, Holds, Probe
from runbook.text.sizes import bytes_of
from runbook.values.command import Completed
from runbook.values.types import Size, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    paths: tuple[str, ...] = field(default=("/",), metadata={"min_items": 1})
    """Absolute paths; ~/ is the home of the login user."""
    below: float = field(default=90, metadata={"minimum": 1, "maximum": 100})
    """A file system is full if this percentage of its space, or more, is used."""
    inodes_below: float = field(default=90, metadata={"minimum": 1, "maximum": 100})
    """A file system is also full if this percentage of its inodes, or more, is used."""
    avail_at_least: Size = Size(0)
    """A file system is also full if less space than this is free; 0: not checked."""
    writable: bool = False
    """Also require that no file system is mounted read-only."""

    def __post_init__(self) -> None:
        for path in self.paths:
            if not (path.startswith(("/", "~/")) or path == "~"):
                raise ValueError(f"`paths`: {path!r} is not an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The file systems behind the paths."""

    disks: tuple[Disk, ...] = ()
    """Each file system: path, mount, device, kind, size, used, avail (bytes), percent, inodes_percent ..."""
    full: tuple[str, ...] | Unknown = ()
    """Paths whose file system has too little space or too few inodes left."""
    read_only: tuple[str, ...] | Unknown = ()
    """Paths whose file system is mounted read-only."""
    missing: tuple[str, ...] = ()
    """Paths that do not exist."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Paths whose file system could not be examined, each with the reason."""
    percent: float | Unknown
    """The used space in percent of the fullest file system."""
    inodes_percent: float | Unknown
    """The used inodes in percent of the file system with the highest share."""
    avail: int | Unknown
    """The free bytes of the file system with the least free space."""


def probe(args: Args) -> Probe[State]:
    """Ask df for blocks and inodes of each path separately, so that a path that hangs does not delay the others."""
    done: Completed = yield ask_disks(args.paths)
    seen = read_disks(done, args.paths)
    lost = next((Unknown(why=f"{path}: {why}") for path, why in seen.unknown.items()), None)
    none = lost or Unknown(why=f"does not exist: {', '.join(seen.missing)}")
    return State(
        disks=seen.disks,
        full=_full(seen.disks, args, lost),
        read_only=_read_only(seen.disks, lost),
        missing=seen.missing,
        unknown=seen.unknown,
        percent=_worst([disk.percent for disk in seen.disks], none),
        inodes_percent=_worst([disk.inodes_percent for disk in seen.disks], none),
        avail=_least([disk.avail for disk in seen.disks], none),
    )


def _full(disks: Sequence[Disk], args: Args, lost: Unknown | None) -> tuple[str, ...] | Unknown:
    """Return the paths of disks that are too full; unknown if none is known to be full and some disk is unknown."""
    full = tuple(disk.path for disk in disks if _troubles(disk, args))
    vague = next((disk.percent for disk in disks if isinstance(disk.percent, Unknown)), None)
    return full or lost or vague or ()


def _read_only(disks: Sequence[Disk], lost: Unknown | None) -> tuple[str, ...] | Unknown:
    """Return the paths mounted read-only; unknown if none is known to be read-only and some disk is unknown."""
    read_only = tuple(disk.path for disk in disks if disk.read_only is True)
    vague = next((disk.read_only for disk in disks if isinstance(disk.read_only, Unknown)), None)
    return read_only or lost or vague or ()


def _worst(values: list[float | Unknown], otherwise: Unknown) -> float | Unknown:
    blind = next((value for value in values if isinstance(value, Unknown)), None)
    return blind or max((value for value in values if not isinstance(value, Unknown)), default=otherwise)


def _least(values: list[int | Unknown], otherwise: Unknown) -> int | Unknown:
    blind = next((value for value in values if isinstance(value, Unknown)), None)
    return blind or min((value for value in values if not isinstance(value, Unknown)), default=otherwise)


def _troubles(disk: Disk, args: Args) -> list[str]:
    """Describe the parts of *disk* that are too full."""
    said: list[str] = []
    if not isinstance(disk.percent, Unknown) and disk.percent >= args.below:
        said.append(f"{disk.percent:g} % of {disk.mount} is used")
    if not isinstance(disk.inodes_percent, Unknown) and disk.inodes_percent >= args.inodes_below:
        said.append(f"{disk.inodes_percent:g} % of the inodes of {disk.mount} are used")
    if args.avail_at_least and not isinstance(disk.avail, Unknown) and disk.avail < args.avail_at_least:
        said.append(f"only {bytes_of(disk.avail)} are free on {disk.mount}")
    return said


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that every path exists and that no file system is too full."""
    said = [f"{text} does not exist" for text in state.missing]
    said += [word for disk in state.disks for word in _troubles(disk, args)]
    said += [f"{disk.mount} is mounted read-only" for disk in state.disks if args.writable and disk.read_only is True]
    if said:
        return Fails(why="; ".join(dict.fromkeys(said)))
    for value in (state.full, state.read_only if args.writable else ()):
        if isinstance(value, Unknown):
            raise ProbeError(value.why)
    return Holds(why=f"less than {args.below:g} % used on {plural(len(state.disks), 'file system')}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    paths = shlex.join(args.paths)
    return (f"df -P -h -- {paths}", f"df -P -i -- {paths}")
