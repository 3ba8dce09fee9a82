"""Set single values in a configuration file (YAML, TOML, JSON), and leave every other byte of the file unchanged.

The new text is parsed and compared before it is sent. It replaces the file atomically, with the same mode, owner, ACL
and label, and only if the file is still as it was inspected. A copy of the old file stays beside it. Through a symbolic
link, the target of the link is changed. If a change would affect something else too (an alias, a merge key, an array
of tables), nothing is done, and the reason is given. As a probe it shows the present values, and what it `needs`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from runbook.codec import from_host, to_json
from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.config.facts import DesiredValues, Unparsable, format_of, key_path, key_text, patched
from runbook.library.config.facts.config_file import HostFile, ask_file, digest_of, octal, read_file, replace_file
from runbook.protocols import Fails, Holds, Probe
from runbook.secrets.config_lines import masked_config
from runbook.secrets.names import MASK, is_secret
from runbook.text.shortened import first_few
from runbook.text.unified_diff import unified
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Json
from runbook.values.undo import Ownership, Undo, UndoFile

NOT_INI = "INI is not edited: `file` with `content` or `template` replaces a whole file"

SHOWN = 5
"""Keys that a summary names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    path: str
    """An absolute path on the host; ~/ is the home of the user that the step runs as."""
    format: Literal["auto", "yaml", "toml", "json"] = field(default="auto", metadata={"hint": NOT_INI})
    """The format of the file; auto: by the ending of its name."""
    set: Mapping[str, Json] = field(default_factory=dict)
    """Key to value. Dots lead into mappings; a word with dots is quoted: a."b.c". A mapping is merged into the existing
    one, and its keys are taken literally.
    """
    at_least: Mapping[str, int | float] = field(default_factory=dict)
    """Key to number: set if the present one is lower, or absent. A higher one stays."""
    unset: tuple[str, ...] = ()
    """Keys to remove."""
    parents: bool = False
    """Create the mappings around a key if they are missing."""
    create: bool = False
    """Create the file (mode 644) if there is none."""
    backup: bool = True
    """Keep the old file beside the new, as PATH.backup-YYYYmmdd-HHMMSS."""
    validate: tuple[str, ...] = ()
    """A program with its arguments that must accept the new file before it is put in place; {} stands for the file's
    path, its name is kept.
    """

    def __post_init__(self) -> None:
        if not self.path.startswith(("/", "~/")) or self.path.endswith("/"):
            raise ValueError(f"`path` must be the absolute path of a file, or begin with ~/: {self.path!r}")
        if self.path.startswith(("/proc/", "/sys/", "/dev/")):
            raise ValueError(f"{self.path} is not a configuration file")
        if "\0" in self.path:
            raise ValueError("`path` holds a zero byte")
        if not (self.set or self.at_least or self.unset):
            raise ValueError("give at least one of `set`, `at_least` and `unset`")
        if self.validate and not any("{}" in word for word in self.validate):
            raise ValueError("`validate` needs {} where the path of the new file belongs")
        _distinct([*self.set, *self.at_least, *self.unset])


def _distinct(keys: list[str]) -> None:
    """Raises ValueError for what is not a key, and for a key that would be changed twice."""
    paths = {key_path(key): key for key in keys}
    if len(paths) < len(keys):
        raise ValueError("a key may be named once in `set`, `at_least` and `unset` together")
    for path in paths:
        for depth in range(1, len(path)):
            if path[:depth] in paths:
                raise ValueError(f"{key_text(path)} is part of {key_text(path[:depth])}, which is named as well")


def objection(args: Args) -> str:
    """Return the reason why the file cannot be understood."""
    return (
        ""
        if _form(args)
        else f"the name of {args.path} does not tell its format: give `format: yaml`, toml or json; {NOT_INI}"
    )


