"""Format words and values as lines for a terminal."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from runbook.values.types import Raw

WIDTH = 110
"""The maximum width of texts in columns, and their width if that of the terminal is unknown."""
NARROWEST = 40


def width() -> int:
    """Return the number of columns: from ``COLUMNS``, or of the terminal."""
    return max(NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def wrapped(text: str, indent: str, wide: int, *, further: str = "  ") -> list[str]:
    """Return *text* as lines of at most *wide* columns, after *indent*.

    A long word stays whole, so that it can be copied.
    """
    after = " " * len(indent) + further
    return textwrap.wrap(
        " ".join(text.split()),
        wide,
        initial_indent=indent,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [indent]


def plain(value: Any) -> str:
    """Return *value* as text, roughly as a playbook would write it."""
    match value:
        case Raw(value=inner):
            return plain(inner)
        case _ if is_dataclass(value) and not isinstance(value, type):
            given = {
                field.name: getattr(value, field.name)
                for field in fields(value)
                if getattr(value, field.name) != field.default
            }
            return plain({name: value for name, value in given.items() if value not in ("", ())})
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ", ".join(map(_item, value)) or "none"
        case Mapping():
            return ", ".join(f"{name} = {_within(it)}" for name, it in value.items()) or "none"
        case float():
            return f"{value:g}"
        case None:
            return "none"
    return str(value)


def _within(value: Any) -> str:
    """Return *value* as text, for the value of one key among several."""
    return f"[{plain(value)}]" if isinstance(value, list | tuple) else _item(value)


def _item(value: Any) -> str:
    """Return *value* as text, for one item among several: in quotes or brackets if it could be read as several
    items.
    """
    shown = plain(value)
    if isinstance(value, list | tuple):
        return f"[{shown}]"
    if isinstance(value, Mapping):
        return f"({shown})"
    return (
        f"'{shown}'"
        if isinstance(value, str) and (", " in shown or not shown.strip() or shown != shown.strip())
        else shown
    )
