"""TOML: single values changed in the text, in the table they belong to, with comments and types kept.

tomlkit (0.15) is not used: it writes back other bytes of a text in which nothing was changed. A table between two
elements of an array of tables moves behind the last of them, and comments to other tables (433 of 5238 generated
texts). A new table below dotted keys is put before keys of the file, which then belong to that table; an inline
table gets a space more or less; a file without a line break at its end gets one; a new key parts a table from the
comment above it. It also accepts what TOML 1.0, and so many a program on a host, refuses: ``{a = 1,}``,
``"\\x41"``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from engine.facts.config_edit.braces import Braces, with_entry, without_entry
from engine.facts.config_edit.config_text import ABSENT, Conflict, end_of_line, quoted, start_of_line, walk, with_lines
from engine.facts.config_edit.key_paths import KeyPath, key_text
from engine.facts.config_edit.toml_parser import TOO_LARGE, Statement, Value, every, fits, loads, sections


class TomlText:
    """One TOML document."""

    typed = True

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = loads(text)
        self._sections = sections(text)

    def value(self, path: KeyPath) -> Any:
        """What is there for *path*."""
        return walk(self.data, path)

    def put(self, path: KeyPath, value: Any) -> str:
        """A value in the place of the old one, or a new key in its table."""
        written(value)  # what TOML has no form for is refused first
        if walk(self.data, path) is not ABSENT:
            return self._over(path, value)
        table = self._deepest_table(path)
        return self._new(table, path[len(table) :], value)

    def drop(self, path: KeyPath) -> str:
        """A key taken out."""
        found = self._statement(path)
        if isinstance(found, tuple):
            around, rest = found
            return self._inline_drop(around.value, rest)
        if (
            start_of_line(self.text, found.start) != found.start
            and self.text[: found.start].rpartition("\n")[2].strip()
        ):
            raise Conflict(f"{key_text(path)} is not on a line of its own")
        return self.text[: start_of_line(self.text, found.start)] + self.text[end_of_line(self.text, found.value.end) :]

    def _over(self, path: KeyPath, value: Any) -> str:
        found = self._statement(path)
        if isinstance(found, tuple):
            around, rest = found
            found = _inline(around.value, rest, path)
        old = walk(self.data, path)
        if not isinstance(old, str | bool | int | float | list):
            raise Conflict(f"{key_text(path)} is a {type(old).__name__}, which cannot be replaced; edit it by hand")
        return self.text[: found.value.start] + written(value) + self.text[found.value.end :]

    def _statement(self, path: KeyPath) -> Statement | tuple[Statement, KeyPath]:
        """The statement of *path*; or that of the inline table around it, with the words that lead on from there."""
        for section, it in every(self._sections):
            if section.many:
                continue
            if it.path == path:
                return it
            if it.value.table and path[: len(it.path)] == it.path:
                return it, path[len(it.path) :]
        raise Conflict(f"{key_text(path)} is a table, or part of an array of tables; edit it by hand")

    def _deepest_table(self, path: KeyPath) -> KeyPath:
        """The table that is there, the nearest around *path*."""
        for depth in range(len(path) - 1, 0, -1):
            if isinstance(walk(self.data, path[:depth]), dict):
                return path[:depth]
        return ()

    def _new(self, table: KeyPath, rest: KeyPath, value: Any) -> str:
        for section, it in every(self._sections):
            if not section.many and it.value.table and table[: len(it.path)] == it.path:
                return self._inline_new(it.value, table[len(it.path) :], rest, value)
        if any(it.many and it.path == table for it in self._sections):
            raise Conflict(f"{key_text(table)} is an array of tables; edit it by hand")
        if len(rest) > 1 or (isinstance(value, dict) and value):
            return self._new_tables((*table, *rest), value)
        return self._new_key(table, rest[0], value)

    def _new_key(self, table: KeyPath, key: str, value: Any) -> str:
        line = f"{word(key)} = {written(value)}"
        if not table:
            return self._new_root_key(line)
        section = next((it for it in self._sections if it.path == table and not it.many), None)
        if section and section.path:
            last = section.statements[-1] if section.statements else None
            at = end_of_line(self.text, last.value.end) if last else section.body
            indent = _indent(self.text, last.start if last else section.start)
            return with_lines(self.text, at, [indent + line])
        dotted = [(one, it) for one, it in every(self._sections) if not one.many and it.path[: len(table)] == table]
        dotted = [(one, it) for one, it in dotted if len(one.path) < len(table)]
        if dotted:
            one, it = dotted[-1]
            prefix = ".".join(map(word, table[len(one.path) :]))
            indent = _indent(self.text, it.start)
            return with_lines(self.text, end_of_line(self.text, it.value.end), [f"{indent}{prefix}.{line}"])
        below = next((it for it in self._sections if it.path[: len(table)] == table and it.path), None)
        if below is None or below.many:
            raise Conflict(f"the table {key_text(table)} cannot be added to; edit it by hand")
        return with_lines(self.text, start_of_line(self.text, below.start), [f"[{_header(table)}]", line, ""])

    def _new_root_key(self, line: str) -> str:
        """A key of the file itself: behind the last of them, else before the first table and what is said of it."""
        statements = self._sections[0].statements
        if statements:
            return with_lines(self.text, end_of_line(self.text, statements[-1].value.end), [line])
        if len(self._sections) == 1:
            return with_lines(self.text, len(self.text), [line])
        at = start_of_line(self.text, self._sections[1].start)
        while at and self.text[start_of_line(self.text, at - 1) : at].lstrip().startswith("#"):
            at = start_of_line(self.text, at - 1)
        if not at:  # what stands at the very beginning is said of the file
            at = start_of_line(self.text, self._sections[1].start)
        return with_lines(self.text, at, [line, ""])

    def _new_tables(self, path: KeyPath, value: Any) -> str:
        while not isinstance(value, dict):
            path, value = path[:-1], {path[-1]: value}
        if any(it.many and path[: len(it.path)] == it.path for it in self._sections):
            raise Conflict(f"{key_text(path)} would be in an array of tables; edit it by hand")
        lines = list(_tables(path, value))
        gap = [""] if self.text.strip() and not self.text.endswith("\n\n") else []
        return with_lines(self.text, len(self.text), [*gap, *lines])

    def _inline_new(self, around: Value, way: KeyPath, rest: KeyPath, value: Any) -> str:
        value_at = _inline(around, way, way).value if way else around
        if not value_at.table:
            raise Conflict(f"{key_text(way)} is not a table")
        for name in reversed(rest[1:]):
            value = {name: value}
        entry = f"{word(rest[0])} = {written(value)}"
        entry = entry if value_at.inner else f" {entry} "
        return with_entry(self.text, _braces(value_at), entry)

    def _inline_drop(self, around: Value, rest: KeyPath) -> str:
        owner = _inline(around, rest[:-1], rest).value if len(rest) > 1 else around
        number = next((at for at, it in enumerate(owner.inner) if it.path == rest[-1:]), None)
        if number is None:
            raise Conflict(f"{key_text(rest)} is in an inline table with dotted keys; edit it by hand")
        return without_entry(self.text, _braces(owner), number)


def _inline(around: Value, rest: KeyPath, path: KeyPath) -> Statement:
    """The statement of *rest* within the inline table *around*."""
    for it in around.inner:
        if it.path == rest:
            return it
        if it.value.table and rest[: len(it.path)] == it.path:
            return _inline(it.value, rest[len(it.path) :], path)
    raise Conflict(f"{key_text(path)} is not written in one place; edit it by hand")


def _braces(value: Value) -> Braces:
    return Braces(start=value.start, end=value.end, entries=tuple((it.start, it.value.end) for it in value.inner))


def _indent(text: str, at: int) -> str:
    return text[start_of_line(text, at) : at] if not text[start_of_line(text, at) : at].strip() else ""


def _header(path: KeyPath) -> str:
    return ".".join(map(word, path))


def _tables(path: KeyPath, value: dict[str, Any]) -> Iterator[str]:
    """The lines of a new table, and of those in it."""
    deeper = {key: it for key, it in value.items() if isinstance(it, dict) and it}
    if len(deeper) < len(value):
        yield f"[{_header(path)}]"
        yield from (f"{word(key)} = {written(it)}" for key, it in value.items() if key not in deeper)
    for number, (key, it) in enumerate(deeper.items()):
        if number or len(deeper) < len(value):
            yield ""
        yield from _tables((*path, key), it)


def word(key: str) -> str:
    """A key as TOML writes it."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else quoted(key)


def written(value: Any) -> str:
    """*value* as TOML writes it.  Raises Conflict for what it cannot say."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if not fits(value):
            raise Conflict(TOO_LARGE)
        case int():
            return str(value)
        case float():
            return "nan" if math.isnan(value) else repr(value)
        case str():
            return quoted(value)
        case list():
            return f"[{', '.join(map(written, value))}]"
        case dict():
            return f"{{ {', '.join(f'{word(key)} = {written(it)}' for key, it in value.items())} }}" if value else "{}"
    raise Conflict("TOML has no null: a key has a value, or is absent (unset)")
