"""JSON values in expressions: keys are attributes, and using an unknown value makes the expression unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from runbook.codec import MAX_INTEGER_BITS, UNKNOWN
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.values.types import Json, Raw, Unknown

LONGEST = 1_000_000
"""The maximum number of characters or elements of one value."""


class UnknownTouched(Exception):
    """An expression used an unknown value; the message names the value and the reason why it is unknown."""

    def __init__(self, why: str, probe: str = "") -> None:
        super().__init__(why)
        self.unknown = Unknown(why=why, probe=probe)


class View(Mapping[str, Any]):
    """A JSON object whose keys are attributes, even if a dict has a method of the same name."""

    def __init__(self, inner: Mapping[str, Json]) -> None:
        self._inner = inner

    def __getitem__(self, key: str) -> Any:
        return known(view(self._inner[key]))

    def field(self, key: str) -> Any:
        """Return the value of *key*, even if the value is unknown.  Raises KeyError."""
        return view(self._inner[key])

    def inside(self) -> Iterator[tuple[str, Any]]:
        """Return every key with its value, even if the value is unknown."""
        return ((key, view(value)) for key, value in self._inner.items())

    def __iter__(self) -> Iterator[str]:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __hash__(self) -> int:
        return hash(repr(self._inner))

    def __eq__(self, other: object) -> bool:
        """Raises UnknownTouched if the result depends on an unknown value."""
        if not isinstance(other, Mapping) or set(self._inner) != set(other):
            return False
        theirs = other._inner if isinstance(other, View) else other
        pairs = [(view(value), view(theirs[key])) for key, value in self._inner.items()]
        unlike = [one != two for one, two in pairs if not isinstance(one, Silent) and not isinstance(two, Silent)]
        return not any(unlike) and all(one == two for one, two in pairs)

    def __str__(self) -> str:
        if "pid" in self._inner and "command" in self._inner:
            command = " ".join(str(self._inner["command"]).split())
            short = command if len(command) <= 80 else command[:79] + "…"
            user = f" ({self._inner['user']})" if self._inner.get("user") else ""
            return f"pid {self._inner['pid']}{user} {short}"
        return str(self._inner)

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Silent:
    """An unknown probe, or an unknown field of a probe: every use raises UnknownTouched, also a test for truth or
    equality.
    """

    why: str
    probe: str = ""
    """See ``Unknown.probe``."""

    def _touched(self, *_: Any) -> Any:
        raise UnknownTouched(self.why, self.probe)

    __bool__ = __len__ = __iter__ = __contains__ = __int__ = __float__ = __index__ = __neg__ = __abs__ = _touched
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _touched
    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __floordiv__ = (
        __rfloordiv__
    ) = __mod__ = __rmod__ = _touched
    __hash__ = object.__hash__


def view(value: Any) -> Any:
    match value:
        case Unknown(why=why, probe=probe):
            return Silent(why, probe)
        case Raw(value=inner):
            return view(inner)
        case Mapping() if tuple(value) == (UNKNOWN,):
            return Silent(str(value[UNKNOWN]))
        case View() | Silent() | str():
            return value
        case Mapping():
            return View(value)
        case Sequence():
            return [view(each) for each in value]
    return value


def known(value: Any) -> Any:
    if isinstance(value, Silent):
        raise UnknownTouched(value.why, value.probe)
    return value


def finite(value: Any) -> Any:
    """Return *value* unchanged.  Raises ValueError if it is a number that no report can hold."""
    if isinstance(value, float) and not isfinite(value):
        raise ValueError(f"the result is not a finite number ({value})")
    if isinstance(value, int) and value.bit_length() > MAX_INTEGER_BITS:
        raise ValueError(f"the result is a whole number of {value.bit_length()} bits")
    return value


def plain(value: Any, *, gaps: bool = False) -> Any:
    """Return *value* as plain JSON, without views.

    With *gaps*, an unknown value inside becomes a text that says so.
    """
    if gaps and isinstance(value, Silent):
        return f"unknown: {value.why}"
    match known(value):
        case View() as view:
            return {key: plain(it, gaps=gaps) for key, it in view.inside()}
        case Mapping() as mapping:
            return {str(key): plain(value, gaps=gaps) for key, value in mapping.items()}
        case str() | int() | float() | None as scalar:
            return finite(scalar)
        case list() | tuple() | set() | frozenset() as many:
            return [plain(each, gaps=gaps) for each in many]
        case Iterator() as some:
            return [plain(it, gaps=gaps) for _, it in zip(range(LONGEST), some, strict=False)]
    raise ConfigError(f"an expression returned a {type(value).__name__}, which playbooks cannot use")
