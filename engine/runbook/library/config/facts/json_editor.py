"""JSON: single values changed in the text, with its order, its indentation and its line breaks kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from runbook.library.config.facts.braces import Braces, on_own_line, with_entry, without_entry
from runbook.library.config.facts.config_text import DEEPEST, Unparsable, line_of, start_of_line, walk
from runbook.library.config.facts.key_paths import KeyPath

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,\]}]+')


@dataclass(slots=True, kw_only=True)
class _Node:
    start: int
    end: int = 0
    pairs: dict[str, tuple[int, _Node]] = field(default_factory=dict)
    """Key to where it begins, and its value."""


class JsonText:
    """One JSON document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.data = _loads(text) if text.strip() else {}
        self._root = _Reading(text).node() if text.strip() else None

    def value(self, path: KeyPath) -> Any:
        """Return the value at *path*."""
        return walk(self.data, path)

    def put(self, path: KeyPath, value: Any) -> str:
        """A value in the place of the old one, or a new member at the end of its object."""
        if self._root is None:
            return f"{self._written(_nested(path, value), 0)}\n"
        node, depth = self._way(path)
        rest = path[depth:]
        if not rest or not isinstance(walk(self.data, path[:depth]), dict):  # a null is an object to be
            return self._over(node, _nested(rest, value))
        return self._member(node, rest[0], _nested(rest[1:], value))

    def drop(self, path: KeyPath) -> str:
        """A member taken out."""
        node, _ = self._way(path[:-1])
        return without_entry(self.text, _braces(node), list(node.pairs).index(path[-1]))

    def _way(self, path: KeyPath) -> tuple[_Node, int]:
        """Return the deepest existing node on the way to *path*, and the number of words that lead to it."""
        assert self._root is not None
        node = self._root
        for depth, word in enumerate(path):
            if word not in node.pairs:
                return node, depth
            node = node.pairs[word][1]
        return node, len(path)

    def _over(self, node: _Node, value: Any) -> str:
        return self.text[: node.start] + self._written(value, self._indent(node.start)) + self.text[node.end :]

    def _member(self, node: _Node, key: str, value: Any) -> str:
        text = self.text
        if not node.pairs:
            return self._over(node, {key: value})
        first = next(iter(node.pairs.values()))[0]
        indent = self._indent(first) if on_own_line(text, first) else 0
        entry = f"{json.dumps(key, ensure_ascii=False)}{self._colon()}{self._written(value, indent)}"
        return with_entry(text, _braces(node), entry, separator=", " if self._colon().endswith(" ") else ",")

    def _written(self, value: Any, indent: int) -> str:
        """*value* as the file writes its own: over lines, each indented by *indent* more, or in one."""
        step = self._step()
        if not step:
            comma = ", " if self._colon().endswith(" ") else ","
            return json.dumps(value, ensure_ascii=False, separators=(comma, self._colon()))
        plain = json.dumps(value, ensure_ascii=False, indent=step, separators=(",", self._colon()))
        unit = step[0] if step else " "
        return plain.replace("\n", "\n" + unit * indent)

    def _indent(self, at: int) -> int:
        line = start_of_line(self.text, at)
        found = re.compile(r"[ \t]*").match(self.text, line)
        return len(found[0]) if found else 0

    def _step(self) -> str:
        """Return the indentation of a member; empty in a file of one line."""
        if self._root is None or (not self._root.pairs and len(self.text.split()) < 3):
            return "  "
        found = re.search(r"\n([ \t]+)\S", self.text)
        return found[1] if found else ""

    def _colon(self) -> str:
        for node in _all(self._root) if self._root else ():
            for begin, value in node.pairs.values():
                key = _STRING.match(self.text, begin)
                if key and "\n" not in self.text[key.end() : value.start]:
                    return self.text[key.end() : value.start]
        return ": "


def _nested(words: KeyPath, value: Any) -> Any:
    for word in reversed(words):
        value = {word: value}
    return value


def _braces(node: _Node) -> Braces:
    return Braces(
        start=node.start, end=node.end, entries=tuple((begin, value.end) for begin, value in node.pairs.values())
    )


def _all(node: _Node) -> Iterator[_Node]:
    yield node
    for _, it in node.pairs.values():
        yield from _all(it)


def _loads(text: str) -> Any:
    def refuse(name: str) -> NoReturn:
        raise Unparsable(f"{name} is not JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for number, (key, _) in enumerate(pairs):
            if any(key == it for it, _ in pairs[:number]):
                raise Unparsable(f"the key {key!r} occurs twice in one object")
        return dict(pairs)

    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        what = f"line {error.lineno}, column {error.colno}: {error.msg}"
        if re.match(r"\s*(//|/\*|#)", text[error.pos :]) or re.search(r"^\s*(//|/\*|#)", text, re.MULTILINE):
            what = f"line {error.lineno}: the file has comments, which JSON does not allow; edit it by hand"
        raise Unparsable(what) from error
    except Unparsable:
        raise
    except RecursionError as error:
        raise Unparsable(f"nested deeper than {DEEPEST} levels") from error
    except ValueError as error:  # a whole number of thousands of digits
        raise Unparsable(f"a number in it is too long: {error}") from error


class _Reading:
    """Finds the places in a text that is known to be JSON."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def node(self, depth: int = 0) -> _Node:
        if depth > DEEPEST:
            raise Unparsable(f"line {line_of(self._text, self._at)}: nested deeper than {DEEPEST} levels")
        self._skip()
        made = _Node(start=self._at)
        opened = self._text[self._at]
        if opened not in "{[":
            found = _SCALAR.match(self._text, self._at)
            assert found
            self._at = found.end()
        else:
            self._at += 1
            while self._skip() not in "}]":
                self._entry(made, depth) if opened == "{" else self.node(depth + 1)
                if self._skip() == ",":
                    self._at += 1
            self._at += 1
        made.end = self._at
        return made

    def _entry(self, made: _Node, depth: int) -> None:
        key = _STRING.match(self._text, self._at)
        assert key
        self._at = key.end()
        self._skip()
        self._at += 1
        made.pairs[json.loads(key[0])] = (key.start(), self.node(depth + 1))

    def _skip(self) -> str:
        found = _SPACE.match(self._text, self._at)
        assert found
        self._at = found.end()
        return self._text[self._at : self._at + 1]
