"""The number and interval of a probe's ``samples``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from runbook.errors import ConfigError, Problem
from runbook.language.expressions.templates import Scope, render
from runbook.language.expressions.views import UnknownTouched
from runbook.values.sampling import Sampling
from runbook.values.types import Json, seconds
from runbook.values.units import time_span

T = TypeVar("T")

MOST = 1000
"""The maximum number of samples of one probe."""

LONGEST = 86400.0
"""The maximum number of seconds from the first sample to the last; a longer time is assumed to be a mistake."""


def sampling(written: Mapping[str, Json], scope: Scope) -> Sampling:
    """Return the sampling that ``samples`` (*written*) describes, with the inputs of *scope*.  Raises ConfigError;
    each message begins with its key.
    """
    problems: list[Problem] = []

    def read(key: str, convert: Callable[[Any], T], default: T) -> T:
        if key not in written:
            return default
        try:
            return convert(render(written[key], scope))
        except UnknownTouched as error:
            problems.append(Problem(message=f"{key}: not known yet: {error}"))
        except ConfigError as error:
            problems.extend(Problem(message=f"{key}: {problem.message}") for problem in error.problems)
        return default

    made = Sampling(
        times=read("times", _times, 0), span=read("for", time_span, 0.0), every=read("every", time_span, 2.0)
    )
    if ("times" in written) == ("for" in written):
        problems.append(Problem(message="samples: give either `times` or `for`"))
    elif not problems and made.asked > MOST:
        problems.append(Problem(message=f"samples: {made.asked} samples are more than the maximum of {MOST}"))
    elif not problems and made.seconds > LONGEST:
        problems.append(Problem(message=f"samples: they would take {seconds(made.seconds)}; the maximum is a day"))
    if problems:
        raise ConfigError(*problems)
    return made


def _times(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 2:
        raise ConfigError(f"{value!r} is not a number of samples: write a whole number from 2")
    return value
