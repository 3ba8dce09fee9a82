"""Read values from configuration files (YAML, TOML, JSON), and compare them with each other.

The files are parsed on this side. A value with a secret name (a token, a password) is compared, and shown as ***.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from runbook.codec import from_host
from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.config.facts import ABSENT, Conflict, Unparsable, format_of, key_path, text_of
from runbook.library.config.facts.config_file import HostFile, ask_file, read_file
from runbook.library.config.facts.config_text import Ambiguous, ConfigText, alike
from runbook.protocols import Fails, Holds, Probe
from runbook.secrets.names import MASK, is_secret
from runbook.values.types import Json, Unknown

Form = Literal["auto", "yaml", "toml", "json"]

NOT_INI = "INI is not read"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLocation:
    """Where one value stands."""

    file: str
    """The file: absolute, or ~/ for the home of the login user."""
    key: str
    """The path of the key, with dots: a.b.c; a part with dots is quoted: a."b.c"."""
    default: Json = None
    """The program's own default, used if the key or the file is absent; null: none."""
    format: Form = field(default="auto", metadata={"hint": NOT_INI})
    """yaml, toml, json; auto: by the ending of its name."""

    def __post_init__(self) -> None:
        if not self.file.startswith(("/", "~/")):
            raise ValueError(f"`file`: {self.file!r} is not an absolute path")
        key_path(self.key)
        if not self.form:
            raise ValueError(
                f"the name of {self.file} does not tell its format: give `format: yaml`, toml or json; {NOT_INI}"
            )

    @property
    def form(self) -> str:
        """The format; empty where nobody says it."""
        return self.format if self.format != "auto" else format_of(self.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    read: Mapping[str, ValueLocation]
    """A name for each value: {file, key, default, format}."""
    same: tuple[str, ...] = ()
    """Names of values that should all be equal."""
    expect: Mapping[str, Json] = field(default_factory=dict)
    """Name to the value it should have."""

    def __post_init__(self) -> None:
        if not self.read:
            raise ValueError("`read`: name at least one value")
        for name in (*self.same, *self.expect):
            if name not in self.read:
                raise ValueError(f"{name!r} is not a name under `read`")
        if len(self.same) == 1:
            raise ValueError("`same`: give at least two names to compare")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The values."""

    values: Mapping[str, Json | Unknown] = field(metadata={"named_by": ("read",)})
    """Each value, by its name."""
    missing: tuple[str, ...] = field(default=(), metadata={"named_by": ("read",)})
    """Names whose key is absent, and that have no default."""
    defaulted: tuple[str, ...] = field(default=(), metadata={"named_by": ("read",)})
    """Names whose default was used."""
    missing_files: tuple[str, ...] = ()
    """Files that do not exist."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Path of a file to why it could not be read, or parsed."""
    consistent: bool | Unknown
    """Whether the values under `same` are all equal."""
    differing: tuple[str, ...] = field(default=(), metadata={"named_by": ("read",)})
    """Names whose value differs from that under `expect`, or from the first one under `same`."""


def probe(args: Args) -> Probe[State]:
    """Read each file once, all together."""
    paths = tuple(dict.fromkeys(location.file for location in args.read.values()))
    answers = yield tuple(map(ask_file, paths))
    files: dict[str, HostFile] = {}
    problems: dict[str, str] = {}
    for path, done in zip(paths, answers, strict=True):
        try:
            files[path] = read_file(path, done)
        except ProbeError as error:
            problems[path] = str(error)
    return _state(args, files, problems)


def _state(args: Args, files: Mapping[str, HostFile], problems: dict[str, str]) -> State:
    found: dict[str, Any] = {}
    defaulted: list[str] = []
    for name, place in args.read.items():
        value = _value_at(place, files, problems)
        if value is ABSENT and place.default is not None:
            defaulted.append(name)
            value = place.default
        found[name] = value
    missing = tuple(name for name, value in found.items() if value is ABSENT)
    return State(
        values={name: _shown_value(args.read[name], value) for name, value in found.items()},
        missing=missing,
        defaulted=tuple(defaulted),
        missing_files=tuple(path for path, file in files.items() if not file.exists),
        problems=problems,
        consistent=_consistent([found[word] for word in args.same]),
        differing=_differing(args, found),
    )


def _value_at(place: ValueLocation, files: Mapping[str, HostFile], problems: dict[str, str]) -> Any:
    """The value; ABSENT, or Unknown."""
    if place.file in problems:
        return Unknown(why=problems[place.file])
    file = files[place.file]
    if not file.exists:
        return ABSENT
    try:
        parsed: ConfigText = text_of(file.text, place.form)
        value = parsed.value(key_path(place.key))
    except Unparsable as error:
        problems[place.file] = f"{file.path} is not valid {place.form.upper()}: {error}"
        return Unknown(why=problems[place.file])
    except Conflict as error:
        return Unknown(why=f"{file.path}: {error}")
    if isinstance(value, Ambiguous):
        return Unknown(why=f"{file.path}: {place.key} is {str(value)!r}, which YAML parsers read differently")
    return value


def _shown_value(place: ValueLocation, value: Any) -> Json | Unknown:
    if value is ABSENT:
        return Unknown(why=f"there is no {place.key} in {place.file}")
    if isinstance(value, Unknown):
        return value
    return MASK if is_secret(key_path(place.key)[-1], value) else from_host(_as_json(value))


def _as_json(value: Any) -> Json:
    match value:
        case Mapping():
            return {str(key): MASK if is_secret(str(key), it) else _as_json(it) for key, it in value.items()}
        case list() | tuple():
            return [_as_json(each) for each in value]
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case None | bool() | int() | float():
            return value
    return str(value)


def _consistent(values: list[Any]) -> bool | Unknown:
    known = [value for value in values if not isinstance(value, Unknown) and value is not ABSENT]
    if any(not alike(known[0], each) for each in known[1:]):
        return False
    blind = next((value for value in values if isinstance(value, Unknown)), None)
    if blind is not None:
        return blind
    return True if len(known) == len(values) else Unknown(why="not all values under `same` are set")


def _differing(args: Args, found: Mapping[str, Any]) -> tuple[str, ...]:
    wanted: Iterable[tuple[str, Any]] = list(args.expect.items())
    wanted = [*wanted, *((name, found[args.same[0]]) for name in args.same[1:])]
    return tuple(dict.fromkeys(name for name, value in wanted if _differs(found[name], value)))


def _differs(one: Any, other: Any) -> bool:
    """Whether both are known, and not equal."""
    if isinstance(one, Unknown) or isinstance(other, Unknown) or ABSENT in (one, other):
        return False
    return not alike(one, other)


def holds(args: Args, state: State) -> Holds | Fails:
    """Every value is there and correct, and those that should be equal are."""
    said = [f"there is no {args.read[word].key} in {args.read[word].file}" for word in state.missing]
    for name in state.differing:
        place = args.read[name]
        other = f"wanted {args.expect[name]!r}" if name in args.expect else f"{args.same[0]} differs"
        hidden = is_secret(key_path(place.key)[-1], "x")
        said.append(f"{place.key} in {place.file} is {state.values[name]!r}" + ("" if hidden else f", {other}"))
    if said:
        return Fails(why="; ".join(said))
    for value in (*state.values.values(), state.consistent):
        if isinstance(value, Unknown):
            raise ProbeError(value.why)
    return Holds(why=", ".join(f"{name} is {value!r}" for name, value in state.values.items())[:500])


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    words = {(location.file, key_path(location.key)[-1]): None for location in args.read.values()}
    return tuple(f"grep -n -- {shlex.quote(word)} {shlex.quote(file)}" for file, word in words)
