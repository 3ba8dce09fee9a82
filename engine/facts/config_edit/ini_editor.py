"""INI: single values changed in the text, with comments, order and the case of keys kept; every value is text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from engine.facts.config_edit.config_text import ABSENT, Conflict, Unparsable, end_of_line, line_of, walk, with_lines
from engine.facts.config_edit.key_paths import KeyPath, key_text

_SECTION = re.compile(r"\[(.+)\][ \t]*(?:[;#].*)?$")
_OPTION = re.compile(r"([^\s=:;#\[][^=:]*?)([ \t]*[=:][ \t]*)(.*)$")
_COMMENT_BEHIND = re.compile(r"[ \t][;#]")
USUAL = " = "


@dataclass(slots=True, kw_only=True)
class _Option:
    key: str
    start: int
    """Where its line begins."""
    between: str
    """The sign between key and value, with its blanks; empty for a key alone."""
    value: int
    """Where the value begins."""
    end: int = 0
    """Behind the value, over all its lines."""


@dataclass(slots=True, kw_only=True)
class _Section:
    name: str
    body: int
    options: list[_Option] = field(default_factory=list)


class IniText:
    """Sections with keys; keys may also stand before the first section."""

    typed = False

    def __init__(self, text: str) -> None:
        self.text = text
        self._sections = [_Section(name="", body=0)]
        at = 0
        while at < len(text):
            at = self._line(at)
        self.data = self._collected()

    def value(self, path: KeyPath) -> Any:
        """The text of a value; of a section, all of them."""
        _know_depth(path)
        found = walk(self.data, path)
        if found is ABSENT:
            self._refuse_other_letters(path)
        elif isinstance(found, list):
            raise Conflict(f"{key_text(path)} occurs {len(found)} times; edit it by hand")
        return found

    def put(self, path: KeyPath, value: Any) -> str:
        """A value in the place of the old one, or a new line at the end of its section."""
        _know_depth(path)
        if isinstance(value, dict):
            return self._new_section(path, value)
        line = _one_line(value, path)
        section = self._section(path)
        if section is None:
            return self._new_section(path[:-1], {path[-1]: value})
        option = next((it for it in section.options if it.key == path[-1]), None)
        if option is None:
            return self._new_line(section, path[-1], line)
        if _COMMENT_BEHIND.search(self.text[option.value : option.end]):
            raise Conflict(
                f"{key_text(path)} has text after its value that may be a comment or part of it; edit it by hand"
            )
        if not option.between:
            return f"{self.text[: option.end]}{self._between(section)}{line}{self.text[option.end :]}"
        return self.text[: option.value] + line + self.text[option.end :]

    def drop(self, path: KeyPath) -> str:
        """The lines of a key taken out."""
        section = self._section(path)
        if section is None or isinstance(walk(self.data, path), dict):
            raise Conflict(f"{key_text(path)} is a section; unset its keys")
        option = next(it for it in section.options if it.key == path[-1])
        return self.text[: option.start] + self.text[end_of_line(self.text, option.end) :]

    def _line(self, at: int) -> int:
        """Take in the line at *at*; the place of the next."""
        behind = end_of_line(self.text, at)
        line = self.text[at:behind].rstrip("\n").rstrip()
        options = self._sections[-1].options
        if not line or line.lstrip()[0] in ";#":
            return behind
        if options and options[-1].between and self._goes_on(options[-1], line, at):
            options[-1].end = at + len(line)
            return behind
        head = _SECTION.match(line)
        if head:
            self._sections.append(_Section(name=head[1], body=behind))
            return behind
        text = line.lstrip()
        start = at + len(line) - len(text)
        found = _OPTION.match(text)
        if found:
            option = _Option(key=found[1], start=at, between=found[2], value=start + found.start(3), end=at + len(line))
        elif re.fullmatch(r"[\w.-]+", text):
            option = _Option(key=text, start=at, between="", value=at + len(line), end=at + len(line))
        else:
            raise Unparsable(
                f"line {line_of(self.text, at)} is neither a section, nor a key with a value, nor a comment"
            )
        options.append(option)
        return behind

    def _goes_on(self, option: _Option, line: str, at: int) -> bool:
        """Whether a line belongs to the value before it: it is indented deeper, or that ends with a backslash."""
        if self.text[: at - 1].endswith("\\") and end_of_line(self.text, option.end) == at:
            return True
        own = self.text[option.start :]
        return len(line) - len(line.lstrip()) > len(own) - len(own.lstrip(" \t"))

    def _collected(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for section in self._sections:
            keys = made if not section.name else made.setdefault(section.name, {})
            if not isinstance(keys, dict):
                raise Unparsable(f"{section.name!r} is both a section and a key before the first section")
            for it in section.options:
                value = self.text[it.value : it.end]
                before = keys.get(it.key, ABSENT)
                if before is ABSENT:
                    keys[it.key] = value
                else:
                    keys[it.key] = [*(before if isinstance(before, list) else [before]), value]
        return made

    def _section(self, path: KeyPath) -> _Section | None:
        name = path[0] if len(path) == 2 else ""
        found = [it for it in self._sections if it.name == name]
        if len(found) > 1:
            raise Conflict(f"the section [{name}] occurs {len(found)} times; edit it by hand")
        return found[0] if found else None

    def _refuse_other_letters(self, path: KeyPath) -> None:
        around = walk(self.data, path[:-1]) if len(path) > 1 else self.data
        names = around if isinstance(around, dict) else self.data
        for it in names:
            if it != path[-1] and it.lower() == path[-1].lower():
                raise Conflict(f"the file has {it}, not {path[-1]}; capital letters matter to some programs")

    def _between(self, section: _Section) -> str:
        options = [it for one in (section, *self._sections) for it in one.options if it.between]
        if section.options and section.options[-1].between:
            return section.options[-1].between
        return options[0].between if options else USUAL

    def _new_line(self, section: _Section, key: str, line: str) -> str:
        last = section.options[-1] if section.options else None
        at = end_of_line(self.text, last.end) if last else section.body
        indent = re.compile(r"[ \t]*").match(self.text, last.start) if last else None
        return with_lines(self.text, at, [f"{indent[0] if indent else ''}{_name(key)}{self._between(section)}{line}"])

    def _new_section(self, path: KeyPath, values: dict[str, Any]) -> str:
        if len(path) != 1 or walk(self.data, path) is not ABSENT:
            raise Conflict(f"{key_text(path)} cannot hold keys: INI has only sections with keys")
        between = self._between(self._sections[-1])
        lines = [f"{_name(key)}{between}{_one_line(it, (*path, key))}" for key, it in values.items()]
        gap = [""] if self.text.strip() and not self.text.endswith("\n\n") else []
        return with_lines(self.text, len(self.text), [*gap, f"[{path[0]}]", *lines])


def _know_depth(path: KeyPath) -> None:
    if len(path) > 2:
        raise Conflict(
            f"{key_text(path)}: INI has only sections with keys; "
            f'a section or a key with dots is written as "{".".join(path[:-1])}".{path[-1]}'
        )


def _name(key: str) -> str:
    if key != key.strip() or not _OPTION.match(f"{key}=x") or re.search(r"[=:\n]", key):
        raise Conflict(f"{key!r} cannot be a key of an INI file")
    return key


def _one_line(value: Any, path: KeyPath) -> str:
    if not isinstance(value, str) or "\n" in value or "\r" in value or value != value.strip() or value.endswith("\\"):
        raise Conflict(f"{key_text(path)}: the value cannot be written as one line of an INI file")
    return value
