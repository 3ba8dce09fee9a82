"""The likely meaning of a name that is not known."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from runbook.text.shortened import first_few

MOST_NAMED = 100
"""Names that are listed where none is near."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The one of *known* that is nearest to *name*, in upper or lower case; empty if none is near."""
    folded = {word.casefold(): word for word in known}
    near = get_close_matches(name.casefold(), folded, n=1)
    return folded[near[0]] if near else ""


def suggest(name: str, known: Iterable[str], otherwise: str | None = None) -> str:
    """``did you mean X?``; where none of *known* is near, *otherwise*, or by itself what there is."""
    words = list(known)
    if near := nearest(name, words):
        return f"did you mean {near}?"
    if otherwise is not None:
        return otherwise
    return f"there are: {first_few(words, MOST_NAMED)}" if words else "there are none"
