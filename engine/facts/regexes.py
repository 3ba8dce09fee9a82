"""Regular expressions of a user, searched in text of a host: none may keep the program busy without end.

Python's ``re`` goes back and tries again, holds everything else up meanwhile, and cannot be interrupted. So a pattern
is looked at before it is used, and no more text is searched at once than it can take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice
from math import inf, log2

from engine.facts.automaton import Automaton, Refused, automaton, doubly_read

LONGEST = 2000
"""Characters that a pattern may have."""

BUDGET = 3e7
"""Steps that one search may take at worst; about a second."""

REACHES = tuple(1 << it for it in range(16, 7, -1))
"""Characters that are searched at once: as many of these as the budget allows."""

ENOUGH = 4096
"""So much is searched even if somebody could make up a text of the pattern's own words that takes longer."""

PIECES = 8
"""Of a text that is too long for one search, so many pieces at its beginning, and as many at its end, are searched."""

ROUNDS = 8
PAIRS = 60
SUGGESTION = r"say what stands between the repeated parts, as in (\w+,)+ or \d+ of \d+"


def fault_in_regex(pattern: str, flags: int = 0) -> str:
    """Why *pattern* may not be searched for; empty when it may."""
    if len(pattern) > LONGEST:
        return f"a regular expression may have {LONGEST} characters, this one has {len(pattern)}"
    try:
        re.compile(pattern, flags)
        _reach(pattern, flags)
    except Refused as error:
        hint = f"; {SUGGESTION}" if "repeat" in str(error) else ""
        return f"a search for it could take for ever: {error}{hint}"
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return ""


def reach(pattern: re.Pattern[str]) -> int:
    """How many characters may be searched at once."""
    try:
        return _reach(pattern.pattern, pattern.flags)[0]
    except Refused:
        return REACHES[-1]


def found_anywhere(pattern: re.Pattern[str], text: str) -> bool:
    """Whether *pattern* is in *text*; a long one is searched piece by piece, each overlapping the next by half.

    What ends where a piece ends is not believed (``$``, and whatever looks ahead); a pattern that forbids what may
    stand anywhere after it (``(?!``) is never in a text that is too long for one search.
    """
    most = reach(pattern)
    if len(text) <= most:
        return bool(pattern.search(text))
    if "(?!" in pattern.pattern or "(?<!" in pattern.pattern:
        return False
    starts = range(0, len(text) - most // 2, most // 2)
    searched = starts if len(starts) <= 2 * PIECES else (*starts[:PIECES], *starts[-PIECES:])
    return any(_in_piece(pattern, text, at, at + most) for at in searched)


def _in_piece(pattern: re.Pattern[str], text: str, start: int, end: int) -> bool:
    found = pattern.search(text, start, end)
    return found is not None and (found.end() < end or end >= len(text))


def too_long_for(pattern: re.Pattern[str], text: str) -> str:
    """Why *text* is too much for one search; empty when it is not."""
    most = reach(pattern)
    if len(text) <= most:
        return ""
    if not _reach(pattern.pattern, pattern.flags)[1] and max(map(len, text.split("\n"))) <= most:
        return ""
    return f"it is too long to be searched for {pattern.pattern} ({len(text)} characters; {most} at once)"


@cache
def _reach(pattern: str, flags: int) -> tuple[int, bool]:
    """How many characters may be searched at once, and whether a repeat can run over the end of a line.

    Raises Refused, and re.error.
    """
    made = automaton(pattern, flags & ~re.UNICODE)
    if doubly_read(made):
        raise Refused("a repeat stands within a repeat, and both can read the same text")
    newline = made.bit("\n")
    over = any(made.reads[it] & newline for it in made.looping)
    costs = [_Cost(made, word) for word in _hard_words(made)]
    own = [_Cost(made, word) for word in _own_words(made)]
    for most in REACHES:
        if all(it.of(most) <= BUDGET for it in (*costs, *(own if most > ENOUGH else ()))):
            return most, over
    raise Refused("its repeats can share the same text in too many ways")


def _hard_words(made: Automaton) -> Iterator[list[int]]:
    """Texts that are hard for it, as bits of characters: its kinds of characters, alone and in turns."""
    kinds: dict[tuple[int, ...], int] = {}
    for at in range(len(made.alphabet)):
        bit = 1 << at
        kinds.setdefault(tuple(number for number, reads in enumerate(made.reads) if reads & bit), bit)
    hard = [bit for positions, bit in kinds.items() if made.looping & set(positions) or len(positions) > 1]
    yield from ([bit] for bit in hard)
    yield from (list(it) for it in islice(combinations(hard, 2), PAIRS))


def _own_words(made: Automaton) -> Iterator[list[int]]:
    """What stands in it between the repeats."""
    own = [reads for number, reads in enumerate(made.reads) if number not in made.looping]
    if own and len(made.looping) > 1:
        yield [it & -it for it in own[:200] if it]


class _Cost:
    """How many steps a search takes on a text made of one word again and again."""

    def __init__(self, made: Automaton, word: list[int]) -> None:
        times = max(ROUNDS, 48 // len(word))
        self._length = 2 * times * len(word)
        self._half, self._whole = _steps(made, word * times * 2)

    def of(self, length: int) -> float:
        """Estimated for a text of *length* characters, by how the steps grow."""
        if self._whole == inf:
            return inf
        degree = max(1.0, log2(self._whole / max(self._half, 1.0)))
        return float(self._whole * (length / self._length) ** degree)


def _steps(made: Automaton, text: list[int]) -> tuple[float, float]:
    """Steps of a search in the first half of *text*, and in all of it: the ways to read every part of it."""
    ways: dict[int, int] = {}  # a way that comes to an end of the pattern ends the search
    total = half = 0.0
    for at, bit in enumerate(text):
        now = {it: 1 for it in made.first if it not in made.ends and made.reads[it] & bit}
        for one, count in ways.items():
            for it, times in made.follow[one].items():
                if it not in made.ends and made.reads[it] & bit:
                    now[it] = now.get(it, 0) + count * times
        ways = now
        total += 1 + sum(ways.values())
        if total > BUDGET * 1e3:
            return inf, inf
        if at + 1 == len(text) // 2:
            half = total
    return half, total
