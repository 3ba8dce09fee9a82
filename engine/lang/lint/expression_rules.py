"""The rules of the linter about expressions: their length, their names, and what a remedy does with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from engine.expressions.templates import is_template
from engine.lang.lint.context import LintContext, RuleMatch, texts_of
from engine.lang.shorthand import EXPRESSIONS
from engine.lang.yaml_source import Path

LONGEST = 160
"""Characters of an expression that can be read at a glance."""

_PIECES = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)

SECTIONS = ("let", "diagnose", "findings", "remediate", "verify")


def long_expressions(context: LintContext) -> Iterator[RuleMatch]:
    """Expressions that are too long to be read, as they are written."""
    for section in SECTIONS:
        for path, text in _expressions(context.written.get(section), (section,), around=section):
            if (length := len(" ".join(text.split()))) > LONGEST:
                what = f"an expression of {length} characters; more than {LONGEST} are hard to read"
                yield RuleMatch(path, what, "name a part of it under `let`", written=True)


def _expressions(tree: Any, path: Path, key: str = "", around: str = "") -> Iterator[tuple[Path, str]]:
    """Every expression in *tree* with its place."""
    match tree:
        case str() if is_template(tree):
            yield from ((path, piece) for piece in _PIECES.findall(tree))
        case str() if key in EXPRESSIONS or around in ("evidence", "let"):
            yield path, tree
        case Mapping():
            for name, value in tree.items():
                yield from _expressions(value, (*path, name), str(name), key or around)
        case list():
            for number, each in enumerate(tree):
                yield from _expressions(each, (*path, number))


def unused_values(context: LintContext) -> Iterator[RuleMatch]:
    """Values of ``let`` that nothing uses."""
    tree = {key: context.written.get(key) for key in ("diagnose", "findings", "remediate", "verify")}
    for name in context.written.get("let") or ():
        later = [value for other, value in context.written["let"].items() if other != name]
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in (*texts_of(tree), *map(str, later))):
            yield RuleMatch(("let", name), f"the value {name!r} is not used", "remove it")


def wider_remedies(context: LintContext) -> Iterator[RuleMatch]:
    """Remedies that choose processes by themselves, where their finding names only some of them."""
    lists = "|".join(re.escape(step.id) for step, _ in context.steps if step.action in ("processes", "device_holders"))
    chosen = {rule.id for rule, _ in context.findings if lists and re.search(_CHOOSES.format(lists), rule.when)}
    for step, path in context.killers.steps:
        named = [name for name in step.for_ if name in chosen]
        if named and "processes" not in {field.name for field in fields(context.action(step).Args)}:
            what = f"{step.id} may end more processes than {named[0]} names: it chooses them by itself"
            yield RuleMatch(
                (*path, step.action), what, "end: {processes: EXPRESSION}, with the finding's own expression"
            )


_CHOOSES = (
    r"\b(?:{})\.(?:matches|processes|leftover)\b[\s)]*(?:\|\s*(?:selectattr|rejectattr|select|reject|first|last)\b|\[)"
)
"""What takes some out of the list of a probe."""
