"""Write out what a playbook says once for many places: ``let``, ``defaults``, and groups of findings.

Afterwards the tree has steps and findings as if each had been written in full, every one with its own place in the
file: nothing beyond this module knows of shorthand.  A value of ``let`` is therefore evaluated where it is used, only
if it is needed, and is unknown where what it touches is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from jinja2 import TemplateError

from runbook.errors import ConfigError
from runbook.language.expressions.templates import binds_tightly, is_template, names, tokens
from runbook.language.keys import EXPRESSIONS, STEP
from runbook.language.lenient_read import expression, ids, mapping, text
from runbook.language.yaml_source import Document, Path
from runbook.values.playbook import Severity

SECTIONS = ("diagnose", "findings", "remediate", "verify")


def written_out(document: Document, without: Collection[Path] = ()) -> Document:
    """Return *document* without shorthand.

    *without*: the values of ``let`` and the conditions of groups (``guards_of``) that are left out.  Their mistakes are
    reported at their own places.
    """
    if not isinstance(document.value, Mapping) or not {"let", "defaults", "findings"} & document.value.keys():
        return document
    values = values_of(document, without)
    tree, places = dict(document.value), dict(document.places)
    own = _Substitution(values)
    for section in SECTIONS:
        listed = tree.get(section)
        if not isinstance(listed, list):
            continue
        if section == "findings":
            listed = _findings(listed, places, without)
        elif isinstance(tree.get("defaults"), Mapping):
            listed = [_with_defaults(each, tree["defaults"], section) for each in listed]
        tree[section] = [own.within(each) for each in listed] if values else listed
    return replace(document, value=tree, places=places)


def values_of(document: Document, without: Collection[Path] = ()) -> dict[str, str]:
    """Return the expressions under ``let``; a value may name earlier values, which are inserted.

    A value in *without* is replaced by ``host``, which no check knows the value of.
    """
    found: dict[str, str] = {}
    for name, value in mapping(mapping(document.value).get("let")).items():
        if isinstance(name, str) and (one := expression(value)):
            whole = " ".join(_Substitution(found).expression(one).split("\n"))
            found[name] = "host" if ("let", name) in without else whole
    return found


def late_names(document: Document, name: str) -> list[str]:
    """Return the names that the value *name* of ``let`` uses before they stand there, itself included."""
    values = mapping(mapping(document.value).get("let"))
    order = [str(each) for each in values]
    try:
        free = {root for root, _ in names(expression(values[name]))}
    except ConfigError:  # reported where it stands
        return []
    return sorted(free & set(order[order.index(name) :]))


def with_values(written: str, values: Mapping[str, str]) -> str:
    """*written*, an expression without braces, with *values* in the place of their names."""
    return _Substitution(values).expression(written)


@dataclass(frozen=True, slots=True)
class _Substitution:
    """Puts expressions in the place of their names."""

    values: Mapping[str, str]

    def within(self, tree: Any, key: str = "", around: str = "") -> Any:
        """*tree* with every expression and every template in it written out."""
        match tree:
            case str() if is_template(tree):
                return self._template(tree)
            case str() if key in EXPRESSIONS or around == "evidence":
                return self.expression(tree)
            case Mapping():
                return {name: self.within(value, str(name), key) for name, value in tree.items()}
            case list():
                return [self.within(each, "", key) for each in tree]
        return tree

    def expression(self, written: str) -> str:
        """*written*, an expression without braces."""
        if is_template(written):
            return written
        whole = self._template("{{" + written + "\n}}")
        return whole[2:-3] if whole.endswith("\n}}") else written

    def _template(self, written: str) -> str:
        if not _any_of(tuple(self.values)).search(written):
            return written
        try:
            found = tokens(written)
        except TemplateError:  # reported where it stands
            return written
        solid = [number for number, (kind, _) in enumerate(found) if kind != "whitespace"]
        words = [word for _, word in found]
        own = {words[later] for number, later in pairwise(solid) if words[number] in ("for", "set")}
        for at, number in enumerate(solid):
            kind, word = found[number]
            first, before, after = (
                found[solid[near]][1] if near in range(len(solid)) else "" for near in (at - 2, at - 1, at + 1)
            )
            if (
                kind == "name"
                and word in self.values.keys() - own
                and _is_free(before, after)
                and (first, before) != ("is", "not")
            ):
                words[number] = _enclosed(self.values[word], before, after)
        return "".join(words)


@lru_cache(maxsize=64)
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds a text that has one of *names* as a word."""
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b" if names else r"(?!)")


