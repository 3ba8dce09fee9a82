"""Filters over the samples of a look: its values over time, what held on, and what grew on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from jinja2 import pass_context

from engine.errors import ConfigError
from engine.lang.quantities import duration, size
from engine.lang.views import Silent, UnknownTouched, View, known
from engine.values.text import plural, seconds

NAMES = ("series", "sustained", "grows")

FEWEST = 3
"""Known samples from which growth can be told."""

ROOTS = ("inputs", "host", "run", "item")

Inside = Callable[[str, Mapping[str, Any]], Any]
"""An expression and its names, to its value.  Raises UnknownTouched."""


def filters(inside: Inside) -> Mapping[str, Callable[..., Any]]:
    """The filters; each takes an expression over the fields of one sample, written out as text."""

    @pass_context
    def series(context: Any, looked: Any, expression: str) -> list[Any]:
        """What *expression* is in each sample; a gap where it is not known."""
        return [value for _, value in _values(inside, context, looked, expression, "series")]

    @pass_context
    def sustained(context: Any, looked: Any, condition: str, span: Any) -> bool:
        """Whether *condition* held in every sample of the last *span*."""
        values = list(_values(inside, context, looked, condition, "sustained"))
        return not _absent(looked) and held_for(values, _span(span))

    @pass_context
    def grows(context: Any, looked: Any, expression: str, at_least: Any = 0, rises: int = 1) -> bool:
        """Whether *expression* never falls, and rises by *at_least*, in so many samples at least."""
        values = [it for _, it in _values(inside, context, looked, expression, "grows")]
        return not _absent(looked) and growing(values, amount(at_least), rises)

    return {"series": series, "sustained": sustained, "grows": grows}


def fault_in_filter(name: str, given: tuple[Any, ...]) -> str:
    """Why a filter cannot be given this behind its expression; empty where it can.  None is not known yet."""
    most = {"series": 0, "sustained": 1, "grows": 2}[name]
    if len(given) > most or (name == "sustained" and not given):
        return (
            "it is given "
            + {"series": "nothing more", "sustained": "for how long", "grows": "at_least, and rises"}[name]
        )
    try:
        if name != "series" and given and given[0] is not None:
            (_span if name == "sustained" else amount)(given[0])
    except ConfigError as error:
        return str(error)
    return ""


def _span(value: Any) -> float:
    if (span := duration(value)) <= 0:
        raise ConfigError(f"{value!r} is no time at all")
    return span


def amount(value: Any) -> float:
    """A number, or a size such as ``64MiB``.  Raises ConfigError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return value
    return size(value)


def held_for(values: list[tuple[float, Any]], span: float) -> bool:
    """Whether all *values* of the last *span* seconds are true, each of them known.

    One that is known to be false settles it; otherwise one that is not known, or samples over less time than that,
    leave it open.  Raises UnknownTouched.
    """
    gap = ""
    for at, value in reversed(values):
        if isinstance(value, Silent):
            gap = gap or value.why
        elif not value:
            return False
        if values[-1][0] - at >= span:
            break
    else:
        covered = values[-1][0] - values[0][0] if values else 0.0
        gap = gap or f"the samples cover {seconds(covered)}, and {seconds(span)} are asked about"
    if gap:
        raise UnknownTouched(gap)
    return True


def growing(values: list[Any], at_least: float, rises: int) -> bool:
    """Whether *values* never fall, and rise by *at_least* in *rises* steps or more.

    A fall settles it.  Only the values behind the last gap count as growth: there must be three of them, and where they
    do not show it, what is missing leaves it open.  Raises UnknownTouched.
    """
    numbers = [_number(it) for it in values if not isinstance(it, Silent)]
    gaps = [(at, it.why) for at, it in enumerate(values) if isinstance(it, Silent)]
    if len(numbers) >= FEWEST and any(later < before for before, later in pairwise(numbers)):
        return False
    last = numbers[len(numbers) - (len(values) - 1 - gaps[-1][0]) :] if gaps else numbers
    if len(last) < FEWEST:
        few = f"growth wants {FEWEST} samples in a row, and there are {len(last)}"
        raise UnknownTouched(f"{few}: {gaps[-1][1]}" if gaps else few)
    steps = [later - before for before, later in pairwise(last)]
    if sum(it > 0 for it in steps) >= max(1, rises) and last[-1] - last[0] >= at_least:
        return True
    if gaps:
        raise UnknownTouched(f"{plural(len(gaps), 'sample')} of {len(values)} not known: {gaps[-1][1]}")
    return False


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"only numbers grow, and this is {value!r}")
    return value


def _values(inside: Inside, context: Any, looked: Any, expression: str, name: str) -> Iterator[tuple[float, Any]]:
    """When each sample was taken, with what *expression* is in it.

    A sample that is not known was taken between those beside it: it has the time of the one before.
    """
    if not isinstance(known(looked), View) or "samples" not in looked or "asked" not in looked:
        raise ConfigError(f"`{name}` stands behind a look with `samples`")
    names = {it: context[it] for it in (*ROOTS, *_own(context))}
    at = 0.0
    for sample in looked["samples"]:
        value: Any = sample
        if not isinstance(sample, Silent):
            at = sample["at"]
            try:
                value = inside(expression, {**dict(sample.inside()), **names})
            except UnknownTouched as error:
                value = Silent(str(error))
        yield at, value


def _own(context: Any) -> list[str]:
    """The names in *context* that the engine keeps for itself."""
    return [it for it in context.get_all() if it.startswith("_") and not it.startswith("__")]


def _absent(looked: View) -> bool:
    return bool(looked["absent"])
