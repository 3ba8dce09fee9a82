"""Resolve the names in expressions and templates against inputs, probes and their fields."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.language.expressions.compared_types import mistakes_in_comparisons
from runbook.language.expressions.comparison import ACROSS
from runbook.language.expressions.history import HISTORY
from runbook.language.expressions.named_keys import mistakes_in_keys
from runbook.language.expressions.parsed_template import SampleFilter
from runbook.language.expressions.series import fault_in_filter
from runbook.language.expressions.static_types import ANY, Types
from runbook.language.expressions.templates import (
    as_template,
    bends_secrets,
    element_attributes,
    fault_in,
    fault_in_expression,
    is_template,
    names,
    over_samples,
    secrets_in_template,
)
from runbook.language.history_calls import PastNames, mistakes_in_history
from runbook.language.mistakes.follow_on import Lost
from runbook.language.secret_uses import WHERE, other_names
from runbook.language.yaml_source import Document, Path
from runbook.text.suggestions import suggest
from runbook.values.playbook import NO_LET, Let

ROOTS = ("inputs", "host", "run", "secrets")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The names that an expression may use."""

    probes: Mapping[str, tuple[str, ...]]
    """The fields of the State of each probe; the keys are probe ids.  No fields: the action is unknown."""
    inputs: tuple[str, ...]
    later: Container[str] = frozenset()
    """Names that exist but must not be used here.  A name that is also in *probes* may be used."""
    lists: frozenset[str] = frozenset()
    """The probes with ``each``: their value is a list, which has no fields."""
    series: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The probes with ``samples``, each with the fields of one sample."""
    elements: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For each probe, its fields that are lists of dataclasses, each with the fields of an element."""
    item: bool = False
    """Whether ``item`` has a value here."""
    secrets_at: frozenset[Path] = frozenset()
    """The places below which a secret may be inserted."""
    let: Let = NO_LET
    """The named expressions (``let``)."""
    past: PastNames | None = None
    """The names of earlier runs; None if ``history`` is not allowed."""
    types: Types = field(default_factory=dict)
    """The types of names, as far as they are known."""
    lost: Lost = field(default_factory=Lost)
    """The names that do not exist only because of a mistake elsewhere."""

    def may_have_secrets(self, path: Path) -> bool:
        """Whether a secret may be inserted at *path*."""
        return any(path[: len(secret)] == secret for secret in self.secrets_at)

    def is_step(self, name: str) -> bool:
        """Whether a step of any section has the id *name*."""
        return name in self.probes or name in self.later

    def only_inputs(self) -> Allowed:
        """Return these names without all that depend on a host, so that only inputs are left."""
        return Allowed({}, self.inputs, _NotYet(self), let=self.let)


@dataclass(frozen=True, slots=True)
class _NotYet:
    """The names that have a value only when a host is known."""

    inner: Allowed

    def __contains__(self, name: object) -> bool:
        return name in ("host", "run") or (isinstance(name, str) and self.inner.is_step(name))


