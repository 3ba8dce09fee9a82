"""Check the arguments that are known before any host is contacted against the types of their action."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.arguments import Later, build_partly
from runbook.language.expressions.sampling import sampling
from runbook.language.expressions.templates import (
    Scope,
    evaluate,
    fault_in,
    is_single,
    is_template,
    names,
    render,
    value_of,
)
from runbook.language.expressions.views import UnknownTouched
from runbook.language.yaml_source import Path
from runbook.protocols import Action
from runbook.values.playbook import Let, Playbook, Step, Where
from runbook.values.types import Json, Raw, Unknown, plural

MOST_ITEMS = 100
"""The maximum number of items of an ``each`` that are checked in advance."""

MOST_PLACES = 4
"""The maximum number of places that a message about an input names."""

ANY = ("host", "run", "item", "inputs")
"""The names that have no value yet when nothing is known."""

GIVEN = "with the inputs as they are given"


@dataclass(frozen=True, slots=True)
class ArgumentFault:
    """A mistake in an argument."""

    path: Path
    """The path within the arguments."""
    message: str
    hint: str = ""


States = Mapping[str, Json | Unknown]


def faults_in_arguments(step: Step, action: Action, scope: Scope) -> Iterator[ArgumentFault]:
    """Yield the mistakes in the arguments of *step* that depend only on inputs; other arguments are checked later.

    The states in *scope* are ``unseen``.
    """
    seen: set[ArgumentFault] = set()
    for one, free in _scopes(step, scope):
        off = bool(step.when) and _is_false(step.when, one)  # then what is filled in may be empty
        for fault in _faults(step, action, one, ANY if off else free):
            if fault not in seen:
                seen.add(fault)
                yield fault


def faults_in_samples(step: Step, scope: Scope) -> Iterator[ArgumentFault]:
    """Yield the mistakes in the ``samples`` of *step* that depend only on inputs."""
    amounts = {key: value for key, value in step.samples.items() if key != "while"}
    off = bool(step.when) and _is_false(step.when, scope)
    if not step.samples or _rests_on(amounts, scope, ANY if off else ("host", "run", "item")):
        return
    try:
        sampling(step.samples, scope)
    except ConfigError as error:
        for problem in error.problems:
            key = problem.message.partition(":")[0]
            yield ArgumentFault((key,) if key in step.samples else (), problem.message)


def unseen(playbook: Playbook, part: str) -> States:
    """Return an unknown state for every probe that a step of *part* may name."""
    return {step.id.removeprefix(f"{part}_"): Unknown(why="not probed yet") for step in playbook.diagnose}


def problems_with_inputs_given(
    playbook: Playbook,
    actions: Mapping[str, Action],
    inputs: Mapping[str, Mapping[str, Json]],
    places: Mapping[str, Where] | None = None,
) -> list[Problem]:
    """Return the mistakes in the arguments of *playbook* for the input values *inputs* (by part; ``""``: its own).

    If one value causes mistakes at several places, they are reported as one mistake, which names the input. *places*
    are the places of values that come from a file.
    """
    found: list[tuple[Problem, str]] = []
    scopes = {
        part: Scope(inputs=inputs[part], states=unseen(playbook, part), let=playbook.let_of(part))
        for part in {step.part for step in playbook.steps}
    }
    for step in playbook.steps:
        at, scope = step.where, scopes[step.part]
        given = _given(playbook, inputs[""]) if not step.part else frozenset()
        for argument in faults_in_arguments(step, actions[step.action], scope):
            words = Problem(file=at.file, line=at.line, column=at.column, message=f"{step.action}: {argument.message}",
                            hint=argument.hint or GIVEN)  # fmt: skip
            found.append((words, _cause(step.args, argument.path, step, given, scope.let)))
        for sample in faults_in_samples(step, scope):
            words = Problem(file=at.file, line=at.line, column=at.column, message=sample.message, hint=GIVEN)
            found.append((words, _cause(step.samples, sample.path, step, given, scope.let)))
    return _once_for_each_cause(found, places or {})


def _given(playbook: Playbook, values: Mapping[str, Json]) -> frozenset[str]:
    """Return the inputs whose value is not the default."""
    return frozenset(each.name for each in playbook.inputs if each.name in values and values[each.name] != each.default)


def _cause(tree: Any, path: Path, step: Step, given: frozenset[str], let: Let) -> str:
    """Return the input in *given* on which the value at *path* in *tree* depends.

    Empty if the value depends on none or on several.
    """
    for key in path:
        if isinstance(tree, Mapping) and key in tree:
            tree = tree[str(key)]
        elif isinstance(tree, list) and isinstance(key, int) and key < len(tree):
            tree = tree[key]
    used = _named(tree, let)
    if any(root == "item" for root, _ in used):
        used |= set(names(step.each, let)) if step.each else set()
    found = {name for root, name in used if root == "inputs" and name in given}
    return found.pop() if len(found) == 1 else ""


def _named(tree: Any, let: Let) -> set[tuple[str, str]]:
    """Return the names in every template of *tree*."""
    match tree:
        case str() if is_template(tree):
            return set() if fault_in(tree, let) else set(names(tree, let))
        case Mapping():
            return {name for each in tree.values() for name in _named(each, let)}
        case list():
            return {name for each in tree for name in _named(each, let)}
    return set()


def _once_for_each_cause(found: list[tuple[Problem, str]], places: Mapping[str, Where]) -> list[Problem]:
    problems: list[Problem] = []
    for cause in dict.fromkeys(cause for _, cause in found):
        same = [problem for problem, it in found if it == cause]
        if not cause:
            problems += same
            continue
        first = same[0]
        where = list(dict.fromkeys(f"{each.file}:{each.line}:{each.column}" for each in same))
        more = f" and {plural(len(where) - MOST_PLACES, 'more place')}" if len(where) > MOST_PLACES else ""
        used = f"used at {', '.join(where[:MOST_PLACES])}{more}"
        hint = used if first.hint == GIVEN else f"{first.hint}; {used}"
        at = places.get(cause, Where())
        words = f"input {cause}: {first.message}"
        problems.append(Problem(file=at.file, line=at.line, column=at.column, message=words, hint=hint))
    return problems


def _is_false(when: str, scope: Scope) -> bool:
    try:
        return evaluate(when, scope) is False
    except ConfigError:
        return False


def _scopes(step: Step, scope: Scope) -> Iterator[tuple[Scope, tuple[str, ...]]]:
    """Yield a scope for each known item, or one scope without an item; each with the names that have no value yet."""
    try:
        items = value_of(step.each, scope) if step.each else None
    except ConfigError:
        items = None
    if not isinstance(items, list) or not items:
        yield scope, ("host", "run", "item")
    for item in items[:MOST_ITEMS] if isinstance(items, list) else ():
        yield replace(scope, item=item), ("host", "run")


def _faults(step: Step, action: Action, scope: Scope, free: tuple[str, ...]) -> Iterator[ArgumentFault]:
    ready = {key: _rendered(tree, scope, free) for key, tree in step.args.items()}
    args, problems = build_partly(action.Args, ready)
    if args is None and not problems:  # the rest is right or wrong whatever a template's file says of a host
        texts = {field.name for field in fields(action.Args) if "rendered" in field.metadata}
        known = {
            key: step.args[key] if key in texts and isinstance(value, Later) else value for key, value in ready.items()
        }
        args, problems = build_partly(action.Args, known) if known != ready else (args, problems)
    for problem in problems:
        yield ArgumentFault(_place(problem.message), problem.message, problem.hint)
    if args is not None and action.objection and (why := action.objection(args)):
        yield ArgumentFault((), why)
    if args is None and not problems:
        yield from _objections(action, ready)


def _rendered(tree: Any, scope: Scope, free: tuple[str, ...]) -> Any:
    """Return *tree* with all known values filled in, and with ``Later`` in place of the others."""
    match tree:
        case Raw(value=inner):
            return inner
        case Mapping():
            return {key: _rendered(value, scope, free) for key, value in tree.items()}
        case list():
            return [_rendered(each, scope, free) for each in tree]
        case str() if is_template(tree):
            later = Later(is_text=not is_single(tree))
            if _rests_on(tree, scope, free):
                return later
            try:
                return render(tree, scope)
            except (ConfigError, UnknownTouched):
                return later
    return tree


STAND_INS = ("x", "/dev/null", "-l", "list", "--version")
"""Harmless texts.  If an action rejects an argument with each of these texts, the argument is wrong with every text."""


def _objections(action: Action, values: Mapping[str, Any]) -> Iterator[ArgumentFault]:
    """Yield the objections of *action* to *values* that do not depend on the unknown values."""
    found = set()
    for text in STAND_INS if action.objection else ():
        args, _ = build_partly(action.Args, _standing_in(values, text))
        found.add(action.objection(args) if args is not None and action.objection else "")
    yield from (ArgumentFault((), word) for word in found if word and len(found) == 1)


def _standing_in(tree: Any, text: str) -> Any:
    match tree:
        case Later():
            return replace(tree, stand_in=text)
        case Mapping():
            return {key: _standing_in(value, text) for key, value in tree.items()}
        case list():
            return [_standing_in(each, text) for each in tree]
    return tree


def _rests_on(tree: Any, scope: Scope, free: tuple[str, ...]) -> bool:
    """Whether a template in *tree* needs a name in *free*, which has no value yet, or an input without a value."""
    match tree:
        case Raw():
            return False
        case str() if is_template(tree):
            if fault_in(tree, scope.let):
                return True
            free = (*free, "secrets")
            return "inputs" in free or any(
                root in free or (root == "inputs" and it not in scope.inputs) for root, it in names(tree, scope.let)
            )
        case Mapping():
            return any(_rests_on(each, scope, free) for each in tree.values())
        case list():
            return any(_rests_on(each, scope, free) for each in tree)
    return False


def _place(message: str) -> Path:
    """Return the path of the argument with which *message*, a message of ``arguments``, begins (``a.b[0]: ...``)."""
    inner = re.match(r"([A-Za-z_]\w*(?:\.\w+|\[\d+\])*): ", message)
    unknown = re.match(r"(?:([\w.\[\]]+): )?unknown key '(\w+)'", message)
    text = f"{unknown[1] or ''}.{unknown[2]}" if unknown else inner[1] if inner else ""
    return tuple(int(found_text) if found_text.isdigit() else found_text for found_text in re.findall(r"\w+", text))
