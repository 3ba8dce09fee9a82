"""Write out the short forms of a playbook (``defaults``, groups of findings), and read ``let``.

Afterwards the tree has steps and findings as if each had been written in full, each with its own place in the file. No
other module knows these short forms.  The names under ``let`` stay names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from runbook.errors import ConfigError
from runbook.language.expressions.templates import names
from runbook.language.keys import STEP
from runbook.language.lenient_read import expression, ids, mapping, text
from runbook.language.yaml_source import Document, Path
from runbook.values.playbook import NO_LET, Let, Severity

SECTIONS = ("diagnose", "findings", "remediate", "verify")


def written_out(document: Document, without: Collection[Path] = ()) -> Document:
    """Return *document* with its short forms written out.

    *without*: the paths of group conditions (``guards_of``) to leave out.  Their mistakes are reported separately.
    """
    if not isinstance(document.value, Mapping) or not {"defaults", "findings"} & document.value.keys():
        return document
    tree, places = dict(document.value), dict(document.places)
    for section in SECTIONS:
        listed = tree.get(section)
        if not isinstance(listed, list):
            continue
        if section == "findings":
            listed = _findings(listed, places, without)
        elif isinstance(tree.get("defaults"), Mapping):
            listed = [_with_defaults(each, tree["defaults"], section) for each in listed]
        tree[section] = listed
    return replace(document, value=tree, places=places)


def let_of(document: Document, without: Collection[Path] = ()) -> Let:
    """Return the names under ``let`` with their expressions.

    A value in *without* is replaced by ``host``, whose value no check knows.
    """
    given = mapping(mapping(document.value).get("let")).items()
    written = {name: expression(value) for name, value in given if isinstance(name, str)}
    return tuple((name, "host" if ("let", name) in without else own) for name, own in written.items() if own)


def late_names(document: Document, name: str) -> list[str]:
    """Return the names that the expression of *name* uses although ``let`` defines them later, *name* included."""
    values = mapping(mapping(document.value).get("let"))
    order = [str(each) for each in values]
    try:
        free = {root for root, _ in names(expression(values[name]), NO_LET)}
    except ConfigError:  # reported where it stands
        return []
    return sorted(free & set(order[order.index(name) :]))


def _with_defaults(step: Any, defaults: Mapping[str, Any], section: str) -> Any:
    """Return *step* with the missing keys taken from *defaults*; a step with ``on`` does not get the default
    ``become``.
    """
    if not isinstance(step, Mapping) or "include" in step:
        return step
    known = {name for name, key in STEP.items() if key.has_default and section in key.phases}
    own = {name: value for name, value in defaults.items() if name in known}
    if "on" in step:
        own.pop("become", None)
    return {**own, **step}


def guards_of(document: Document) -> dict[Path, str]:
    """Return the condition of each group of findings; the keys are paths such as ``("findings", 3, "when")``."""
    listed = mapping(document.value).get("findings")
    groups = enumerate(listed if isinstance(listed, list) else [])
    guards = {_guard(number): expression(mapping(entry).get("when")) for number, entry in groups if _members(entry)}
    return {place: guard for place, guard in guards.items() if guard}


def _guard(number: int) -> Path:
    return ("findings", number, "when")


def _members(entry: Any) -> list[Any] | None:
    """Return the findings of a group; None if *entry* is not a group."""
    inner = entry.get("findings") if isinstance(entry, Mapping) else None
    return inner if isinstance(inner, list) else None


def _findings(listed: list[Any], places: dict[Path, tuple[int, int]], without: Collection[Path]) -> list[Any]:
    """Return *listed* with each group replaced by its findings; *places* is changed accordingly."""
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
    """Return *member* of *group* as a separate finding: with the conditions of the group, and with *causes* as its
    possible causes.
    """
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
