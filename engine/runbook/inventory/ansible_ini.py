"""Read Ansible's INI inventories into the tree that YAML inventories have.

The parser of the standard library does not support hosts without a value, ranges, or a host in several groups.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.inventory.ansible_ranges import MOST_HOSTS, expanded, port_of
from runbook.inventory.fields import Path
from runbook.inventory.text_formats import TextDocument, TextNotes
from runbook.text.suggestions import suggest

KINDS = ("hosts", "children", "vars")

_HEADER = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_EVIDENCE = re.compile(
    r"^[ \t]*(?:\[[^:\]\s]+:(?:children|vars)\]|[^\s#;=][^\n]{0,500}?[ \t]ansible_\w+=|ansible_\w+\s*=)", re.MULTILINE
)
"""Matches what only this kind of file has: a section of children or variables, or a variable of Ansible's
connections.
"""
_HOST_LINE = re.compile(r"[\w.\[\]:-]+(?:\s+\w+=(?:\S+))*(?:\s+#.*)?")
_WORD = re.compile(r"""(?:[^\s'"\\#]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?[0-9]{1,17}\.[0-9]{0,17}")
_CONSTANTS = {"True": True, "False": False, "None": None}
LONGEST_LITERAL = 2000
"""The maximum number of characters of a value that is read as a list or a mapping of Python."""


def parse_text(text: str, file: str) -> TextDocument | None:
    """Return *text* as a tree; None if it is not an inventory of this format.

    Raises ConfigError with every mistake in it.
    """
    if not _is_ini(text):
        return None
    reading = _Reading(notes=TextNotes(file=file))
    for number, line in enumerate(text.split("\n"), 1):
        if _counts(line):
            reading.line(number, line.rstrip())
    reading.finish()
    if reading.notes.problems:
        raise ConfigError(*reading.notes.problems)
    return TextDocument(file=file, value=reading.tree, places=reading.places)


def _counts(line: str) -> bool:
    return line.strip()[:1] not in ("", "#", ";")


def _is_ini(text: str) -> bool:
    """Whether the first line of *text* has the form of an INI inventory, and other lines show that it is Ansible's."""
    lines = [line.strip() for line in text.split("\n") if _counts(line)]
    if not lines:
        return False
    first = _HEADER.fullmatch(lines[0])
    if not first and not re.match(r"[^\s=\[:{]\S*\s+(?:\S+\s+)*?ansible_\w+=", lines[0]):
        return bool(any(map(_HEADER.fullmatch, lines)) and all(map(_is_plain, lines)))
    return bool(_EVIDENCE.search(text)) or all(map(_is_plain, lines))


def _is_plain(line: str) -> bool:
    return bool(_HEADER.fullmatch(line) or _HOST_LINE.fullmatch(line))


@dataclass(slots=True, kw_only=True)
class _Section:
    """The section to which the lines belong."""

    group: str = "ungrouped"
    kind: str = "hosts"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The content that has been read so far."""

    notes: TextNotes
    tree: dict[str, Any] = field(default_factory=dict)
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    section: _Section = field(default_factory=_Section)
    first: dict[str, str] = field(default_factory=dict)
    """The first group in which each host appears.  Its variables are kept there, so that the last value is used."""
    declared: set[str] = field(default_factory=lambda: {"all", "ungrouped"})

    def line(self, number: int, line: str) -> None:
        """Read one line that is not a comment."""
        start = len(line) - len(line.lstrip()) + 1
        if line.lstrip().startswith("[") and (line.split("#")[0].rstrip().endswith("]") or ":" not in line):
            return self._header(number, start, line.strip())
        match self.section.kind:
            case "children":
                return self._child(number, start, line.strip())
            case "vars":
                return self._variable(number, start, line.strip())
            case "hosts":
                return self._host(number, line)
        return None

    def finish(self) -> None:
        """Add a mistake for each section and each child that names an unknown group."""
        for group, body in self.tree.items():
            for child in body.get("children", ()):
                self._declared((group, "children", child), child, f"[{group}:children] names the group {child}")
            if "vars" in body:
                self._declared((group, "vars"), group, f"[{group}:vars] is of the group {group}")

    def _declared(self, path: Path, group: str, words: str) -> None:
        if group not in self.declared:
            hint = suggest(group, self.declared, f"write [{group}] with its hosts")
            self.notes.add(*self.places[path], f"{words}, which the file does not have", hint)

    def _header(self, number: int, column: int, line: str) -> None:
        found = _HEADER.fullmatch(line)
        if not found:
            self.section.kind = ""
            self.notes.add(number, column, "expected [group], [group:children] or [group:vars], without spaces")
            return
        self.section.group, self.section.kind = found[1], found[2] or "hosts"
        if self.section.kind not in KINDS:
            self.notes.add(
                number,
                column,
                f"the section [{found[1]}:{found[2]}] is of an unknown kind",
                suggest(found[2], KINDS, "[group:children] and [group:vars] are known"),
            )
            self.section.kind = ""
            return
        if self.section.kind != "vars":
            self.declared.add(found[1])
        self._part((found[1],), number, column)
        self._part((found[1], self.section.kind), number, column)

    def _part(self, path: Path, number: int, column: int) -> dict[str, Any]:
        """Return the mapping at *path*; create it if it is missing."""
        found = self.tree
        for key in path:
            found = found.setdefault(str(key), {})
        self.places.setdefault(path, (number, column))
        return found

    def _child(self, number: int, column: int, line: str) -> None:
        name = line.split("#")[0].strip()
        if not re.fullmatch(r"[^:\]\s=]+", name):
            self.notes.add(number, column, "expected the name of one group")
            return
        self._part((self.section.group, "children"), number, column)[name] = None
        self.places.setdefault((self.section.group, "children", name), (number, column))

    def _variable(self, number: int, column: int, line: str) -> None:
        name, sign, text = (part.strip() for part in line.partition("="))
        if not sign or not re.fullmatch(r"[\w.-]+", name):
            self.notes.add(number, column, "expected NAME=VALUE")
            return
        path = (self.section.group, "vars", name)
        self._part((self.section.group, "vars"), number, column)[name] = literal(text)
        self.places[path] = (number, column)

    def _host(self, number: int, line: str) -> None:
        words = list(self._tokens(number, line))
        if not words:
            return
        column, pattern = words[0]
        plain, port = port_of(pattern)
        try:
            names = expanded(plain)
        except ValueError as error:
            self.notes.add(number, column, f"the host pattern {error}")
            return
        variables: dict[str, tuple[int, Any]] = {"ansible_port": (column, literal(port))} if port else {}
        for place, word in words[1:]:
            name, sign, text = word.partition("=")
            if not sign or not re.fullmatch(r"[\w.-]+", name):
                hint = "put a value with spaces in quotes"
                self.notes.add(number, place, "expected NAME=VALUE behind the host", hint)
                return
            variables[name] = (place, literal(text))
        if len(self.first) + sum(each not in self.first for each in names) > MOST_HOSTS:
            self.notes.add(number, column, f"the file names more than {MOST_HOSTS} hosts up to here")
            self.section.kind = ""
            return
        for each in names:
            self._add(each, variables, number, column)

    def _add(self, host: str, variables: dict[str, tuple[int, Any]], number: int, column: int) -> None:
        """Add *host* to the group of the section; its variables are kept in the group in which it appeared first."""
        hosts = self._part((self.section.group, "hosts"), number, column)
        home = self.first.setdefault(host, self.section.group)
        hosts.setdefault(host, {} if home == self.section.group else None)
        self.places.setdefault((self.section.group, "hosts", host), (number, column))
        for name, (place, value) in variables.items():
            self.tree[home]["hosts"][host][name] = value
            self.places[home, "hosts", host, name] = (number, place)

    def _tokens(self, number: int, line: str) -> Iterator[tuple[int, str]]:
        """Yield the words of *line*, split as a shell does, each with its column; a ``#`` begins a comment."""
        at = 0
        while at < len(line):
            if line[at].isspace():
                at += 1
                continue
            found = _WORD.match(line, at)
            if not found:
                if line[at] != "#":
                    self.notes.add(number, at + 1, "a quote that is not closed")
                return
            yield found.start() + 1, _QUOTED.sub(_unquoted, found[0])
            at = found.end()


def _unquoted(found: re.Match[str]) -> str:
    if found[2] is not None:
        return re.sub(r'\\(["\\])', r"\1", found[2])
    return found[1] if found[1] is not None else found[3]


def literal(text: str) -> Any:
    """Return the value of *text* as Ansible reads it: a Python literal, or else the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text[:1] not in tuple("[({'\"") or text.startswith("{{") or len(text) > LONGEST_LITERAL:
        return text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return text
    return value if isinstance(value, str | list | dict | tuple) else text
