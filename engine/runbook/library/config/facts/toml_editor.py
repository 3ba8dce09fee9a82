"""TOML: single values changed in the text, in the table they belong to, with comments and types kept.

tomllib says what a text holds, and what its keys are; only where its entries stand is found here. tomlkit (0.15) is
not used: of all changes it makes only that of a value with no other byte changed. A new key goes between a table and
the comment above it, an inline table gets a space more or less, a table between two elements of an array of tables
moves behind them; and it accepts what TOML 1.0, and so many a program on a host, refuses: ``{a = 1,}``, ``"\\x41"``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.config.facts.braces import Braces, with_entry, without_entry
from runbook.library.config.facts.config_text import (
    ABSENT,
    DEEPEST,
    Conflict,
    Unparsable,
    end_of_line,
    line_of,
    quoted,
    start_of_line,
    walk,
    with_lines,
)
from runbook.library.config.facts.key_paths import KeyPath, key_text

TOO_LARGE = (
    "an integer of TOML has 64 bits at most, and this one needs more: programs refuse it, or read another number"
)
_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{1,2}(?!"))?|\'\'\'.*?\'\'\'(?:\'{1,2}(?!\'))?|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\''
    r"|#[^\n]*|[ \t]+|[^\s\"'#\[\]{},]+|.",
    re.DOTALL,
)
_KEY = re.compile(r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^="'\n])+=[ \t]*""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The header of a table, or a key with its value: on a line, or in an inline table."""

    start: int
    end: int
    """Behind the header or the value."""
    table: KeyPath
    """The table that it is written in; of a header, its own."""
    path: KeyPath
    value: int = 0
    """Where the value begins; 0: a header."""


