"""Ensure that a file or a directory exists, with its content, mode and owner.

The content is given in the playbook (`content`, in which templates are filled in), or is in a file beside the playbook:
`source` is sent unchanged, `template` is sent with its templates filled in. It replaces the old content atomically,
and only if the file is still as it was inspected; other hard links of the old file keep the old content. A symbolic
link is followed only with `follow: true`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace
from hashlib import sha256
from typing import Literal

from runbook.dataclass import dataclass
from runbook.onhost.writing import DesiredPath, PathState, ask_place, difference, make, read_place
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.undo import Ownership, Undo, UndoFile

_MODE = re.compile(r"0?[0-7]{3}|[0-7]{4}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\$?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    path: str
    """An absolute path on the host; ~/ is the home of the user that the step runs as."""
    state: Literal["file", "directory"] = "file"
    """The kind of entry that the path should be."""
    content: str | int | float | bool | None = field(default=None, metadata={"exact": True})
    """The exact content of the file; null: any content."""
    source: str = ""
    """A file beside the playbook, whose text becomes the content unchanged."""
    template: str = ""
    """A file beside the playbook, whose text becomes the content after its templates are filled in."""
    text: str = field(default="", metadata={"content_of": "source"})
    """The text of the file `source`."""
    filled: str | int | float | bool | None = field(default=None, metadata={"content_of": "template", "rendered": True})
    """The text of the file `template`."""
    mode: str = ""
    """The permissions, octal, in quotes: "0644"; empty: unchanged (a new file gets 644, a directory 755). Three digits
    keep setgid.
    """
    owner: str = ""
    """The owner; empty: unchanged."""
    group: str = ""
    """The group; empty: unchanged."""
    parents: bool = False
    """Create the parent directories if they are missing."""
    follow: bool = False
    """If the path is a symbolic link, change its target."""
    backup: bool = False
    """Keep the old file beside the new, as PATH.backup-YYYYmmdd-HHMMSS."""

    def __post_init__(self) -> None:
        if not self.path.startswith(("/", "~/")) or self.path.endswith("/") or "\0" in self.path:
            raise ValueError(f"`path` must be an absolute path, or begin with ~/, and must not end in /: {self.path!r}")
        if "/../" in f"{self.path}/" or self.path.startswith(("/proc/", "/sys/", "/dev/")):
            raise ValueError(f"{self.path} must not be written to")
        given = [name for name in ("source", "template") if getattr(self, name)]
        given += ["content"] if self.content is not None else []
        if len(given) > 1:
            raise ValueError(f"give one of {' and '.join(f'`{word}`' for word in given)}")
        if given and self.state == "directory":
            raise ValueError(f"a directory has no `{given[0]}`")
        if self.mode and not _MODE.fullmatch(self.mode):
            raise ValueError(f'`mode` must be octal, in quotes: "0644", not {self.mode!r}')
        for name in (self.owner, self.group):
            if name and not _USER.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid name of a user or a group")

    @property
    def wanted_text(self) -> str | None:
        """Return the required content; None if any content is allowed."""
        if self.source:
            return self.text
        given = self.filled if self.template else self.content
        return str(given).lower() if isinstance(given, bool) else None if given is None else str(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    path: str
    """The path, or with `follow` the target of the link."""
    kind: str
    """The kind: absent, file, directory, link or other."""
    digest: str = ""
    """The sha256 of the content of a file."""
    mode: str = ""
    """The permissions in octal, such as 644; empty if absent."""
    owner: str = ""
    """The name of the owner; empty if absent."""
    group: str = ""
    """The name of the group; empty if absent."""
    needs: tuple[str, ...] = ()
    """The parts that must be changed: content, mode, owner ..."""
    diff: str = ""
    """The change of the content, in the form of `diff -u`."""
    place: PathState = field(repr=False, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Read the present state of the path."""
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
    """Return the mode bits that are compared; a required mode of three digits leaves setuid and setgid of a directory
    unchanged.
    """
    there = int(place.mode, 8)
    return there & ~0o6000 if place.kind == "directory" and len(args.mode) == 3 else there


