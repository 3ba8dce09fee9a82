"""Remove files and directories below roots that the playbook allows.

All matches are listed beforehand with their sizes, and each is removed only if it is still the same (inode and time of
last change) when its turn comes. Symbolic links are removed, never their targets; roots, mount points, home directories
and system directories are never removed. If one match must not be removed, nothing is removed.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.files.facts.removal import TOO_WIDE, Entry, Found, ask_entries, forbidden, read_entries, remove
from runbook.protocols import Fails, Holds, Probe
from runbook.text.shortened import first_few
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, plural

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - nothing is made there
"""The only directory below /dev that may be a root (shm_overview(7))."""

NAMED = 5
"""The maximum number of entries in a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    paths: tuple[str, ...] = field(metadata={"min_items": 1})
    """Absolute paths; * ? [] are globs, and never match a / or a leading dot."""
    allowed_roots: tuple[str, ...] = field(metadata={"min_items": 1})
    """Absolute directories; only files and directories below them are removed."""
    directories: bool = False
    """Also remove directories, with all their content."""
    keep_newest: int = field(default=0, metadata={"minimum": 0})
    """The number of matches of each path to keep for each owner: those that changed last."""
    older_than: Duration = field(default=Duration(0), metadata={"minimum": 0})
    """Keep matches that changed within this time."""
    unused: bool = False
    """Remove only plain files that no process has open or mapped, as root sees it; required for /dev/shm."""

    def __post_init__(self) -> None:
        if self.unused and self.directories:
            raise ValueError("`unused` is about plain files: leave out `directories`")
        for allowed_root in self.allowed_roots:
            if not _plain(allowed_root) or re.search(r"[*?\[]", allowed_root):
                raise ValueError(f"allowed_roots: {allowed_root!r} is not an absolute path without globs, ~ and ..")
            if (
                allowed_root.rstrip("/") in TOO_WIDE
                or not allowed_root.strip("/")
                or (allowed_root.startswith(("/proc/", "/sys/", "/dev/")) and not self._is_shared_memory(allowed_root))
            ):
                raise ValueError(
                    f"allowed_roots: {allowed_root} is too wide to be a root: name a directory of your own below it"
                )
        for path in self.paths:
            if not _plain(path) or path.endswith("/"):
                raise ValueError(f"paths: {path!r} is not an absolute path (without ~, .. and a / at the end)")

    def _is_shared_memory(self, allowed_root: str) -> bool:
        """Whether *allowed_root* is the directory of POSIX shared memory, and files in use are kept."""
        return self.unused and allowed_root.rstrip("/") == SHARED_MEMORY


