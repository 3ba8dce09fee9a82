"""Find comparisons that can never be true, or that always fail, because of the types of the two sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from jinja2 import Environment, TemplateError, nodes

from runbook.language.expressions.parsed_template import named_values
from runbook.language.expressions.static_types import ANY, TEXT, Kind, Type, Types, field_of, type_of
from runbook.language.expressions.templates import as_template
from runbook.text.suggestions import suggest
from runbook.values.playbook import NO_LET, Let

SIGNS = {"eq": "==", "ne": "!=", "gt": ">", "gteq": ">=", "lt": "<", "lteq": "<=", "in": "in", "notin": "not in"}
"""Jinja's names of comparisons, each with its sign in an expression."""

TESTS = {
    **dict.fromkeys(("==", "eq", "equalto"), "=="),
    **dict.fromkeys(("!=", "ne"), "!="),
    **dict.fromkeys((">", "gt", "greaterthan"), ">"),
    **dict.fromkeys(("<", "lt", "lessthan"), "<"),
    **dict.fromkeys((">=", "ge"), ">="),
    **dict.fromkeys(("<=", "le"), "<="),
    "in": "in",
}
"""Tests that compare, as in ``selectattr('seconds', 'gt', 9)``."""

ORDER = (">", ">=", "<", "<=")
ALWAYS = {"==": "is never true", "in": "is never true", "!=": "is always true", "not in": "is always true"}
FILTERS = {"selectattr": 1, "rejectattr": 1, "select": 0, "reject": 0}
"""Filters that compare each element, with the number of arguments before the test."""

NUMERIC = (Kind.NUMBER, Kind.BOOLEAN)
WHOLES = (Kind.LIST, Kind.MAPPING)
MAY_COMPARE = re.compile(r"[<>=]|\b(?:in|is|selectattr|rejectattr|select|reject)\b")
"""Matches every template that may contain a comparison."""

_PARSER = Environment(autoescape=False)  # noqa: S701 - nothing is rendered


class _Side:
    """One side of a comparison."""

    def __init__(self, kind: Type, node: Any = None, name: str = "") -> None:
        self.type, self.kind = kind, kind.kind
        self.written = name or written(node)
        self.constant = node.value if isinstance(node, nodes.Const) else None

    def said(self, side: str) -> str:
        """Return words for a message that name this side and its type; *side* is ``left`` or ``right``."""
        return f"{self.written or f'the {side} side'} is {self.kind.value}"

    def is_number_in_quotes(self) -> bool:
        """Whether the value is a text that would be a number if it had no quotes."""
        return isinstance(self.constant, str) and bool(re.fullmatch(r"-?\d+(?:\.\d+)?", self.constant))


def mistakes_in_comparisons(template: str, names: Types, let: Let = NO_LET) -> Iterator[tuple[str, str]]:
    """Yield each mistake in the comparisons of *template*, with a hint; *names* has the known types of names."""
    if not MAY_COMPARE.search(template) or (tree := tree_of(template, let)) is None:
        return
    names = unbound(tree, names)
    found = {}
    for sign, left, right in _comparisons(tree, names):
        if fault := _fault(sign, left, right):
            whole = f"`{left.written} {sign} {right.written}`" if left.written and right.written else f"`{sign}` here"
            found[f"{whole} {fault}"] = _meant(sign, left, right)
    yield from found.items()


@lru_cache(maxsize=4096)
def tree_of(template: str, let: Let) -> nodes.Template | None:
    """Return the parsed *template*; None if it cannot be parsed (another check reports that)."""
    try:
        return named_values(_PARSER.parse(template), let, lambda value: _PARSER.parse(as_template(value)))
    except (TemplateError, RecursionError):
        return None


def unbound(tree: nodes.Template, names: Types) -> Types:
    """Return *names* without the names to which *tree* itself assigns a value."""
    bound = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    return {name: own for name, own in names.items() if name not in bound}


def _comparisons(tree: Any, names: Types) -> Iterator[tuple[str, _Side, _Side]]:
    for node in tree.find_all((nodes.Compare, nodes.Test, nodes.Filter)):
        match node:
            case nodes.Compare():
                sides = [node.expr, *(operand.expr for operand in node.ops)]
                for number, operand in enumerate(node.ops):
                    left, right = (_Side(type_of(each, names), each) for each in sides[number : number + 2])
                    yield SIGNS[operand.op], left, right
            case nodes.Test() if node.name in TESTS and len(node.args) == 1:
                left, right = (_Side(type_of(each, names), each) for each in (node.node, node.args[0]))
                yield TESTS[node.name], left, right
            case nodes.Filter() if node.name in FILTERS and len(node.args) == FILTERS[node.name] + 2:
                yield from _of_elements(node, names)


def _of_elements(node: nodes.Filter, names: Types) -> Iterator[tuple[str, _Side, _Side]]:
    """Yield the comparison that a filter such as ``selectattr`` makes with each element: the sign and the two sides."""
    *attribute, test, given = node.args
    sign = TESTS.get(test.value) if isinstance(test, nodes.Const) else None
    path = attribute[0].value if attribute and isinstance(attribute[0], nodes.Const) else ""
    if not sign or (attribute and not isinstance(path, str)) or (attribute and not path):
        return
    element = type_of(node.node, names).element or ANY
    left = _Side(field_of(element, path) if path else element, None, path or "each element")
    yield sign, left, _Side(type_of(given, names), given)