@dataclass(frozen=True, slots=True)
class Naming:
    """Finds the mistakes in the expressions of one file."""

    document: Document
    hints: Hints = field(default_factory=lambda: Hints())

    def templates(self, tree: Any, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes in every template of *tree*, a tree of arguments."""
        match tree:
            case str() if is_template(tree):
                yield from self._parsed(tree, fault_in(tree, allowed.let), path, allowed)
            case Mapping():
                for key, value in tree.items():
                    yield from self.templates(value, (*path, key), allowed)
            case list():
                for number, inner in enumerate(tree):
                    yield from self.templates(inner, (*path, number), allowed)

    def expression(self, text: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes in the expression *text*."""
        yield from self._parsed(text, fault_in_expression(text, allowed.let), path, allowed)

    def _parsed(self, text: str, fault: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        if fault:
            yield self.document.problem(path, f"cannot be understood: {fault}", f"in: {' '.join(text.split())[:80]}")
            return
        for root, attribute in sorted(names(text, allowed.let)):
            yield from self._name(root, attribute, path, allowed)
        if bends_secrets(text, allowed.let) and allowed.may_have_secrets(path):
            words = "a secret can only be inserted as it is, so that it is found and hidden wherever it turns up"
            yield self.document.problem(
                path, words, "{{ secrets.NAME }} or {{ host.secrets.NAME }}, without filters, conditions and operators"
            )
        elif secrets_in_template(text) and allowed.may_have_secrets(path) and (late := other_names(text, allowed.let)):
            words = f"{late[0]!r} cannot stand beside a secret: only inputs, host and run"
            yield self.document.problem(path, words, "what is sent with a secret is filled in before any probe")
        for message, hint in mistakes_in_history(text, allowed.let, allowed.past, self.hints.near):
            yield self.document.problem(path, message, hint)
        for element in element_attributes(text, allowed.let):
            known = allowed.elements.get(element.probe, {}).get(element.field, ())
            if known and element.attribute not in known:
                words = f"the elements of {element.probe}.{element.field} have no {element.attribute!r}"
                yield self.document.problem(path, words, self.hints.near(element.attribute, known))
        yield from self._typed(text, path, allowed)
        for use in over_samples(text, allowed.let):
            yield from self._over_samples(use, path, allowed)

    def _over_samples(self, use: SampleFilter, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes in *use*, a filter over the samples of a probe."""
        known = allowed.series.get(use.probe) or tuple({word: 0 for own in allowed.series.values() for word in own})
        if use.probe in allowed.probes and use.probe not in {*allowed.series, *allowed.lists}:
            words = f"`{use.filter}` needs a probe with `samples`, but {use.probe!r} has none"
            yield self.document.problem(path, words, "samples: {times: 6, every: 10s}")
            return
        yield from self.within_sample(
            str(use.given[0]), path, known, replace(allowed, types=of_sample(use.probe, allowed), let=NO_LET)
        )
        if fault := fault_in_filter(use.filter, use.given[1:]):
            yield self.document.problem(path, f"{use.filter}: {fault}")

    def within_sample(self, text: str, path: Path, known: Iterable[str], allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes in *text*, an expression over one sample; *known* are the fields of the sample."""
        if fault := fault_in_expression(text, allowed.let):
            yield self.document.problem(path, f"cannot be understood: {fault}", f"in: {' '.join(text.split())[:80]}")
            return
        for root, attribute in sorted(names(text, allowed.let)):
            if root in ROOTS:
                yield from self._name(root, attribute, path, allowed)
            elif root not in (*known, "at"):
                yield self.document.problem(path, f"a sample has no field {root!r}", self.hints.near(root, known))
        yield from self._typed(text, path, allowed)

    def _typed(self, text: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistakes in *text* that the types of its names show."""
        template = as_template(text)
        for message, hint in (
            *mistakes_in_keys(template, allowed.types, allowed.let),
            *mistakes_in_comparisons(template, allowed.types, allowed.let),
        ):
            yield self.document.problem(path, message, hint)

    def _name(self, root: str, attribute: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        if root == "inputs":
            if attribute and attribute not in allowed.inputs:
                yield self.document.problem(
                    path, f"there is no input {attribute!r}", self.hints.near(attribute, allowed.inputs)
                )
        elif root == "secrets" or (root, attribute) == ("host", "secrets"):
            if not allowed.may_have_secrets(path):
                what = f"the secret {attribute!r}" if attribute and root == "secrets" else "a secret"
                yield self.document.problem(path, f"{what} cannot be used here: it would be visible", WHERE)
        elif root in allowed.probes:
            yield from self._field(root, attribute, path, allowed)
        elif root in allowed.later:
            yield self.document.problem(
                path, f"{root!r} cannot be used here", "only inputs, host, run and earlier probes"
            )
        elif root == HISTORY:
            return  # see mistakes_in_history
        elif root == ACROSS:
            words = "`across` exists only in what a finding with `across` says of its hosts"
            yield self.document.problem(path, words, "give the finding an `across`")
        elif root == "item" and not allowed.item:
            yield self.document.problem(path, "`item` exists only in a step with `each`")
        elif root not in (*ROOTS, "item"):
            known = (*dict(allowed.let), *allowed.probes, *ROOTS, HISTORY)
            hint = self.hints.near(root, known)
            if not allowed.lost.explains(root, hint):
                yield self.document.problem(path, f"the name {root!r} is not defined", hint)

    def _field(self, root: str, attribute: str, path: Path, allowed: Allowed) -> Iterator[Problem]:
        """Yield the mistake in the field *attribute* of the probe *root*."""
        known = allowed.probes[root]
        if attribute and root in allowed.lists:
            hint = f"{root}[0].{attribute}, or {root} | map(attribute='{attribute}')"
            yield self.document.problem(path, f"the probe {root!r} is a list (it has `each`), without fields", hint)
        elif attribute in allowed.series.get(root, ()) and attribute not in known:
            hint = f"{root}.samples[-1].{attribute}, or {root} | sustained('{attribute}', '10s')"
            yield self.document.problem(path, f"the probe {root!r} has `samples`, each with its own fields", hint)
        elif attribute and attribute not in known:
            hint = self.hints.near(attribute, known)
            yield self.document.problem(path, f"the probe {root!r} has no field {attribute!r}", hint)


def of_sample(probe: str, allowed: Allowed) -> Types:
    """Return the types of the names in an expression over one sample of *probe*."""
    series = allowed.types.get(probe, ANY).fields.get("samples", ANY)
    common = {name: allowed.types[name] for name in ROOTS if name in allowed.types}
    return {**common, **(series.element or ANY).fields}


def broken(text: str) -> bool:
    """Whether *text* cannot be parsed; another check reports that."""
    return bool(fault_in(text, NO_LET) if is_template(text) else fault_in_expression(text, NO_LET))


MOST_COMPARED = 50_000
"""The maximum number of names with which the wrong names of one file are compared, all together."""


class Hints:
    """Proposes similar names for the wrong names of one file, until too many names have been compared."""

    def __init__(self) -> None:
        self._left = MOST_COMPARED

    def near(self, name: str, known: Iterable[str]) -> str:
        """Return a hint like ``suggest``; empty after too many comparisons."""
        options = list(known)
        self._left -= len(options)
        return suggest(name, options) if self._left > 0 else ""
