"""Report what is mounted, with options and free space, and whether each file system answers.

A file system whose server is gone makes who asks it hang, often in state D, where no signal ends a process. Each is
asked (statfs) by a process of its own, for which nobody waits longer than `within`; one that cannot be ended is named,
and while it hangs there no later call starts another. Mounts of the kernel's own and autofs are listed, and not asked:
asking the latter would mount something.
"""

from __future__ import annotations

from dataclasses import field
from fnmatch import fnmatchcase

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.files.facts.mounts import (
    PRIVATE,
    Mount,
    ask_answers,
    ask_mounts,
    read_answers,
    read_mounts,
    worded,
    worth_asking,
)
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import Duration, plural

NAMED = 5
"""The maximum number of mounts in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    only: tuple[str, ...] = ()
    """Only mounts at these paths; * ? [] match any characters, also /."""
    types: tuple[str, ...] = ()
    """Only file systems of these types: nfs*, fuse.sshfs, tmpfs ..."""
    remote: bool = False
    """Only file systems that are served by a server or a program (FUSE)."""
    ask: bool = True
    """Ask each file system whether it answers; false: only read the table."""
    within: Duration = field(default=Duration(5), metadata={"minimum": 1, "maximum": 60})
    """The time within which each file system must answer."""
    pid: int = field(default=0, metadata={"minimum": 0})
    """The process whose mounts are read, such as one of a container; 0: the mounts of the host."""

    def __post_init__(self) -> None:
        for path in self.only:
            if not path.startswith("/"):
                raise ValueError(f"`only`: {path!r} is not an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The selected mounts, in the order of the table."""

    mounts: tuple[Mount, ...] = ()
    """Each: target, source, server, type, options, read_only, remote, answer (ok, hung, failed, unknown, not asked),
    said, say (in one line), size, avail (bytes), percent, inodes_free.
    """
    hung: tuple[Mount, ...] = ()
    """The mounts in `mounts` that do not answer in time."""
    failed: tuple[Mount, ...] = ()
    """The mounts in `mounts` that answer with an error, such as `Stale file handle`."""
    not_known: tuple[Mount, ...] = ()
    """The mounts in `mounts` that should have been asked but could not be asked."""
    private: tuple[Mount, ...] = ()
    """The FUSE mounts in `mounts` that answer only the user who mounted them."""
    read_only: tuple[str, ...] = ()
    """Targets that are mounted read-only."""
    missing: tuple[str, ...] = ()
    """Paths in `only` at which no selected file system is mounted."""
    pid: int = 0
    """The process with these mounts; 0: they are the mounts of the host."""


def probe(args: Args) -> Probe[State]:
    """Read the table, then ask all file systems at the same time."""
    table = read_mounts((yield ask_mounts(args.pid)))
    mounts = tuple(mount for mount in table if _is_meant(args, mount))
    asked = worth_asking(mounts) if args.ask else ()
    if asked:
        mounts = read_answers((yield ask_answers(asked, args.pid, args.within)), mounts, asked, args.within)
    mounts = tuple(map(worded, mounts))
    return State(
        mounts=mounts,
        hung=tuple(mount for mount in mounts if mount.answer == "hung"),
        failed=tuple(mount for mount in mounts if mount.answer == "failed"),
        not_known=tuple(mount for mount in mounts if mount.answer == "unknown" and not mount.said.startswith(PRIVATE)),
        private=tuple(mount for mount in mounts if mount.said.startswith(PRIVATE)),
        read_only=tuple(mount.target for mount in mounts if mount.read_only),
        missing=tuple(path for path in args.only if not any(fnmatchcase(mount.target, path) for mount in mounts)),
        pid=args.pid,
    )


def _is_meant(args: Args, mount: Mount) -> bool:
    return (
        (not args.only or any(fnmatchcase(mount.target, word) for word in args.only))
        and (not args.types or any(fnmatchcase(mount.type, word) for word in args.types))
        and (mount.remote or not args.remote)
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that all of them are mounted and answer."""
    if state.hung or state.failed:
        words = "; ".join(
            f"{mount.target} ({mount.source}): {mount.said}" for mount in (*state.hung, *state.failed)[:NAMED]
        )
        return Fails(why=f"{plural(len(state.hung) + len(state.failed), 'mount')} out of order: {words}")
    if state.missing:
        return Fails(why=f"nothing of that kind is mounted at {', '.join(state.missing)}")
    if doubt := (*state.not_known, *(state.private if args.only else ())):
        raise ProbeError("; ".join(f"{mount.target}: {mount.said}" for mount in doubt[:NAMED]))
    return Holds(why=f"{plural(len(state.mounts), 'mount')} in order")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run; `df` without a path may hang."""
    table = f"/proc/{args.pid or 'self'}/mountinfo"
    path = next(iter(args.only), "PATH") if len(args.only) == 1 else "PATH"
    above = f"/proc/{args.pid}/root" if args.pid else ""
    return (
        f"cat {table}",
        f"timeout -s KILL {args.within:g} stat -f {above}{path} &   # each by itself; do not wait for one",
    )
