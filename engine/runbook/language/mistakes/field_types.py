"""Determine the types of the names in expressions: fields of probes, inputs, and facts of every host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from runbook.language.arguments import hints_of
from runbook.language.expressions.comparison import ACROSS, Compared
from runbook.language.expressions.static_types import ANY, BOOLEAN, NUMBER, TEXT, Kind, Type, Types, common
from runbook.language.expressions.templates import is_template
from runbook.protocols import Action
from runbook.values.playbook import Playbook, Step
from runbook.values.sampling import Series
from runbook.values.types import Json, Unknown

DEEPEST = 5
"""The maximum depth to which types of nested fields are determined."""

SIMPLE: Mapping[Any, Type] = {str: TEXT, int: NUMBER, float: NUMBER, bool: BOOLEAN}
HOST = Type(
    Kind.ANY,
    {**dict.fromkeys(("name", "address", "user", "status"), TEXT), "groups": Type(Kind.LIST, element=TEXT)},
)
RUN = Type(Kind.ANY, dict.fromkeys(("id", "playbook"), TEXT))
OF_SCHEMA: Mapping[str, Type] = {
    "string": TEXT,
    "integer": NUMBER,
    "number": NUMBER,
    "boolean": BOOLEAN,
    "object": Type(Kind.MAPPING),
}


def types_of_names(book: Playbook, actions: Mapping[str, Action]) -> Types:
    """Return the types of all names that the expressions of *book* may use."""
    inputs = Type(Kind.ANY, {each.name: _of_schema(each.schema) for each in book.inputs})
    probes = {step.id: _of_probe(step, actions[step.action]) for step in book.diagnose}
    return {**probes, "inputs": inputs, "host": HOST, "run": RUN, ACROSS: _of_hint(Compared, DEEPEST)}


def _of_probe(step: Step, action: Action) -> Type:
    made = _with_names(_of_hint(action.State, DEEPEST), step, action)  # type: ignore[arg-type] # classes are hashable
    if step.samples:
        series = _of_hint(Series, DEEPEST)
        made = replace(series, fields={**series.fields, "samples": _list_of(made)})
    return _list_of(made) if step.each else made


def _with_names(made: Type, step: Step, action: Action) -> Type:
    """Return *made* with the keys and choices that the arguments of *step* define (``named_by`` of a field)."""
    inner = {name: _with_names(each, step, action) for name, each in made.fields.items()}
    element = _with_names(made.element, step, action) if made.element else None
    made = replace(made, fields=inner, element=element) if inner or element else made
    names = _names_given(step, action, made.named_by) if made.named_by else None
    match made.kind:
        case _ if names is None:
            return made
        case Kind.MAPPING:
            return replace(made, keys=names)
        case Kind.LIST:
            return replace(made, element=replace(made.element or TEXT, choices=names))
    return replace(made, choices=names)


def _names_given(step: Step, action: Action, arguments: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names in *arguments* of *step*; None if one of them contains a template."""
    defaults = {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(action.Args)
    }
    names: list[Any] = []
    for argument in arguments:
        given = step.args.get(argument, defaults[argument])
        if not isinstance(given, Mapping | list | tuple):
            return None
        names += given
    return None if any(not isinstance(name, str) or is_template(name) for name in names) else tuple(names)


def _list_of(element: Type) -> Type:
    return Type(Kind.LIST, element=element)


def _of_schema(schema: Mapping[str, Json]) -> Type:
    kind = schema.get("type")
    kinds = [word for word in (kind if isinstance(kind, list) else [kind]) if word != "null"]
    if len(kinds) != 1:
        return ANY
    if kinds[0] == "array":
        items = schema.get("items")
        return _list_of(_of_schema(items) if isinstance(items, Mapping) else ANY)
    return OF_SCHEMA.get(str(kinds[0]), ANY)


@cache
def _of_hint(hint: Any, deepest: int) -> Type:
    """Return the type that *hint*, the annotation of a field, describes."""
    origin, given = get_origin(hint), get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if deepest == 0:
        return ANY
    if is_dataclass(hint) and isinstance(hint, type):
        named = {each.name: each.metadata.get("named_by", ()) for each in fields(hint)}
        inner = {name: _of_hint(inner, deepest - 1) for name, inner in hints_of(hint).items()}
        marked = {name: replace(inner[name], named_by=by) for name, by in named.items() if by}
        return Type(Kind.MAPPING, {**inner, **marked})
    if origin in (Union, UnionType):
        return common(_of_hint(each, deepest) for each in given if each not in (Unknown, NoneType))
    if origin is Literal:
        return Type(Kind.TEXT, choices=given) if all(isinstance(each, str) for each in given) else ANY
    if origin is tuple:
        return _list_of(common(_of_hint(each, deepest - 1) for each in given if each is not ...))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Type(Kind.MAPPING, element=_of_hint(given[1], deepest - 1))
    return ANY
