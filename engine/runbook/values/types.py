"""Types of JSON, durations, sizes and patterns, and the unknown value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NewType, TypeAlias, Union

from runbook.dataclass import dataclass

Json: TypeAlias = Union[str, int, float, bool, None, Sequence["Json"], Mapping[str, "Json"]]  # noqa: UP007 - recursive
"""Any value that ``json.dumps`` and ``json.loads`` preserve."""

Duration = NewType("Duration", float)
"""Seconds.  In playbooks: a number, or text such as ``10s``, ``5m``, ``2h``, ``500ms``, ``1d``."""

Size = NewType("Size", int)
"""Bytes.  In playbooks: a number, or text such as ``16GiB``, ``100MB``."""

ProcessPattern = NewType("ProcessPattern", str)
"""A Python regular expression, searched in the arguments of a process, joined by spaces.

A pattern that matches everything is refused.
"""

Regex = NewType("Regex", str)
"""A Python regular expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """The value of a State field that could not be determined; using it makes an expression unknown."""

    why: str
    probe: str = field(default="", compare=False)
    """The id of the probe that gave no answer at all; empty if only one of its values is unknown."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A value under ``!raw``; it is not changed and never rendered."""

    value: Json


def plural(number: float, noun: str, many: str = "") -> str:
    """Return *number* with *noun* in the right form: ``1 process``, ``2 processes``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {many or noun + ('es' if noun.endswith(('s', 'x', 'ch', 'sh')) else 's')}"


def long_ago(value: float) -> str:
    """Return a rough text for a time of *value* seconds: ``40 days``, ``30 h``, ``12 min``."""
    for unit, length, least in (("days", 86400, 2 * 86400), ("h", 3600, 7200), ("min", 60, 120)):
        if value >= least:
            return f"{int(value // length)} {unit}"
    return f"{int(value)} s"


def seconds(value: float) -> str:
    """Return a duration of *value* seconds as text: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``, ``7 d``."""
    if value < 10:
        return f"{value:.1f} s".replace(".0 ", " ")
    whole = round(value)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min" + (f" {whole % 60} s" if whole % 60 else "")
    if whole >= 172800:
        return f"{whole // 86400} d" + (f" {hours} h" if (hours := whole % 86400 // 3600) else "")
    return f"{whole // 3600} h" + (f" {whole % 3600 // 60} min" if whole % 3600 // 60 else "")
