"""Filters over the samples of a probe: `series`, `sustained` and `grows`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.visitor import NodeTransformer

from runbook.errors import ConfigError
from runbook.language.expressions.views import Silent, UnknownTouched, View, known
from runbook.values.types import plural, seconds
from runbook.values.units import duration, size

NAMES = ("series", "sustained", "grows")

FEWEST = 3
"""The minimum number of known samples from which growth can be determined."""

ROOTS = ("inputs", "host", "run")
"""Names that have the same value within a sample and outside of it."""

ROUNDS = "_rounds"
"""The variable of a template that holds its counter of loop rounds."""

SAMPLE = "_sample"
"""The variable that holds the sample, in an expression over samples."""

Inside = Callable[[str, Mapping[str, Any]], Any]
"""A function from an expression and its names to the value of the expression.  Raises UnknownTouched."""


class OfSample(NodeTransformer):
    """Replaces every other name in an expression by a field of the sample, so that only a field that is used can make
    the result unknown.
    """

    def visit_Name(self, node: nodes.Name) -> nodes.Node:  # noqa: N802 - as Jinja's visitor calls it
        sample = nodes.Name(SAMPLE, "load", lineno=node.lineno)
        return node if node.name in ROOTS else nodes.Getattr(sample, node.name, "load", lineno=node.lineno)


def filters(inside: Inside) -> Mapping[str, Callable[..., Any]]:
    """Return the filters by name; each takes an expression (text) over the fields of one sample."""

    @pass_context
    def series(context: Any, probed: Any, expression: str) -> list[Any]:
        """Return the value of *expression* in each sample; a ``Silent`` where the value is not known."""
        return [value for _, value in _values(inside, context, probed, expression, "series")]

    @pass_context
    def sustained(context: Any, probed: Any, condition: str, span: Any) -> bool:
        """Whether *condition* was true in every sample of the last *span* (a duration)."""
        values = list(_values(inside, context, probed, condition, "sustained"))
        return not _absent(probed) and held_for(values, _span(span))

    @pass_context
    def grows(context: Any, probed: Any, expression: str, at_least: Any = 0, rises: int = 1) -> bool:
        """Whether the value of *expression* never falls, and rises by *at_least* in *rises* steps or more."""
        values = [it for _, it in _values(inside, context, probed, expression, "grows")]
        return not _absent(probed) and growing(values, amount(at_least), rises)

    return {"series": series, "sustained": sustained, "grows": grows}


def fault_in_filter(name: str, given: tuple[Any, ...]) -> str:
    """Return the reason why the filter *name* cannot take the arguments *given*; empty if it can.

    None in *given* stands for an argument that is not known yet.
    """
    most = {"series": 0, "sustained": 1, "grows": 2}[name]
    if len(given) > most or (name == "sustained" and not given):
        return (
            "it takes "
            + {"series": "only an expression", "sustained": "one duration", "grows": "only at_least and rises"}[name]
        )
    try:
        if name != "series" and given and given[0] is not None:
            (_span if name == "sustained" else amount)(given[0])
    except ConfigError as error:
        return str(error)
    return ""


def _span(value: Any) -> float:
    if (span := duration(value)) <= 0:
        raise ConfigError(f"{value!r} is too short")
    return span


def amount(value: Any) -> float:
    """Return *value* as a number; it may also be a size such as ``64MiB``.  Raises ConfigError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    return size(value)


def held_for(values: list[tuple[float, Any]], span: float) -> bool:
    """Whether all *values* of the last *span* seconds are known and true.

    A false value makes the result False.  Raises UnknownTouched if no value is false, but one is unknown or the samples
    cover less time.
    """
    gap = ""
    for at, value in reversed(values):
        if isinstance(value, Silent):
            gap = gap or value.why
        elif not value:
            return False
        if round(values[-1][0] - at, 3) >= round(span, 3):
            break
    else:
        covered = values[-1][0] - values[0][0] if values else 0.0
        gap = gap or f"the samples cover {seconds(covered)}, but {seconds(span)} are needed"
    if gap:
        raise UnknownTouched(gap)
    return True


def growing(values: list[Any], at_least: float, rises: int) -> bool:
    """Whether *values* never fall, and rise by *at_least* in *rises* steps or more.

    A fall makes the result False.  Raises UnknownTouched if fewer than three values are known.  It is raised also if
    there is no fall but an unknown value, because that may hide a fall.
    """
    numbers = [_number(value) for value in values if not isinstance(value, Silent)]
    gaps = [value.why for value in values if isinstance(value, Silent)]
    steps = [later - before for before, later in pairwise(numbers)]
    if len(numbers) < FEWEST:
        few = f"growth needs {FEWEST} known samples, but only {len(numbers)} of {len(values)} are known"
        raise UnknownTouched(f"{few}: {gaps[-1]}" if gaps else few)
    if min(steps) < 0:
        return False
    if gaps:
        raise UnknownTouched(f"{len(gaps)} of {plural(len(values), 'sample')} not known: {gaps[-1]}")
    return sum(step > 0 for step in steps) >= max(1, rises) and numbers[-1] - numbers[0] >= at_least


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"growth needs numbers, but this is {value!r}")
    return value


def _values(inside: Inside, context: Any, probed: Any, expression: str, name: str) -> Iterator[tuple[float, Any]]:
    """Yield for each sample the time when it was taken, and the value of *expression* in it."""
    if not isinstance(known(probed), View) or "samples" not in probed or "asked" not in probed:
        raise ConfigError(f"`{name}` must follow a probe with `samples`")
    names = {root: context[root] for root in (*ROOTS, ROUNDS)}
    missed = iter(probed["unknown"])
    for sample in probed["samples"]:
        value: Any = sample
        at = (next(missed) if isinstance(sample, Silent) else sample)["at"]
        if not isinstance(sample, Silent):
            try:
                value = inside(expression, {**names, SAMPLE: sample})
            except UnknownTouched as error:
                value = Silent(str(error))
        yield at, value


def _absent(probed: View) -> bool:
    return bool(probed["absent"])
