"""Determine the type of an expression before its evaluation, as far as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import Any

from jinja2 import nodes

from runbook.dataclass import dataclass


class Kind(StrEnum):
    """The kind of a value, in words."""

    ANY = "anything"
    NONE = "none"
    BOOLEAN = "a boolean"
    NUMBER = "a number"
    TEXT = "text"
    LIST = "a list"
    MAPPING = "a mapping"


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a value.  If the value may also be unknown or none, this is the type of its other values."""

    kind: Kind
    fields: Mapping[str, Type] = field(default_factory=dict)
    element: Type | None = None
    """The type of the elements of a list, or of the values of a mapping; None: unknown."""
    choices: tuple[str, ...] = ()
    """The only texts that the value can be; empty if it can be any text."""
    keys: tuple[str, ...] | None = None
    """The only keys that a mapping can have; None if it can have any key."""
    named_by: tuple[str, ...] = ()
    """The arguments of the probe that define the keys or choices of this value."""


ANY = Type(Kind.ANY)
NUMBER = Type(Kind.NUMBER)
TEXT = Type(Kind.TEXT)
BOOLEAN = Type(Kind.BOOLEAN)

Types = Mapping[str, Type]
"""Names with their types."""

RESULTS: Mapping[str, Type] = {
    **dict.fromkeys(("length", "count", "int", "float", "round", "abs", "wordcount"), NUMBER),
    **dict.fromkeys(("string", "join", "lower", "upper", "title", "capitalize", "trim", "replace", "counted"), TEXT),
}
"""Filters whose result has always the same type."""

SAME_ELEMENTS = frozenset({"selectattr", "rejectattr", "select", "reject", "list", "sort", "unique", "reverse"})
ONE_ELEMENT = frozenset({"first", "last", "min", "max"})
ARITHMETIC = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow)


def type_of(node: Any, names: Types) -> Type:
    """Return the type of the expression *node*; *names* has the types of names.  ``ANY`` if it is not known."""
    match node:
        case nodes.Const():
            return _of_constant(node.value)
        case nodes.Name():
            return names.get(node.name, ANY)
        case nodes.Getattr():
            return field_of(type_of(node.node, names), node.attr)
        case nodes.Getitem():
            return _item(type_of(node.node, names), node.arg)
        case nodes.Filter() if node.node is not None:
            return _filtered(node, type_of(node.node, names))
        case nodes.List() | nodes.Tuple():
            return Type(Kind.LIST, element=common(type_of(each, names) for each in node.items))
        case nodes.Dict():
            return Type(Kind.MAPPING)
        case nodes.Concat():
            return TEXT
        case nodes.Compare() | nodes.Not() | nodes.Test():
            return BOOLEAN
        case nodes.And() | nodes.Or():
            return common((type_of(node.left, names), type_of(node.right, names)))
        case nodes.CondExpr() if node.expr2 is not None:
            return common((type_of(node.expr1, names), type_of(node.expr2, names)))
        case nodes.Neg() | nodes.Pos():
            return type_of(node.node, names)
    if isinstance(node, ARITHMETIC):
        sides = (type_of(node.left, names), type_of(node.right, names))
        return NUMBER if all(side.kind is Kind.NUMBER for side in sides) else ANY
    return ANY


def field_of(whole: Type, path: str) -> Type:
    """Return the type of the value at *path* (``process.user``) in a value of type *whole*."""
    for name in path.split("."):
        inner = whole.element if whole.kind is Kind.MAPPING else None
        whole = whole.fields.get(name) or inner or ANY
    return whole


def common(types: Iterable[Type]) -> Type:
    """Return the type that all *types* have in common, or ``ANY``; the type of none is ignored."""
    found = [each for each in types if each.kind is not Kind.NONE]
    if not found or len({each.kind for each in found}) > 1:
        return ANY
    return found[0] if all(each == found[0] for each in found) else Type(found[0].kind)


def _of_constant(value: Any) -> Type:
    match value:
        case None:
            return Type(Kind.NONE)
        case bool():
            return BOOLEAN
        case int() | float():
            return NUMBER
        case str():
            return TEXT
    return ANY


def _item(whole: Type, key: Any) -> Type:
    value = key.value if isinstance(key, nodes.Const) else None
    if isinstance(value, str):
        return field_of(replace(whole, fields={value: whole.fields.get(value, whole.element or ANY)}), value)
    if isinstance(key, nodes.Slice):
        return whole if whole.kind is Kind.LIST else ANY
    return whole.element or ANY if whole.kind is Kind.LIST else ANY


def _filtered(node: nodes.Filter, source: Type) -> Type:
    if node.name in RESULTS:
        return RESULTS[node.name]
    if node.name in SAME_ELEMENTS:
        return source if source.kind is Kind.LIST else ANY
    if node.name in ONE_ELEMENT and source.kind is Kind.LIST:
        return source.element or ANY
    if node.name == "map":
        return Type(Kind.LIST, element=_mapped(node, source.element or ANY))
    return ANY


def _mapped(node: nodes.Filter, element: Type) -> Type:
    given = [keyword.value for keyword in node.kwargs if keyword.key == "attribute"]
    match node.args, given:
        case [], [nodes.Const(value=str(path))]:
            return field_of(element, path)
        case [nodes.Const(value=str(name)), *_], _:
            return RESULTS.get(name, ANY)
    return ANY
