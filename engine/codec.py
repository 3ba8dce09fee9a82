"""Values to JSON, and back: the round trip that law 7 asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from math import isfinite
from typing import Any, TypeVar, get_args

from engine.values.types import Json, Raw, Unknown

T = TypeVar("T")

UNKNOWN = "$unknown"
"""The key that marks a field without an answer: ``{"$unknown": "why"}``."""


DEEPEST = 100
"""Levels of nesting in a value: what lies deeper is not known."""

LARGEST = 4096
"""Bits of a whole number: Python writes none of over 4300 digits."""


def to_json(value: object, depth: int = 0) -> Json:
    """*value* as JSON has it: dataclasses become objects, tuples arrays, enums their values.

    A field whose metadata say ``private`` is left out.  A number that JSON does not have, and what is nested too deep,
    is not known: one host's odd answer must not cost the report on all the others.
    """
    if depth > DEEPEST:
        return {UNKNOWN: f"nested deeper than {DEEPEST} levels"}
    deeper = depth + 1
    match value:
        case Unknown(why=why):
            return {UNKNOWN: why}
        case Raw(value=inner):
            return to_json(inner, deeper)
        case Enum():
            return to_json(value.value, deeper)
        case float() if not isfinite(value):
            return {UNKNOWN: f"{value} is not a number that JSON has"}
        case int() if value.bit_length() > LARGEST:
            return {UNKNOWN: f"a whole number of {value.bit_length()} bits"}
        case str() | int() | float() | None:
            return value
        case Mapping():
            return {str(key): to_json(it, deeper) for key, it in value.items()}
        case list() | tuple():
            return [to_json(it, deeper) for it in value]
        case set() | frozenset():
            return sorted((to_json(it, deeper) for it in value), key=str)
        case _ if is_dataclass(value):
            shown = [it for it in fields(value) if not it.metadata.get("private")]
            return {it.name.rstrip("_"): to_json(getattr(value, it.name), deeper) for it in shown}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_json(kind: type[T], data: Any) -> T:
    """The value of *kind* that ``to_json`` made *data* from.  Raises ValueError when it cannot be one."""
    try:
        made: T = _converter().structure(data, kind)
    except Exception as error:
        raise ValueError(f"not a {getattr(kind, '__name__', kind)}: {error}") from error
    return made


@cache
def _converter() -> Any:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn, override
    from cattrs.strategies import configure_tagged_union

    from engine.values import event, plan

    converter = Converter(forbid_extra_keys=True)
    converter.register_structure_hook_func(_is_json, lambda data, _: data)
    converter.register_structure_hook(Unknown, lambda data, _: Unknown(why=data[UNKNOWN]))

    def structure_dataclass(kind: type[Any]) -> Any:
        renamed: dict[str, Any] = {
            it.name: override(rename=it.name.rstrip("_")) for it in fields(kind) if it.name.endswith("_")
        }
        return make_dict_structure_fn(kind, converter, **renamed)

    converter.register_structure_hook_factory(is_dataclass, structure_dataclass)
    unions: tuple[Any, ...] = (plan.Decision, event.Event)
    for union in unions:
        configure_tagged_union(union, converter, tag_name="kind", tag_generator=_tag)
    return converter


def _is_json(kind: Any) -> bool:
    """Whether *kind* is ``Json``, in any of the forms that resolving its recursion leaves."""
    members = set(get_args(kind))
    return kind is Json or {str, int, float, bool} <= members


def _tag(kind: Any) -> str:
    """The ``kind`` of a member of a union: the default of that field."""
    return next(str(it.default) for it in fields(kind) if it.name == "kind")
