"""A playbook and its file, in the form in which the lint rules read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, get_args

from jinja2 import nodes

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.language.arguments import hints_of
from runbook.language.expressions.compared_types import tree_of
from runbook.language.expressions.sampling import sampling
from runbook.language.expressions.templates import Scope, as_template, evaluate, is_template, names
from runbook.language.lenient_read import texts_in, unraw
from runbook.language.yaml_source import Document, Path
from runbook.protocols import Action
from runbook.values.playbook import FindingRule, Let, Playbook, Step
from runbook.values.sampling import Sampling
from runbook.values.types import ProcessPattern

_WORD = re.compile(r"(?<![\w.])\w+")


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A place in a playbook that breaks a lint rule."""

    path: Path
    message: str
    hint: str = ""
    written: bool = False
    """Whether *path* is a path in the original file, before groups are written out."""


@dataclass(frozen=True)
class LintContext:
    """A playbook, with the places of its parts in the file."""

    book: Playbook
    document: Document
    """The file with ``defaults`` and groups written out."""
    written: Mapping[str, Any]
    """The tree of the original file."""
    actions: Mapping[str, Action]

    @cached_property
    def steps(self) -> tuple[tuple[Step, Path], ...]:
        """Return the steps of this file, each with its path."""
        by_place = {
            self.document.where((section, number)): (section, number)
            for section in ("diagnose", "remediate", "verify")
            for number in range(len(self.document.value.get(section) or ()))
        }
        return tuple((step, by_place[step.where]) for step in self.book.steps if not step.part)

    @cached_property
    def findings(self) -> tuple[tuple[FindingRule, Path], ...]:
        """Return the findings of this file, each with its path."""
        own = [finding for finding in self.book.findings if not finding.part]
        return tuple((it, ("findings", number)) for number, it in enumerate(own))

    @cached_property
    def drivers(self) -> tuple[FindingRule, ...]:
        """Return the findings that drive remediation."""
        return tuple(finding for finding in self.book.findings if finding.severity.drives)

    @property
    def let(self) -> Let:
        """Return the named expressions (``let``) of this file."""
        return self.book.let[""]

    def tree(self, text: str) -> nodes.Template:
        """Return the tree of *text* (an expression or a template), with the expressions of ``let`` in place of their
        names.
        """
        return tree_of(as_template(text), self.let) or nodes.Template([])

    def constant(self, expression: str) -> bool | None:
        """Return the value of *expression* if it is a constant boolean; None otherwise."""
        try:
            if not expression or names(expression, self.let):
                return None
            answer = evaluate(expression, Scope(let=self.let))
        except ConfigError:
            return None
        return answer if isinstance(answer, bool) else None

    def action(self, step: Step) -> Action:
        """Return the action of *step*."""
        return self.actions[step.action]

    def sampling(self, step: Step) -> Sampling | None:
        """Return the sampling of *step* if every input has its default; None if it has no samples or they are not
        known.
        """
        inputs = {each.name: each.default for each in self.book.inputs if not each.required}
        try:
            return sampling(step.samples, Scope(inputs=inputs, let=self.let)) if step.samples else None
        except ConfigError:
            return None

    @cached_property
    def rungs(self) -> Rungs:
        """Return the remediate steps of this file."""
        return Rungs([(step, path) for step, path in self.steps if path[0] == "remediate"])

    @cached_property
    def killers(self) -> Rungs:
        """Return the remediate steps of this file that end processes."""
        own = [(step, path) for step, path in self.steps if path[0] == "remediate"]
        return Rungs([(step, path) for step, path in own if ends_processes(self.action(step))])

    def patterns(self, step: Step, path: Path) -> Iterator[tuple[str, Path]]:
        """Yield the patterns with which *step* chooses processes, each with its path; also patterns in the default of
        an input.
        """
        for name in pattern_arguments(self.action(step)):
            value, at = unraw(step.args.get(name)), (*path, step.action, name)
            found = re.fullmatch(r"\{\{\s*inputs\.(\w+)\s*\}\}", value) if isinstance(value, str) else None
            if found:
                value = next((each.default for each in self.book.inputs if each.name == found[1]), None)
                at = ("inputs", found[1], "default")
            for number, pattern in enumerate(value if isinstance(value, list) else ()):
                if isinstance(pattern, str) and not is_template(pattern):
                    yield pattern, (*at, number)

    def texts(self) -> Iterator[str]:
        """Yield every text of the file except those under ``inputs``."""
        for section in ("let", "diagnose", "findings", "remediate", "verify"):
            yield from texts_of(self.document.value.get(section))

    @cached_property
    def inputs_named(self) -> frozenset[str]:
        """Return the inputs that any text of the file uses."""
        used = re.compile(r"""\binputs(?=\s*(?:\.\s*(\w+)|\[\s*(['"])(\w+)['"]))""")
        filled = (text for step, _ in self.steps for text in texts_in(step.args))  # also what a template's file names
        found = used.findall("\n".join([*self.texts(), *filled]))
        return frozenset(attribute or key for attribute, _, key in found)

    @cached_property
    def words(self) -> Mapping[str, set[Path]]:
        """Return every word that could be a name, with the paths of the steps and findings that use it, directly or
        through ``let``.
        """
        found: dict[str, set[Path]] = {}
        for section in ("diagnose", "findings", "remediate", "verify"):
            for number, tree in enumerate(self.document.value.get(section) or ()):
                for text in texts_of(tree):
                    for word in _WORD.findall(text):
                        found.setdefault(word, set()).add((section, number))
        for name, expression in reversed(self.let):
            for word in _WORD.findall(expression):
                found.setdefault(word, set()).update(found.get(name, ()))
        return found


