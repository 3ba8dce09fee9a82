"""Named regular expressions searched in many lines, as those of a log, within one bounded time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from runbook.text.regexes import SearchBudget, SearchMatch, SearchTimeout, compile_regex, fault_in_regex

T = TypeVar("T")

STRIKES = 3
"""So many lines may be too slow for a signature; in the rest it is not searched, so that the others keep their time."""


def check_signatures(signatures: Mapping[str, Any], flags: int = 0, what: str = "signature") -> None:
    """Raises ValueError for one that is no regular expression."""
    for name, pattern in signatures.items():
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"{what} {name}: give a regular expression, as text")
        if fault := fault_in_regex(pattern, flags):
            raise ValueError(f"{what} {name}: {fault}")


class SignatureSearch:
    """Signatures by name, and what is not known of them."""

    def __init__(self, signatures: Mapping[str, Any], flags: int = 0) -> None:
        self.patterns = {name: compile_regex(str(signature), flags) for name, signature in signatures.items()}
        self._budget = SearchBudget()
        self._strikes = dict.fromkeys(self.patterns, 0)
        self._why: dict[str, str] = {}

    def search(self, name: str, text: str) -> SearchMatch | None:
        """The first match of the signature *name* in *text*; None also where it is not known: ask ``unknown``."""
        return self.decide(name, lambda search: search(text))

    def decide(self, name: str, condition: Callable[[Callable[[str], SearchMatch | None]], T]) -> T | None:
        """Return the result of *condition* on the search of the signature *name*; None where it is not known."""
        if self._strikes[name] >= STRIKES:
            return None
        try:
            return condition(lambda text: self._budget.search(self.patterns[name], text))
        except SearchTimeout as error:
            self._strikes[name] += 1
            self._why.setdefault(name, f"a line {error}")
            return None

    def unknown(self, found: Collection[str]) -> dict[str, str]:
        """The signatures that may be there though none of *found*, the names of all hits, is one: name to reason."""
        return {name: why for name, why in self._why.items() if name not in found}
