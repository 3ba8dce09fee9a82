"""What names in expressions and templates stand for, held against what is there."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from engine.errors import Problem
from engine.expressions.series import fault_in_filter
from engine.expressions.templates import SampleFilter, fault_in, fault_in_expression, is_template, names, over_samples
from engine.lang.yaml_source import Document, Path

ROOTS = ("inputs", "host", "run")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an expression may name."""

    looks: Mapping[str, tuple[str, ...]]
    """Look id to the fields of its State; no fields where the action is not known."""
    inputs: tuple[str, ...]
    later: Container[str] = frozenset()
    """Names that exist but may not be used here; those of *looks* are usable all the same."""
    lists: frozenset[str] = frozenset()
    """Looks with ``each``: a list, which has no fields."""
    series: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Looks with ``samples``, to the fields of one sample."""
    item: bool = False
    """Whether ``item`` means something here."""

    def is_step(self, name: str) -> bool:
        """Whether a step has the id *name*, wherever it stands."""
        return name in self.looks or name in self.later

    def only_inputs(self) -> Allowed:
        """What may be named where nothing of a host is known: inputs."""
        return Allowed({}, self.inputs, _NotYet(self))


@dataclass(frozen=True, slots=True)
class _NotYet:
    """The names that mean something, but not before a host is known."""

    inner: Allowed

    def __contains__(self, name: object) -> bool:
        return name in ("host", "run") or (isinstance(name, str) and self.inner.is_step(name))


@dataclass(frozen=True, slots=True)
class Naming:
    """Finds the mistakes in the expressions of one file."""

    document: Document
    hints: Hints = field(default_factory=lambda: Hints())

    def templates(self, tree: Any, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """The mistakes in every template of a tree of arguments."""
        match tree:
            case str() if is_template(tree):
                yield from self._parsed(tree, fault_in(tree), path, allowed)
            case Mapping():
                for key, it in tree.items():
                    yield from self.templates(it, (*path, key), allowed)
            case list():
                for number, it in enumerate(tree):
                    yield from self.templates(it, (*path, number), allowed)

    def expression(self, text: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """The mistakes in an expression."""
        yield from self._parsed(text, fault_in_expression(text), path, allowed)

    def _parsed(self, text: str, fault: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        if fault:
            yield self.document.problem(path, f"cannot be understood: {fault}", f"in: {' '.join(text.split())[:80]}")
            return
        for root, attribute in sorted(names(text)):
            yield from self._name(root, attribute, path, allowed)
        for use in over_samples(text):
            yield from self._over_samples(use, path, allowed)

    def _over_samples(self, use: SampleFilter, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """The mistakes in what is asked of the samples of a look."""
        known = allowed.series.get(use.look) or tuple({it: 0 for own in allowed.series.values() for it in own})
        if use.look in allowed.looks and use.look not in {*allowed.series, *allowed.lists}:
            words = f"`{use.filter}` wants a look with `samples`, and {use.look!r} has none"
            yield self.document.problem(path, words, "samples: {times: 6, every: 10s}")
            return
        yield from self.within_sample(str(use.given[0]), path, known, allowed)
        if fault := fault_in_filter(use.filter, use.given[1:]):
            yield self.document.problem(path, f"{use.filter}: {fault}")

    def within_sample(self, text: str, path: Path, known: Iterable[str], allowed: Allowed) -> Iterator[Problem]:
        """The mistakes in an expression over one sample, which has the fields *known*."""
        if fault := fault_in_expression(text):
            yield self.document.problem(path, f"cannot be understood: {fault}", f"in: {' '.join(text.split())[:80]}")
            return
        for root, attribute in sorted(names(text)):
            if root in ROOTS:
                yield from self._name(root, attribute, path, allowed)
            elif root not in (*known, "at"):
                yield self.document.problem(path, f"a sample has no field {root!r}", self.hints.near(root, known))

    def _name(self, root: str, attribute: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        if root == "inputs":
            if attribute and attribute not in allowed.inputs:
                yield self.document.problem(
                    path, f"there is no input {attribute!r}", self.hints.near(attribute, allowed.inputs)
                )
        elif root in allowed.looks:
            known = allowed.looks[root]
            if attribute and root in allowed.lists:
                hint = f"{root}[0].{attribute}, or {root} | map(attribute='{attribute}')"
                yield self.document.problem(path, f"the look {root!r} is a list (it has `each`), without fields", hint)
            elif attribute in allowed.series.get(root, ()) and attribute not in known:
                hint = f"{root}.samples[-1].{attribute}, or {root} | sustained('{attribute}', '10s')"
                yield self.document.problem(path, f"the look {root!r} has `samples`, each with its own fields", hint)
            elif attribute and attribute not in known:
                yield self.document.problem(
                    path, f"the look {root!r} has no field {attribute!r}", self.hints.near(attribute, known)
                )
        elif root in allowed.later:
            yield self.document.problem(
                path, f"{root!r} may not be named here", "only inputs, host, run and looks before it"
            )
        elif root == "item" and not allowed.item:
            yield self.document.problem(path, "`item` means something only in a step with `each`")
        elif root not in (*ROOTS, "item"):
            known = (*allowed.looks, *ROOTS)
            yield self.document.problem(path, f"the name {root!r} is not defined", self.hints.near(root, known))


def broken(text: str) -> bool:
    """Whether *text* cannot be parsed, which is reported elsewhere."""
    return bool(fault_in(text) if is_template(text) else fault_in_expression(text))


def near(name: str, known: Iterable[str]) -> str:
    """What may have been meant by *name*."""
    options = list(known)
    found = get_close_matches(name, options, n=1)
    if found:
        return f"did you mean {found[0]}?"
    more = f", and {len(options) - MOST_NAMED} more" if len(options) > MOST_NAMED else ""
    return f"there are: {', '.join(options[:MOST_NAMED])}{more}" if options else "there are none"


MOST_NAMED = 100
"""Names that one hint lists."""

MOST_COMPARED = 50_000
"""Names that a wrong one is held against, for all mistakes of a file; of very many mistakes only the first."""


class Hints:
    """Proposes what may have been meant by the wrong names of one file, until that would take too long."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def near(self, name: str, known: Iterable[str]) -> str:
        """As ``near``; empty once too many names have been compared."""
        options = list(known)
        self._left -= len(options)
        return near(name, options) if self._left > 0 else ""
