"""The rules of the linter about expressions: their length, their names, and what a remedy does with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from runbook.expressions.templates import is_template, names
from runbook.lang.lint.context import LintContext, RuleMatch, texts_of
from runbook.lang.shorthand import EXPRESSIONS
from runbook.lang.yaml_source import Path
from runbook.values.playbook import FindingRule

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
    """Remedies that end other processes, or more of them, than their finding names."""
    lists = "|".join(re.escape(step.id) for step, _ in context.steps if step.action in ("processes", "device_holders"))
    chosen = {rule.id for rule, _ in context.findings if lists and re.search(_CHOOSES.format(lists), rule.when)}
    rules = {rule.id: rule for rule, _ in context.findings}
    for step, path in context.killers.steps:
        found = [rules[name] for name in step.for_ if name in rules]
        given = step.args.get("processes")
        if "processes" in {field.name for field in fields(context.action(step).Args)}:
            if found and isinstance(given, str) and (what := _other_processes(given, found)):
                what = f"{step.id} may end processes that {found[0].id} does not name: {what}"
                yield RuleMatch((*path, step.action, "processes"), what, "give both the same value of `let`")
        elif named := [rule.id for rule in found if rule.id in chosen]:
            what = f"{step.id} may end more processes than {named[0]} names: it chooses them by itself"
            yield RuleMatch(
                (*path, step.action), what, "end: {processes: EXPRESSION}, with the finding's own expression"
            )


def _other_processes(given: str, found: Sequence[FindingRule]) -> str:
    """What *given*, the expression of an `end`, takes that no finding of *found* speaks of; empty: nothing."""
    texts = [text for rule in found for text in (rule.when, rule.say, *rule.evidence.values())]
    theirs = {name for text in texts for name in names(text)}
    if others := sorted(f"{probe}.{field}" for probe, field in names(given) - theirs if field and probe != "inputs"):
        return f"it takes {others[0]}"
    if any(re.search(_CHOOSES.format(r"\w+"), rule.when) for rule in found):
        expression = "".join(given.strip().removeprefix("{{").removesuffix("}}").split())
        whole = re.compile(re.escape(expression) + r"(?![\w.|\[])")
        if not any(whole.search("".join(text.split())) for text in texts):
            return "it leaves out what the finding chooses them by"
    return "it takes them where the finding is not" if _is_negated(given, found) else ""


def processes_elsewhere(context: LintContext) -> Iterator[RuleMatch]:
    """Steps that end processes by the numbers that these have on another host."""
    probes = {step.id: step for step, path in context.steps if path[0] == "diagnose"}
    for step, path in context.killers.steps:
        given = step.args.get("processes")
        named = sorted(root for root, _ in names(given)) if isinstance(given, str) else []
        for probe in (probes[name] for name in named if name in probes):
            if probe.on != step.on or probe.once:
                where = probe.on or "the host of the run"
                where = "one host for all" if probe.once and not probe.on else where
                what = (
                    f"{step.id} ends processes by the numbers that they have on another host: {probe.id} is of {where}"
                )
                yield RuleMatch((*path, step.action, "processes"), what, "probe, and end, on the same host")


def _is_negated(given: str, found: Sequence[FindingRule]) -> bool:
    """Whether a finding is there just where *given* is empty."""
    expression = "".join(given.strip().removeprefix("{{").removesuffix("}}").split())
    return any("".join(rule.when.split()) in (f"not{expression}", f"not({expression})") for rule in found)


_CHOOSES = (
    r"\b(?:{})\.(?:matches|processes|leftover)\b[\s)]*(?:\|\s*(?:selectattr|rejectattr|select|reject|first|last)\b|\[)"
)
"""What takes some out of the list of a probe."""