def _plain(path: str) -> bool:
    parts = path.strip("/").split("/")
    return path.startswith("/") and "\0" not in path and not {"", ".", ".."} & set(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The entries that match."""

    entries: tuple[Entry, ...]
    """Matches that would be removed (path, kind, bytes, modified)."""
    kept: tuple[Entry, ...] = ()
    """Matches that are kept because they are new."""
    in_use: tuple[Entry, ...] = ()
    """With `unused`: matches that are kept because a process uses them."""
    bytes: int = 0
    """Disk space of `entries`, in bytes."""
    forbidden: tuple[str, ...] = ()
    """Matches that must not be removed, each with the reason."""


def probe(args: Args) -> Probe[State]:
    """List the matches."""
    found = read_entries((yield ask_entries(args.paths, args.allowed_roots, unused=args.unused)))
    in_use = tuple(each for each in found.entries if args.unused and (each.in_use or not _is_plain(each)))
    going = tuple(each for each in _going(args, found) if each not in in_use)
    reasons = (forbidden(each, found, directories=args.directories) for each in going)
    return State(
        entries=going,
        kept=tuple(entry for entry in found.entries if entry not in (*going, *in_use)),
        in_use=in_use,
        bytes=sum(each.bytes for each in going),
        forbidden=tuple(reason for reason in reasons if reason),
    )


def _is_plain(entry: Entry) -> bool:
    """Whether the name and the kind of *entry* allow a comparison with the files that processes have open."""
    return entry.kind == "file" and entry.path.isprintable()


def _going(args: Args, found: Found) -> tuple[Entry, ...]:
    """Return the entries that no pattern keeps, oldest first.

    The newest entries of each owner are kept separately, so that new entries of one user never cause the removal of
    another user's.
    """
    ordered = sorted(found.entries, key=lambda entry: (entry.modified, entry.moment, entry.path))
    kept: set[str] = {each.path for each in ordered if args.older_than and found.now - each.modified < args.older_than}
    for number in range(len(args.paths)) if args.keep_newest else ():
        matches = [each for each in ordered if number in each.patterns]
        for owner in {match.owner for match in matches}:
            kept |= {match.path for match in [match for match in matches if match.owner == owner][-args.keep_newest :]}
    return tuple(each for each in ordered if each.path not in kept)


def decide(args: Args, state: State) -> Decision:
    """Remove all entries, if each of them may be removed."""
    kept = [f"{plural(len(state.kept), 'newer one')} kept"] if state.kept else []
    kept += [f"{len(state.in_use)} in use kept"] if state.in_use else []
    spared = f" ({', '.join(kept)})" if kept else ""
    if not state.entries:
        return NoChange(why=f"nothing to remove matches {', '.join(args.paths)}{spared}")
    if state.forbidden:
        return Blocked(why=first_few(state.forbidden, NAMED, "; "))
    names = first_few((f"{entry.path} ({bytes_of(entry.bytes)})" for entry in state.entries), NAMED)
    return Change(
        summary=f"remove {plural(len(state.entries), 'match')}, {bytes_of(state.bytes)}{spared}: {names}",
        commands=(remove(state.entries, unused=args.unused),),
        targets=tuple(
            Target(kind="file", key=entry.key, say=f"{entry.path} ({bytes_of(entry.bytes)})") for entry in state.entries
        ),
        risk=Risk.DELETES_DATA,
    )


def settled(args: Args, before: State, after: State) -> bool:
    """Whether all entries to remove are gone; an entry that came later does not count."""
    return not _still(before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe the entries that still exist."""
    still = _still(before, after)
    return f"done, but {plural(len(still), 'match')} still there: {', '.join(still[:NAMED])}"


def _still(before: State, after: State) -> list[str]:
    wanted = {(entry.path, entry.inode) for entry in before.entries}
    left = (*after.entries, *after.kept, *after.in_use)
    return sorted(entry.path for entry in left if (entry.path, entry.inode) in wanted)


def without(state: State, keys: frozenset[str]) -> State:
    """Return *state* without the entries in *keys*."""
    left = tuple(entry for entry in state.entries if entry.key not in keys)
    return replace(state, entries=left, bytes=sum(each.bytes for each in left))


def refused(command: Command, completed: Completed) -> str:
    """Return the entries that were not removed, with the reasons."""
    lines = [line.strip() for line in completed.stderr.splitlines() if "left alone" in line]
    return first_few(lines, NAMED, "; ")


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that nothing remains to be removed."""
    if state.entries:
        return Fails(why=f"{plural(len(state.entries), 'match')} to remove: {state.entries[0].path} ...")
    return Holds(why=f"nothing to remove matches {', '.join(args.paths)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run: first a check; the person must keep the newest entries."""
    globs = " ".join(re.sub(r"\\([*?\[\]])", r"\1", re.sub(r"([^\w./*?\[\]-])", r"\\\1", path)) for path in args.paths)
    flags = "-rf" if args.directories else "-f"
    users = ("ls -l /proc/[0-9]*/fd | grep NAME", "grep -l NAME /proc/[0-9]*/maps   # as root; nothing may be found")
    return (f"ls -ldtr -- {globs}", *(users if args.unused else ()), f"rm {flags} -- {shlex.quote('THE OLD ONES')}")