def _form(args: Args) -> str:
    return args.format if args.format != "auto" else format_of(args.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The file, and its present values of the wanted keys."""

    path: str
    """The file that was asked for."""
    target: str
    """The file that would be changed, where the path is a symbolic link."""
    exists: bool
    """Whether the file exists."""
    format: str
    """yaml, toml or json."""
    values: Mapping[str, Json] = field(metadata={"named_by": ("set", "at_least", "unset")})
    """The present values, by the keys as given."""
    missing: tuple[str, ...] = field(metadata={"named_by": ("set", "at_least")})
    """Keys to set that are absent."""
    differing: tuple[str, ...] = field(metadata={"named_by": ("set", "at_least")})
    """Keys with another value, or with too low a number."""
    surplus: tuple[str, ...] = field(metadata={"named_by": ("unset",)})
    """Keys to remove that are present."""
    needs: tuple[str, ...] = field(metadata={"named_by": ("set", "at_least", "unset")})
    """All keys to change."""
    conflict: str
    """The reason why the change cannot be made; empty: it can be made, or is not needed."""
    diff: str
    """The change, as `diff -u` shows it."""
    mode: str
    """The file's mode: 644."""
    owner: str
    """The file's owner."""
    group: str
    """The file's group."""
    digest: str
    """sha256:..., of the present content."""
    new_digest: str
    """sha256:..., of the content after the change."""
    file: HostFile = field(repr=False, metadata={"private": True})
    text: str = field(repr=False, metadata={"private": True})
    """The new one."""


def probe(args: Args) -> Probe[State]:
    """Read the file; it is parsed, and edited, here."""
    done: Completed = yield ask_file(args.path)
    file, form = read_file(args.path, done), _form(args)
    if not form:
        raise ProbeError(objection(args))
    parents = args.parents or not file.exists
    wanted = DesiredValues(set=args.set, at_least=args.at_least, unset=args.unset, parents=parents)
    try:
        found = patched(file.text, form, wanted, file.path)
    except Unparsable as error:
        raise ProbeError(f"{file.path} is not valid {form.upper()}: {error}") from error
    needs = (*found.missing, *found.differing, *found.surplus)
    return State(
        path=file.path,
        target=file.target,
        exists=file.exists,
        format=form,
        values={key: to_json(from_host(_shown_value(key, value))) for key, value in found.values.items()},
        missing=found.missing,
        differing=found.differing,
        surplus=found.surplus,
        needs=needs,
        conflict=found.conflict or (_conflict(args, file) if needs else ""),
        diff=_diff(file, found.text),
        mode=octal(file.mode),
        owner=file.owner,
        group=file.group,
        digest=file.digest,
        new_digest=digest_of(found.text.encode(), file.digest),
        file=file,
        text=found.text,
    )


def _conflict(args: Args, file: HostFile) -> str:
    """Return the reason why no other file can take the place of this one; empty: one can."""
    folder = file.target.rpartition("/")[0] or "/"
    if not file.exists and not args.create:
        return f"there is no {file.path}; give `create: true` to create it"
    if not file.folder:
        return f"there is no directory {folder}"
    if file.refusal:
        return file.refusal
    if file.links > 1:
        return f"{file.path} has {file.links} hard links, which a new file would separate; edit it by hand"
    if not file.writable:
        return f"{folder} is not writable for {file.user}, or is read-only; does the step need `become: true`?"
    return ""


def _shown_value(key: str, value: Any) -> Json:
    return MASK if is_secret(key_path(key)[-1], value) else _as_json(value)


def _as_json(value: Any) -> Json:
    match value:
        case Mapping():
            return {str(key): MASK if is_secret(str(key), it) else _as_json(it) for key, it in value.items()}
        case list():
            return [_as_json(each) for each in value]
        case None | bool() | int() | float():
            return value
    return str(value)


def _diff(file: HostFile, text: str) -> str:
    return unified(file.text, text, file.target if file.exists else "/dev/null", file.target, masked_config)


def decide(args: Args, state: State) -> Decision:
    """Put the new text in the old one's place, if any value is not as it is wanted."""
    if not state.needs:
        return NoChange(why=f"{state.path} has every setting" if state.exists else f"there is no {state.path}")
    if state.conflict:
        return Blocked(why=state.conflict)
    command = replace_file(state.file, state.text, args.validate, backup=args.backup)
    return Change(
        summary=_summary(args, state),
        commands=(command,),
        risk=Risk.EDITS_FILES,
        targets=(Target(kind="file", key=state.file.key, say=state.target),),
        diff=state.diff,
    )


def outcome(summary: str, outputs: tuple[str, ...]) -> str:
    """The same, with the name that the copy of the old file has got."""
    reported = (
        line for output in outputs for line in output.splitlines() if line.startswith("to put it back by hand: ")
    )
    back = next(reported, "")
    return (
        f"{summary.rpartition('; to put it back: ')[0]}; {back}"
        if back and "; to put it back: " in summary
        else summary
    )


def _summary(args: Args, state: State) -> str:
    wanted: dict[str, Any] = {**args.set, **args.at_least}
    parts = [
        f"{key} to {_short(_shown_value(key, wanted[key]))} (was {_was(state, key)})"
        for key in state.needs
        if key in wanted
    ]
    parts += [f"remove {key}" for key in state.surplus]
    where = state.path if state.path == state.target else f"{state.path} (a link to {state.target})"
    verb = "" if len(state.surplus) == len(parts) else "set "
    words = f"{verb}{first_few(parts, SHOWN)} in {where}"
    if not state.exists:
        return f"create {where}, and {words.removesuffix(f' in {where}')}"
    if not args.backup:
        return f"{words}, without a backup"
    old = shlex.quote(f"{state.target}.backup-DATE-TIME")
    return f"{words}; to put it back: cp -p -- {old} {shlex.quote(state.path)}"


def _was(state: State, key: str) -> str:
    return _short(state.values[key]) if key in state.values else "absent"


def _short(value: Any, most: int = 60) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def explain(args: Args, before: State, after: State) -> str:
    """Name the values that a second probe does not find."""
    if after.conflict:
        return f"done, but a second probe finds: {after.conflict}"
    names = ", ".join(f"{key} is {_was(after, key)}" for key in after.needs[:SHOWN])
    return f"done, but a second probe finds: {names}; another program may be rewriting {after.path}"


def refused(command: Command, completed: Completed) -> str:
    """Return the host's own words, where it has left the file as it was."""
    said = [line.strip() for line in completed.stderr.splitlines() if line.strip()]
    return " / ".join(said[-6:]) if said and "nothing was written" in completed.stderr else ""


def undo(args: Args, state: State, change: Change) -> Undo:
    """The whole earlier file; or none, where the change makes it."""
    if not state.digest.startswith("sha256:"):
        return Undo(stays=(f"{state.target} was not copied before: this host has no sha256sum",))
    was = Ownership(mode=state.mode, owner=state.owner, group=state.group)
    file = UndoFile(
        path=state.target,
        before=state.digest.removeprefix("sha256:") if state.exists else "",
        after=state.new_digest.removeprefix("sha256:"),
        was=was if state.exists else Ownership(),
        left=was if state.exists else Ownership(mode="644"),
    )
    return Undo(parts=(file,))


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether every value is as it is wanted."""
    if not state.needs:
        return Holds(why=f"{state.path} has every setting")
    names = ", ".join(f"{key} is {_was(state, key)}" for key in state.needs[:SHOWN])
    return Fails(why=f"in {state.path}: {names}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Copy, edit, compare."""
    path = args.path if re.fullmatch(r"[\w./~+-]+", args.path) else shlex.quote(args.path)
    edits = [f"{key}: {_short(_shown_value(key, value))}" for key, value in args.set.items()]
    edits += [f"{key}: {value}, unless it is higher" for key, value in args.at_least.items()]
    edits += [f"no {key}" for key in args.unset]
    check = [shlex.join(args.validate).replace("'{}'", path).replace("{}", path)] if args.validate else []
    lines = (f"cp -p -- {path} {path}.old", f"vi {path}  # {'; '.join(edits)}", *check, f"diff -u {path}.old {path}")
    return tuple(lines)
