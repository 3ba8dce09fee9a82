"""A playbook's text to a Playbook: every mistake at once, each with its place."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from engine.errors import ConfigError, Problem
from engine.lang.checks import check
from engine.lang.inputs import faults
from engine.lang.quantities import duration
from engine.lang.schema import playbook_schema, problems_in, schema_fault
from engine.lang.source import Document, Path, parse_playbook
from engine.lang.templates import names
from engine.ports import Action
from engine.values.playbook import FindingRule, Input, Limits, Phase, Playbook, Severity, Step
from engine.values.text import Json, Raw

INPUT_KEYS = ("about", "default", "required", "secret")


def load_playbook(text: str, file: str, actions: Mapping[str, Action]) -> Playbook:
    """The playbook that *text* is.  Raises ConfigError with every mistake in it, sorted by place."""
    document = parse_playbook(text, file)
    if not isinstance(document.value, Mapping):
        what = "an empty file" if document.value is None else "something else"
        raise ConfigError(Problem(file=file, line=1, column=1, message=f"a playbook is a mapping, this is {what}"))
    problems = list(problems_in(document, playbook_schema(actions)))
    made: Playbook | None = None
    try:
        made = _Building(document, actions, problems).playbook(sha256(text.encode()).hexdigest())
    except (TypeError, AttributeError, KeyError, ValueError):
        if not problems:
            raise
    if made is not None:
        problems += check(made, document, actions)
    if problems or made is None:
        raise ConfigError(*sorted(set(problems)))
    return made


class _Building:
    """Reads the tree as far as it has the right shape; what has not is already a problem."""

    def __init__(self, document: Document, actions: Mapping[str, Action], problems: list[Problem]) -> None:
        self._document, self._actions, self._problems = document, actions, problems
        self._tree: Mapping[str, Any] = document.value

    def playbook(self, digest: str) -> Playbook:
        tree, file = self._tree, self._document.file
        name = tree.get("name")
        stem = PurePath(file).stem
        if isinstance(name, str) and name != stem:
            self._wrong(
                ("name",), f"the playbook is called {name!r} and its file {PurePath(file).name!r}", f"name: {stem}"
            )
        diagnose = self._steps("diagnose", Phase.DIAGNOSE)
        limits = tree.get("limits")
        return Playbook(
            name=name if isinstance(name, str) else stem,
            about=_text(tree.get("about")),
            hosts=_text(tree.get("hosts")),
            inputs=self._inputs(),
            diagnose=diagnose,
            findings=self._findings(diagnose),
            remediate=self._steps("remediate", Phase.REMEDIATE),
            verify=self._steps("verify", Phase.VERIFY),
            limits=Limits(deadline=self._seconds(_mapping(limits), "deadline", ("limits",))),
            path=file,
            digest=digest,
        )

    def _wrong(self, path: Path, message: str, hint: str = "") -> None:
        self._problems.append(self._document.problem(path, message, hint))

    def _seconds(self, tree: Mapping[str, Any], key: str, path: Path, default: float = 0.0) -> float:
        if key not in tree or not isinstance(tree[key], str | int | float):
            return default
        try:
            return duration(tree[key])
        except ConfigError as error:
            self._wrong((*path, key), f"{key}: {error}")
            return default

    def _inputs(self) -> tuple[Input, ...]:
        made = []
        for name, tree in _mapping(self._tree.get("inputs")).items():
            path: Path = ("inputs", name)
            if not isinstance(tree, Mapping):
                continue
            schema = {key: _unraw(it) for key, it in tree.items() if key not in INPUT_KEYS}
            if not name.isidentifier():
                self._wrong(path, f"{name!r} is no name: letters, digits and _ only, and no digit first")
            if fault := schema_fault(schema):
                self._wrong(path, f"input {name}: {fault}")
                continue
            if "default" not in tree and tree.get("required") is not True:
                self._wrong(path, f"input {name}: give it a default, or required: true")
            it = Input(
                name=name,
                about=_text(tree.get("about")),
                schema=schema,
                required=tree.get("required") is True,
                default=_unraw(tree.get("default")),
                secret=tree.get("secret") is True,
                where=self._document.where(path),
            )
            if "default" in tree:
                for words in faults(it, it.default):
                    self._wrong((*path, "default"), f"the default of {name} is not as its schema says: {words}")
            made.append(it)
        return tuple(made)

    def _steps(self, section: str, phase: Phase) -> tuple[Step, ...]:
        trees = self._tree.get(section)
        if not isinstance(trees, list):
            return ()
        found = [self._step(it, (section, number), phase) for number, it in enumerate(trees) if isinstance(it, Mapping)]
        return tuple(it for it in found if it is not None)

    def _step(self, tree: Mapping[str, Any], path: Path, phase: Phase) -> Step | None:
        named = [it for it in tree if it in self._actions]
        if len(named) != 1:
            words = f"a step has one action, this has {', '.join(named)}" if named else "the step names no action"
            hint = "" if named else "runbook actions lists them"
            self._wrong((*path, named[1]) if named else path, words, hint)
            return None
        action = named[0]
        args = tree[action] if tree[action] is not None else {}
        if not isinstance(args, Mapping):
            self._wrong((*path, action), f"{action}: expected a mapping of arguments")
            args = {}
        step_id = tree.get("id")
        if phase is Phase.DIAGNOSE and not isinstance(step_id, str):
            self._wrong(path, "a look needs an id, so that findings can name it")
        seconds = {it: self._seconds(tree, it, path) for it in ("timeout", "within")}
        return Step(
            id=step_id if isinstance(step_id, str) else f"{path[0]}_{int(path[1]) + 1}",
            phase=phase,
            action=action,
            args=args,
            name=_text(tree.get("name")),
            when=_expression(tree.get("when")),
            for_=_ids(tree.get("for")),
            after=_ids(tree.get("after")),
            every=self._seconds(tree, "every", path, 2.0),
            become=_become(tree.get("become")),
            env=tuple((str(name), _scalar(it)) for name, it in _mapping(tree.get("env")).items()),
            cwd=_text(tree.get("cwd")),
            scratch=tree.get("scratch") is True,
            ignore_failure=tree.get("ignore_failure") is True,
            confirm=tree.get("confirm") is True,
            where=self._document.where(path),
            **seconds,
        )

    def _findings(self, diagnose: tuple[Step, ...]) -> tuple[FindingRule, ...]:
        trees = self._tree.get("findings")
        made = []
        for number, tree in enumerate(trees if isinstance(trees, list) else ()):
            path: Path = ("findings", number)
            if not isinstance(tree, Mapping) or not isinstance(tree.get("id"), str):
                continue
            severity = tree.get("severity")
            when = _expression(tree.get("when"))
            advise = tree.get("advise", [])
            made.append(
                FindingRule(
                    id=tree["id"],
                    when=when,
                    say=_text(tree.get("say")) or tree["id"],
                    severity=Severity(severity) if severity in list(Severity) else Severity.ERROR,
                    unless=_ids(tree.get("unless")),
                    settle=self._seconds(tree, "settle", path),
                    gone_for=self._seconds(tree, "gone_for", path),
                    evidence={name: _text(it) for name, it in _mapping(tree.get("evidence")).items()},
                    advise=tuple(map(_text, [advise] if isinstance(advise, str) else advise)),
                    looks=_looks_behind(when, diagnose),
                    where=self._document.where(path),
                )
            )
        return tuple(made)


def _looks_behind(when: str, diagnose: tuple[Step, ...]) -> tuple[str, ...]:
    """The looks that *when* names, and those that their arguments and conditions name."""
    by_id = {it.id: it for it in diagnose}
    wanted = [when]
    found: list[str] = []
    while wanted:
        text = wanted.pop()
        try:
            roots = {root for root, _ in names(text)}
        except ConfigError:
            continue
        for root in sorted(roots & by_id.keys() - set(found)):
            found.append(root)
            step = by_id[root]
            wanted += [step.when] if step.when else []
            wanted += texts_in(step.args)
    return tuple(it.id for it in diagnose if it.id in found)


def texts_in(tree: Any) -> list[str]:
    """Every template in a tree of arguments."""
    match tree:
        case str():
            return [tree] if "{{" in tree or "{%" in tree else []
        case Mapping():
            return [text for it in tree.values() for text in texts_in(it)]
        case list():
            return [text for it in tree for text in texts_in(it)]
    return []


def _text(value: Any) -> str:
    value = value.value if isinstance(value, Raw) else value
    return value if isinstance(value, str) else ""


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _ids(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(it for it in value if isinstance(it, str)) if isinstance(value, list) else ()


def _expression(value: Any) -> str:
    return _scalar(value) if isinstance(value, bool) else _text(value)


def _become(value: Any) -> str:
    return "root" if value is True else _text(value)


def _unraw(value: Any) -> Json:
    match value:
        case Raw(value=inner):
            return inner
        case Mapping():
            return {key: _unraw(it) for key, it in value.items()}
        case list():
            return [_unraw(it) for it in value]
    plain: Json = value
    return plain
