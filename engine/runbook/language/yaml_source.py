"""Parse YAML text to plain values, with the place of every key and item."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import yaml

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.mistakes.yaml_errors import BRACES, NO_KEY, as_problem, place_of, reworded, unused_anchors
from runbook.text.yaml_line_breaks import restore, without_breaks
from runbook.values.playbook import Where
from runbook.values.types import Raw

Path = tuple[str | int, ...]

LARGEST_PLAYBOOK = 2 * 1024 * 1024
LARGEST_INVENTORY = 8 * 1024 * 1024
DEEPEST = 50
MOST_NODES = 200_000
"""The maximum number of values in a file after its aliases are expanded; this stops files that expand without end."""

MOST_IN_INVENTORY = 300_000
"""The same maximum for an inventory: 10 000 hosts have 180 000 values."""

KEPT = 8
"""The number of files whose values are kept: one file is parsed for checks, for warnings, and for its secrets."""

SECTIONS = ("inputs", "diagnose", "findings", "remediate", "verify", "limits")
"""The sections of a playbook; every playbook has at least one of these keys, or ``about``."""

RAW = "!raw"
MERGE = "tag:yaml.org,2002:merge"
TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file."""

    value: Any
    file: str
    places: Mapping[Path, tuple[int, int]] = field(repr=False)

    def where(self, path: Path) -> Where:
        """Return the place of the key or item at *path*, or of the nearest key or item around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                line, column = self.places[path[:length]]
                return Where(file=self.file, line=line, column=column)
        return Where(file=self.file, line=1, column=1)

    def problem(self, path: Path, message: str, hint: str = "") -> Problem:
        """Return a mistake at *path*."""
        at = self.where(path)
        return Problem(file=at.file, line=at.line, column=at.column, message=message, hint=hint)


_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The loader of libyaml, if it is installed, because it is ten times as fast."""


