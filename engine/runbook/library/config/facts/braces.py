"""Put an entry between braces, or take one out: JSON's objects, YAML's flow mappings and TOML's inline tables."""

from __future__ import annotations

import re

from runbook.dataclass import dataclass
from runbook.library.config.facts.config_text import Conflict, end_of_line, start_of_line

_COMMA = re.compile(r"\s*,")
_REST_OF_LINE = re.compile(r"[ \t]*,?[ \t]*(?:#.*)?\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Braces:
    """A mapping between braces."""

    start: int
    """The place of the opening brace."""
    end: int
    """The place behind the closing one."""
    entries: tuple[tuple[int, int], ...]
    """The places where each entry begins, and behind it."""


def on_own_line(text: str, at: int) -> bool:
    """Whether nothing stands before *at* on its line."""
    return not text[start_of_line(text, at) : at].strip()


def with_entry(text: str, braces: Braces, entry: str, *, separator: str = ", ") -> str:
    """*text* with *entry* behind the last one, laid out as that is."""
    if not braces.entries:
        return f"{text[: braces.start + 1]}{entry}{text[braces.start + 1 :]}"
    begin, end = braces.entries[-1]
    comma = _COMMA.match(text, end, braces.end)
    if not on_own_line(text, begin):
        if comma:
            return f"{text[: comma.end()]} {entry}{text[comma.end() :]}"
        return f"{text[:end]}{_separator(text, braces, separator)}{entry}{text[end:]}"
    indent = text[start_of_line(text, begin) : begin]
    line = end_of_line(text, end)
    if line > braces.end - 1:  # the closing brace stands behind the last entry
        return f"{text[:end]},\n{indent}{entry}{text[end:]}"
    if comma:
        return f"{text[:line]}{indent}{entry},\n{text[line:]}"
    return f"{text[:end]},{text[end:line]}{indent}{entry}\n{text[line:]}"


def _separator(text: str, braces: Braces, usual: str) -> str:
    if len(braces.entries) < 2:
        return usual
    between = text[braces.entries[-2][1] : braces.entries[-1][0]]
    return between if re.fullmatch(r",[ \t]*", between) else usual


def without_entry(text: str, braces: Braces, number: int) -> str:
    """*text* without the entry with that number."""
    begin, end = braces.entries[number]
    last = number == len(braces.entries) - 1
    comma = _COMMA.match(text, end, braces.end)
    if on_own_line(text, begin) and _REST_OF_LINE.match(text, end):
        kept = text[: start_of_line(text, begin)]
        if last and number and not comma:
            before = _COMMA.match(text, braces.entries[number - 1][1], begin)
            if before is None:
                raise Conflict("the entry cannot be removed because of where the commas in this file are")
            kept = kept[: before.end() - 1] + kept[before.end() :]
        return kept + text[end_of_line(text, end) :]
    if not last:
        return text[:begin] + text[braces.entries[number + 1][0] :]
    if number:
        return text[: braces.entries[number - 1][1]] + text[end:]
    return text[:begin] + text[comma.end() if comma else end :]
