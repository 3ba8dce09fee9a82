"""Expand Slurm's lists of nodes: ``gpu[01-16,20],cpu1``."""

from __future__ import annotations

import re
from itertools import product
from math import prod

MOST_HOSTS = 20_000
"""Nodes that one list may name."""

_PART = re.compile(r"\[([^\[\]]*)\]")
_WORD = re.compile(r"(?:[^,\[]|\[[^\[\]]*\]?)+")
_SPAN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def expanded(text: str) -> list[str]:
    """The names that *text* stands for.  Raises ValueError where it is no list of nodes."""
    names: list[str] = []
    for word in _WORD.findall(text):
        names += _names(word)
        if len(names) > MOST_HOSTS:
            raise ValueError(f"stands for more than {MOST_HOSTS} nodes")
    return names


def _names(word: str) -> list[str]:
    parts = _PART.split(word)
    fixed, inside = parts[0::2], parts[1::2]
    if any(sign in "".join(fixed) for sign in "[]"):
        raise ValueError("has a bracket too many")
    spans = [[_span(span) for span in text.split(",")] for text in inside]
    if prod(sum(max(0, last - first + 1) for first, last, _ in each) for each in spans) > MOST_HOSTS:
        raise ValueError(f"stands for more than {MOST_HOSTS} nodes")
    numbers = [
        [str(number).zfill(width) for first, last, width in each for number in range(first, last + 1)] for each in spans
    ]
    return [fixed[0] + "".join(map("".join, zip(item, fixed[1:], strict=True))) for item in product(*numbers)]


def _span(text: str) -> tuple[int, int, int]:
    """The first number, the last and the width of ``01-16``."""
    found = _SPAN.fullmatch(text)
    if not found:
        raise ValueError("has something else than numbers and ranges between [ and ]")
    first, last = found[1], found[2] or found[1]
    if int(last) < int(first):
        raise ValueError("has a range that ends before it begins")
    return int(first), int(last), len(first) if first.startswith("0") else 0