class _QuickLoader(_Loader):  # type: ignore[misc] # one of two classes with the same methods
    """Determines the tag of each plain text only once, because the same field names appear thousands of times."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._tags: dict[str, str] = {}

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return str(super().resolve(kind, value, implicit))
        if value not in self._tags:
            self._tags[value] = super().resolve(kind, value, implicit)
        return self._tags[value]

    def descend_resolver(self, current_node: yaml.Node, current_index: object) -> None:
        """Do nothing: no tag depends on the place of a value."""

    def ascend_resolver(self) -> None:
        """Do nothing, as in ``descend_resolver``."""


class _PlaybookLoader(_QuickLoader):
    """Loads YAML with the booleans and numbers of YAML 1.2; dates stay text."""


class _InventoryLoader(_QuickLoader):
    """Loads YAML with the booleans of YAML 1.1, as other programs read inventories; dates stay text."""


def _without(loader: type[yaml.SafeLoader], *tags: str) -> None:
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in pairs if tag not in tags]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_without(_InventoryLoader, "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_InventoryLoader.add_implicit_resolver(  # without numbers to the base of 60 or of 8: 22:22 and 022 are no ports
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0|[-+]?[1-9][0-9_]*|[-+]?0x[0-9a-fA-F_]+|[-+]?0b[01_]+)$"),
    list("-+0123456789"),
)
_InventoryLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)
_without(_PlaybookLoader, *(f"tag:yaml.org,2002:{word}" for word in ("timestamp", "bool", "int", "float")))
_PlaybookLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)
_PlaybookLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?[0-9]{1,18}|0x[0-9a-fA-F]{1,15})$"), list("-+0123456789")
)
_PlaybookLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?$"),
    list("-+0123456789."),
)


def has_key(text: str, keys: Iterable[str]) -> bool:
    """Whether *text* has one of *keys* where YAML allows a key; the YAML may have mistakes."""
    words = "|".join(map(re.escape, keys))
    return bool(words and re.search(rf"""(?:^|[{{,])\s*["']?(?:{words})["']?\s*:""", text, re.MULTILINE))


def could_be_playbook(text: str, file: str) -> bool:
    """Whether *text* looks like the playbook of *file*; the YAML may have mistakes."""
    named = re.search(rf"""^name:[ ]*["']?{re.escape(PurePath(file).stem)}["']?[ ]*$""", text, re.MULTILINE)
    return bool(named) or has_key(text, ("about", *SECTIONS))


def parse_playbook(text: str, file: str, *, ours: bool = True) -> Document:
    """Parse *text*, a playbook or another file.  Raises ConfigError with every mistake in its YAML.

    *ours*: whether the file seems to belong to this program.  If not, messages repeat nothing of its content.
    """
    return _unquoted(lambda: _parse_playbook(text, file), ours)


@lru_cache(KEPT)
def _parse_playbook(text: str, file: str) -> Document:
    return _parse(text, file, _PlaybookLoader, Bounds(LARGEST_PLAYBOOK, MOST_NODES), raw=True)


def parse_inventory(text: str, file: str, *, ours: bool = True) -> Document:
    """Parse *text*, an inventory (which other programs read, too); otherwise like ``parse_playbook``."""
    bounds = Bounds(LARGEST_INVENTORY, MOST_IN_INVENTORY)
    return _unquoted(lambda: _parse(text, file, _InventoryLoader, bounds, raw=False), ours)


def _unquoted(parse: Callable[[], Document], ours: bool) -> Document:
    try:
        return parse()
    except ConfigError as error:
        if ours:
            raise
        quoting = re.compile(r"'.*'|\".*\"|: `.*`|the tag \S+", re.DOTALL)
        raise ConfigError(
            *(replace(problem, message=quoting.sub("...", problem.message)) for problem in error.problems)
        ) from None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The maximum size of a file."""

    characters: int
    nodes: int
    """The number of values in the document after its aliases are expanded."""


def _parse(text: str, file: str, loader: type[yaml.SafeLoader], bounds: Bounds, *, raw: bool) -> Document:
    if len(text) > bounds.characters:
        words = f"larger than {bounds.characters // 1024} KiB, the maximum for this kind of file"
        raise ConfigError(Problem(file=file, message=words))
    if text.count("\n") + text.count(",") > bounds.nodes:
        raise ConfigError(Problem(file=file, message=f"more than {bounds.nodes} lines and commas"))
    _refuse_depth(text, file)
    try:
        plain = without_breaks(text)  # a reader of YAML 1.1 would count other lines than people and editors do
        made = loader(plain)
        try:
            root = made.get_single_node()
        finally:
            made.dispose()
        if root is not None and plain is not text:
            restore(root)
    except yaml.YAMLError as error:
        raise ConfigError(as_problem(error, file, text)) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(Problem(file=file, message=f"cannot be read as YAML: {error}")) from error
    reading = _Reading(file, loader, bounds.nodes, raw=raw, lines=text.split("\n") if raw and "!" in text else [])
    value = reading.value(root, (), 0) if root is not None else None
    problems = {reworded(problem, text) for problem in reading.problems}
    if problems := problems.union(unused_anchors(plain, file) if raw and "&" in text else ()):
        raise ConfigError(*sorted(problems))
    return Document(value, file, reading.places)


def _refuse_depth(text: str, file: str) -> None:
    """Raise ConfigError if *text* is nested so deeply that the parser itself would fail (its recursion has a limit)."""
    depth = 0
    found = None
    for found in re.finditer(r"[\[\]{}]", text):
        depth += 1 if found[0] in "[{" else -1
        if depth > 4 * DEEPEST:
            break
    else:
        dashes = (
            match for match in re.finditer(r"^[ ]*((?:[-?:] )+)", text, re.MULTILINE) if len(match[1]) > 4 * DEEPEST
        )
        found = next(dashes, None)
    if found:
        line, column = place_of(text, found.start())
        words = f"nested deeper than {DEEPEST} levels"
        raise ConfigError(Problem(file=file, line=line, column=column, message=words))


class _Reading:
    """Turns YAML nodes into plain values, and records places and mistakes."""

    def __init__(self, file: str, loader: type[yaml.SafeLoader], most: int, *, raw: bool, lines: list[str]) -> None:
        self._lines, self._most = lines, most
        self.places: dict[Path, tuple[int, int]] = {}
        self.problems: list[Problem] = []
        self._file, self._raw, self._count, self._stopped = file, raw, 0, False
        self._scalars = loader("")
        self._open: list[int] = []

    def value(self, node: Any, path: Path, depth: int) -> Any:
        """Return the plain value of *node*."""
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        self._count += 1
        if self._count > self._most or depth > DEEPEST or id(node) in self._open:
            return self._too_much(node, depth)
        if self._stopped:
            return None
        if node.tag == RAW and self._raw:
            node.tag = self._scalars.resolve(type(node), getattr(node, "value", None), (True, False))  # type: ignore[no-untyped-call]
            return Raw(self.value(node, path, depth))
        self._open.append(id(node))
        try:
            match node:
                case yaml.MappingNode():
                    return self._mapping(node, path, depth)
                case yaml.SequenceNode():
                    return self._sequence(node, path, depth)
                case _:
                    return self._scalar(node)
        finally:
            self._open.pop()

    def _mapping(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        if node.tag != "tag:yaml.org,2002:map":
            return self._wrong(node, f"the tag {node.tag} is not supported here") or {}
        made: dict[str, Any] = {}
        merged: list[Any] = []
        for key_node, value_node in node.value:
            if key_node.tag == MERGE:
                merged.append(value_node)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._wrong(key_node, NO_KEY, BRACES)
                continue
            key = key_node.value
            if key in made:
                self._wrong(
                    key_node, f"the key {key!r} is given twice; the first is on line {self.places[(*path, key)][0]}"
                )
                continue
            mark, child = key_node.start_mark, (*path, key)
            self.places[child] = (mark.line + 1, mark.column + 1)
            made[key] = value_node.value if self._is_text(value_node) else self.value(value_node, child, depth + 1)
        for merged_node in merged:
            made = {**self._merged(merged_node, path, depth), **made}
        return made

    def _is_text(self, node: Any) -> bool:
        """Whether *node* is plain text (most values of a long file are); such a node is counted here."""
        if node.tag != TEXT or self._lines or self._count >= self._most or not isinstance(node, yaml.ScalarNode):
            return False
        self._count += 1
        return True

    def _merged(self, node: Any, path: Path, depth: int) -> dict[str, Any]:
        """Return the content of ``<<``: a mapping, or a list of mappings; for each key, the first mapping with this
        key is used.
        """
        found = self.value(node, path, depth + 1)
        parts = found if isinstance(found, list) else [found]
        if self._stopped:
            return {}
        if not all(isinstance(part, Mapping) for part in parts):
            self._wrong(node, "`<<` takes a mapping, or a list of mappings")
            return {}
        return {key: value for part in reversed(parts) for key, value in part.items()}

    def _sequence(self, node: Any, path: Path, depth: int) -> list[Any]:
        if node.tag != "tag:yaml.org,2002:seq":
            self._wrong(node, f"the tag {node.tag} is not supported here")
        return [self.value(it, (*path, number), depth + 1) for number, it in enumerate(node.value)]

    def _is_lone_mark(self, mark: Any) -> bool:
        """Whether there is a ``!`` at *mark* with nothing after it."""
        there = "".join(self._lines[mark.line : mark.line + 1])[mark.column : mark.column + 2]
        return there[:1] == "!" and there[1:] in ("", " ", "\t", "\r", ",", "]", "}")

    def _scalar(self, node: Any) -> Any:
        mark = node.start_mark
        if self._lines and self._is_lone_mark(mark):
            words = "`!` alone is YAML syntax and would be lost: put it, or the whole text that it begins, in quotes"
            return self._wrong(node, words)
        kind = node.tag.removeprefix("tag:yaml.org,2002:")
        try:
            match kind:
                case "null":
                    return None
                case "bool":
                    return self._scalars.construct_yaml_bool(node)
                case "int":
                    return self._scalars.construct_yaml_int(node) if len(node.value) < 300 else node.value
                case "float":
                    number = self._scalars.construct_yaml_float(node)
                    return number if abs(number) < float("inf") else node.value
                case "str" | "timestamp" | "value":
                    return node.value
        except ValueError:
            return node.value
        hint = "put the whole value in quotes" if node.tag.startswith("!") else ""
        return self._wrong(node, f"the tag {node.tag} is not supported here", hint)

    def _wrong(self, node: Any, message: str, hint: str = "") -> Any:
        line, column = node.start_mark.line + 1, node.start_mark.column + 1
        self.problems.append(Problem(file=self._file, line=line, column=column, message=message, hint=hint))
        return None

    def _too_much(self, node: Any, depth: int) -> Any:
        if not self._stopped:
            self._stopped = True
            deep = depth > DEEPEST or id(node) in self._open
            words = (
                f"nested deeper than {DEEPEST} levels" if deep else f"more than {self._most} values (aliases counted)"
            )
            self._wrong(node, words)
        return None
