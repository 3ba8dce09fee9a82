"""Values that need quotes in YAML: what its parser says of them, in words that say where and how."""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 100
"""Characters of a value that is shown with its quotes."""

NAMES_ONLY = re.compile(r"\{\{[\w.\s|()]*\}\}")
"""A template that has nothing but names in it."""

SENTENCES = frozenset({"about", "advise", "each", "name", "say", "text", "when", "while"})
"""Keys whose values are shown; other values may be secrets, which cannot be recognised in broken YAML."""

ENTRY = re.compile(r"""[ ]*(?:-[ ]+)*(?:(?P<key>[\w.-]+|"[^"]*"|'[^']*'):[ ]+)?(?P<value>\S.*)""")
"""A line with a value, which may have a key."""

INNER = re.compile(
    r"""(?:(?P<key>[\w.-]+):[ ]+|(?<=[\[{,])[ ]*)(?P<value>\{\{(?:[^}]|\}(?!\}))*\}\}(?:[^,\]}]|\}(?=\}\}))*)"""
)
"""A template within [ ] or { }."""

MEMBER = re.compile(r"""(?P<key>[\w.-]+):[ ]+(?P<value>[^\s'"\[{,\]}][^,\]}]*)""")
"""A key with plain text within { }."""

BRACKETED = re.compile(
    r"""(?P<key>[\w.-]+):[ ]+(?P<value>[^\s'"\[{,\]}|>][^,\]}\[{]*(?P<bracket>[\[{]).*?)(?=,[ ]+[\w.-]+:[ ]|\}*\s*$)"""
)
"""A key with plain text within { } that has a bracket."""

BEGINNINGS = {"'": "a quote", '"': "a quote", "[": "[", "{": "{"}


