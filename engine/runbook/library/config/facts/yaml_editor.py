"""YAML: single values changed in the text, with comments, anchors, quotes and everything else kept.

ruamel.yaml (0.19) is not used: it writes back other bytes of a text in which nothing was changed: of 5 of the 20
YAML files of this repository and 3 of the 18 texts of the editor's tests, even with the best of seven indentations
for each. It rewrites line ends (``\\r\\n``; none at the end of the file), spaces around values and before
comments, indentation that is not the same everywhere, ``---`` and ``...``, ``null`` and ``~`` (as nothing), escapes
in quotes, text and brackets over several lines, ``{a: 1}`` in brackets, and numbers: ``-1.1125369292536007e-308``
becomes another one. It drops anchors that nothing refers to.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from runbook.library.config.facts.braces import Braces, on_own_line, with_entry, without_entry
from runbook.library.config.facts.config_text import (
    ABSENT,
    Conflict,
    Unparsable,
    end_of_line,
    kind,
    quoted,
    start_of_line,
    with_lines,
)
from runbook.library.config.facts.key_paths import KeyPath, key_text
from runbook.library.config.facts.yaml_parser import MERGE, YamlNode, behind_colon, pair_end, parse, scalar

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
_BOOLEANS_OF_OLD = ("y", "n", "Y", "N")


def flow(value: Any, *, style: str = "") -> str:
    """*value* in one line; text in quotes of *style* where that is possible."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _text(value, style)
        case list():
            return f"[{', '.join(map(flow, value))}]"
        case dict():
            return f"{{{', '.join(f'{_text(key)}: {flow(it)}' for key, it in value.items())}}}"
    raise TypeError(type(value).__name__)


def block(key: str, value: Any, indent: int, step: int, style: str = "") -> Iterator[str]:
    """The lines of a pair in a mapping that is indented by *indent* spaces; the key in quotes of *style*."""
    if not isinstance(value, dict) or not value:
        yield f"{' ' * indent}{_text(key, style)}: {flow(value)}"
        return
    yield f"{' ' * indent}{_text(key, style)}:"
    for name, it in value.items():
        yield from block(name, it, indent + step, step, style)


def entry(key: str, value: Any, style: str = "") -> str:
    """A pair between braces."""
    return f"{_text(key, style)}: {flow(value)}"


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return "-.inf" if value < 0 else ".inf"
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"  # else readers of 1.1 take it for text
    return f"{mantissa}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"


def _text(value: str, style: str = "") -> str:
    if style == "'" and value.isprintable() and "'" not in value and "\ufeff" not in value:
        return f"'{value}'"
    plain = _PLAIN.fullmatch(value) and value not in _BOOLEANS_OF_OLD and type(scalar(value)) is str
    return value if plain and style != '"' else quoted(value)


MAX_NODES = 20_000
"""Nodes that one value may have, its aliases followed."""


class _Alias(str):
    """Stands for an alias where texts are compared."""

    __slots__ = ()


