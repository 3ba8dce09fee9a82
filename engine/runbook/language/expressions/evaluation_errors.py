"""Explain why an expression could not be evaluated: which value of which probe is missing or of the wrong type."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from jinja2 import TemplateError, nodes

from runbook.language.expressions.views import View

SHOWN = 160
"""The maximum number of characters of the expression that a message repeats."""

BY_ATTRIBUTE = ("selectattr", "rejectattr", "map", "sum", "sort", "unique", "groupby", "min", "max")
"""Filters that take the name of an attribute of each item."""

KINDS = {
    "NoneType": "no value (null)",
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "str": "a text",
    "list": "a list",
    "dict": "a mapping",
    "View": "a mapping",
}
_COMPARED = re.compile(r"'[<>=]+' not supported between instances of '(\w+)' and '(\w+)'")
_COMBINED = re.compile(r"unsupported operand type\(s\) for (\S+): '(\w+)' and '(\w+)'")
_NO_LIST = re.compile(r"'(\w+)' object is not iterable|object of type '(\w+)' has no len\(\)")
_WANTED = re.compile(r"(?:must be real number|argument must be a string or a real number), not '?(\w+)'?")

Value = Callable[[nodes.Node], Any]
"""A function that evaluates a part of an expression.  It may raise any exception."""


def explained(text: str, error: Exception, tree: nodes.Template, value: Value, probes: Collection[str]) -> str:
    """Explain why *text* cannot be filled in: name the missing values, and the probes that *text* uses.

    *tree* is *text*, parsed by Jinja.  *value* evaluates a part of it.  *probes* are the ids of all probes.
    """
    named = [name for name in dict.fromkeys(node.name for node in tree.find_all(nodes.Name)) if name in probes]
    given = f", in what {' and '.join(named)} saw" if named else ""
    missing = list(dict.fromkeys(_missing(tree, value))) if "NoneType" in str(error) else []
    said = f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no value (null)" if missing else _said(error)
    return f"{said}{given} (in: `{_short(text)}`)"


def _said(error: Exception) -> str:
    if isinstance(error, TemplateError):
        return str(error.message or error)
    return _plainly(str(error))


def _plainly(said: str) -> str:
    """Translate Python's words about values of a wrong type into the words of playbooks."""
    if found := _COMPARED.fullmatch(said):
        return f"{_kind(found[1])} cannot be compared with {_kind(found[2])}"
    if found := _COMBINED.fullmatch(said):
        return f"{_kind(found[2])} and {_kind(found[3])} cannot be combined by {found[1].rstrip(':')}"
    if found := _NO_LIST.fullmatch(said):
        return f"{_kind(found[1] or found[2])} is not a list"
    if found := _WANTED.search(said):
        return f"{_kind(found[1])} is not a number"
    return said


def _kind(name: str) -> str:
    return KINDS.get(name, name)


def _missing(tree: nodes.Template, value: Value) -> Iterator[str]:
    """Yield the names of the values in *tree* that are null; values in the items of a list count, too."""
    for node in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if (path := _path(node)) and _quietly(value, node, "") is None:
            yield path
    for node in tree.find_all(nodes.Filter):
        attribute = _attribute(node)
        if not attribute or node.node is None:
            continue
        items = _quietly(value, node.node, [])
        if isinstance(items, list | Iterator) and any(_lacks(item, attribute) for item in items):
            yield attribute


def _quietly(value: Value, node: nodes.Node, otherwise: Any) -> Any:
    try:
        return value(node)
    except Exception:  # it only explains another error: what cannot be explained is left out
        return otherwise


def _lacks(item: Any, attribute: str) -> bool:
    return isinstance(item, View | dict) and attribute in item and item[attribute] is None


def _attribute(node: nodes.Filter) -> str:
    """Return the attribute of each item that the filter *node* reads; empty if there is none, or if it is not
    constant.
    """
    if node.name not in BY_ATTRIBUTE:
        return ""
    by_name = [pair.value for pair in node.kwargs if pair.key == "attribute"]
    given = by_name or (node.args[:1] if node.name in ("selectattr", "rejectattr") else [])
    first = given[0] if given else None
    return first.value if isinstance(first, nodes.Const) and isinstance(first.value, str) else ""


def _path(node: nodes.Node) -> str:
    """Return the source text of a path such as ``probe.field.other``; empty if *node* is not such a path."""
    match node:
        case nodes.Name():
            return node.name
        case nodes.Getattr():
            inner = _path(node.node)
            return f"{inner}.{node.attr}" if inner else ""
        case nodes.Getitem(arg=nodes.Const(value=key)):
            inner = _path(node.node)
            return f"{inner}[{key!r}]" if inner else ""
        case nodes.Getitem(arg=nodes.Getattr() | nodes.Name() as key):
            inner, name = _path(node.node), _path(key)
            return f"{inner}[{name}]" if inner and name else ""
    return ""


def _short(text: str) -> str:
    shown = " ".join(text.split())
    shown = shown.removeprefix("{{ (").removesuffix(") }}").strip() if shown.startswith("{{ (") else shown
    return shown if len(shown) <= SHOWN else f"{shown[: SHOWN - 3]}..."