def decide(args: Args, state: State) -> Decision:
    """Create or change the path, unless it is already correct, or something of another kind is in its place."""
    place = state.place
    if place.kind not in ("absent", args.state):
        return Blocked(why=_in_the_way(args, place))
    if not state.needs:
        return NoChange(why=f"{place.path} is as wanted")
    if place.kind == "absent" and place.parent != "yes" and not (place.parent == "no" and args.parents):
        folder = place.path.rpartition("/")[0] or "/"
        why = f"there is no directory {folder}: `parents: true` creates it" if place.parent == "no" else place.parent
        return Blocked(why=f"{place.path}: {why}")
    if place.refusal:
        return Blocked(why=place.refusal)
    if (
        place.links > 1
        and "content" not in state.needs
        and any(need.startswith(("owner", "group")) for need in state.needs)
    ):
        return Blocked(why=f"{place.path} has {place.links} hard links, and all of them would change owner")
    return Change(
        summary=f"create {', '.join(state.needs)}: {place.path}"
        if place.kind == "absent"
        else f"change {', '.join(state.needs)} of {place.path}{_parted(state)}",
        commands=(make(place, _wanted(args, state), parents=args.parents, backup=args.backup),),
        targets=(Target(kind="file", key=_key(state), say=place.path),),
        risk=Risk.EDITS_FILES,
        diff=state.diff,
    )


def _key(state: State) -> str:
    """Return the identity of the path; it includes the content if the content will be replaced."""
    return state.place.key if "content" in state.needs else state.place.itself


def _parted(state: State) -> str:
    """Describe the effect on other hard links of the file: the new file replaces only one name."""
    others = state.place.links - 1 if "content" in state.needs else 0
    return f"; its other hard links ({others}) keep the old content" if others else ""


def _wanted(args: Args, state: State) -> DesiredPath:
    text = args.wanted_text if {"content", "a file"} & set(state.needs) else None
    return DesiredPath(
        directory=args.state == "directory", text=text, mode=args.mode, owner=args.owner, group=args.group
    )  # fmt: skip


def _in_the_way(args: Args, place: PathState) -> str:
    if place.kind == "link":
        return f"{place.path} is a symbolic link to {place.leads_to}: `follow: true` changes that target"
    what = {"file": "a file", "directory": "a directory"}.get(place.kind, "a device, a pipe or a socket")
    return f"{place.path} is {what}, not a {args.state}, and is not replaced"


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds wrong."""
    words = ", ".join(after.needs) or _in_the_way(args, after.place)
    return f"done, but a second probe still finds a difference: {words}; another program may be rewriting {after.path}"


def without(state: State, keys: frozenset[str]) -> State:
    """Return *state* with nothing to do if its one target is in *keys*."""
    return replace(state, needs=()) if _key(state) in keys else state


def refused(command: Command, completed: Completed) -> str:
    """Return the host's own words if nothing was written."""
    said = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
    return " / ".join(said[-3:]) if "nothing was written" in completed.stderr else ""


def undo(args: Args, state: State, change: Change) -> Undo:
    """Return the earlier content, mode and owner of a file, as an undo; a directory is not undone."""
    place = state.place
    if args.state == "directory":
        left = f" (it was {place.mode} {place.owner}:{place.group})" if place.kind == "directory" else ""
        return Undo(stays=(f"the directory {place.path} stays{left}",))
    made = place.parent != "yes"
    stays = (f"the directories around {place.path} that did not exist stay",) if made else ()
    rewritten = bool({"content", "a file"} & set(state.needs))
    after = sha256((args.wanted_text or "").encode()).hexdigest() if rewritten else place.digest
    if place.kind == "absent":
        left_as = Ownership(mode=args.mode or "644", owner=args.owner, group=args.group)
        return Undo(parts=(UndoFile(path=place.path, before="", after=after, left=left_as),), stays=stays)
    was = Ownership(mode=place.mode, owner=place.owner, group=place.group)
    left_as = Ownership(
        mode=args.mode or was.mode, owner=args.owner or was.owner, group=args.group or was.group
    )  # fmt: skip
    file = UndoFile(
        path=place.path, before=place.digest, after=after, was=was, left=left_as, content=rewritten
    )  # fmt: skip
    return Undo(parts=(file,))


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that the path exists and is correct."""
    if state.kind not in ("absent", args.state):
        return Fails(why=_in_the_way(args, state.place))
    if state.needs:
        return Fails(why=f"{state.path} still needs {', '.join(state.needs)}")
    return Holds(why=f"{state.path} is as wanted")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    lines = [f"mkdir {args.path}" if args.state == "directory" else f"vi {args.path}"]
    lines += [f"chmod {args.mode} {args.path}"] if args.mode else []
    owner = args.owner + (f":{args.group}" if args.group else "")
    return (*lines, *([f"chown {owner} {args.path}"] if owner else []))
