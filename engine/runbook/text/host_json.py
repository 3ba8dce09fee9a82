"""Parse JSON and numbers that a host sends, with limits on their size and depth."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import Any, NoReturn

DEEPEST = 64
"""The maximum depth of nesting."""


def loads(text: str) -> Any:
    """Return the value of the JSON *text*.  Raises ValueError if it is not JSON, or has a number that is too large.

    NaN and Infinity are not JSON (RFC 8259, section 6), and ``1e999`` is not a number that any program here can hold.
    """
    if too_deep(text):
        raise ValueError(f"nested deeper than {DEEPEST} levels")
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=finite)
    except RecursionError as error:
        raise ValueError(f"nested deeper than {DEEPEST} levels") from error


def finite(text: str) -> float:
    """Return the number in *text*.  Raises ValueError, also for ``nan``, ``inf`` and ``1e999``, which Python
    accepts.
    """
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is not a number that can be calculated with")
    return number


def too_deep(text: str) -> bool:
    """Whether brackets outside of strings are nested more than ``DEEPEST`` times."""
    depth = 0
    for found in re.finditer(r'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', text):
        if found[0] in "[{":
            depth += 1
            if depth > DEEPEST:
                return True
        elif found[0] in "]}":
            depth -= 1
    return False


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
