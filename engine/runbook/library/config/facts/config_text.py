"""The parts that all formats of configuration files share: nested mappings, with values of distinct types."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from runbook.dataclass import dataclass
from runbook.library.config.facts.key_paths import KeyPath, key_text

DEEPEST = 50
"""Levels of mappings and lists within each other."""


class Unparsable(ValueError):
    """The text does not have the expected format, or is more than one document; the message has the place."""


class Conflict(ValueError):
    """The text cannot be changed as wanted without a second effect."""


@dataclass(frozen=True, slots=True)
class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = _Absent()
"""Stands for a value that is not there; a null is."""


class Ambiguous(str):
    """A plain scalar that readers of YAML 1.1 and of 1.2 take for different things, as it is written."""

    __slots__ = ()


class ConfigText(Protocol):
    """A configuration file of one format, parsed.  Line breaks are ``\\n``."""

    text: str
    data: Any
    """Everything in it, for comparison: dicts, lists and scalars."""

    def value(self, path: KeyPath) -> Any:
        """Return the value that a program reads at *path*, or ABSENT.  Raises Conflict where something else is on the
        way."""
        ...

    def put(self, path: KeyPath, value: Any) -> str:
        """The text with *value* at *path*; parents that are missing are made.  Raises Conflict."""
        ...

    def drop(self, path: KeyPath) -> str:
        """The text without what is at *path*, which is there.  Raises Conflict."""
        ...


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in type and content: 5 is neither "5" nor 5.0 nor true."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(it, other[key]) for key, it in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


def alike(one: Any, other: Any) -> bool:
    """As ``same``, and keys may stand in another order."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(it, other[key]) for key, it in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return same(one, other)


def plain(value: Any) -> Any:
    """*value* in dicts and lists."""
    match value:
        case Mapping():
            return {str(key): plain(it) for key, it in value.items()}
        case str():
            return value
        case Sequence():
            return [plain(each) for each in value]
    return value


def number(value: Any) -> int | float:
    """*value* as a number.  Raises Conflict."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Conflict(f"the value is {kind(value)}, which cannot be compared with a number")
    return value


def edited(data: Any, path: KeyPath, value: Any) -> Any:
    """A copy of *data* with *value* at *path*, at the end of its mapping if it is new; ABSENT takes it away."""
    head, rest = path[0], path[1:]
    inner = dict(data) if isinstance(data, dict) else {}
    if rest:
        inner[head] = edited(inner.get(head), rest, value)
    elif value is ABSENT:
        inner.pop(head, None)
    else:
        inner[head] = value
    return inner


def walk(data: Any, path: KeyPath) -> Any:
    """Return the value at *path* in plain *data*, or ABSENT.  Raises Conflict where a part of the path is not a
    mapping."""
    for depth, word in enumerate(path):
        if data is None:
            return ABSENT
        if not isinstance(data, dict):
            raise Conflict(f"{key_text(path[:depth]) or 'the file'} is {kind(data)}, so there is no {key_text(path)}")
        if word not in data:
            return ABSENT
        data = data[word]
    return data


def kind(value: Any) -> str:
    """Name the kind of *value*, for people."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Ambiguous():
            return f"{value}, which some readers of YAML take for text and others do not"
        case str():
            return f"text ({_short(json.dumps(value, ensure_ascii=False))})"
        case int() | float():
            return f"a number ({value})"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return f"{type(value).__name__} ({value})"


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")


def quoted(text: str) -> str:
    """*text* in double quotes, escaped as JSON, YAML and TOML all read it."""
    plain = json.dumps(text, ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", plain)


def end_of_line(text: str, at: int) -> int:
    """The place behind the line break that ends the line of *at*; the end of *text* where there is none."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def start_of_line(text: str, at: int) -> int:
    """The place where the line of *at* begins."""
    return text.rfind("\n", 0, at) + 1


def with_lines(text: str, at: int, lines: Sequence[str]) -> str:
    """*text* with *lines* at the line that begins at *at*; a last line without a line break stays one."""
    added = "\n".join(lines)
    if at == len(text) and text and not text.endswith("\n"):
        return f"{text}\n{added}"
    return f"{text[:at]}{added}\n{text[at:]}"


def line_of(text: str, at: int) -> int:
    """The number of the line of *at*, from 1."""
    return text.count("\n", 0, at) + 1
