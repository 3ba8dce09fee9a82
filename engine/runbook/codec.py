"""Convert values to JSON and back (law 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any, TypeVar, get_args

from runbook.values.types import Json, Raw, Unknown

T = TypeVar("T")

UNKNOWN = "$unknown"
"""The key that marks a field without an answer: ``{"$unknown": "why"}``."""


NOT_THEIRS = f"the host uses the key {UNKNOWN}, which stands here for what is not known"
"""The reason why a mapping of a host's own is not taken as the host has it."""

DEEPEST = 100
"""Levels of nesting in a value: what lies deeper is not known."""

MAX_INTEGER_BITS = 4096
"""Bits of a whole number: Python writes none of over 4300 digits."""

MOST_REASONS = 3
"""Fields that are named where a tree is no value of its kind."""


def to_json(value: object, depth: int = 0) -> Json:
    """Return *value* in JSON form: dataclasses become objects, tuples arrays, enums their values.

    A ``private`` field is left out.  A number that JSON does not have, and a value that is nested too deep, become
    unknown, so that one host's odd answer does not spoil the report on all others.
    """
    kind = type(value)
    if kind in _AS_IT_IS:
        return value  # type: ignore[return-value]
    if depth > DEEPEST:
        return {UNKNOWN: f"nested deeper than {DEEPEST} levels"}
    return _writer(kind)(value, depth + 1)  # type: ignore[arg-type]  # every class can be hashed


_AS_IT_IS = frozenset({str, bool, type(None)})


@cache
def _writer(kind: type) -> Callable[[Any, int], Json]:
    """Return the function that gives a value of *kind*, at a depth, its JSON form; raises TypeError if it has none."""
    if issubclass(kind, list | tuple):
        return lambda value, depth: [to_json(each, depth) for each in value]
    if issubclass(kind, Unknown):
        return lambda value, _: {UNKNOWN: value.why}
    if issubclass(kind, Raw | Enum):
        return lambda value, depth: to_json(value.value, depth)
    if issubclass(kind, float):
        return lambda value, _: value if isfinite(value) else {UNKNOWN: f"{value} is not a JSON number"}
    if issubclass(kind, int):
        return _integer
    if issubclass(kind, str):
        return lambda value, _: value
    if issubclass(kind, Mapping):
        return lambda value, depth: {str(key): to_json(it, depth) for key, it in value.items()}
    if issubclass(kind, set | frozenset):
        return lambda value, depth: sorted((to_json(each, depth) for each in value), key=str)
    if is_dataclass(kind):
        fields_ = _public_fields(kind)
        return lambda value, depth: {name: to_json(getattr(value, field), depth) for field, name in fields_}
    return _unwritable


def _integer(value: int, _: int) -> Json:
    return {UNKNOWN: f"a whole number of {value.bit_length()} bits"} if value.bit_length() > MAX_INTEGER_BITS else value


def _unwritable(value: object, _: int) -> Json:
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


@cache
def _public_fields(kind: type) -> tuple[tuple[str, str], ...]:
    """The fields of the dataclass *kind* that are written, each with its name in JSON."""
    return tuple((field.name, field.name.rstrip("_")) for field in fields(kind) if not field.metadata.get("private"))


def from_host(value: Json) -> Json | Unknown:
    """Return *value*, the output of a host; a mapping in it with our own key UNKNOWN becomes unknown, with our reason.

    Otherwise a host could forge a field without an answer, and its reason.
    """
    made = _without_our_key(value)
    return Unknown(why=NOT_THEIRS) if made == {UNKNOWN: NOT_THEIRS} else made


def _without_our_key(value: Json) -> Json:
    match value:
        case Mapping():
            whole = {key: _without_our_key(it) for key, it in value.items()}
            return {UNKNOWN: NOT_THEIRS} if UNKNOWN in whole else whole
        case list() | tuple():
            return [_without_our_key(each) for each in value]
    return value


def from_json(kind: type[T], data: Any) -> T:
    """The value of *kind* that ``to_json`` made *data* from.  Raises ValueError when it cannot be one."""
    try:
        made: T = _converter().structure(data, kind)
    except Exception as error:
        raise ValueError(f"not a {getattr(kind, '__name__', kind)}: {_reasons(error)}") from error
    return made


def first_difference(written: Json, read: Json, where: str = "$") -> str:
    """Return the first place where *written* and *read* differ, as ``$.steps[3].pid``; empty: they are equal.

    A file of ours is trusted if its parsed content is written identically again, because ``from_json`` accepts a number
    in place of a text.  A field that *written* lacks is no difference.
    """
    if isinstance(written, Mapping) and isinstance(read, Mapping):
        pairs = [(f"{where}.{name}", value, read.get(name)) for name, value in written.items()]
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        both = enumerate(zip(written, read, strict=True))
        pairs = [(f"{where}[{number}]", one, other) for number, (one, other) in both]
    else:
        same = written == read and isinstance(written, bool) is isinstance(read, bool)
        return "" if same else where
    return next(filter(None, (first_difference(one, other, place) for place, one, other in pairs)), "")


def _reasons(error: Exception) -> str:
    """Return the first fields that caused *error*, with their mistakes: ``expected int @ $.steps[3].pid``."""
    from cattrs import transform_error

    return "; ".join(dict.fromkeys(transform_error(error)[:MOST_REASONS]))


@cache
def _converter() -> Any:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override

    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(_is_json, lambda data, _: data)
    converter.register_structure_hook(float, _finite)
    converter.register_structure_hook(Unknown, lambda data, _: Unknown(why=data[UNKNOWN]))

    def structure_dataclass(kind: type[Any]) -> Any:
        renamed: dict[str, Any] = {
            field.name: override(rename=field.name.rstrip("_")) for field in fields(kind) if field.name.endswith("_")
        }
        return make_dict_structure_fn(kind, converter, **renamed)

    converter.register_structure_hook_factory(is_dataclass, structure_dataclass)

    def structure_union(union: Any) -> Any:
        by_kind = {_tag(member): member for member in get_args(union)}

        def made(data: Any, _: Any) -> Any:
            kind = by_kind.get(data["kind"])
            if kind is None:
                raise ValueError(f"{data['kind']!r} is none of: {', '.join(by_kind)}")
            return converter.structure({name: value for name, value in data.items() if name != "kind"}, kind)

        return made

    converter.register_structure_hook_factory(_is_tagged_union, structure_union)
    return converter


def _finite(data: Any, _: type[float]) -> float:
    """The number *data*.  Raises ValueError where ``to_json`` could not have written it, as 1e400."""
    number = float(data)
    if not isfinite(number):
        raise ValueError(f"{data} is not a JSON number")
    return number


def _is_json(kind: Any) -> bool:
    """Whether *kind* is ``Json``, in any of the forms that resolving its recursion leaves."""
    members = set(get_args(kind))
    return kind is Json or {str, int, float, bool} <= members


def _is_tagged_union(kind: Any) -> bool:
    """Whether *kind* is a union of dataclasses, each of which has a field ``kind``."""
    members = get_args(kind)
    return len(members) > 1 and all(
        is_dataclass(each) and any(field.name == "kind" for field in fields(each)) for each in members
    )


def _tag(kind: Any) -> str:
    """The ``kind`` of a member of a union: the default of that field."""
    return next(str(field.default) for field in fields(kind) if field.name == "kind")
