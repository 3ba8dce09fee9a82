"""Search named regular expressions in many lines, such as those of a log, with one time limit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from runbook.text.regexes import SearchBudget, SearchMatch, SearchTimeout, compile_regex, fault_in_regex

T = TypeVar("T")

STRIKES = 3
"""The number of slow lines after which a signature is not searched any more, so that the others keep their time."""


def check_signatures(signatures: Mapping[str, Any], flags: int = 0, what: str = "signature") -> None:
    """Raise ValueError if one of *signatures* is not a valid regular expression."""
    for name, pattern in signatures.items():
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"{what} {name}: give a regular expression, as text")
        if fault := fault_in_regex(pattern, flags):
            raise ValueError(f"{what} {name}: {fault}")


class SignatureSearch:
    """Signatures by name, and the signatures whose result is not known."""

    def __init__(self, signatures: Mapping[str, Any], flags: int = 0) -> None:
        self.patterns = {name: compile_regex(str(signature), flags) for name, signature in signatures.items()}
        self._budget = SearchBudget()
        self._strikes = dict.fromkeys(self.patterns, 0)
        self._why: dict[str, str] = {}

    def search(self, name: str, text: str) -> SearchMatch | None:
        """Return the first match of the signature *name* in *text*; None also if it is not known (see ``unknown``)."""
        return self.decide(name, lambda search: search(text))

    def decide(self, name: str, condition: Callable[[Callable[[str], SearchMatch | None]], T]) -> T | None:
        """Return the result of *condition*, called with the search function of the signature *name*; None if it is not
        known.
        """
        if self._strikes[name] >= STRIKES:
            return None
        try:
            return condition(lambda text: self._budget.search(self.patterns[name], text))
        except SearchTimeout as error:
            self._strikes[name] += 1
            self._why.setdefault(name, f"a line {error}")
            return None

    def unknown(self, found: Collection[str]) -> dict[str, str]:
        """Return the signatures that may be present although they are not in *found* (the hits), each with
        the reason.
        """
        return {name: why for name, why in self._why.items() if name not in found}