class TomlText:
    """One TOML document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = loads(text)
        self._entries = list(_entries(text, 0, len(text), "\n", ()))

    def value(self, path: KeyPath) -> Any:
        """Return the value at *path*, or ABSENT.  Raises Conflict where something else is on the way."""
        return walk(self.data, path)

    def put(self, path: KeyPath, value: Any) -> str:
        """A value in the place of the old one, or a new key in its table."""
        said = written(value)  # what TOML has no form for is refused first
        if (old := walk(self.data, path)) is ABSENT:
            return self._new(path, value)
        found = self._found(path, self._entries)
        if not isinstance(old, str | bool | int | float | list):
            raise Conflict(f"{key_text(path)} is a {type(old).__name__}, which cannot be replaced; edit it by hand")
        return self.text[: found.value] + said + self.text[found.end :]

    def drop(self, path: KeyPath) -> str:
        """A key taken out."""
        found = self._found(path, self._entries)
        around = self._inline(path)
        if around is None:
            return self.text[: start_of_line(self.text, found.start)] + self.text[end_of_line(self.text, found.end) :]
        if around.path != path[:-1]:
            around = self._found(path[:-1], self._inner(around))
        return without_entry(self.text, self._braces(around), self._inner(around).index(found))

    def _found(self, path: KeyPath, entries: list[Entry]) -> Entry:
        """The entry of *path*, among *entries* or in an inline table there.  Raises Conflict."""
        for entry in entries:
            if entry.value and entry.path == path:
                return entry
            if self._is_around(entry, path):
                return self._found(path, self._inner(entry))
        raise Conflict(f"{key_text(path)} is a table, or not written in one place; edit it by hand")

    def _is_around(self, entry: Entry, path: KeyPath) -> bool:
        return bool(entry.value) and self.text[entry.value] == "{" and path[: len(entry.path)] == entry.path

    def _inline(self, path: KeyPath) -> Entry | None:
        """The outermost inline table that *path* leads into."""
        return next((entry for entry in self._entries if self._is_around(entry, path[:-1])), None)

    def _inner(self, around: Entry) -> list[Entry]:
        return list(_entries(self.text, around.value + 1, around.end - 1, ",", around.path))

    def _braces(self, around: Entry) -> Braces:
        entries = tuple((entry.start, entry.end) for entry in self._inner(around))
        return Braces(start=around.value, end=around.end, entries=entries)

    def _new(self, path: KeyPath, value: Any) -> str:
        depth = next(at for at in range(len(path) - 1, -1, -1) if walk(self.data, path[:at]) is not ABSENT)
        table, rest = path[:depth], path[depth:]
        if (around := self._inline((*table, rest[0]))) is not None:
            return self._new_inline(around if around.path == table else self._found(table, [around]), rest, value)
        if len(rest) > 1 or (isinstance(value, dict) and value):
            return self._new_tables(path, value)
        return self._new_key(table, f"{word(rest[0])} = {written(value)}")

    def _new_inline(self, around: Entry, rest: KeyPath, value: Any) -> str:
        for name in reversed(rest[1:]):
            value = {name: value}
        entry = f"{word(rest[0])} = {written(value)}"
        return with_entry(self.text, self._braces(around), entry if self._inner(around) else f" {entry} ")

    def _new_tables(self, path: KeyPath, value: Any) -> str:
        if not isinstance(value, dict):
            path, value = path[:-1], {path[-1]: value}
        gap = [""] if self.text.strip() and not self.text.endswith("\n\n") else []
        return with_lines(self.text, len(self.text), [*gap, *_tables(path, value)])

    def _new_key(self, table: KeyPath, line: str) -> str:
        """Insert *line* at the end of *table* (or of its dotted keys), before any sub-table."""
        inside = [entry for entry in self._entries if entry.path[: len(table)] == table]
        own = [entry for entry in inside if entry.table == table]
        if own := own or [entry for entry in inside if len(entry.table) < len(table)]:
            last = own[-1]
            indent = self.text[start_of_line(self.text, last.start) : last.start]
            dotted = "".join(f"{word(name)}." for name in table[len(last.table) :])
            return with_lines(self.text, end_of_line(self.text, last.end), [f"{indent}{dotted}{line}"])
        if not inside:
            return with_lines(self.text, len(self.text), [line])
        header = [f"[{_dotted(table)}]"] if table else []
        return with_lines(self.text, self._above(inside[0]), [*header, line, ""])

    def _above(self, header: Entry) -> int:
        """Where the comment above *header* begins; the header, if that is what the file begins with."""
        line = at = start_of_line(self.text, header.start)
        while at and self.text[start_of_line(self.text, at - 1) : at].lstrip().startswith("#"):
            at = start_of_line(self.text, at - 1)
        return at or line


def loads(text: str) -> Any:
    """Parse *text*.  Raises Unparsable, also for an integer of more than 64 bits, which TOML does not have.

    Programs treat such a number differently (an error, another number), so that nothing is certain about the file.
    """
    try:
        data = tomllib.loads(text)
        _need_fit(data, ())
    except RecursionError as error:
        raise Unparsable("nested too deep") from error
    except ValueError as error:
        raise Unparsable(TOO_LARGE if "integer string conversion" in str(error) else str(error)) from error
    return data


def _need_fit(data: Any, path: KeyPath) -> None:
    if isinstance(data, int) and not fits(data):
        raise Unparsable(f"{key_text(path)}: {TOO_LARGE}")
    if isinstance(data, dict):
        for key, part in data.items():
            _need_fit(part, (*path, key))
    for part in data if isinstance(data, list) else ():
        _need_fit(part, path)


def fits(value: int) -> bool:
    """Whether TOML can write *value* as an integer."""
    return -(2**63) <= value < 2**63


def _entries(text: str, start: int, end: int, separator: str, table: KeyPath) -> Iterator[Entry]:
    """The entries of *text*, which is known to be TOML, from *start* to *end*, where *table* goes on."""
    for begin, behind in _pieces(text, start, end, separator):
        if text[begin] == "[":
            table = _dotted_key(text[begin:behind])
            yield Entry(start=begin, end=behind, table=table, path=table)
        elif key := _KEY.match(text, begin):
            path = (*table, *_dotted_key(f"{key[0]}0"))
            yield Entry(start=begin, end=behind, table=table, path=path, value=key.end())


def _pieces(text: str, start: int, end: int, separator: str) -> Iterator[tuple[int, int]]:
    """Where each text between separators begins and ends, without the blanks and comments around it."""
    depth, begin, behind = 0, end, end
    for token in _TOKEN.finditer(text, start, end):
        said = token[0]
        if said == separator and not depth:
            if begin < end:
                yield begin, behind
            begin = end
        elif not said.isspace() and said[0] != "#":
            begin, behind = min(begin, token.start()), token.end()
            depth += (said in "[{") - (said in "]}")
            if depth > DEEPEST:
                raise Unparsable(f"line {line_of(text, behind)}: nested deeper than {DEEPEST} levels")
    if begin < end:
        yield begin, behind


def _dotted_key(text: str) -> KeyPath:
    """The words of the only key, or header, that is in *text*."""
    words, data = [], tomllib.loads(text)
    while isinstance(data, dict) and data:
        ((name, data),) = data.items()
        words.append(name)
    return tuple(words)


def _tables(path: KeyPath, value: dict[str, Any]) -> Iterator[str]:
    """The lines of a new table, and of those in it."""
    deeper = {key: part for key, part in value.items() if isinstance(part, dict) and part}
    if len(deeper) < len(value):
        yield f"[{_dotted(path)}]"
        yield from (f"{word(key)} = {written(part)}" for key, part in value.items() if key not in deeper)
    for number, (key, part) in enumerate(deeper.items()):
        if number or len(deeper) < len(value):
            yield ""
        yield from _tables((*path, key), part)


def _dotted(path: KeyPath) -> str:
    return ".".join(map(word, path))


def word(key: str) -> str:
    """A key as TOML writes it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def written(value: Any) -> str:
    """*value* as TOML writes it.  Raises Conflict for what it cannot say."""
    match value:
        case int() if not fits(value):
            raise Conflict(TOO_LARGE)
        case bool() | int() | float():
            return str(value).lower()
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            inner = ", ".join(f"{word(key)} = {written(part)}" for key, part in value.items())
            return f"{{ {inner} }}" if inner else "{}"
    raise Conflict("TOML has no null: a key has a value, or is absent (unset)")
