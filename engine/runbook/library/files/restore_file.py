"""Put a file back as it was before an earlier run changed it, byte for byte, with its mode and owner.

`runbook undo` makes such steps from the record of a run; the earlier content comes from the copy that the host has
kept. A file that the run has made is removed. What differs from what the run has left was changed by somebody else
since: then nothing is done, and the difference is shown.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.onhost.undo_copies import FileCopy, ask_copy, read_copy, remove_written, restore_copy
from runbook.onhost.writing import DesiredPath, PathState, ask_place, make, read_place
from runbook.protocols import Probe
from runbook.secrets.config_lines import masked_config
from runbook.text.unified_diff import unified
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.undo import Ownership, Undo, UndoFile

_DIGEST = re.compile(r"[0-9a-f]{64}|")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The file, its state before the run, and the state that the run gave it."""

    path: str
    """The absolute path of the file."""
    run: str
    """The id of the run that changed the file."""
    before: str
    """The sha256 of the content before that run; empty: the file did not exist."""
    wrote: tuple[str, ...] = field(metadata={"min_items": 1})
    """The sha256 of each content that the run gave the file; empty: the run removed the file."""
    content: bool = True
    """Whether the run changed the content."""
    mode: str = ""
    """The mode before the run, octal."""
    owner: str = ""
    """The owner before the run."""
    group: str = ""
    """The group before the run."""
    left_mode: str = ""
    """The mode after the run; empty: not compared."""
    left_owner: str = ""
    """The owner after the run; empty: not compared."""
    left_group: str = ""
    """The group after the run; empty: not compared."""

    masked: bool = False
    """Whether the file may contain a secret of that run, so that no difference is shown."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path.endswith("/") or "\0" in self.path:
            raise ValueError(f"`path` must be the absolute path of a file: {self.path!r}")
        if not re.fullmatch(r"[0-9A-Za-z-]+", self.run):
            raise ValueError(f"`run` must be the id of a run: {self.run!r}")
        if not all(_DIGEST.fullmatch(word) for word in (self.before, *self.wrote)):
            raise ValueError("`before` and `wrote` must be sha256 digests of 64 hexadecimal digits, or empty")

    @property
    def was(self) -> Ownership:
        """Return mode, owner and group before the run."""
        return Ownership(mode=self.mode, owner=self.owner, group=self.group)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The file, and the copy of its earlier content."""

    path: str
    """The path of the file."""
    kind: str
    """absent, file, directory, link or other."""
    digest: str = ""
    """sha256 of its content now."""
    copy: bool = True
    """Whether the copy can be used, or none is needed."""
    diff: str = ""
    """From its content now to the earlier one, as `diff -u` shows it."""
    place: PathState = field(repr=False, metadata={"private": True})
    kept: FileCopy = field(repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Read the file and the copy."""
    file = ask_place(args.path, follow=False, owner=args.owner, group=args.group)
    if not (args.content and args.before):
        place, kept = read_place(args.path, (yield file)), FileCopy(text="")
    else:
        answer, copy = yield (file, ask_copy(args.run, args.before))
        place, kept = read_place(args.path, answer), read_copy(copy)
    return State(
        path=place.path,
        kind=place.kind,
        digest=place.digest,
        copy=not kept.missing,
        diff=_diff(args, place, kept),
        place=place,
        kept=kept,
    )


def _diff(args: Args, place: PathState, kept: FileCopy) -> str:
    if not args.content or place.kind not in ("file", "absent") or kept.missing or place.digest == args.before:
        return ""
    if args.masked:
        return f"what differs in {place.path} is not shown: run {args.run} has masked something in it\n"
    if kept.text is None or (place.kind == "file" and place.text is None):
        return f"{place.path} is too large, or not text: its content is not shown\n"
    old = place.path if place.kind == "file" else "/dev/null"
    return unified(place.text or "", kept.text, old, place.path if args.before else "/dev/null", masked_config)


def decide(args: Args, state: State) -> Decision:
    """Put it back where it is as the run has left it."""
    place = state.place
    there = place.kind == "file"
    if not there and place.kind != "absent":
        return _drifted(args, state, f"it is a {place.kind} now, not a file")
    earlier = there and (place.digest == args.before or not args.content)
    if place.kind == "absent" and not args.before:
        return NoChange(why=f"{place.path} does not exist, as before the run")
    if earlier and _stands(place, args.was):
        return NoChange(why=f"{place.path} is as before the run")
    if why := _changed_since(args, place, earlier=earlier):
        return _drifted(args, state, why)
    if place.refusal:
        return Blocked(why=place.refusal)
    if state.kept.missing and not earlier:
        return Blocked(why=f"{place.path} cannot be restored: {state.kept.missing}")
    return Change(
        summary=_summary(args, place, earlier=earlier),
        commands=(_command(args, place, earlier=earlier),),
        risk=Risk.EDITS_FILES,
        targets=(Target(kind="file", key=place.key if args.content else place.itself, say=place.path),),
        diff="" if earlier else state.diff,
    )


def _changed_since(args: Args, place: PathState, *, earlier: bool) -> str:
    """Return the change that somebody else has made to the file since the run; empty: none."""
    if place.kind == "absent":
        return "" if "" in args.wrote else "it was removed"
    if not earlier and place.digest not in args.wrote:
        return f"its content is neither what the run wrote nor what was there before (sha256 {place.digest[:12]})"
    if place.links > 1:
        return f"it has {place.links} hard links"
    left = Ownership(mode=args.left_mode, owner=args.left_owner, group=args.left_group)
    wrong = [
        f"its {name} is {now[0]}"
        for name, now, known in _attributes(place, left, args.was)
        if any(known) and not set(known) & set(now)
    ]
    return ", ".join(wrong)


def _attributes(
    place: PathState, left: Ownership, was: Ownership
) -> tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]:
    """Yield the name, the present value (name and number) and the permitted values of mode, owner and group."""

    def known(one: str, other: str) -> tuple[str, ...]:
        return (one, other) if one else ()

    return (
        ("mode", (_octal(place.mode),), tuple(map(_octal, known(left.mode, was.mode)))),
        ("owner", (place.owner, place.ids[0]), known(left.owner, was.owner)),
        ("group", (place.group, place.ids[1]), known(left.group, was.group)),
    )


def _octal(mode: str) -> str:
    return f"{int(mode, 8):o}" if mode else ""


def _stands(place: PathState, was: Ownership) -> bool:
    """Whether mode, owner and group are as before."""
    wanted = ((was.mode and _octal(was.mode), (_octal(place.mode),)),)
    named = ((was.owner, (place.owner, place.ids[0])), (was.group, (place.group, place.ids[1])))
    return all(not one or one in now for one, now in (*wanted, *named))


def _drifted(args: Args, state: State, why: str) -> Blocked:
    words = f"{state.path} has changed since run {args.run}: {why}; nothing was changed"
    kept = f"; the earlier content is on the host, in {_copy(args, state.place.user)}" if _has_copy(args, state) else ""
    return Blocked(why=words + kept, drifted=True, diff=state.diff)


def _has_copy(args: Args, state: State) -> bool:
    return bool(args.content and args.before) and not state.kept.missing


def _copy(args: Args, user: str) -> str:
    """Where *user*, who changed the file, has the copy of what it was."""
    copies = "/var/lib/runbook/undo" if user == "root" else "~/.local/state/runbook/undo"
    return f"{copies}/{args.run}/{args.before}"


def _summary(args: Args, place: PathState, *, earlier: bool) -> str:
    if not args.before:
        return f"remove {place.path}, which run {args.run} has made"
    owned = f"{args.mode} {args.owner}:{args.group}"
    what = "mode and owner of " if earlier else ""
    return f"restore {what}{place.path} as before run {args.run} ({owned})"


def _command(args: Args, place: PathState, *, earlier: bool) -> Command:
    if not args.before:
        return remove_written(place)
    if earlier:
        return make(place, DesiredPath(mode=args.mode, owner=args.owner, group=args.group))
    return restore_copy(place, args.run, args.before, args.was)


def undo(args: Args, state: State, change: Change) -> Undo:
    """The file as the run has left it, which can be had back in turn."""
    place = state.place
    now = Ownership(mode=place.mode, owner=place.owner, group=place.group)
    file = UndoFile(
        path=place.path, before=place.digest, after=args.before, was=now, left=args.was, content=args.content,
        masked=args.masked,
    )  # fmt: skip
    return Undo(parts=(file,))


def refused(command: Command, completed: Completed) -> str:
    """Return the host's own words, where it has left everything as it was."""
    said = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
    return " / ".join(said[-3:]) if "nothing was" in completed.stderr else ""


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    path = shlex.quote(args.path)
    if not args.before:
        return (f"sha256sum {path}  # must begin with {args.wrote[-1][:12]}", f"rm -- {path}")
    return (f"cp -- {_copy(args, args.owner)} {path}", f"chown {args.owner}:{args.group} {path}",
            f"chmod {args.mode} {path}")  # fmt: skip
