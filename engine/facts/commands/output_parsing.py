"""Make a value of what a program printed; what does not parse is Unknown, never empty."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from typing import Any

from engine.text.host_json import loads
from engine.text.regexes import fault_in_regex, too_long_for
from engine.values.types import Json, Unknown

FORMS = ("text", "lines", "json", "csv")


def problem_with(form: Json) -> str:
    """What is wrong with *form* as a value of ``parse``; empty: nothing."""
    wanted = f"`parse` is one of {', '.join(FORMS)}, or {{regex: ...}}"
    if isinstance(form, str):
        return "" if form in FORMS else f"{wanted}; not {form}"
    if not isinstance(form, Mapping) or set(form) != {"regex"} or not isinstance(form["regex"], str):
        return wanted
    fault = fault_in_regex(form["regex"], re.MULTILINE)
    return f"`parse`: {fault}" if fault else ""


def parsed(text: str, form: Json) -> Json | Unknown:
    """*text* as *form* says.

    ``text``: without the newlines at its end.  ``lines``: those that are not blank.  ``json``: what it is.
    ``csv``: one mapping for each row after the first, which names the columns.  ``{regex}``: the first match in
    the text (``^`` and ``$`` are at lines): its named groups as a mapping, else its one group or the list of them,
    else all of it.
    """
    match form:
        case "text":
            return text.rstrip("\r\n")
        case "lines":
            return [it.rstrip("\r") for it in text.split("\n") if it.strip()]
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
        return Unknown(why=f"what it printed is not JSON: {error}" if text.strip() else "it printed nothing, not JSON")
    return value  # type: ignore[no-any-return] # json.loads gives nothing else


def _csv(text: str) -> Json | Unknown:
    try:
        rows = [it for it in csv.reader(io.StringIO(text), skipinitialspace=True) if any(map(str.strip, it))]
    except csv.Error as error:
        return Unknown(why=f"what it printed is not CSV: {error}")
    if not rows:
        return Unknown(why="it printed nothing, not even a row of column names")
    names = [it.strip() for it in rows[0]]
    if len(set(names)) != len(names):
        return Unknown(why="two columns have the same name")
    for number, values in enumerate(rows[1:], 2):
        if len(values) != len(names):
            return Unknown(why=f"row {number} has {len(values)} columns, the first row has {len(names)}")
    return [dict(zip(names, map(str.strip, it), strict=True)) for it in rows[1:]]


def _match(text: str, pattern: str) -> Json | Unknown:
    compiled = re.compile(pattern, re.MULTILINE)
    if why := too_long_for(compiled, text):
        return Unknown(why=f"what it printed cannot be searched: {why}")
    found = compiled.search(text)
    if found is None:
        return Unknown(why=f"what it printed does not match {pattern}")
    if named := found.groupdict():
        return dict(named)
    groups = found.groups()
    return (groups[0] if len(groups) == 1 else list(groups)) if groups else found.group()
