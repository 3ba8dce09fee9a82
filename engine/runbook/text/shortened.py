"""Shorten lists of words, and say how many more words there are."""

from __future__ import annotations

from collections.abc import Iterable


def first_few(words: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """Return at most *most* of *words*, and the number of the others: ``a, b, and 3 more``."""
    every = list(words)
    more = [f"and {len(every) - most} more"] if len(every) > most else []
    return separator.join([*every[:most], *more])
