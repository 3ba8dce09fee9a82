"""Find values that need quotes in YAML, and explain where the quotes are missing."""

from __future__ import annotations

import re

from runbook.dataclass import dataclass

LONGEST = 100
"""The maximum number of characters of a value that a message shows with its quotes."""

NAMES_ONLY = re.compile(r"\{\{[\w.\s|()]*\}\}")
"""A template that contains only names."""

SENTENCES = frozenset({"about", "advise", "each", "name", "say", "text", "when", "while"})
"""Keys whose values are shown; other values may be secrets, which cannot be recognised in broken YAML."""

ENTRY = re.compile(r"""[ ]*(?:-[ ]+)*(?:(?P<key>[\w.-]+|"[^"]*"|'[^']*'):[ ]+)?(?P<value>\S.*)""")
"""A line with a value and maybe a key."""

INNER = re.compile(
    r"""(?:(?P<key>[\w.-]+):[ ]+|(?<=[\[{,])[ ]*)(?P<value>\{\{(?:[^}]|\}(?!\}))*\}\}(?:[^,\]}]|\}(?=\}\}))*)"""
)
"""A template within [ ] or { }."""

MEMBER = re.compile(r"""(?P<key>[\w.-]+):[ ]+(?P<value>[^\s'"\[{,\]}][^,\]}]*)""")
"""A key and its plain text within { }."""

BRACKETED = re.compile(
    r"""(?P<key>[\w.-]+):[ ]+(?P<value>[^\s'"\[{,\]}|>][^,\]}\[{]*(?P<bracket>[\[{]).*?)(?=,[ ]+[\w.-]+:[ ]|\}*\s*$)"""
)
"""A key and its plain text within { }, if the text has a bracket."""

BEGINNINGS = {"'": "a quote", '"': "a quote", "[": "[", "{": "{"}


@dataclass(frozen=True, slots=True)
class Quoting:
    """A mistake in the quoting of a value, with its line and column (both counted from 0)."""

    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class _Value:
    """A value in the form in which it is written on its line."""

    line: int
    column: int
    before: str
    """The key with its colon, or the dash before the value; empty within brackets."""
    text: str

    def needs_quotes(self, what: str) -> Quoting:
        """Return the mistake that this value, described by *what*, has no quotes."""
        is_shown = self.before.removesuffix(": ") in SENTENCES or NAMES_ONLY.fullmatch(self.text)
        shown = in_quotes(self.text) if is_shown and len(self.text) <= LONGEST else '"..."'
        return Quoting(self.line, self.column, f"{what} needs quotes: `{self.before}{shown}`")


def in_quotes(value: str) -> str:
    """Return *value* in quotes; the kind of quotes is chosen so that the value needs few escapes."""
    if '"' not in value and "\\" not in value:
        return f'"{value}"'
    return "'" + value.replace("'", "''") + "'"


def quoting_mistake(text: str, said: str, line: int, column: int, opened: tuple[int, int] | None) -> Quoting | None:
    """Return the value in *text* whose wrong quoting caused the error *said* of YAML's parser; None if there is none.

    *line* and *column* (both from 0) are the place of the error.  *opened* is the place where the list or mapping
    begins that the parser was reading.
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
    """Return the mistake of the template without quotes at *line* and *column* (both from 0) of *text*; None if there
    is none.
    """
    lines = text.split("\n")
    found = _template(lines[line], line, column) if line < len(lines) else None
    return found.needs_quotes("a value that begins with {{") if found else None


def anchored_text(text: str, line: int, column: int) -> Quoting | None:
    """Return the mistake of the text at *line* and *column* (both from 0) whose first word is read as an anchor; None
    if there is none.
    """
    value = _of_line(text.split("\n")[line], line)
    if value and value.column == column and value.text.startswith("&"):
        return value.needs_quotes("a text that begins with & (which means an anchor, and none is used here)")
    return None


def _of_line(here: str, line: int) -> _Value | None:
    """Return the value on the line *here*, without a comment after it; None if there is no value."""
    found = ENTRY.match(here)
    if not found:
        return None
    text = found["value"] if found["value"][0] in "'\"" else re.split(r"[ ]#", found["value"])[0]
    before = f"{found['key']}: " if found["key"] else "- " if here.lstrip().startswith("- ") else ""
    return _Value(line, found.start("value"), before, text.rstrip())


def _template(here: str, line: int, column: int) -> _Value | None:
    """Return the value that begins with ``{{`` at *column* or before it; None if there is none."""
    value = _of_line(here, line)
    if value and value.text.startswith("{{") and value.column <= column:
        return value
    within = [found for found in INNER.finditer(_masked(here)) if found.start("value") <= column]
    return _found(within[-1], here, line) if within else None


def _found(found: re.Match[str], here: str, line: int) -> _Value:
    """Return the value of the match *found*, which is within [ ] or { } of the line *here*."""
    key, value = (here[slice(*found.span(group))] if found[group] else "" for group in ("key", "value"))
    return _Value(line, found.start("value"), f"{key}: " if key else "", value.rstrip())


def _alias(value: _Value | None, column: int) -> Quoting | None:
    if value and value.column == column and value.text.startswith("*"):
        return value.needs_quotes("a text that begins with * (which means an alias)")
    return None


def _with_colon(value: _Value | None, column: int) -> Quoting | None:
    """Return the mistake of *value*, a text that contains the colon at *column*; None if there is no such mistake."""
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
    """Return the mistake of a text within { } that contains the colon at *column*; None if there is no such mistake."""
    for found in MEMBER.finditer(_masked(here)):
        if found.start("value") < column <= found.end("value") + 1 and re.search(r":(?:[ ]|$)", found["value"]):
            return _found(found, here, line).needs_quotes("a text with `: ` in it")
    return None


def _bracket_within(here: str, line: int, column: int) -> Quoting | None:
    """Return the mistake of the text within { } that contains the bracket at *column*; None if there is no such
    mistake.
    """
    for found in BRACKETED.finditer(_masked(here)):
        if found.start("bracket") == column:
            return _found(found, here, line).needs_quotes("a text with [ or { in it, within { },")
    return None


def _unclosed(lines: list[str], line: int, opened: tuple[int, int]) -> Quoting | None:
    """Return the mistake of the bracket at *opened* if it is not closed before the next key or the end of the
    playbook.
    """
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
    """Return *text* at the same length, with the content of all quoted texts replaced."""
    return re.sub(r"""(?<!\w)(?:'[^'\n]*'|"(?:[^"\\\n]|\\.)*")""", lambda found: "'" + "x" * (len(found[0]) - 1), text)
