"""What a playbook of the right shape can still get wrong: names, references, sections, arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from engine.errors import ConfigError, Problem
from engine.lang.arguments import build
from engine.lang.source import Document, Path
from engine.lang.templates import (
    Scope,
    evaluate,
    fault_in,
    fault_in_expression,
    is_template,
    names,
    render,
)
from engine.lang.views import UnknownTouched
from engine.ports import Action
from engine.values.playbook import Phase, Playbook, Step
from engine.values.text import Json, Raw, Unknown

ROOTS = ("inputs", "host", "run")


def check(book: Playbook, document: Document, actions: Mapping[str, Action]) -> list[Problem]:
    """Every mistake that needs the whole playbook to be seen."""
    checking = _Checking(book, document, actions)
    return [*checking.ids(), *checking.references(), *checking.steps(), *checking.findings()]


@dataclass(frozen=True, slots=True)
class _Names:
    """What an expression may name."""

    looks: Mapping[str, tuple[str, ...]]
    """Look id to the fields of its State; no fields where the action is not known."""
    inputs: tuple[str, ...]
    later: frozenset[str] = frozenset()
    """Ids that exist but may not be named here."""


class _Checking:
    def __init__(self, book: Playbook, document: Document, actions: Mapping[str, Action]) -> None:
        self._book, self._document, self._actions = book, document, actions
        self._paths = {id(step): path for step, path in self._placed()}

    def _placed(self) -> Iterator[tuple[Step, Path]]:
        """Every step with its path in the file; steps that could not be built are not there."""
        by_place = {}
        for section in ("diagnose", "remediate", "verify"):
            trees = self._document.value.get(section)
            for number in range(len(trees) if isinstance(trees, list) else 0):
                by_place[self._document.where((section, number))] = (section, number)
        for step in (*self._book.diagnose, *self._book.remediate, *self._book.verify):
            yield step, by_place[step.where]

    def ids(self) -> Iterator[Problem]:
        """An id names one thing only."""
        seen: dict[str, Path] = {}
        everything = [(it.id, (*path, "id")) for it, path in self._placed()]
        everything += [(it.id, ("findings", number, "id")) for number, it in enumerate(self._finding_trees())]
        for name, path in everything:
            if name in seen:
                first = self._document.where(seen[name])
                yield self._problem(path, f"the id {name!r} is taken", f"first used on line {first.line}")
            elif name in (*ROOTS, "item", "true", "false", "none", "not", "and", "or", "in", "is", "if", "else"):
                yield self._problem(path, f"{name!r} means something else in expressions", "choose another id")
            seen.setdefault(name, path)

    def _finding_trees(self) -> list[Any]:
        return list(self._book.findings)

    def references(self) -> Iterator[Problem]:
        """``for``, ``after`` and ``unless`` name things that are there, and come before."""
        findings = [it.id for it in self._book.findings]
        for section, steps in (("remediate", self._book.remediate), ("verify", self._book.verify)):
            earlier = [it.id for it in self._book.remediate] if section == "verify" else []
            for step in steps:
                path = self._paths[id(step)]
                yield from self._known(step.for_, findings, (*path, "for"), "finding")
                yield from self._known(step.after, earlier, (*path, "after"), "earlier step")
                earlier.append(step.id)
        for number, rule in enumerate(self._book.findings):
            yield from self._known(rule.unless, findings[:number], ("findings", number, "unless"), "earlier finding")

    def _known(self, given: Iterable[str], known: list[str], path: Path, what: str) -> Iterator[Problem]:
        for name in given:
            if name not in known:
                yield self._problem(path, f"no {what} is called {name!r}", _near(name, known))

    def steps(self) -> Iterator[Problem]:
        """Actions stand where they may, keys mean something, and arguments are right."""
        every = {it.id: self._state_fields(it) for it in self._book.diagnose}
        seen: dict[str, tuple[str, ...]] = {}
        for step in self._book.diagnose:
            yield from self._step(step, _Names(seen, self._input_names(), frozenset(every.keys() - seen.keys())))
            seen[step.id] = every[step.id]
        acts = frozenset(it.id for it in (*self._book.remediate, *self._book.verify))
        for step in (*self._book.remediate, *self._book.verify):
            yield from self._step(step, _Names(every, self._input_names(), acts))

    def _input_names(self) -> tuple[str, ...]:
        return tuple(it.name for it in self._book.inputs)

    def _state_fields(self, step: Step) -> tuple[str, ...]:
        return tuple(it.name for it in fields(self._actions[step.action].State))

    def _step(self, step: Step, allowed: _Names) -> Iterator[Problem]:
        path = self._paths[id(step)]
        yield from self._section(step, path)
        if step.when:
            yield from self._expression(step.when, (*path, "when"), allowed)
        yield from self._templates(step.args, (*path, step.action), allowed)
        yield from self._arguments(step, (*path, step.action))

    def _section(self, step: Step, path: Path) -> Iterator[Problem]:
        action, tree = self._actions[step.action], self._tree(path)
        if step.phase is Phase.REMEDIATE and not (action.decide or action.waits):
            yield self._problem((*path, step.action), f"{step.action} only looks", "it belongs under diagnose")
        if step.phase is Phase.VERIFY and not (action.holds or action.waits):
            able = ", ".join(it.name for it in self._actions.values() if it.holds)
            yield self._problem((*path, step.action), f"{step.action} asserts nothing", f"in verify stand: {able}")
        if step.phase is Phase.DIAGNOSE and step.action == "command" and ("do" in step.args or "check" in step.args):
            yield self._problem(
                (*path, step.action), "a look changes nothing", "a command with `do` belongs under remediate"
            )
        if step.phase is Phase.VERIFY and step.action == "command" and "do" in step.args:
            yield self._problem((*path, step.action), "an assertion changes nothing", "use argv or script")
        if step.phase is Phase.REMEDIATE and step.action == "command" and "do" not in step.args:
            yield self._problem(
                (*path, step.action), "this command only looks", "put what changes something under `do`"
            )
        for key, phases in _ONLY_IN.items():
            if key in tree and step.phase not in phases:
                where = " and ".join(phases)
                yield self._problem((*path, key), f"`{key}` means nothing in {step.phase}", f"it belongs under {where}")
        for key in ("env", "cwd"):
            if key in tree and step.action != "command":
                yield self._problem((*path, key), f"`{key}` is for commands, and {step.action} takes none")

    def _tree(self, path: Path) -> Mapping[str, Any]:
        tree = self._document.value
        for it in path:
            tree = tree[it]
        return tree if isinstance(tree, Mapping) else {}

    def _templates(self, tree: Any, path: Path, allowed: _Names) -> Iterator[Problem]:
        match tree:
            case str() if is_template(tree):
                yield from self._names(tree, fault_in(tree), path, allowed)
            case Mapping():
                for key, it in tree.items():
                    yield from self._templates(it, (*path, key), allowed)
            case list():
                for number, it in enumerate(tree):
                    yield from self._templates(it, (*path, number), allowed)

    def _expression(self, text: str, path: Path, allowed: _Names) -> Iterator[Problem]:
        yield from self._names(text, fault_in_expression(text), path, allowed)

    def _names(self, text: str, fault: str, path: Path, allowed: _Names) -> Iterator[Problem]:
        if fault:
            yield self._problem(path, f"cannot be understood: {fault}", f"in: {' '.join(text.split())[:80]}")
            return
        for root, attribute in sorted(names(text)):
            yield from self._name(root, attribute, path, allowed)

    def _name(self, root: str, attribute: str, path: Path, allowed: _Names) -> Iterator[Problem]:
        if root == "inputs":
            if attribute and attribute not in allowed.inputs:
                yield self._problem(path, f"there is no input {attribute!r}", _near(attribute, allowed.inputs))
        elif root in allowed.looks:
            known = allowed.looks[root]
            if attribute and attribute not in known:
                yield self._problem(path, f"the look {root!r} has no field {attribute!r}", _near(attribute, known))
        elif root in allowed.later:
            yield self._problem(path, f"{root!r} may not be named here", "only inputs, host, run and looks before it")
        elif root not in ROOTS:
            known = (*allowed.looks, *ROOTS)
            yield self._problem(path, f"the name {root!r} is not defined", _near(root, known))

    def _arguments(self, step: Step, path: Path) -> Iterator[Problem]:
        """Arguments that are known before any host is, held against the action's types."""
        action = self._actions[step.action]
        defaults = {it.name: it.default for it in self._book.inputs}
        looks = {it.id: Unknown(why="not looked at yet") for it in self._book.diagnose}
        scope = Scope(inputs=defaults, looks=looks)
        open_inputs = {it.name for it in self._book.inputs if it.required}
        if step.when and not open_inputs and self._never_by_default(step.when, scope):
            return
        ready: dict[str, Json] = {}
        late: set[str] = set()
        for key, tree in step.args.items():
            if _rests_on(tree, open_inputs):
                late.add(key)
                continue
            try:
                ready[key] = render(tree, scope)
            except (ConfigError, UnknownTouched):
                late.add(key)
        try:
            args = build(action.Args, ready)
        except ConfigError as error:
            for it in error.problems:
                if (
                    not late
                    or "unknown key" in it.message
                    or re.match(rf"({'|'.join(map(re.escape, ready))})[.\[:]", it.message)
                ):
                    yield self._problem(_deeper(path, it.message), f"{step.action}: {it.message}", it.hint)
            return
        if action.objection and not late and (why := action.objection(args)):
            yield self._problem(path, f"{step.action}: {why}")

    @staticmethod
    def _never_by_default(when: str, scope: Scope) -> bool:
        """Whether *when* is false with every input at its default, so that its arguments may be empty."""
        try:
            return evaluate(when, scope) is False
        except ConfigError:
            return False

    def findings(self) -> Iterator[Problem]:
        """Expressions and texts of findings name looks and their fields."""
        every = {it.id: self._state_fields(it) for it in self._book.diagnose}
        acts = frozenset(it.id for it in (*self._book.remediate, *self._book.verify))
        allowed = _Names(every, self._input_names(), acts)
        for number, rule in enumerate(self._book.findings):
            path: Path = ("findings", number)
            if rule.when:
                yield from self._expression(rule.when, (*path, "when"), allowed)
            if is_template(rule.say):
                yield from self._names(rule.say, fault_in(rule.say), (*path, "say"), allowed)
            for name, text in rule.evidence.items():
                yield from self._expression(text, (*path, "evidence", name), allowed)
            for it, text in enumerate(rule.advise):
                if is_template(text):
                    yield from self._names(text, fault_in(text), (*path, "advise", it), allowed)

    def _problem(self, path: Path, message: str, hint: str = "") -> Problem:
        return self._document.problem(path, message, hint)