@dataclass(frozen=True, slots=True)
class Quoting:
    """A mistake in a value, and its place (both from 0)."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class _Value:
    """A value as it is written on its line."""

    line: int
    column: int
    before: str
    """Its key with a colon, or the dash before it; empty within brackets."""
    text: str

    def needs_quotes(self, what: str) -> Quoting:
        """Return the mistake of *what*, which this value is, without quotes."""
        is_shown = self.before.removesuffix(": ") in SENTENCES or NAMES_ONLY.fullmatch(self.text)
        shown = in_quotes(self.text) if is_shown and len(self.text) <= LONGEST else '"..."'
        return Quoting(self.line, self.column, f"{what} needs quotes: `{self.before}{shown}`")


def in_quotes(value: str) -> str:
    """*value* in the quotes that change least of it."""
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


def quoting_mistake(text: str, said: str, line: int, column: int, opened: tuple[int, int] | None) -> Quoting | None:
    """The value of *text* without which YAML's parser would not have *said* that of the place (both from 0).

    *opened* is where the list or mapping began that it was reading.
    """
    lines = text.split("\n")
    if line >= len(lines) and not opened:
        return None
    here = lines[line] if line < len(lines) else ""
    if found := _template(here, line, column):
        return found.needs_quotes("a value that begins with {{")
    value = _of_line(here, line)
    if "undefined alias" in said:
        return _alias(value, column)
    if "mapping values are not allowed" in said:
        return _with_colon(value, column)
    if opened and "expected ',' or" in said:
        return (
            _unclosed(lines, line, opened) or _colon_within(here, line, column) or _bracket_within(here, line, column)
        )
    if value and value.column < column and value.text[0] in BEGINNINGS and "did not find expected" in said:
        beginning = BEGINNINGS[value.text[0]]
        return value.needs_quotes(f"a text that begins with {beginning} and goes on behind its end")
    return None


def template_at(text: str, line: int, column: int) -> Quoting | None:
    """The template without quotes that stands around a place (both from 0) of *text*."""
    lines = text.split("\n")
    found = _template(lines[line], line, column) if line < len(lines) else None
    return found.needs_quotes("a value that begins with {{") if found else None


def anchored_text(text: str, line: int, column: int) -> Quoting | None:
    """Return the text, at a place of *text* (both numbers from 0), whose first word is read as an anchor."""
    value = _of_line(text.split("\n")[line], line)
    if value and value.column == column and value.text.startswith("&"):
        return value.needs_quotes("a text that begins with & (which means an anchor, and none is used here)")
    return None


def _of_line(here: str, line: int) -> _Value | None:
    """The value of a line, without the comment behind it."""
    found = ENTRY.match(here)
    if not found:
        return None
    text = found["value"] if found["value"][0] in "'\"" else re.split(r"[ ]#", found["value"])[0]
    before = f"{found['key']}: " if found["key"] else "- " if here.lstrip().startswith("- ") else ""
    return _Value(line, found.start("value"), before, text.rstrip())


def _template(here: str, line: int, column: int) -> _Value | None:
    """The value that begins with ``{{`` at *column*, or before it."""
    value = _of_line(here, line)
    if value and value.text.startswith("{{") and value.column <= column:
        return value
    within = [found for found in INNER.finditer(_masked(here)) if found.start("value") <= column]
    return _found(within[-1], here, line) if within else None


def _found(found: re.Match[str], here: str, line: int) -> _Value:
    """Return the value that was *found* within [ ] or { } of a line."""
    key, value = (here[slice(*found.span(group))] if found[group] else "" for group in ("key", "value"))
    return _Value(line, found.start("value"), f"{key}: " if key else "", value.rstrip())


def _alias(value: _Value | None, column: int) -> Quoting | None:
    if value and value.column == column and value.text.startswith("*"):
        return value.needs_quotes("a text that begins with * (which means an alias)")
    return None


def _with_colon(value: _Value | None, column: int) -> Quoting | None:
    """The text in which the colon at *column* stands."""
    if (
        value
        and value.before
        and value.text[0] not in "[{"
        and value.column < column
        and re.search(r":(?:[ ]|$)", value.text)
    ):
        return value.needs_quotes("a text with `: ` in it")
    return None


def _colon_within(here: str, line: int, column: int) -> Quoting | None:
    """The same within { }."""
    for found in MEMBER.finditer(_masked(here)):
        if found.start("value") < column <= found.end("value") + 1 and re.search(r":(?:[ ]|$)", found["value"]):
            return _found(found, here, line).needs_quotes("a text with `: ` in it")
    return None


def _bracket_within(here: str, line: int, column: int) -> Quoting | None:
    """The text within { } in which the bracket at *column* stands."""
    for found in BRACKETED.finditer(_masked(here)):
        if found.start("bracket") == column:
            return _found(found, here, line).needs_quotes("a text with [ or { in it, within { },")
    return None


def _unclosed(lines: list[str], line: int, opened: tuple[int, int]) -> Quoting | None:
    """The bracket at *opened*, if the next key of the playbook, or its end, comes before its own end."""
    first, column = opened
    if line <= first:
        return None
    depth = _depth("\n".join([lines[first][column:], *lines[first + 1 : line]]))
    next_key = (
        line >= len(lines) or not lines[line].strip() or re.match(r"[ ]*(?:-[ ]+)*[\w.-]+:(?:[ ]|$)", lines[line])
    )
    bracket = lines[first][column : column + 1]
    if depth > 0 and next_key and bracket in ("[", "{"):
        key = re.search(r"[\w.-]+: $", lines[first][:column])
        shown = f": `{key[0]}{bracket}`" if key else ""
        return Quoting(first, column, f"the {bracket} that begins here is never closed{shown}")
    return None


def _depth(text: str) -> int:
    """Return the number of open brackets at the end of *text*."""
    plain = _masked(text)
    return sum(plain.count(each) for each in "[{") - sum(plain.count(each) for each in "]}")


def _masked(text: str) -> str:
    """*text*, as long as it is, without anything that could be taken for YAML in its texts in quotes."""
    return re.sub(r"""(?<!\w)(?:'[^'\n]*'|"(?:[^"\\\n]|\\.)*")""", lambda found: "'" + "x" * (len(found[0]) - 1), text)
