"""List files: their number, sizes and ages, the newest file, and whether they grow."""

from __future__ import annotations

import re
import shlex
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.files.facts.listing import KEPT, File, FilesFound, ask_files, read_files
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Completed
from runbook.values.types import Duration, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    paths: tuple[str, ...] = field(metadata={"min_items": 1})
    """Absolute paths; * ? [] are globs, and ~/ is the home of the login user."""
    inside: str = ""
    """Instead list the files with names like this (*.pt), at any depth, in the matching directories."""
    without: str = ""
    """With `inside`: leave out files with names like this (*.tmp)."""
    apart: Duration = field(default=Duration(0), metadata={"maximum": 600})
    """Probe twice with this time between the probes, to see whether the files grow."""
    at_least: int = field(default=1, metadata={"minimum": 0})
    """Require at least this many files."""
    younger_than: Duration = Duration(0)
    """Require that the newest file was written within this time; 0: not checked."""
    growing: bool = False
    """Require that the files grow between two probes; needs `apart`."""

    def __post_init__(self) -> None:
        for path in self.paths:
            if not path.startswith(("/", "~/")):
                raise ValueError(f"`paths`: {path!r} is not an absolute path")
        if "/" in self.inside:
            raise ValueError("`inside` is compared with names of files, so that it cannot have a slash")
        if self.without and not self.inside:
            raise ValueError("`without` needs `inside`, such as '*'")
        if self.growing and not self.apart:
            raise ValueError("`growing` needs two probes: give `apart`, such as 2s")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The files at the last probe."""

    files: tuple[File, ...] = ()
    """The newest 1000 files, newest first: path, size, age (seconds), written, kind, number."""
    count: int | Unknown
    """The number of files; unknown if a directory could not be read."""
    total: int | Unknown
    """Bytes of all files together."""
    newest: str | Unknown
    """The path of the file that was written last."""
    age: float | Unknown
    """The seconds since `newest` was written; unknown if that time is ahead of the host's clock."""
    highest: str | Unknown
    """The path with the highest number in its name: step_10, not step_9."""
    number: int | Unknown
    """The number in the name of `highest`."""
    growing: bool | Unknown
    """Whether a file was added, grew or was written between the two probes."""
    grown: int | Unknown
    """The growth of all files together between the two probes, in bytes."""
    added: tuple[str, ...] | Unknown
    """Paths that did not exist at the first probe."""
    missing: tuple[str, ...] = ()
    """Globs that match no file."""
    unreadable: tuple[str, ...] = ()
    """Directories that could not be read."""


def probe(args: Args) -> Probe[State]:
    """List the files once or twice, with one script."""
    asked = ask_files(args.paths, args.inside, args.apart, args.without)
    done: Completed = yield replace(asked, timeout=args.apart + 30) if args.apart else asked
    return _state(read_files(done))


def _state(seen: FilesFound) -> State:
    last = seen.listings[-1]
    none = Unknown(why="no file matches")
    blind = Unknown(why=f"could not be read: {', '.join(seen.unreadable[:5])}") if seen.unreadable else None
    numbered = [(file.number, file) for file in last.files if not isinstance(file.number, Unknown)]
    number, highest = max(numbered, key=lambda it: (it[0], it[1].path), default=(none, None))
    growing, grown, added = _growth(seen)
    return State(
        files=last.files[:KEPT],
        count=blind or last.count,
        total=blind or last.total,
        newest=blind or (last.files[0].path if last.files else none),
        age=blind or (last.files[0].age if last.files else none),
        highest=blind or (highest.path if highest else _unnumbered(last.count)),
        number=blind or (number if highest else _unnumbered(last.count)),
        growing=blind if blind and growing is not True else growing,
        grown=blind or grown,
        added=blind or added,
        missing=seen.missing,
        unreadable=seen.unreadable,
    )


def _unnumbered(count: int) -> Unknown:
    return Unknown(why="no file name has a number in it" if count else "no file matches")


def _growth(seen: FilesFound) -> tuple[bool | Unknown, int | Unknown, tuple[str, ...] | Unknown]:
    if len(seen.listings) < 2:
        once = Unknown(why="probed only once: give `apart`")
        return once, once, once
    first, last = seen.listings
    before = {file.path: file for file in first.files}
    added = tuple(file.path for file in last.files if file.path not in before)
    touched = any(file.path in before and file.size > before[file.path].size for file in last.files)
    written = any(file.path in before and file.written > before[file.path].written for file in last.files)
    return bool(added or touched or written), last.total - first.total, added[:KEPT]


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that there are enough files, and that they are new enough and grow if that is required."""
    what = " ".join((*args.paths, *([args.inside] if args.inside else [])))
    if isinstance(state.count, Unknown):
        raise ProbeError(state.count.why)
    if state.count < args.at_least:
        return Fails(why=f"{what}: {plural(state.count, 'file')}, wanted {args.at_least}")
    if args.younger_than and isinstance(state.age, Unknown):
        if state.files:
            raise ProbeError(state.age.why)
        return Fails(why=f"{what}: no file matches")
    if args.younger_than and not isinstance(state.age, Unknown) and state.age > args.younger_than:
        return Fails(why=f"{what}: last written to {state.age:g} s ago, wanted {args.younger_than:g} s at most")
    if args.growing and state.growing is not True:
        return Fails(why=f"{what}: nothing was written in {args.apart:g} s")
    return Holds(why=f"{what}: {plural(state.count, 'file')}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run; globs are not quoted, so that the shell expands them."""
    paths = " ".join(_as_glob(path) for path in args.paths)
    if args.inside:
        return (f"find {paths} -type f -name {shlex.quote(args.inside)} -exec ls -ld {{}} +",)
    return (f"ls -ldt -- {paths}",)


def _as_glob(path: str) -> str:
    """Return *path* quoted, except for its glob characters and a leading ``~/``."""
    home, rest = ("~/", path[2:]) if path.startswith("~/") else ("", path)
    parts = re.split(r"([*?\[\]]+)", rest)
    return home + "".join(part if at % 2 else shlex.quote(part) if part else "" for at, part in enumerate(parts))
