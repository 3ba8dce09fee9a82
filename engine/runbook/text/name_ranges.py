"""Fold host names into ranges, and expand them: ``gpu-[01-38]``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from math import prod

MAX_FOLDED_NAMES = 500
"""The maximum number of names that are folded if each has several numbers; more names would take seconds."""


def fold(names: Iterable[str]) -> str:
    """Return *names* as a pattern that matches each name once; names that cannot be folded are listed."""
    once = list(dict.fromkeys(names))
    if len(once) < 2 or any(not re.fullmatch(r"[A-Za-z0-9_.:+-]+", word) for word in once):
        return ",".join(once)
    if len(once) > MAX_FOLDED_NAMES and any(len(re.findall(r"\d+", word)) > 2 for word in once):
        return ",".join(once)
    folded = _folded(once)
    return folded or ",".join(once)


def _folded(names: list[str]) -> str:
    """Return *names* folded by ClusterShell; empty if that fails."""
    try:
        from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
        from ClusterShell.RangeSet import AUTOSTEP_DISABLED

        nodes = NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP, autostep=AUTOSTEP_DISABLED)
        nodes.fold_axis = None  # the system's settings of ClusterShell have no say here
        return str(nodes)
    except Exception:  # a broken settings file of ClusterShell must not cost us a report
        return ""


MOST_NAMES = 100_000
"""The maximum number of names in one text with ranges."""

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]?)+")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9})(?:/([0-9]{1,9}))?)?")


def expanded_list(text: str, most: int = MOST_NAMES, noun: str = "names") -> list[str]:
    """Return the names in a text such as ``gpu[01-16,20],cpu1``, by Slurm's rules.  Raises ValueError with the
    mistake.
    """
    names: list[str] = []
    for word in _WORD.findall(text):
        names += expanded(word, most, noun, any_width=True)
        if len(names) > most:
            raise ValueError(f"stands for more than {most} {noun}")
    return names


def expanded(text: str, most: int = MOST_NAMES, noun: str = "names", *, any_width: bool = False) -> list[str]:
    """Return the names that a text such as ``rack[1-2]-gpu[01-08,10]`` means, in order; the last range varies first.

    As in ClusterShell, ``[01-16]`` keeps its zeros, and ``[0-9/3]`` takes each third number.  With *any_width* the two
    ends of a range may differ in their zeros, as in Slurm.  Raises ValueError with the mistake of *text*.
    """
    parts = _BRACKETS.split(text)
    fixed, inside = parts[0::2], parts[1::2]
    if left := next((sign for part in fixed for sign in part if sign in "[]"), ""):
        raise ValueError("has a bracket too many" if any_width else f"has a {left!r} without its other bracket")
    spans = [[_span(span, any_width=any_width) for span in each.split(",")] for each in inside]
    if prod(sum(len(numbers) for numbers, _ in each) for each in spans) > most:
        raise ValueError(f"stands for more than {most} {noun}")
    written = [[str(number).zfill(width) for numbers, width in each for number in numbers] for each in spans]
    return [fixed[0] + "".join(map("".join, zip(chosen, fixed[1:], strict=True))) for chosen in product(*written)]


def _span(text: str, *, any_width: bool) -> tuple[range, int]:
    """Return the numbers of a range such as ``01-16``, and their width."""
    found = _SPAN.fullmatch(text.strip())
    if not found:
        raise ValueError("has something else than numbers and ranges between [ and ]")
    first, last = found[1], found[2] or found[1]
    if int(last) < int(first):
        raise ValueError("has a range that ends before it begins")
    if found[3] and not int(found[3]):
        raise ValueError("has a range with steps of 0")
    padded = first.startswith("0") and len(first) > 1
    if not any_width and len(first) != len(last) and (padded or last.startswith("0")):
        raise ValueError(f"has a range whose ends have different numbers of digits ({text.strip()})")
    return range(int(first), int(last) + 1, int(found[3] or 1)), len(first) if padded else 0
