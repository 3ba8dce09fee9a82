"""Values as YAML, so that readers of 1.1 and of 1.2 take them for the same thing."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from runbook.facts.config_edit.config_text import quoted
from runbook.facts.config_edit.yaml_parser import scalar

_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*(?: [A-Za-z0-9_./+-]+)*")
_BOOLEANS_OF_OLD = ("y", "n", "Y", "N")


def flow(value: Any, *, style: str = "") -> str:
    """*value* in one line; text in quotes of *style* where that is possible."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _number(value)
        case str():
            return _text(value, style)
        case list():
            return f"[{', '.join(map(flow, value))}]"
        case dict():
            return f"{{{', '.join(f'{_text(key)}: {flow(it)}' for key, it in value.items())}}}"
    raise TypeError(type(value).__name__)


def block(key: str, value: Any, indent: int, step: int, style: str = "") -> Iterator[str]:
    """The lines of a pair in a mapping that is indented by *indent* spaces; the key in quotes of *style*."""
    if not isinstance(value, dict) or not value:
        yield f"{' ' * indent}{_text(key, style)}: {flow(value)}"
        return
    yield f"{' ' * indent}{_text(key, style)}:"
    for name, it in value.items():
        yield from block(name, it, indent + step, step, style)


def entry(key: str, value: Any, style: str = "") -> str:
    """A pair between braces."""
    return f"{_text(key, style)}: {flow(value)}"


def _number(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return "-.inf" if value < 0 else ".inf"
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"  # else readers of 1.1 take it for text
    return f"{mantissa}e{exponent if exponent[0] in '+-' else f'+{exponent}'}"


def _text(value: str, style: str = "") -> str:
    if style == "'" and value.isprintable() and "'" not in value and "\ufeff" not in value:
        return f"'{value}'"
    plain = _PLAIN.fullmatch(value) and value not in _BOOLEANS_OF_OLD and type(scalar(value)) is str
    return value if plain and style != '"' else quoted(value)