class YamlText:
    """One YAML document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._root = parse(text)
        self._anchored: dict[str, YamlNode] = {}
        self._aliased: set[str] = set()
        for node in _all(self._root) if self._root else ():
            if node.anchor in self._anchored:
                raise Unparsable(f"the anchor &{node.anchor} is defined twice")
            if node.anchor:
                self._anchored[node.anchor] = node
            if node.kind == "alias":
                self._aliased.add(node.value)
        self.data = _data(self._root) if self._root else {}
        self._step = _step(text, self._root)

    def value(self, path: KeyPath) -> Any:
        """Return the value that a reader gets at *path*, with aliases and merge keys followed."""
        node = self._root
        for depth, word in enumerate(path):
            if node is None or self._real(node).null:
                return ABSENT
            if self._real(node).kind != "mapping":
                where = key_text(path[:depth]) or "the file"
                raise Conflict(f"{where} is {self._kind(node)}, so there is no {key_text(path)}")
            node = self._lookup(self._real(node), word)
            if node is None:
                return ABSENT
        return self._plain(node, iter(range(MAX_NODES))) if node else {}

    def put(self, path: KeyPath, value: Any) -> str:
        """A value in the place of the old one, or a new pair at the end of its mapping."""
        node, pair, flowing = self._root, None, False
        for depth, word in enumerate(path):
            if node is None or node.null:
                return self._fill(node, pair, path[depth:], value, flowing)
            self._bar(node, path[:depth])
            flowing = flowing or node.flow
            pair = node.pair(word)
            if pair is None:
                self._bar_merged(node, path, depth)
                return self._insert(node, path[depth:], value)
            node = pair[1]
        assert node is not None
        assert pair is not None
        if isinstance(value, dict) and value and node.null:
            return self._fill(node, pair, (), value, flowing)
        return self._replace(pair, path, value)

    def drop(self, path: KeyPath) -> str:
        """The lines of a pair taken out, or an entry between braces."""
        node, owner = self._root, None
        for depth, word in enumerate(path[:-1]):
            assert node is not None
            self._bar(node, path[:depth])
            self._bar_merged(node, path, depth, dropping=True)
            owner = node.pair(word)
            assert owner is not None
            node = owner[1]
        assert node is not None
        self._bar(node, path[:-1])
        self._bar_merged(node, path, len(path) - 1, dropping=True)
        key = node.pair(path[-1])
        assert key is not None
        self._bar_anchor(key[1], path)
        return self._without(node, node.pairs.index(key), owner)

    def _without(self, node: YamlNode, number: int, owner: tuple[YamlNode, YamlNode] | None) -> str:
        text, (key, value) = self.text, node.pairs[number]
        if node.flow:
            return without_entry(text, _braces(text, node), number)
        begin, end = start_of_line(text, key.start), end_of_line(text, self._behind(key, value))
        if text[begin : key.start].strip():
            raise Conflict(f"{key.value} is not on a line of its own")
        if len(node.pairs) == 1 and owner:  # what is left is an empty mapping, not a null
            colon = behind_colon(text, owner[0])
            return f"{text[:colon]} {{}}{text[colon:begin]}{text[end:]}"
        return text[:begin] + text[end:]

    def _insert(self, node: YamlNode, rest: KeyPath, value: Any) -> str:
        text, key = self.text, rest[0]
        value = _nested(rest[1:], value)
        last = node.pairs[-1][0] if node.pairs else None
        style = '"' if last and last.style == '"' else ""
        if node.flow:
            return with_entry(text, _braces(text, node), entry(key, value, style))
        assert last is not None
        indent = node.pairs[0][0].start - start_of_line(text, node.pairs[0][0].start)
        at = end_of_line(text, self._behind(*node.pairs[-1]))
        return with_lines(text, at, list(block(key, value, indent, self._step, style)))

    def _fill(
        self, node: YamlNode | None, pair: tuple[YamlNode, YamlNode] | None, rest: KeyPath, value: Any, flowing: bool
    ) -> str:
        """Make a mapping where nothing, or a null, stands."""
        text, value = self.text, _nested(rest, value)
        if pair is None:
            if node is not None:
                return text[: node.start] + flow(value) + text[node.end :]
            lines = [line for key, it in value.items() for line in block(key, it, 0, self._step)]
            return with_lines(text, len(text), lines)
        assert node is not None
        if node.anchor or node.tag:
            raise Conflict(f"{pair[0].value} has an anchor and no value; edit it by hand")
        if not node.empty or flowing or not on_own_line(text, pair[0].start):
            return self._replace(pair, (pair[0].value,), value)
        indent = pair[0].start - start_of_line(text, pair[0].start) + self._step
        lines = [line for key, it in value.items() for line in block(key, it, indent, self._step)]
        return with_lines(text, end_of_line(text, pair[0].end), lines)

    def _replace(self, pair: tuple[YamlNode, YamlNode], path: KeyPath, value: Any) -> str:
        text, (key, node) = self.text, pair
        if node.tag:
            raise Conflict(f"{key_text(path)} has the tag {node.tag}; edit it by hand")
        self._bar_anchor(node, path)
        new = flow(value, style=node.style if node.style in ("'", '"') else "")
        if node.empty:
            at = behind_colon(text, key)
            return f"{text[:at]} {new}{text[at:]}"
        begin = node.start + _properties(text, node)
        if node.kind == "scalar" or node.kind == "alias" or node.flow:
            return text[:begin] + new + text[node.end :]
        colon, line = behind_colon(text, key), start_of_line(text, node.start)
        if line < colon:
            raise Conflict(f"{key_text(path)} begins on the line of its key; edit it by hand")
        return f"{text[:colon]} {new}{text[colon:line]}{text[end_of_line(text, node.end) :]}"

    def _behind(self, key: YamlNode, value: YamlNode) -> int:
        """The place behind a pair; blank lines at the end of a block that keeps them are part of it."""
        last = value
        while last.kind in ("mapping", "sequence") and not last.flow and (last.pairs or last.items):
            last = last.pairs[-1][1] if last.pairs else last.items[-1]
        if last.style in ("|", ">") and "+" in self.text[last.start : end_of_line(self.text, last.start)]:
            rest = re.compile(r"\s*\n").match(self.text, last.end)
            return rest.end() - 1 if rest else last.end
        return pair_end(self.text, key, value)

    def _bar(self, node: YamlNode, path: KeyPath) -> None:
        where = key_text(path) or "the file"
        if node.kind == "alias":
            raise Conflict(
                f"{where} is the alias *{node.value}: a change in it would change every use of it; edit it by hand"
            )
        if node.kind != "mapping":
            raise Conflict(f"{where} is {self._kind(node)}, not a mapping")
        self._bar_anchor(node, path)

    def _bar_anchor(self, node: YamlNode, path: KeyPath) -> None:
        if node.anchor in self._aliased:
            raise Conflict(
                f"{key_text(path) or 'the file'} has the anchor &{node.anchor}, which is used elsewhere: "
                "a change here would change those uses, too; edit it by hand"
            )

    def _bar_merged(self, node: YamlNode, path: KeyPath, depth: int, *, dropping: bool = False) -> None:
        """Refuse to go into, or to take away, what only a merge key brings; an own key may stand before it."""
        merged = node.pair(path[depth]) is None and self._lookup(node, path[depth]) is not None
        if merged and (dropping or depth < len(path) - 1):
            raise Conflict(f"{key_text(path[: depth + 1])} comes through a merge key (<<); edit it by hand")

    def _lookup(self, node: YamlNode, word: str, depth: int = 0) -> YamlNode | None:
        """Return the value of *word*: of the mapping itself, or else of the first merged mapping that has it."""
        own = node.pair(word)
        if own:
            return own[1]
        if depth > 20:
            raise Conflict("its merge keys refer to each other without end")
        for key, value in node.pairs:
            if key.value != MERGE or key.style or key.kind != "scalar":
                continue
            real = self._real(value)
            for item in real.items if real.kind == "sequence" else [real]:
                found = self._lookup(self._real(item), word, depth + 1)
                if found is not None:
                    return found
        return None

    def _real(self, node: YamlNode) -> YamlNode:
        return self._anchored[node.value] if node.kind == "alias" else node

    def _kind(self, node: YamlNode) -> str:
        real = self._real(node)
        return kind(_scalar(real)) if real.kind == "scalar" else f"a {real.kind}"

    def _plain(self, node: YamlNode, left: Iterator[int], depth: int = 0) -> Any:
        if next(left, None) is None or depth > 100:
            raise Conflict("the value is too large to be compared")
        real = self._real(node)
        if real.kind == "scalar":
            return _scalar(real)
        if real.kind == "sequence":
            return [self._plain(item, left, depth + 1) for item in real.items]
        words = [text for text in self._key_texts(real) if text != MERGE]
        found = {text: self._lookup(real, text) for text in words}
        return {word: self._plain(it, left, depth + 1) for word, it in found.items() if it is not None}

    def _key_texts(self, node: YamlNode, depth: int = 0) -> list[str]:
        """The keys of a mapping, with those that are merged into it."""
        words = [key.value for key, _ in node.pairs if key.kind == "scalar"]
        for key, value in node.pairs if depth < 20 else ():
            if key.kind == "scalar" and key.value == MERGE and not key.style:
                real = self._real(value)
                for item in real.items if real.kind == "sequence" else [real]:
                    words += self._key_texts(self._real(item), depth + 1)
        return list(dict.fromkeys(words))


def _all(node: YamlNode) -> Iterator[YamlNode]:
    yield node
    for yaml_node in (*(one for pair in node.pairs for one in pair), *node.items):
        yield from _all(yaml_node)


def _scalar(node: YamlNode) -> Any:
    if node.tag:
        return f"{node.tag} {node.value}"
    return node.value if node.style else scalar(node.value)


def _data(node: YamlNode) -> Any:
    match node.kind:
        case "scalar":
            made: Any = _scalar(node)
        case "alias":
            made = _Alias(node.value)
        case "sequence":
            made = [_data(item) for item in node.items]
        case _:
            made = {key.value if key.kind == "scalar" else str(_data(key)): _data(it) for key, it in node.pairs}
    return made if not node.tag or node.kind == "scalar" else (node.tag, made)


def _nested(words: KeyPath, value: Any) -> Any:
    for word in reversed(words):
        value = {word: value}
    return value


def _braces(text: str, node: YamlNode) -> Braces:
    start = node.start + _properties(text, node)
    entries = tuple((key.start, pair_end(text, key, value)) for key, value in node.pairs)
    return Braces(start=start, end=node.end, entries=entries)


def _properties(text: str, node: YamlNode) -> int:
    """The length of the anchor and the tag before a node."""
    found = re.compile(r"(?:[&!]\S*\s+)*").match(text, node.start) if node.anchor or node.tag else None
    return found.end() - node.start if found else 0


def _step(text: str, root: YamlNode | None) -> int:
    """By how many spaces a mapping in the file is indented within another."""
    for node in _all(root) if root else ():
        if node.kind == "mapping" and not node.flow:
            for key, value in node.pairs:
                if value.kind == "mapping" and not value.flow and value.pairs:
                    return max(1, _column(text, value.pairs[0][0].start) - _column(text, key.start))
    return 2


def _column(text: str, at: int) -> int:
    return at - start_of_line(text, at)
