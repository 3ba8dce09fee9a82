"""See that a file or a directory is there, with its content, mode and owner.

The content is given in the playbook (`content`, in which templates are filled in), or stands in a file beside it:
`source` is sent as it is, in a `template` the names of the playbook are filled in. It takes the old one's place in one
stroke, and only if that is still what was inspected; the old one's other names (hard links) keep it. A symbolic link is
followed only if `follow` says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal

from engine.facts.files.writing import DesiredPath, PathState, ask_place, difference, make, read_place
from engine.protocols import Fails, Holds, Probe
from engine.values.command import Command, Completed
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target

_MODE = re.compile(r"0?[0-7]{3}|[0-7]{4}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which place, and how it shall be."""

    path: str = field(metadata={"about": "An absolute path on the host; ~/ is the home of the user who looks."})
    state: Literal["file", "directory"] = field(default="file", metadata={"about": "What is to be there."})
    content: str | int | float | bool | None = field(
        default=None,
        metadata={"about": "What is to stand in it, to the last byte; null: whatever stands there.", "exact": True},
    )
    source: str = field(default="", metadata={"about": "A file beside the playbook, for the content as it is."})
    template: str = field(default="", metadata={"about": "A file beside the playbook, for the content once filled in."})
    text: str = field(default="", metadata={"about": "What stands in `source`; read from it.", "content_of": "source"})
    filled: str | int | float | bool | None = field(
        default=None,
        metadata={"about": "What stands in `template`; read from it.", "content_of": "template", "rendered": True},
    )
    mode: str = field(
        default="",
        metadata={"about": 'Octal, in quotes: "0644"; empty: as it is, or 644, or 755. Three digits keep setgid.'},
    )
    owner: str = field(default="", metadata={"about": "Its user; empty: as it is."})
    group: str = field(default="", metadata={"about": "Its group; empty: as it is."})
    parents: bool = field(default=False, metadata={"about": "Make the directories around it where they are missing."})
    follow: bool = field(default=False, metadata={"about": "Where it is a symbolic link, mean what it leads to."})
    backup: bool = field(
        default=False, metadata={"about": "Keep the old file beside the new, as PATH.backup-YYYYmmdd-HHMMSS."}
    )

    def __post_init__(self) -> None:
        if not self.path.startswith(("/", "~/")) or self.path.endswith("/") or "\0" in self.path:
            raise ValueError(f"`path` is an absolute path, or begins with ~/, and does not end in /: {self.path!r}")
        if "/../" in f"{self.path}/" or self.path.startswith(("/proc/", "/sys/", "/dev/")):
            raise ValueError(f"{self.path} is no place to write to")
        given = [name for name in ("source", "template") if getattr(self, name)]
        given += ["content"] if self.content is not None else []
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(f'`{it}`' for it in given)}")
        if given and self.state == "directory":
            raise ValueError(f"a directory has no `{given[0]}`")
        if self.mode and not _MODE.fullmatch(self.mode):
            raise ValueError(f'`mode` is octal, in quotes: "0644", not {self.mode!r}')
        for it in (self.owner, self.group):
            if it and not _USER.fullmatch(it):
                raise ValueError(f"{it!r} is no name of a user or a group")

    @property
    def wanted_text(self) -> str | None:
        """What is to stand in it; None: whatever stands there."""
        if self.source:
            return self.text
        given = self.filled if self.template else self.content
        return str(given).lower() if isinstance(given, bool) else None if given is None else str(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What is there."""

    path: str = field(metadata={"about": "The path, or with `follow` what it leads to."})
    kind: str = field(metadata={"about": "absent, file, directory, link or other."})
    digest: str = field(default="", metadata={"about": "sha256 of a file's content."})
    mode: str = field(default="", metadata={"about": "Octal: 644."})
    owner: str = field(default="", metadata={"about": "Its user."})
    group: str = field(default="", metadata={"about": "Its group."})
    needs: tuple[str, ...] = field(default=(), metadata={"about": "What is to be changed: content, mode, owner ..."})
    diff: str = field(default="", metadata={"about": "The change of its content, as `diff -u` shows it."})
    place: PathState = field(repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """One look."""
    asked = ask_place(args.path, follow=args.follow, owner=args.owner, group=args.group)
    place = read_place(args.path, (yield asked))
    needs = tuple(_needs(args, place))
    return State(
        path=place.path,
        kind=place.kind,
        digest=place.digest,
        mode=place.mode,
        owner=place.owner,
        group=place.group,
        needs=needs,
        diff=difference(place, args.wanted_text) if {"content", "a file"} & set(needs) else "",
        place=place,
    )


def _needs(args: Args, place: PathState) -> Iterator[str]:
    text = args.wanted_text
    if place.kind == "absent":
        yield f"a {args.state}"
        return
    if text is not None and place.digest != sha256(text.encode()).hexdigest():
        yield "content"
    if args.mode and int(args.mode, 8) != _compared(args, place):
        yield f"mode {args.mode} (is {place.mode})"
    for what, wanted, there, number, meant in (
        ("owner", args.owner, place.owner, place.ids[0], place.meant[0]),
        ("group", args.group, place.group, place.ids[1], place.meant[1]),
    ):  # names are only names of numbers: `0` is root, and so may others be
        if wanted and (meant != number if meant else wanted not in (there, number)):
            yield f"{what} {wanted} (is {there})"


def _compared(args: Args, place: PathState) -> int:
    """The bits of its mode that are held against those that are wanted: a mode of three digits leaves a directory its
    setuid and setgid bits.
    """
    there = int(place.mode, 8)
    return there & ~0o6000 if place.kind == "directory" and len(args.mode) == 3 else there


def decide(args: Args, state: State) -> Decision:
    """Make it so, if it is not and nothing else stands in its place."""
    place = state.place
    if place.kind not in ("absent", args.state):
        return Blocked(why=_in_the_way(args, place))
    if not state.needs:
        return NoChange(why=f"{place.path} is as it shall be")
    if place.kind == "absent" and place.parent != "yes" and not (place.parent == "no" and args.parents):
        folder = place.path.rpartition("/")[0] or "/"
        why = f"there is no directory {folder}: `parents: true` makes it" if place.parent == "no" else place.parent
        return Blocked(why=f"{place.path}: {why}")
    if place.refusal:
        return Blocked(why=place.refusal)
    if (
        place.links > 1
        and "content" not in state.needs
        and any(it.startswith(("owner", "group")) for it in state.needs)
    ):
        return Blocked(
            why=f"{place.path} has {place.links} names (hard links), and would be handed over under all of them"
        )
    return Change(
        summary=f"make {', '.join(state.needs)}: {place.path}"
        if place.kind == "absent"
        else f"change {', '.join(state.needs)} of {place.path}{_parted(state)}",
        commands=(make(place, _wanted(args, state), parents=args.parents, backup=args.backup),),
        targets=(Target(kind="file", key=_key(state), say=place.path),),
        risk=Risk.EDITS_FILES,
        diff=state.diff,
    )


def _key(state: State) -> str:
    """The identity of the place: its content is a part of it where that is to be replaced."""
    return state.place.key if "content" in state.needs else state.place.itself


def _parted(state: State) -> str:
    """What becomes of the other names of a file: a new one takes the place of only one of them."""
    others = state.place.links - 1 if "content" in state.needs else 0
    return f"; its other names (hard links: {others}) keep the old one" if others else ""


def _wanted(args: Args, state: State) -> DesiredPath:
    text = args.wanted_text if {"content", "a file"} & set(state.needs) else None
    return DesiredPath(
        directory=args.state == "directory", text=text, mode=args.mode, owner=args.owner, group=args.group
    )  # fmt: skip


def _in_the_way(args: Args, place: PathState) -> str:
    if place.kind == "link":
        return f"{place.path} is a symbolic link to {place.leads_to}: `follow: true` means what it leads to"
    what = {"file": "a file", "directory": "a directory"}.get(place.kind, "a device, a pipe or a socket")
    return f"{place.path} is {what}, and no {args.state}: nothing is put in its place"


def explain(args: Args, before: State, after: State) -> str:
    """What a second look still misses."""
    words = ", ".join(after.needs) or _in_the_way(args, after.place)
    return f"done, but a second look still wants: {words}; something may write {after.path} anew"


def without(state: State, keys: frozenset[str]) -> State:
    """*state* with nothing to do where its one target is in *keys*."""
    return replace(state, needs=()) if _key(state) in keys else state


def refused(command: Command, completed: Completed) -> str:
    """What the host said, where it has left everything as it was."""
    said = [it.strip() for it in completed.stderr.splitlines() if it.strip()]
    return " / ".join(said[-3:]) if "nothing was written" in completed.stderr else ""


def holds(args: Args, state: State) -> Holds | Fails:
    """It is there, and as it shall be."""
    if state.kind not in ("absent", args.state):
        return Fails(why=_in_the_way(args, state.place))
    if state.needs:
        return Fails(why=f"{state.path} wants {', '.join(state.needs)}")
    return Holds(why=f"{state.path} is as it shall be")


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste."""
    lines = [f"mkdir {args.path}" if args.state == "directory" else f"vi {args.path}"]
    lines += [f"chmod {args.mode} {args.path}"] if args.mode else []
    owner = args.owner + (f":{args.group}" if args.group else "")
    return (*lines, *([f"chown {owner} {args.path}"] if owner else []))
