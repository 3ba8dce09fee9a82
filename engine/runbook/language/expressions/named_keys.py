"""Check the keys of a mapping that must be names from the same playbook (such as those of signatures)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jinja2 import nodes

from runbook.language.expressions.compared_types import tree_of, unbound, written
from runbook.language.expressions.static_types import ANY, Kind, Type, Types, field_of, type_of
from runbook.text.suggestions import suggest
from runbook.values.playbook import Let

OF_ELEMENTS = {"map": (), "groupby": (0,), "selectattr": (0,), "rejectattr": (0,)}
"""Filters that take an attribute of each element, with the position of the argument that names the attribute."""

SINGLE = (Kind.LIST, Kind.TEXT, Kind.NUMBER, Kind.BOOLEAN)
"""The kinds of values that have no keys."""


def mistakes_in_keys(template: str, names: Types, let: Let) -> Iterator[tuple[str, str]]:
    """Yield each key that *template* reads from a mapping that cannot have the key, or from a list, with a hint."""
    if (tree := tree_of(template, let)) is None:
        return
    names = unbound(tree, names)
    called = {id(call.node) for call in tree.find_all(nodes.Call)}
    found: dict[str, str] = {}
    for node in tree.find_all((nodes.Getattr, nodes.Getitem, nodes.Call, nodes.Filter)):
        if id(node) in called:
            continue
        for source, key in _taken(node):
            found |= _fault(type_of(source, names), key, source)
        if isinstance(node, nodes.Filter) and (path := _attribute(node)):
            found |= _fault_in_path(type_of(node.node, names).element or ANY, path)
    yield from found.items()


def _taken(node: Any) -> Iterator[tuple[Any, str]]:
    """Yield each constant key that *node* reads, with the node from which it is read."""
    match node:
        case nodes.Getattr():
            yield node.node, node.attr
        case nodes.Getitem(arg=nodes.Const(value=str(key))):
            yield node.node, key
        case nodes.Call(node=nodes.Getattr(node=source, attr="get"), args=[nodes.Const(value=str(key)), *_]):
            yield source, key


def _attribute(node: nodes.Filter) -> str:
    """Return the attribute of each element that the filter *node* reads; empty if there is none, or if it is not
    constant.
    """
    named = [keyword.value for keyword in node.kwargs if keyword.key == "attribute"]
    given = [node.args[place] for place in OF_ELEMENTS.get(node.name, ()) if place < len(node.args)]
    texts = [each.value for each in (*given, *named) if isinstance(each, nodes.Const) and isinstance(each.value, str)]
    return texts[0] if texts else ""


def _fault_in_path(whole: Type, path: str) -> dict[str, str]:
    """Return the first mistake in the keys of *path* (``counts.timed_out``) with its hint; *whole* is the type at its
    start.
    """
    for key in path.split("."):
        if whole.keys is not None and key not in whole.keys:
            return {f"`{path}`: there is no {key!r}": suggest(key, whole.keys)}
        whole = field_of(whole, key)
    return {}


def _fault(source: Type, key: str, node: Any) -> dict[str, str]:
    """Return the mistake in reading *key* from *node*, with its hint; *source* is the type of *node*."""
    name = written(node)
    if source.kind is Kind.MAPPING and source.keys is not None and key not in source.keys:
        return {f"{name or 'the mapping'} has no {key!r}": suggest(key, source.keys)}
    if source.kind in SINGLE and name and not isinstance(node, nodes.Name):
        hint = f"{name}[0].{key}, or {name} | map(attribute='{key}')" if source.kind is Kind.LIST else ""
        return {f"{name} is {source.kind}, without {key!r}": hint}
    return {}