class Rungs:
    """Remediate steps; the steps for a finding can be looked up."""

    def __init__(self, steps: Sequence[tuple[Step, Path]]) -> None:
        self.steps = steps
        self._for_any = [number for number, (step, _) in enumerate(steps) if not step.for_ and not follows(step)]
        self._own: dict[str, list[int]] = {}
        for number, (step, _) in enumerate(steps):
            for name in step.for_:
                self._own.setdefault(name, []).append(number)

    def first(self, rule: FindingRule) -> tuple[Step, Path] | None:
        """Return the first step that is for *rule*; None if there is none."""
        numbers = [some[0] for some in self._both(rule) if some]
        return self.steps[min(numbers)] if numbers else None

    def last(self, rule: FindingRule) -> tuple[Step, Path] | None:
        """Return the last step that is for *rule*; None if there is none."""
        numbers = [some[-1] for some in self._both(rule) if some]
        return self.steps[max(numbers)] if numbers else None

    def _both(self, rule: FindingRule) -> tuple[list[int], list[int]]:
        return self._own.get(rule.id, []), [] if rule.part else self._for_any


def texts_of(tree: Any) -> Iterator[str]:
    """Yield every text in *tree*."""
    match tree:
        case str():
            yield tree
        case Mapping():
            for inner in tree.values():
                yield from texts_of(inner)
        case list():
            for inner in tree:
                yield from texts_of(inner)


def pattern_arguments(action: Action) -> list[str]:
    """Return the arguments of *action* that are patterns of processes."""
    hints = hints_of(action.Args)
    return [
        field.name
        for field in fields(action.Args)
        if ProcessPattern in (hints[field.name], *get_args(hints[field.name]))
    ]


def ends_processes(action: Action) -> bool:
    """Whether *action* ends processes, which a supervisor may start again."""
    return action.decide is not None and "signal" in {field.name for field in fields(action.Args)}


def follows(step: Step) -> bool:
    """Whether *step* depends on the results of other steps, not on a finding."""
    return bool(step.if_failed or step.if_changed)


def programs(step: Step) -> Iterator[tuple[str, Path]]:
    """The programs and scripts that a command step runs, as text, each with its path in the arguments."""
    args = unraw(step.args)
    for at in ((), ("check",), ("do",)) if step.action == "command" and isinstance(args, Mapping) else ():
        own: Any = args
        for key in at:
            own = own.get(key) or {}
        if isinstance(own, Mapping) and isinstance(own.get("argv"), list):
            yield " ".join(map(str, own["argv"])), (*at, "argv")
        if isinstance(own, Mapping) and isinstance(own.get("script"), str):
            yield own["script"], (*at, "script")
