"""YAML text to nodes that know their places, and to values as programs read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from runbook.library.config.facts.config_text import DEEPEST, Ambiguous, Unparsable, line_of
from runbook.text.yaml_line_breaks import first_break, has_breaks, with_breaks, without_breaks

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast where it is there."""

MERGE = "<<"


@dataclass(slots=True, kw_only=True)
class YamlNode:
    """A scalar, a mapping, a sequence or an alias, with its place in the text."""

    kind: str
    start: int
    """Where it begins, with its anchor and its tag."""
    end: int
    """Behind its last character, where it has one."""
    anchor: str = ""
    tag: str = ""
    """The explicit tag; empty: there is none, or it is one that all parsers resolve alike."""
    style: str = ""
    """Of a scalar: a quote, or what introduces a block; empty for a plain one."""
    value: str = ""
    """The text of a scalar; the name that an alias has."""
    flow: bool = False
    pairs: list[tuple[YamlNode, YamlNode]] = field(default_factory=list)
    items: list[YamlNode] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Whether nothing is written for it."""
        return self.kind == "scalar" and not self.style and self.start == self.end

    @property
    def null(self) -> bool:
        """Whether it is a plain null."""
        return self.kind == "scalar" and not self.style and not self.tag and scalar(self.value) is None

    def pair(self, word: str) -> tuple[YamlNode, YamlNode] | None:
        """The key *word* and its value."""
        return next((item for item in self.pairs if item[0].kind == "scalar" and item[0].value == word), None)


def parse(text: str) -> YamlNode | None:
    """The one document in *text*; None where it is empty.  Raises Unparsable."""
    events = iter(_events(text))
    roots: list[YamlNode] = []
    reading = _Reading(text, events)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            roots.append(reading.node(next(events), 0))
    if len(roots) > 1:
        raise Unparsable("the file contains several YAML documents")
    return roots[0] if roots and not (roots[0].empty and not roots[0].tag and not roots[0].anchor) else None


def _events(text: str) -> list[Any]:
    """Return the events of *text* in YAML 1.2.  Raises Unparsable, also where YAML 1.1 has other events."""
    plain = without_breaks(text)
    try:
        found = list(yaml.parse(plain, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unparsable(_error_in_words(error)) from error
    if plain is text:
        if has_breaks(text):
            raise Unparsable(_read_otherwise(text))
        return found
    for event in found:
        if isinstance(event, yaml.ScalarEvent):
            event.value = with_breaks(event.value)
    try:
        others = list(yaml.parse(text, Loader=_LOADER))
    except (yaml.YAMLError, ValueError, RecursionError):
        others = []
    if list(map(_gist, found)) != list(map(_gist, others)):
        raise Unparsable(_read_otherwise(text))
    return found


def _gist(event: Any) -> tuple[object, ...]:
    """Return the content of *event*; in quotes and blocks, whatever the line breaks in it were taken for."""
    value = event.value if isinstance(event, yaml.ScalarEvent) else ""
    if isinstance(event, yaml.ScalarEvent) and event.style:
        value = "".join(value.split())
    return type(event).__name__, value, getattr(event, "anchor", None), getattr(event, "tag", None)


def _read_otherwise(text: str) -> str:
    at, name = first_break(text)
    return (
        f"line {line_of(text, at)}: {name} ends a line in YAML 1.1 and not in YAML 1.2, so that programs read "
        "different things there; remove it first"
    )


class _Reading:
    def __init__(self, text: str, events: Iterator[Any]) -> None:
        self._text, self._events = text, events
        self._anchors: set[str] = set()

    def node(self, event: Any, depth: int) -> YamlNode:
        if depth > DEEPEST:
            raise Unparsable(f"nested deeper than {DEEPEST} levels")
        start, end = event.start_mark.index, event.end_mark.index
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise Unparsable(f"line {line_of(self._text, start)}: there is no anchor {event.anchor!r}")
            return YamlNode(kind="alias", start=start, end=end, value=event.anchor)
        if event.anchor:
            self._anchors.add(event.anchor)
        tag = (event.tag or "!") if _tagged(event) else ""
        made = YamlNode(kind="scalar", start=start, end=end, anchor=event.anchor or "", tag=tag)
        if isinstance(event, yaml.ScalarEvent):
            made.value, made.style = event.value, event.style or ""
            if made.style in ("|", ">"):
                made.end = start + len(self._text[start:end].rstrip())
            return made
        made.flow = bool(event.flow_style)
        if isinstance(event, yaml.SequenceStartEvent):
            made.kind = "sequence"
            self._items(made, depth)
        else:
            made.kind = "mapping"
            self._pairs(made, depth)
        return made

    def _items(self, made: YamlNode, depth: int) -> None:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            made.items.append(self.node(event, depth + 1))
        made.end = _end(event) if made.flow else max([made.end, *(item.end for item in made.items)])

    def _pairs(self, made: YamlNode, depth: int) -> None:
        seen: dict[str, int] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self.node(event, depth + 1)
            value = self.node(next(self._events), depth + 1)
            made.pairs.append((key, value))
            if key.kind == "scalar":
                here = line_of(self._text, key.start)
                if key.value in seen and key.value != MERGE:
                    raise Unparsable(f"the key {key.value!r} occurs twice, on lines {seen[key.value]} and {here}")
                seen[key.value] = here
        made.end = _end(event) if made.flow else max(made.end, self._behind(made))

    def _behind(self, made: YamlNode) -> int:
        return pair_end(self._text, *made.pairs[-1]) if made.pairs else made.end


def _end(event: Any) -> int:
    return int(event.end_mark.index)


def pair_end(text: str, key: YamlNode, value: YamlNode) -> int:
    """The place behind a key with its value, where either may be written as nothing."""
    return value.end if not value.empty or value.tag or value.anchor else behind_colon(text, key)


def behind_colon(text: str, key: YamlNode) -> int:
    """The place behind the colon of *key*; behind the key where there is none."""
    colon = re.compile(r"\s*:").match(text, key.end)
    return colon.end() if colon else key.end


def _tagged(event: Any) -> bool:
    """Whether a tag is written."""
    return event.implicit == (False, False) if isinstance(event, yaml.ScalarEvent) else not event.implicit


def _error_in_words(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else str(what)


_RESOLVER: Any = yaml.resolver.Resolver()
_CONSTRUCTOR = yaml.constructor.SafeConstructor()
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None}
_WORDS |= dict.fromkeys(("true", "True", "TRUE"), True) | dict.fromkeys(("false", "False", "FALSE"), False)
_WORDS |= {f"{sign}.{each}": float(f"{sign}inf") for each in ("inf", "Inf", "INF") for sign in ("", "+", "-")}
_WORDS |= dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan"))


def scalar(text: str) -> Any:
    """The value of a plain scalar; Ambiguous where YAML 1.1 and 1.2 do not agree on it."""
    try:
        old, new = _old(text), _new(text)
    except (ValueError, OverflowError):
        return Ambiguous(text)
    if type(old) is type(new) and (old == new or old != old):
        return new
    return Ambiguous(text)


def _old(text: str) -> Any:
    """As YAML 1.1 has it."""
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    node = yaml.ScalarNode(tag, text)
    match tag.rpartition(":")[2]:
        case "str":
            return text
        case "null":
            return None
        case "bool":
            return _CONSTRUCTOR.construct_yaml_bool(node)
        case "int":
            return _CONSTRUCTOR.construct_yaml_int(node)
        case "float":
            return _CONSTRUCTOR.construct_yaml_float(node)
    return Ambiguous(text)


def _new(text: str) -> Any:
    """As YAML 1.2 has it."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    return float(text) if _FLOAT.fullmatch(text) else text
