"""Find the likely meaning of an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from runbook.text.shortened import first_few

MOST_NAMED = 100
"""The maximum number of known names that are listed if none is similar."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the name in *known* that is most similar to *name*, ignoring case; empty if none is similar."""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(name.casefold(), folded, n=1)
    return folded[near[0]] if near else ""


def suggest(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """Return ``did you mean X?``; if no name in *known* is similar, return *otherwise*, or a list of the
    known names.
    """
    words = list(known)
    if near := nearest(name, words):
        return f"did you mean {near}?"
    if otherwise is not None:
        return otherwise
    return f"there are: {first_few(words, MOST_NAMED)}" if words else "there are none"
