"""TOML text to statements that know their places."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.facts.config_edit.config_text import DEEPEST, Unparsable, line_of
from engine.facts.config_edit.key_paths import KeyPath, key_text

_GAP = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_KEY = re.compile(r"""[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)[ \t]*""")
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{1,2}(?!"))?|\'\'\'.*?\'\'\'(?:\'{1,2}(?!\'))?|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'',
    re.DOTALL,
)
_BARE = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")
"""A number, a boolean, or a date with a space before its time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value; of an inline table, its statements."""

    start: int
    end: int
    table: bool = False
    inner: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A key with its value."""

    path: KeyPath
    """From the root of the file, or from the inline table that it stands in."""
    own: int
    """How many words of the path are written here."""
    start: int
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlTable:
    """A header, and what stands below it up to the next one; the first has no header."""

    path: KeyPath
    start: int
    body: int
    """Where the line below its header begins."""
    many: bool = False
    """One of an array of tables, or below one."""
    statements: list[Statement] = field(default_factory=list)


def loads(text: str) -> Any:
    """What is in *text*.  Raises Unparsable, also for an integer that no 64 bits hold: TOML has none.

    What programs make of such a number differs (an error, another number), so that nothing is known of the file.
    """
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        if "integer string conversion" in str(error):
            raise Unparsable(TOO_LARGE) from error
        raise Unparsable(str(error) or "nested too deep") from error
    if (path := _too_large(data, ())) is not None:
        raise Unparsable(f"{key_text(path)}: {TOO_LARGE}")
    return data


TOO_LARGE = (
    "an integer of TOML has 64 bits at most, and this one needs more: programs refuse it, or read another number"
)


def fits(value: int) -> bool:
    """Whether TOML can write *value* as an integer."""
    return -(2**63) <= value < 2**63


def _too_large(data: Any, path: KeyPath) -> KeyPath | None:
    """The key of an integer that is too large; None where there is none."""
    if isinstance(data, int) and not fits(data):
        return path
    parts = (
        (((*path, str(key)), part) for key, part in data.items())
        if isinstance(data, dict)
        else ((path, part) for part in data)
        if isinstance(data, list)
        else ()
    )
    return next((found for where, part in parts if (found := _too_large(part, where)) is not None), None)


def sections(text: str) -> list[TomlTable]:
    """The sections of *text*, which is known to be TOML."""
    return _Reading(text).sections()


class _Reading:
    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def sections(self) -> list[TomlTable]:
        made = [TomlTable(path=(), start=0, body=0)]
        arrays: set[KeyPath] = set()
        while self._skip(_BLANK) < len(self._text):
            if self._text[self._at] == "[":
                made.append(self._header(arrays))
            else:
                made[-1].statements.append(self._statement(made[-1].path, 0))
        return made

    def _header(self, arrays: set[KeyPath]) -> TomlTable:
        start, many = self._at, self._text.startswith("[[", self._at)
        self._at += 2 if many else 1
        path = self._key()
        if many:
            arrays.add(path)
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end + 1
        below = any(path[: len(it)] == it for it in arrays)
        return TomlTable(path=path, start=start, body=self._at, many=below)

    def _statement(self, around: KeyPath, depth: int) -> Statement:
        start = self._at
        own = self._key()
        self._at += 1  # the equals sign
        self._skip(_GAP)
        return Statement(path=(*around, *own), own=len(own), start=start, value=self._value(depth))

    def _value(self, depth: int) -> Value:
        if depth > DEEPEST:
            raise Unparsable(f"line {line_of(self._text, self._at)}: nested deeper than {DEEPEST} levels")
        start, opened = self._at, self._text[self._at]
        if opened in "[{":
            return self._collection(start, opened, depth)
        found = (_STRING if opened in "\"'" else _BARE).match(self._text, start)
        if found is None:
            raise Unparsable(f"line {line_of(self._text, start)}: a value that cannot be parsed")
        self._at = found.end()
        return Value(start=start, end=self._at)

    def _collection(self, start: int, opened: str, depth: int) -> Value:
        inner: list[Statement] = []
        self._at += 1
        self._skip(_BLANK)
        while self._text[self._at] not in "]}":
            if opened == "{":
                inner.append(self._statement((), depth + 1))
            else:
                self._value(depth + 1)
            self._skip(_BLANK)
            if self._text[self._at] == ",":
                self._at += 1
                self._skip(_BLANK)
        self._at += 1
        return Value(start=start, end=self._at, table=opened == "{", inner=tuple(inner))

    def _key(self) -> KeyPath:
        words = []
        while True:
            found = _KEY.match(self._text, self._at)
            if found is None:
                raise Unparsable(f"line {line_of(self._text, self._at)}: a key that cannot be parsed")
            self._at = found.end()
            words.append(_word(found[1]))
            if self._text[self._at : self._at + 1] != ".":
                return tuple(words)
            self._at += 1

    def _skip(self, what: re.Pattern[str]) -> int:
        found = what.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at


def _word(written: str) -> str:
    if written[0] not in "\"'":
        return written
    (word,) = tomllib.loads(f"{written} = 0")
    return str(word)


def every(found: list[TomlTable]) -> Iterator[tuple[TomlTable, Statement]]:
    """All statements, each with its section; those in inline tables not."""
    for section in found:
        for it in section.statements:
            yield section, it
