"""Which symptoms an error text has, and which playbook is the most likely by them.

The text is searched from its end, piece by piece, in bounded time.  Of each symptom its last match counts: by its
letters, as a long match says more than a short one, and by its place, as what a log ends with says more than what it
has begun with.  The best match of a playbook counts whole, each further one for a quarter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout
from runbook.text.symptoms import fixed_part, regex_of_pattern, regex_of_text
from runbook.values.playbook import Playbook, Symptom, SymptomKind

PIECE = 64 * 1024
"""Characters of a piece, which ends with a line; a longer line is cut."""

SECONDS = 20.0
"""Processor time of all searches in one text."""

LONGEST_MATCH = 400
"""Characters of a match that are kept."""

MOST_LETTERS = 80
"""Letters that count of a match: a pattern that takes in half a line is not better for it."""

AT_THE_BEGINNING = 0.4
"""What a match in the first line of a long log counts, where one in its last line counts 1."""

FURTHER = 0.25
"""What a further match of the same playbook counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomMatch:
    """The last match of a symptom in a text."""

    symptom: Symptom
    text: str
    line: int
    """Its line, from 1; where it goes over several, the first line of the piece that it stands in."""
    lines: int
    """How many the whole text has."""

    @property
    def score(self) -> float:
        """How much it says."""
        letters = min(MOST_LETTERS, sum(letter.isalpha() for letter in self.text))
        return letters * (AT_THE_BEGINNING + (1 - AT_THE_BEGINNING) * self.line / self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlaybook:
    """A playbook of which the text has symptoms."""

    playbook: Playbook
    matches: tuple[SymptomMatch, ...]
    """The best one first."""

    @property
    def score(self) -> float:
        """How likely it is the one."""
        best, *others = (match.score for match in self.matches)
        return best + FURTHER * sum(others)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some lines of a text."""

    first: int
    """The number of its first line, from 1."""
    lines: tuple[str, ...]
    text: str = field(repr=False)
    lower: str = field(repr=False)


class SymptomSearch:
    """A text in which symptoms are searched; their time is bounded together."""

    def __init__(self, text: str, seconds: float = SECONDS) -> None:
        lines = text.splitlines()
        self._count = max(1, len(lines))
        self._pieces = tuple(_pieces(lines))[::-1]
        self._budget = SearchBudget(seconds)
        self.slow: dict[Symptom, str] = {}
        """The symptoms that were not searched to the end, and why."""

    def found_in(self, playbooks: Iterable[Playbook]) -> list[FoundPlaybook]:
        """Those of *playbooks* that the text has symptoms of, the most likely first."""
        every = [
            FoundPlaybook(playbook=playbook, matches=matches)
            for playbook in playbooks
            if (matches := self._matches(playbook.symptom))
        ]
        return sorted(every, key=lambda found: (-found.score, found.playbook.name))

    def _matches(self, symptoms: Sequence[Symptom]) -> tuple[SymptomMatch, ...]:
        every = [match for symptom in symptoms if (match := self._last_match(symptom))]
        return tuple(sorted(every, key=lambda match: -match.score))

    def _last_match(self, symptom: Symptom) -> SymptomMatch | None:
        """The last match of *symptom*; None also where its search has taken too long (``slow``)."""
        is_text = symptom.kind is SymptomKind.TEXT
        pattern = regex_of_text(symptom.written) if is_text else regex_of_pattern(symptom.written)
        needed = fixed_part(symptom.written) if is_text else ""
        try:
            return next(self._in_pieces(symptom, pattern, needed), None)
        except SearchTimeout as error:
            self.slow[symptom] = str(error)
            return None

    def _in_pieces(self, symptom: Symptom, pattern: SearchPattern, needed: str) -> Iterator[SymptomMatch]:
        """The last match of each piece that has one, the last piece first."""
        for piece in self._pieces:
            if needed not in piece.lower or not (found := self._budget.search(pattern, piece.text)):
                continue
            line, text = self._last_line(piece, pattern) or (piece.first, found.group())
            yield SymptomMatch(symptom=symptom, text=text[:LONGEST_MATCH], line=line, lines=self._count)

    def _last_line(self, piece: _Piece, pattern: SearchPattern) -> tuple[int, str] | None:
        """The last line of *piece* with a match, and the match; None where it needs several lines."""
        for number in range(len(piece.lines) - 1, -1, -1):
            if found := self._budget.search(pattern, piece.lines[number]):
                return piece.first + number, found.group()
        return None


def _pieces(lines: Sequence[str]) -> Iterator[_Piece]:
    """*lines* in pieces of about the same length."""
    kept: list[str] = []
    first, size = 1, 0
    for number, line in enumerate(lines, 1):
        if kept and size + len(line) > PIECE:
            yield _piece(first, kept)
            kept, first, size = [], number, 0
        for start in range(0, len(line), PIECE) if len(line) > PIECE else ():
            yield _piece(number, [line[start : start + PIECE]])
            first = number + 1
        if len(line) <= PIECE:
            kept.append(line)
            size += len(line) + 1
    if kept:
        yield _piece(first, kept)


def _piece(first: int, lines: Sequence[str]) -> _Piece:
    text = "\n".join(lines)
    return _Piece(first, tuple(lines), text, text.lower())