_ONLY_IN: Mapping[str, tuple[Phase, ...]] = {
    "for": (Phase.REMEDIATE,),
    "after": (Phase.REMEDIATE, Phase.VERIFY),
    "within": (Phase.DIAGNOSE, Phase.VERIFY),
    "every": (Phase.DIAGNOSE, Phase.VERIFY),
    "scratch": (Phase.DIAGNOSE,),
    "confirm": (Phase.REMEDIATE,),
}


def _rests_on(tree: Any, inputs: set[str]) -> bool:
    """Whether a template in *tree* needs the host, the run, or an input without a default."""
    match tree:
        case Raw():
            return False
        case str() if is_template(tree):
            if fault_in(tree):
                return True
            used = names(tree)
            return any(root in ("host", "run", "item") or (root == "inputs" and it in inputs) for root, it in used)
        case Mapping():
            return any(_rests_on(it, inputs) for it in tree.values())
        case list():
            return any(_rests_on(it, inputs) for it in tree)
    return False


def _deeper(path: Path, message: str) -> Path:
    """The path of the argument that a message of ``arguments`` begins with (``a.b[0]: ...``)."""
    inner = re.match(r"([A-Za-z_]\w*(?:\.\w+|\[\d+\])*): ", message)
    unknown = re.match(r"(?:([\w.\[\]]+): )?unknown key '(\w+)'", message)
    text = f"{unknown[1] or ''}.{unknown[2]}" if unknown else inner[1] if inner else ""
    steps: list[str | int] = [int(it) if it.isdigit() else it for it in re.findall(r"\w+", text)]
    return (*path, *steps)


def _near(name: str, known: Iterable[str]) -> str:
    options = list(known)
    near = get_close_matches(name, options, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"there are: {', '.join(options)}" if options else "there are none"
