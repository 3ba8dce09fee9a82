"""Regular expressions of a user, searched in text of a host: none may keep the program busy without end.

Python's ``re`` goes back and tries again, holds everything else up meanwhile, and cannot be interrupted. So a pattern
is inspected before it is used, and no more text is searched at once than it can take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations, islice
from math import inf, log2

from engine.text.regex_automaton import Automaton, UnsupportedPattern, automaton, doubly_read

LONGEST = 2000
"""Characters that a pattern may have."""

BUDGET = 3e7
"""Steps that one search may take at worst; about a second."""

MOST_STEPS = BUDGET * 1e3
"""With more the growth is not estimated any further: it is refused."""

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
    except UnsupportedPattern as error:
        hint = f"; {SUGGESTION}" if "repeat" in str(error) else ""
        return f"a search for it could take for ever: {error}{hint}"
    except (re.error, RecursionError, OverflowError) as error:
        return f"not a regular expression: {error}"
    return ""


def reach(pattern: re.Pattern[str]) -> int:
    """How many characters may be searched at once."""
    try:
        return _reach(pattern.pattern, pattern.flags)[0]
    except UnsupportedPattern:
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
        raise UnsupportedPattern("a repeat stands within a repeat, and both can read the same text")
    newline = made.bit("\n")
    over = any(made.reads[it] & newline for it in made.looping)
    costs = [_Cost(made, word) for word in _hard_words(made)]
    own = [_Cost(made, word) for word in _own_words(made)]
    for most in REACHES:
        if all(it.of(most) <= BUDGET for it in (*costs, *(own if most > ENOUGH else ()))):
            return most, over
    raise UnsupportedPattern("its repeats can share the same text in too many ways")


def _hard_words(made: Automaton) -> Iterator[list[int]]:
    """Texts that are hard for it, as bits of characters: its kinds of characters, alone and in turns."""
    hard = []
    for bit in _kinds(made):
        positions = [number for number, reads in enumerate(made.reads) if reads & bit]
        if len(positions) > 1 or not made.looping.isdisjoint(positions):
            hard.append(bit)
    yield from ([bit] for bit in hard)
    yield from (list(it) for it in islice(combinations(hard, 2), PAIRS))


def _kinds(made: Automaton) -> list[int]:
    """One character of each kind: characters that the same positions read are of one kind."""
    kinds = [(1 << len(made.alphabet)) - 1]
    for reads in set(made.reads):
        kinds = [part for kind in kinds for part in (kind & reads, kind & ~reads) if part]
    return sorted(kind & -kind for kind in kinds)


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
        self._half, self._whole = _steps(made, word, times)

    def of(self, length: int) -> float:
        """Estimated for a text of *length* characters, by how the steps grow."""
        if self._whole == inf:
            return inf
        degree = max(1.0, log2(self._whole / max(self._half, 1.0)))
        return float(self._whole * (length / self._length) ** degree)


def _steps(made: Automaton, word: list[int], times: int) -> tuple[float, float]:
    """Steps of a search in *word* written *times* times, and in twice as much: the ways to read every part of it."""
    ways: dict[int, int] = {}  # a way that comes to an end of the pattern ends the search
    total = half = 0
    for done in range(1, 2 * times + 1):
        before, so_far = ways, total
        for bit in word:
            ways = _next_ways(made, ways, bit)
            total += 1 + sum(ways.values())
            if total > MOST_STEPS:
                return inf, inf
        if ways == before:  # each further word costs what this one did
            each, left = total - so_far, 2 * times - done
            half = half if done > times else total + (times - done) * each
            total += left * each
            break
        if done == times:
            half = total
    return (inf, inf) if total > MOST_STEPS else (float(half), float(total))


def _next_ways(made: Automaton, ways: dict[int, int], bit: int) -> dict[int, int]:
    """The positions that read the character of *bit*, with the ways to come there from *ways*, or to begin there."""
    reads, ends = made.reads, made.ends
    found = {it: 1 for it in made.first if it not in ends and reads[it] & bit}
    for one, count in ways.items():
        for it, routes in made.follow[one].items():
            if reads[it] & bit and it not in ends:
                found[it] = found.get(it, 0) + count * routes
    return found
