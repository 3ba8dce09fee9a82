"""Lists of words that are shown in part, with how many more there are."""

from __future__ import annotations

from collections.abc import Iterable


def first_few(words: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """At most so many of *words*, and how many more there are: ``a, b, and 3 more``."""
    every = list(words)
    more = [f"and {len(every) - most} more"] if len(every) > most else []
    return separator.join([*every[:most], *more])
