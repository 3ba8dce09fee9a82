"""Remove files and directories below roots that the playbook allows.

Whatever matches is listed beforehand with its size, and removed only if it is still the same (inode and time of its
last change) when its turn comes. Symbolic links are removed themselves, never what they lead to; roots, mount points,
home directories and directories of the system are never removed. One match that may not go, and nothing goes.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace

from engine.facts.files.removal import TOO_WIDE, Entry, Found, ask_entries, forbidden, read_entries, remove
from engine.protocols import Fails, Holds, Probe
from engine.text.sizes import bytes_of
from engine.values.command import Command, Completed
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration, plural

NAMED = 5
"""Entries that a summary names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """What is to go, and from where at most."""

    paths: tuple[str, ...] = field(
        metadata={
            "about": "Absolute paths; * ? [] are globs, and never stand for a / or a leading dot.",
            "min_items": 1,
        }
    )
    allowed_roots: tuple[str, ...] = field(
        metadata={"about": "Absolute directories; only what lies below one of them is removed.", "min_items": 1}
    )
    directories: bool = field(default=False, metadata={"about": "Remove directories too, with all that is in them."})
    keep_newest: int = field(
        default=0,
        metadata={"about": "Keep so many of each path's matches, of each owner those that changed last.", "minimum": 0},
    )
    older_than: Duration = field(
        default=Duration(0), metadata={"about": "Keep what changed within this time.", "minimum": 0}
    )

    def __post_init__(self) -> None:
        for it in self.allowed_roots:
            if not _plain(it) or re.search(r"[*?\[]", it):
                raise ValueError(f"allowed_roots: {it!r} is no absolute path that is written out")
            if it.rstrip("/") in TOO_WIDE or not it.strip("/") or it.startswith(("/proc/", "/sys/", "/dev/")):
                raise ValueError(f"allowed_roots: {it} is too much to be a root: name a directory of your own below it")
        for it in self.paths:
            if not _plain(it) or it.endswith("/"):
                raise ValueError(f"paths: {it!r} is no absolute path (~ and .. are not filled in, and no / at the end)")


def _plain(path: str) -> bool:
    parts = path.strip("/").split("/")
    return path.startswith("/") and "\0" not in path and not {"", ".", ".."} & set(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What matches."""

    entries: tuple[Entry, ...] = field(metadata={"about": "What would go (path, kind, bytes, modified)."})
    kept: tuple[Entry, ...] = field(default=(), metadata={"about": "What matches, and is too new to go."})
    bytes: int = field(default=0, metadata={"about": "What the entries take on disk, together."})
    forbidden: tuple[str, ...] = field(default=(), metadata={"about": "What matches, and must not go, and why."})


def probe(args: Args) -> Probe[State]:
    """One look."""
    found = read_entries((yield ask_entries(args.paths, args.allowed_roots)))
    going = _going(args, found)
    reasons = (forbidden(it, found, directories=args.directories) for it in going)
    return State(
        entries=going,
        kept=tuple(it for it in found.entries if it not in going),
        bytes=sum(it.bytes for it in going),
        forbidden=tuple(it for it in reasons if it),
    )


def _going(args: Args, found: Found) -> tuple[Entry, ...]:
    """What no pattern keeps, oldest first.

    The newest of each owner are kept: nobody's new entries make another user's go.
    """
    ordered = sorted(found.entries, key=lambda it: (it.modified, it.moment, it.path))
    kept: set[str] = {it.path for it in ordered if args.older_than and found.now - it.modified < args.older_than}
    for number in range(len(args.paths)) if args.keep_newest else ():
        matches = [it for it in ordered if number in it.patterns]
        for owner in {it.owner for it in matches}:
            kept |= {it.path for it in [it for it in matches if it.owner == owner][-args.keep_newest :]}
    return tuple(it for it in ordered if it.path not in kept)


def decide(args: Args, state: State) -> Decision:
    """Remove it all, if all of it may go."""
    spared = f" ({plural(len(state.kept), 'newer one')} kept)" if state.kept else ""
    if not state.entries:
        return NoChange(why=f"nothing to remove matches {', '.join(args.paths)}{spared}")
    if state.forbidden:
        more = f"; and {len(state.forbidden) - NAMED} more" if len(state.forbidden) > NAMED else ""
        return Blocked(why="; ".join(state.forbidden[:NAMED]) + more)
    names = ", ".join(f"{it.path} ({bytes_of(it.bytes)})" for it in state.entries[:NAMED])
    more = f" and {len(state.entries) - NAMED} more" if len(state.entries) > NAMED else ""
    return Change(
        summary=f"remove {plural(len(state.entries), 'match')}, {bytes_of(state.bytes)}{spared}: {names}{more}",
        commands=(remove(state.entries),),
        targets=tuple(Target(kind="file", key=it.key, say=f"{it.path} ({bytes_of(it.bytes)})") for it in state.entries),
        risk=Risk.DELETES_DATA,
    )


def settled(args: Args, before: State, after: State) -> bool:
    """Nothing that was to go is still there; what came since is no concern of this step."""
    return not _still(before, after)


def explain(args: Args, before: State, after: State) -> str:
    """What is still there."""
    still = _still(before, after)
    return f"done, but {plural(len(still), 'match')} still there: {', '.join(still[:NAMED])}"


def _still(before: State, after: State) -> list[str]:
    wanted = {(it.path, it.inode) for it in before.entries}
    return sorted(it.path for it in (*after.entries, *after.kept) if (it.path, it.inode) in wanted)


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without the entries of *keys*."""
    left = tuple(it for it in state.entries if it.key not in keys)
    return replace(state, entries=left, bytes=sum(it.bytes for it in left))


def refused(command: Command, completed: Completed) -> str:
    """What was left alone, and why."""
    lines = [it.strip() for it in completed.stderr.splitlines() if "left alone" in it]
    more = f"; and {len(lines) - NAMED} more" if len(lines) > NAMED else ""
    return "; ".join(lines[:NAMED]) + more


def holds(args: Args, state: State) -> Holds | Fails:
    """Nothing is left that would go."""
    if state.entries:
        return Fails(why=f"{plural(len(state.entries), 'match')} there: {state.entries[0].path} ...")
    return Holds(why=f"nothing to remove matches {', '.join(args.paths)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Look first; what is newest is kept by hand."""
    globs = " ".join(re.sub(r"\\([*?\[\]])", r"\1", re.sub(r"([^\w./*?\[\]-])", r"\\\1", it)) for it in args.paths)
    flags = "-rf" if args.directories else "-f"
    return (f"ls -ldtr -- {globs}", f"rm {flags} -- {shlex.quote('THE OLD ONES')}")
