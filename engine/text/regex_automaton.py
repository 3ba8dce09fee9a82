"""A regular expression as positions and the steps between them, to see beforehand how long a search may take.

The theory: A. Weber, H. Seidl, "On the degree of ambiguity of finite automata" (1991). A backtracking search takes
exponential time where some loop can read the same text in two ways.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from re import _constants as op  # type: ignore[attr-defined] # the names of what the parser gives
from re import _parser as parser  # type: ignore[attr-defined] # the only one that reads them as `re` does
from typing import Any

MOST_POSITIONS = 1500
SMALL = 12
"""A repeat of at most so many times is written out; a longer one counts as one without end."""

LARGEST_LOOP = 120
SAMPLE = frozenset(map(chr, (9, 10, 13, *range(32, 127)))) | set("éÉ漢٣ſK\xa0")
"""Characters of every kind; those of the pattern itself are added."""


class UnsupportedPattern(Exception):
    """The pattern is not one that we can bound; the text says why."""


@dataclass(slots=True)
class Fragment:
    """A part of the pattern: where it may begin and end, and whether it may be empty."""

    nullable: bool = True
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Automaton:
    """Positions that read one character each, as sets of *alphabet*, and the steps between them."""

    alphabet: str
    reads: list[int] = field(default_factory=list)
    """For each position the characters that it reads, as bits of the place in *alphabet*."""
    follow: list[dict[int, int]] = field(default_factory=list)
    """For each position those that may come next, and in how many ways."""
    first: tuple[int, ...] = ()
    ends: frozenset[int] = frozenset()
    """Positions after which the pattern is found, whatever comes next; none are known where it looks around."""
    looping: set[int] = field(default_factory=set)
    """Positions within a repeat without end."""

    def join(self, lasts: Iterable[int], firsts: Sequence[int]) -> None:
        """Let each of *firsts* come after each of *lasts*."""
        for one in lasts:
            steps = self.follow[one]
            for other in firsts:
                steps[other] = steps.get(other, 0) + 1

    def bit(self, character: str) -> int:
        """The bit of *character*."""
        return 1 << self.alphabet.index(character)


def automaton(pattern: str, flags: int = 0) -> Automaton:
    """The automaton of *pattern*.  Raises Refused, and re.error."""
    tree = parser.parse(pattern, flags)
    alphabet = "".join(sorted(SAMPLE | set(_characters(tree))))
    building = _Building(Automaton(alphabet=alphabet), tree.state.flags | flags)
    whole = building.sequence(tree, loop=False)
    building.made.first = tuple(whole.first)
    building.made.ends = frozenset() if building.looks_around else frozenset(whole.last)
    return building.made


def _characters(tree: Any) -> Iterator[str]:
    """The characters that stand in a pattern, with their neighbours where it writes ranges."""
    match tree:
        case (kind, int(code)) if kind in (op.LITERAL, op.NOT_LITERAL):
            yield from (chr(code), chr(code).lower()[0], chr(code).upper()[0])
        case (kind, (int(low), int(high))) if kind is op.RANGE:
            yield from (chr(it) for it in (low - 1, low, high, high + 1) if 0 <= it < 0x110000)
        case parser.SubPattern() | list() | tuple():
            for it in tree:
                yield from _characters(it)


class _Building:
    """Walks the tree of the parser."""

    def __init__(self, made: Automaton, flags: int) -> None:
        self.made, self._flags = made, flags
        self.looks_around = False
        """There are anchors, assertions or long counts in it."""

    def sequence(self, items: Iterable[Any], *, loop: bool) -> Fragment:
        """Items one after the other."""
        whole = Fragment()
        for it in items:
            part = self._item(it, loop)
            self.made.join(whole.last, part.first)
            whole = Fragment(
                nullable=whole.nullable and part.nullable,
                first=whole.first + (part.first if whole.nullable else []),
                last=part.last + (whole.last if part.nullable else []),
            )
        return whole

    def _item(self, it: tuple[Any, Any], loop: bool) -> Fragment:
        kind, value = it
        if kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN):
            return self._position(self._set(kind, value), loop)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            least, most, inner = value
            return self._repeat(least, most, inner, loop)
        if kind is op.BRANCH:
            return self._branch(value[1], loop)
        if kind is op.SUBPATTERN:
            _, on, off, inner = value
            outside, self._flags = self._flags, (self._flags | on) & ~off
            try:
                return self.sequence(inner, loop=loop)
            finally:
                self._flags = outside
        if kind is op.ATOMIC_GROUP:
            return self.sequence(value, loop=loop)
        if kind in (op.ASSERT, op.ASSERT_NOT):
            self.looks_around = True
            self.sequence(value[1], loop=loop)
            return Fragment()
        if kind is op.AT:
            self.looks_around = True
            return Fragment()
        if kind is op.GROUPREF_EXISTS:
            return self._branch([it for it in value[1:] if it is not None], loop)
        if kind is op.GROUPREF:
            raise UnsupportedPattern("it refers back to a group")
        raise UnsupportedPattern("it uses something that this program does not know")

    def _position(self, characters: int, loop: bool) -> Fragment:
        number = len(self.made.reads)
        if number >= MOST_POSITIONS:
            raise UnsupportedPattern("it is too large")
        self.made.reads.append(characters)
        self.made.follow.append({})
        if loop:
            self.made.looping.add(number)
        return Fragment(nullable=False, first=[number], last=[number])

    def _branch(self, ways: Sequence[Any], loop: bool) -> Fragment:
        parts = [self.sequence(it, loop=loop) for it in ways]
        if loop and sum(it.nullable for it in parts) > 1:
            raise UnsupportedPattern("within a repeat, two alternatives can both be empty")
        return Fragment(
            nullable=any(it.nullable for it in parts),
            first=[number for it in parts for number in it.first],
            last=[number for it in parts for number in it.last],
        )

    def _repeat(self, least: int, most: int, inner: Any, loop: bool) -> Fragment:
        if most == 0:
            return Fragment()
        endless = most > SMALL
        made = self.sequence(inner, loop=loop or endless)
        if made.nullable and made.first and (most > 1 or loop):
            raise UnsupportedPattern("it repeats something that can be empty")
        if endless:
            self.looks_around |= least > 1  # once through it is not yet the end
            self.made.join(made.last, made.first)
            return Fragment(nullable=made.nullable or least == 0, first=made.first, last=made.last)
        copies = [made, *(self.sequence(inner, loop=loop) for _ in range(most - 1))]
        for one, other in pairwise(copies):
            self.made.join(one.last, other.first)
        ends = copies[max(least, 1) - 1 :]
        return Fragment(
            nullable=made.nullable or least == 0, first=made.first, last=[number for it in ends for number in it.last]
        )

    def _set(self, kind: Any, value: Any) -> int:
        given = tuple(value) if isinstance(value, list) else value
        flags = int(self._flags)
        return _bits(self.made.alphabet, kind, given, bool(flags & re.IGNORECASE), bool(flags & re.DOTALL))


@lru_cache(4096)
def _bits(alphabet: str, kind: Any, value: Any, ignore_case: bool, dot_all: bool) -> int:
    """The characters of *alphabet* that an item of a pattern reads, as bits of their places in it."""
    bits = 0
    for at, character in enumerate(alphabet):
        forms = {character, character.lower(), character.upper()} if ignore_case else {character}
        if any(_reads(kind, value, it, dot_all) for it in forms):
            bits |= 1 << at
    return bits


def _reads(kind: Any, value: Any, character: str, dot_all: bool) -> bool:
    if kind is op.LITERAL:
        return character == chr(value)
    if kind is op.NOT_LITERAL:
        return character != chr(value)
    if kind is op.ANY:
        return character != "\n" or dot_all
    negated = bool(value) and value[0][0] is op.NEGATE
    return negated != any(_in_class(one, it, character) for one, it in value if one is not op.NEGATE)


def _in_class(kind: Any, value: Any, character: str) -> bool:
    if kind is op.RANGE:
        return bool(len(character) == 1 and value[0] <= ord(character) <= value[1])
    if kind is op.LITERAL:
        return character == chr(value)
    word = character.isalnum() or character == "_"
    return {
        op.CATEGORY_DIGIT: character.isdecimal(),
        op.CATEGORY_NOT_DIGIT: not character.isdecimal(),
        op.CATEGORY_SPACE: character.isspace(),
        op.CATEGORY_NOT_SPACE: not character.isspace(),
        op.CATEGORY_WORD: word,
        op.CATEGORY_NOT_WORD: not word,
    }.get(value, True)


def doubly_read(made: Automaton) -> bool:
    """Whether a loop of it can read the same text in two ways: the time of a search doubles with each character."""
    return any(_ambiguous(made, it) for it in _loops(made))


def _ambiguous(made: Automaton, loop: frozenset[int]) -> bool:
    steps = {one: [it for it in made.follow[one] if it in loop] for one in loop}
    if any(made.follow[one][it] > 1 for one in loop for it in steps[one]):
        return True
    if len(loop) > LARGEST_LOOP:
        raise UnsupportedPattern("what it repeats is too large")
    together = {
        (one, other): [(a, b) for a in steps[one] for b in steps[other] if made.reads[a] & made.reads[b]]
        for one in loop
        for other in loop
    }
    back: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for pair, others in together.items():
        for it in others:
            back.setdefault(it, []).append(pair)
    same = [(it, it) for it in loop]
    disjoint = _reached(same, together) & _reached(same, back)
    return any(one != other for one, other in disjoint)


def _reached(
    starts: Iterable[tuple[int, int]], steps: dict[tuple[int, int], list[tuple[int, int]]]
) -> set[tuple[int, int]]:
    found = set(starts)
    open_ = list(found)
    while open_:
        for it in steps.get(open_.pop(), ()):
            if it not in found:
                found.add(it)
                open_.append(it)
    return found


def _loops(made: Automaton) -> Iterator[frozenset[int]]:
    """Positions that come back to each other (strongly connected components; Kosaraju)."""
    order: list[int] = []
    seen: set[int] = set()
    for root in sorted(made.looping):
        if root not in seen:
            seen.add(root)
            stack = [(root, iter(made.follow[root]))]
            while stack:
                one, rest = stack[-1]
                nearest = next((it for it in rest if it not in seen), None)
                if nearest is None:
                    order.append(one)
                    stack.pop()
                else:
                    seen.add(nearest)
                    stack.append((nearest, iter(made.follow[nearest])))
    before: dict[int, list[int]] = {}
    for one, others in enumerate(made.follow):
        for it in others:
            before.setdefault(it, []).append(one)
    placed: set[int] = set()
    for root in reversed(order):
        group, open_ = set(), [root]
        while open_:
            one = open_.pop()
            if one in placed or one not in seen:
                continue
            placed.add(one)
            group.add(one)
            open_ += before.get(one, [])
        if len(group) > 1 or any(it in made.follow[it] for it in group):
            yield frozenset(group)
