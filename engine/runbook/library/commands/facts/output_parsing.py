"""Parse the output of a program into a value; output that does not parse is Unknown, never empty."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from runbook.codec import from_host
from runbook.text.host_json import loads
from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex, fault_in_regex
from runbook.values.types import Json, Unknown

FORMS = ("text", "lines", "json", "csv")


def problem_with(form: Json) -> str:
    """Return the mistake in *form* as a value of ``parse``; empty if there is none."""
    wanted = f"`parse` is one of {', '.join(FORMS)}, or {{regex: ...}}"
    if isinstance(form, str):
        return "" if form in FORMS else f"{wanted}; not {form}"
    if not isinstance(form, Mapping) or set(form) != {"regex"} or not isinstance(form["regex"], str):
        return wanted
    fault = fault_in_regex(form["regex"], re.MULTILINE)
    return f"`parse`: {fault}" if fault else ""


def parsed(text: str, form: Json) -> Json | Unknown:
    """Return *text*, parsed as *form* says.

    ``text``: without newlines at its end.  ``lines``: its lines that are not blank.  ``json``: its value.  ``csv``: a
    mapping for each row after the first, which has the column names.  ``{regex}``: the first match in the text (``^``
    and ``$`` match at lines).  Named groups become a mapping, one group its text, several groups a list; without
    groups, it is the whole match.  A mapping with our own key ``$unknown`` becomes Unknown (``from_host``).
    """
    match form:
        case "text":
            return text.rstrip("\r\n")
        case "lines":
            return [line.rstrip("\r") for line in text.split("\n") if line.strip()]
        case "json":
            return _json(text)
        case "csv":
            return _csv(text)
        case {"regex": str(pattern)}:
            return _match(text, pattern)
    return Unknown(why=problem_with(form) or "not a form that can be parsed")


def _json(text: str) -> Json | Unknown:
    try:
        value: Any = loads(text)
    except ValueError as error:
        return Unknown(why=f"the output is not JSON: {error}" if text.strip() else "the output is empty, not JSON")
    return from_host(value)


def _csv(text: str) -> Json | Unknown:
    try:
        rows = [item for item in csv.reader(io.StringIO(text), skipinitialspace=True) if any(map(str.strip, item))]
    except csv.Error as error:
        return Unknown(why=f"the output is not CSV: {error}")
    if not rows:
        return Unknown(why="the output is empty: it lacks even the row of column names")
    names = [word.strip() for word in rows[0]]
    if len(set(names)) != len(names):
        return Unknown(why="two columns have the same name")
    for number, values in enumerate(rows[1:], 2):
        if len(values) != len(names):
            return Unknown(why=f"row {number} has {len(values)} columns, the first row has {len(names)}")
    return from_host([dict(zip(names, map(str.strip, row), strict=True)) for row in rows[1:]])


def _match(text: str, pattern: str) -> Json | Unknown:
    try:
        found = SearchBudget().search(compile_regex(pattern, re.MULTILINE), text)
    except SearchTimeout as error:
        return Unknown(why=f"the output {error}")
    if found is None:
        return Unknown(why=f"the output does not match {pattern}")
    if named := found.groupdict():
        return dict(named)
    groups = found.groups()
    return (groups[0] if len(groups) == 1 else list(groups)) if groups else found.group()