def _is_free(before: str, after: str) -> bool:
    """Whether the name between these texts stands for a value: it is no attribute, filter, test or argument name."""
    return before not in (".", "|", "is") and not (after == "=" and before in ("(", ","))


def _enclosed(value: str, before: str, after: str) -> str:
    """Return *value*, in parentheses if the text around it would split it."""
    alone = before in ("{{", "{{-", "(") and after in ("}}", "-}}", ")")
    return value if alone or (after not in (".", "[", "(") and binds_tightly(value)) else f"({value})"


def _with_defaults(step: Any, defaults: Mapping[str, Any], section: str) -> Any:
    """Return *step* with the keys of *defaults* that it lacks; the default ``become`` is not for a step with ``on``."""
    if not isinstance(step, Mapping) or "include" in step:
        return step
    known = {name for name, key in STEP.items() if key.has_default and section in key.phases}
    own = {name: value for name, value in defaults.items() if name in known}
    if "on" in step:
        own.pop("become", None)
    return {**own, **step}


def guards_of(document: Document) -> dict[Path, str]:
    """The condition of each group of findings, by its place: ``("findings", 3, "when")``."""
    listed = mapping(document.value).get("findings")
    groups = enumerate(listed if isinstance(listed, list) else [])
    guards = {_guard(number): expression(mapping(entry).get("when")) for number, entry in groups if _members(entry)}
    return {place: guard for place, guard in guards.items() if guard}


def _guard(number: int) -> Path:
    return ("findings", number, "when")


def _members(entry: Any) -> list[Any] | None:
    """Return the findings of a group; None: *entry* is no group."""
    inner = entry.get("findings") if isinstance(entry, Mapping) else None
    return inner if isinstance(inner, list) else None


def _findings(listed: list[Any], places: dict[Path, tuple[int, int]], without: Collection[Path]) -> list[Any]:
    """Return *listed* with the findings of each group in place of the group; *places* are moved accordingly."""
    moved: list[tuple[Path, Any]] = []
    for number, entry in enumerate(listed):
        inner = _members(entry)
        if inner is None:
            moved.append((("findings", number), entry))
            continue
        entry = {**entry, "when": ""} if _guard(number) in without else entry
        causes: list[str] = []
        for place, member in enumerate(inner):
            moved.append((("findings", number, "findings", place), _of_group(member, entry, causes)))
            if isinstance(member, Mapping) and member.get("severity") in _CAUSES and isinstance(member.get("id"), str):
                causes.append(member["id"])
    if all(len(path) == 2 for path, _ in moved):
        return [entry for _, entry in moved]
    before = {path: place for path, place in places.items() if path[:1] == ("findings",) and len(path) > 1}
    for path in before:
        del places[path]
    for number, (old, _) in enumerate(moved):
        own = [path for path in before if path[: len(old)] == old]
        places |= {("findings", number, *path[len(old) :]): before[path] for path in own}
    return [entry for _, entry in moved]


_CAUSES = (Severity.ERROR.value, Severity.CRITICAL.value)


def _of_group(member: Any, group: Mapping[str, Any], causes: list[str]) -> Any:
    """*member* of *group* by itself: with the group's conditions, and explained by the *causes* before it."""
    if not isinstance(member, Mapping):
        return member
    made = dict(member)
    guard, own = expression(group.get("when")), expression(member.get("when"))
    if guard and own:
        made["when"] = f"({guard.strip()}) and ({own.strip()})"
    ordered = causes if group.get("causes") == "first" and text(member.get("severity")) != Severity.INFO else []
    if unless := [*dict.fromkeys((*ids(group.get("unless")), *ids(member.get("unless")), *ordered))]:
        made["unless"] = unless
    return made