def _fault(sign: str, left: _Side, right: _Side) -> str:
    """Return the mistake in the comparison of *left* and *right* by *sign*; empty if no mistake is known."""
    if sign in ("in", "not in"):
        return _fault_in_search(sign, left, right)
    kinds = {left.kind, right.kind}
    if Kind.ANY in kinds:
        return ""
    if sign not in ORDER:
        if Kind.NONE in kinds or _alike(left.kind, right.kind):
            return _not_a_choice(left, right, sign) or _not_a_choice(right, left, sign)
        return f"{ALWAYS[sign]}: {left.said('left')}, {right.said('right')}"
    if isinstance(left.constant, str) and isinstance(right.constant, str):
        return "compares two texts that stand there as they are: what it gives never changes"
    if Kind.NONE in kinds or Kind.MAPPING in kinds or not _alike(left.kind, right.kind):
        return f"always fails: {left.said('left')}, {right.said('right')}"
    return ""


def _fault_in_search(sign: str, left: _Side, right: _Side) -> str:
    """Return the mistake in ``left in right`` or ``left not in right``; empty if no mistake is known."""
    if right.kind in (*NUMERIC, Kind.NONE):
        return f"always fails: {right.said('right')}, and nothing is in it"
    if left.kind is Kind.ANY:
        return ""
    if isinstance(left.constant, str) and (known := _names_in(right)) and left.constant not in known:
        return (
            f"{ALWAYS[sign]}: {right.written or 'what it is searched in'} can have only {', '.join(map(repr, known))}"
        )
    if right.kind is Kind.TEXT and left.kind is not Kind.TEXT:
        return f"always fails: {left.said('left')}, and only text can be in {right.written or 'text'}"
    element = (right.type.element or ANY).kind if right.kind is Kind.LIST else Kind.ANY
    if element in (Kind.ANY, Kind.NONE) or left.kind is Kind.NONE or _alike(left.kind, element):
        return ""
    return f"{ALWAYS[sign]}: {left.said('left')}, each element of {right.written or 'the list'} is {element.value}"


def _names_in(side: _Side) -> tuple[str, ...]:
    """Return the only texts that *side* can contain; an empty tuple if it can contain any text."""
    return (side.type.keys or ()) if side.kind is Kind.MAPPING else (side.type.element or ANY).choices


def _alike(one: Kind, other: Kind) -> bool:
    return one is other or (one in NUMERIC and other in NUMERIC)


def _not_a_choice(side: _Side, other: _Side, sign: str) -> str:
    """Return the mistake if *side* can only be one of a few texts and *other* is a different text; empty if there is
    none.
    """
    if not side.type.choices or not isinstance(other.constant, str) or other.constant in side.type.choices:
        return ""
    few = ", ".join(repr(choice) for choice in side.type.choices)
    return f"{ALWAYS[sign]}: {side.written or 'the other side'} is one of {few}"


def _meant(sign: str, left: _Side, right: _Side) -> str:
    """Return a hint that says what the author probably meant by the comparison."""
    for side, other in ((left, right), (right, left)):
        if isinstance(other.constant, str) and (known := _names_in(side)):
            return suggest(other.constant, known, "")
        if isinstance(other.constant, str) and side.type.choices:
            return suggest(other.constant, side.type.choices, "")
        if side.is_number_in_quotes() and other.kind is Kind.NUMBER:
            return f"write {side.constant} without quotes"
        if side.kind is Kind.BOOLEAN and other.kind is Kind.TEXT and str(other.constant).lower() in ("true", "false"):
            return f"write {str(other.constant).lower()} without quotes"
        if side.kind in WHOLES and other.kind is Kind.NUMBER and side.written and sign not in ("in", "not in"):
            one, two = (f"{each.written} | length" if each is side else each.written for each in (left, right))
            return f"`{one} {sign} {two}`?" if one and two else f"`{side.written} | length`?"
        if side.kind in WHOLES and other.kind is Kind.BOOLEAN and side.written:
            return f"`{side.written}` alone is true where it is not empty"
        if side.kind is Kind.TEXT and other.kind is Kind.NUMBER and sign in ("==", "!=") and other.constant is not None:
            return f"write {str(other.constant)!r} in quotes"
        if side.kind is Kind.LIST and side.type.element == TEXT and other.kind is Kind.TEXT and sign == "==":
            return f"`{other.written} in {side.written}`?" if side.written and other.written else ""
    if isinstance(left.constant, str) and isinstance(right.constant, str) and sign in ORDER:
        return f"write names and numbers without quotes: `{left.constant} {sign} {right.constant}`?"
    return ""


def written(node: Any) -> str:
    """Return the source text of *node* for a sentence; empty if the source text is too long for a sentence."""
    match node:
        case nodes.Const():
            return str(node.value).lower() if isinstance(node.value, bool | None) else repr(node.value)[:40]
        case nodes.Name():
            return str(node.name)
        case nodes.Getattr():
            return f"{inner}.{node.attr}" if (inner := written(node.node)) else ""
        case nodes.Getitem():
            inner, key = written(node.node), written(node.arg)
            return f"{inner}[{key}]" if inner and key else ""
        case nodes.Filter() if not node.args and not node.kwargs and node.node is not None:
            return f"{inner} | {node.name}" if (inner := written(node.node)) else ""
        case nodes.Neg():
            return f"-{inner}" if (inner := written(node.node)) else ""
    return ""
