"""Turn the errors of YAML's parser into mistakes with a place and a remedy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import yaml

from runbook.errors import Problem
from runbook.language.mistakes.yaml_quoting import anchored_text, quoting_mistake, template_at

NO_KEY = "a key must be plain text"
BRACES = 'put a value that begins with {{ in quotes: "{{ ... }}"'

NOT_YAML = {
    "mapping values are not allowed": "put a value with `: ` in it in quotes, or see that the keys start in one column",
    "expected ',' or": "close the { or [, and put values with a comma, a quote or {{ in quotes",
    "could not find expected ':'": "see that the keys of one mapping start in one column, each with `: `",
    "did not find expected key": "see that the keys of one mapping start in one column, each with `: `",
    "did not find expected '-' indicator": "see that the items of one list start in one column, each with `- `",
    "while scanning a quoted scalar": "close the quote; within '...' a quote is written twice",
}
"""The remedy for each message of YAML's parser; the keys are the messages."""


def as_problem(error: yaml.YAMLError, file: str, text: str) -> Problem:
    """Return the mistake that caused *error*, which was raised while *text* was read."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark, words = error.problem_mark, " ".join(filter(None, (error.context, error.problem)))
        around = (error.context_mark.line, error.context_mark.column) if error.context_mark else None
        if found := quoting_mistake(text, words, mark.line, mark.column, around):
            return Problem(file=file, line=found.line + 1, column=found.column + 1, message=found.message)
        hint = ""
        if "cannot start any token" in words:
            words, hint = _odd_start(text.split("\n")[mark.line : mark.line + 1], mark.column)
        hint = hint or next((advice for said, advice in NOT_YAML.items() if said in words), "")
        return Problem(file=file, line=mark.line + 1, column=mark.column + 1, message=words, hint=hint)
    if isinstance(error, yaml.reader.ReaderError):
        code = error.character if isinstance(error.character, int) else ord(str(error.character)[0])
        line, column = place_of(text, text.find(chr(code)))
        words = f"a character that YAML does not allow (#x{code:04x}{', NUL' if not code else ''})"
        return Problem(file=file, line=line, column=column, message=words)
    return Problem(file=file, message=f"cannot be read as YAML: {error}")


def _odd_start(lines: list[str], column: int) -> tuple[str, str]:
    """Return the message and the hint for a character that cannot begin a value in YAML."""
    there = lines[0][column : column + 1] if lines else ""
    if there == "\t":
        return "a tab, which YAML does not allow for indentation", "use spaces"
    return f"a value cannot begin with {there!r} in YAML", "put the whole value in quotes"


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column of the character at index *at*; zeros if *at* is negative (not known)."""
    return (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)) if at >= 0 else (0, 0)


def reworded(problem: Problem, text: str) -> Problem:
    """Return *problem* with a better message if YAML has read a template without quotes as a mapping for a key."""
    found = template_at(text, problem.line - 1, problem.column - 1) if problem.message == NO_KEY else None
    return replace(problem, column=found.column + 1, message=found.message, hint="") if found else problem


ANCHORED = re.compile(r"(?m)^[ ]*(?:-[ ]+)*(?:about|name|say|text):[ ]+&(?P<name>\w+)[ ]+[^\s#]")
"""Matches a line whose sentence begins like an anchor; an unused anchor in another line does no harm."""


def unused_anchors(text: str, file: str) -> Iterator[Problem]:
    """Yield the texts in *text*, valid YAML, whose first word is lost because YAML reads it as an anchor."""
    names = {found["name"] for found in ANCHORED.finditer(text)}
    alone = {name for name in names if not re.search(rf"\*{re.escape(name)}\b", text)}
    events = yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)) if alone else ()
    for event in events:
        mark = event.start_mark
        if mark is None or not isinstance(event, yaml.ScalarEvent) or event.anchor not in alone or event.style:
            continue
        if found := anchored_text(text, mark.line, mark.column):
            yield Problem(file=file, line=found.line + 1, column=found.column + 1, message=found.message)
