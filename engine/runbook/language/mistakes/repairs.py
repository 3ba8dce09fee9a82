"""Correct keys that are mistyped or in the wrong place, so that no other mistake follows from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from difflib import SequenceMatcher
from typing import Any, get_origin

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.language.arguments import hints_of
from runbook.language.input_schema import ELSEWHERE, KEYWORDS
from runbook.language.keys import FINDING, GROUP, INPUT, PLAYBOOK, STEP, Key
from runbook.language.mistakes.yaml_quoting import in_quotes
from runbook.language.yaml_source import Document, Path
from runbook.protocols import Action
from runbook.text.suggestions import nearest

STEPS = ("diagnose", "remediate", "verify")
OF_INPUT = (*INPUT, *KEYWORDS)
NEAR = 0.75
"""The minimum similarity of a wrong key to the key that replaces it; a bolder guess would cause wrong messages."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A document with its wrong keys corrected, and the mistakes that were corrected."""

    document: Document
    problems: tuple[Problem, ...]


def repaired(document: Document, actions: Mapping[str, Action]) -> Repaired:
    """Return *document*, a mapping, with its wrong keys corrected where the meaning is clear."""
    repair = _Repair(document, actions)
    tree = repair.playbook(document.value)
    if not repair.problems:
        return Repaired(document, ())
    places = {repair.moved(path): place for path, place in document.places.items()}
    return Repaired(replace(document, value=tree, places=places), tuple(repair.problems))


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys that a mapping may have."""

    known: Collection[str]
    others: Collection[str] = ()
    """Keys that are left unchanged, whatever they mean."""
    owner: str = ""
    """The beginning of a message about one of these keys."""
    lists: Collection[str] = ()
    """The keys that may be a list."""


def _several(keys: Mapping[str, Key]) -> tuple[str, ...]:
    return tuple(name for name, key in keys.items() if key.several)


def _keys_of(keys: Mapping[str, Key]) -> _Keys:
    return _Keys(keys, lists=_several(keys))


class _Repair:
    """Walks through a tree, corrects keys, and records the mistakes and the new paths."""

    def __init__(self, document: Document, actions: Mapping[str, Action]) -> None:
        self._document, self._actions = document, actions
        self._moves: dict[Path, Path] = {}
        """The path of each key in the document that another one belongs to, to what is read instead."""
        self.problems: list[Problem] = []

    def moved(self, path: Path) -> Path:
        """Return the path in the repaired tree of the value that is at *path* in the document."""
        made: Path = ()
        for length, key in enumerate(path, 1):
            made = self._moves.get(path[:length], (*made, key))
        return made

    def playbook(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """Return the whole *tree* with its keys corrected."""
        whole = self._keys(tree, (), _keys_of(PLAYBOOK))
        for section in STEPS:
            if isinstance(whole.get(section), list):
                whole[section] = [self._step(entry, path) for entry, path in self._listed(whole, section)]
        if isinstance(whole.get("findings"), list):
            whole["findings"] = [self._finding(entry, path) for entry, path in self._listed(whole, "findings")]
        if isinstance(whole.get("inputs"), Mapping):
            path = self._written_at("inputs")
            whole["inputs"] = {name: self._input(each, (*path, name)) for name, each in whole["inputs"].items()}
        return whole

    def _written_at(self, section: str) -> Path:
        """Return the path in the document of the value that is read as *section*."""
        return next((old for old, new in self._moves.items() if new == (section,)), (section,))

    def _listed(self, whole: Mapping[str, Any], section: str) -> Iterator[tuple[Any, Path]]:
        path = self._written_at(section)
        return ((entry, (*path, number)) for number, entry in enumerate(whole[section]))

    def _step(self, tree: Any, path: Path) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        known = (*STEP, *self._actions)
        action = next((key for key in tree if key in self._actions), "")
        written = action or next((key for key in tree if key not in STEP and self._near_action(key)), "")
        found = self._within_action(dict(tree), path, written, action or self._near_action(written))
        return self._keys(found, path, _Keys(known, (*self._actions, written), lists=_several(STEP)))

    def _near_action(self, key: str) -> str:
        near = nearest(key, (*STEP, *self._actions)) if key else ""
        return near if near in self._actions else ""

    def _within_action(self, tree: dict[str, Any], path: Path, written: str, action: str) -> dict[str, Any]:
        """Return the step *tree* with the arguments that are beside its action moved into the action; *written* is the
        action in the file.
        """
        if not action:
            return tree
        names = _arguments(self._actions[action])
        given = tree[written] if tree[written] is not None else {}
        beside = [key for key in tree if key in names and key not in (*STEP, *self._actions, written)]
        if isinstance(given, Mapping):
            keys = _Keys(names, STEP, f"{action}: ", _lists(self._actions[action]))
            given = self._keys(given, (*path, written), keys)
        within = {key: tree.pop(key) for key in beside}
        if beside:
            self._misplaced(beside, path, written, given)
        if not isinstance(given, Mapping) or not (given or within):
            return tree
        self._moves |= {(*path, key): (*self.moved(path), written, key) for key in beside if key not in given}
        return {**tree, written: {**within, **given}}

    def _misplaced(self, beside: list[str], path: Path, action: str, given: Any) -> None:
        """Record that the keys *beside* are arguments of *action* in the wrong place; *given* is the present value of
        the action.
        """
        quoted = [repr(key) for key in beside]
        some = quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
        verb, they = ("is an argument", "it") if len(beside) == 1 else ("are arguments", "them")
        has_some = isinstance(given, Mapping) and bool(given)
        in_one_line = has_some and self._line((*path, action)) == self._last_line((*path, action))
        what = f"write {they} within its {{ }}" if in_one_line else f"indent {they} below"
        twice = [key for key in beside if has_some and key in given]
        hint = f"it has {' and '.join(map(repr, twice))} already" if twice else ""
        words = f"{some} {verb} of {action}: {what}"
        self.problems.append(self._document.problem((*path, beside[0]), words, hint))

    def _last_line(self, path: Path) -> int:
        """Return the line of the last value that begins at *path* or within it."""
        tree = self._document.value
        for key in path:
            tree = tree[key]
        return self._line((*path, next(reversed(tree)))) if isinstance(tree, Mapping) and tree else self._line(path)

    def _finding(self, tree: Any, path: Path) -> Any:
        if not isinstance(tree, Mapping):
            return tree
        inner = tree.get("findings")
        if not isinstance(inner, list):
            return self._keys(tree, path, _keys_of(FINDING))
        members = [self._finding(each, (*path, "findings", number)) for number, each in enumerate(inner)]
        return {**self._keys(tree, path, _keys_of(GROUP)), "findings": members}

    def _input(self, tree: Any, path: Path) -> Any:
        return (
            self._keys(tree, path, _Keys(OF_INPUT, ELSEWHERE, f"input {path[1]}: "))
            if isinstance(tree, Mapping)
            else tree
        )

    def _keys(self, tree: Mapping[str, Any], path: Path, keys: _Keys) -> dict[str, Any]:
        """Return *tree* with its mistyped keys replaced by the right keys of *keys*, and with texts joined that a
        comma had split.
        """
        made: dict[str, Any] = {}
        parts: dict[str, list[str]] = {}
        before = ""
        for key, value in tree.items():
            if key in keys.known or key in keys.others:
                made[key], before = value, key
            elif value is None and self._goes_on(tree, path, before, key):
                parts.setdefault(before, [tree[before]]).append(key)
            else:
                meant = _meant(key, tree, made, keys.known)
                made[meant or key], before = value, key
                if meant:
                    self._renamed(path, key, meant, keys.owner)
        return {**made, **{key: self._joined((*path, key), several, keys) for key, several in parts.items()}}

    def _goes_on(self, tree: Mapping[str, Any], path: Path, before: str, key: str) -> bool:
        """Whether *key* is really a part of the text of key *before*: within braces, both are on the same line."""
        of_text = isinstance(tree.get(before), str) and before not in ("id", "severity")
        return of_text and self._line((*path, before)) == self._line((*path, key))

    def _joined(self, path: Path, parts: list[str], keys: _Keys) -> str | list[str]:
        """Return the value at *path* that was probably meant; YAML has split it into *parts*."""
        key = path[-1]
        if key in keys.lists:
            words = f"several need brackets: `{key}: [{', '.join(parts)}]`"
        else:
            words = f"a text with a comma needs quotes within {{ }}: `{key}: {in_quotes(', '.join(parts))}`"
        self.problems.append(self._document.problem(path, words))
        return parts if key in keys.lists else ", ".join(parts)

    def _renamed(self, path: Path, key: str, meant: str, owner: str) -> None:
        self._moves[*path, key] = (*self.moved(path), meant)
        self.problems.append(
            self._document.problem((*path, key), f"{owner}unknown key {key!r}", f"did you mean {meant}?")
        )

    def _line(self, path: Path) -> int:
        return self._document.where(path).line


def _arguments(action: Action) -> tuple[str, ...]:
    """Return the names of the arguments of *action*, in the form that playbooks use."""
    return tuple(field.name.rstrip("_") for field in fields(action.Args))


def _lists(action: Action) -> tuple[str, ...]:
    """Return the arguments of *action* that are lists."""
    hints = hints_of(action.Args)
    return tuple(name.rstrip("_") for name, hint in hints.items() if get_origin(hint) is tuple)


def _meant(key: str, tree: Mapping[str, Any], made: Mapping[str, Any], known: Collection[str]) -> str:
    """Return the key in *known* that was meant by *key*; empty if this is not clear."""
    near = nearest(key, known)
    if not near or near in tree or near in made or key in ELSEWHERE:
        return ""
    alike = SequenceMatcher(None, key.casefold(), near.casefold()).ratio()
    return near if near == "id" or alike >= NEAR else ""
