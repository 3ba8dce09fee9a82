"""Read ``profiles:``, the inputs and limits of playbooks on some hosts of an inventory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.inventory.fields import Notes, Path, problem_at, value_in_words
from runbook.inventory.host_patterns import select
from runbook.text.suggestions import suggest
from runbook.values.inventory import Inventory, Profile
from runbook.values.units import duration

PROFILES = "profiles"
OF_PLAYBOOKS = ("inputs", "limits")
KEYS = ("hosts", *OF_PLAYBOOKS)
ALIKE = 0.82
LIMITS = ("host_deadline", "cooldown")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenProfile:
    """A profile as its file has it, with the pattern of its hosts."""

    pattern: str
    profile: Profile


def profiles_in(document: object, notes: Notes) -> tuple[WrittenProfile, ...]:
    """Return the entries of ``profiles:`` in *document*; mistakes are added to *notes*.

    A section of this name in which no entry has ``inputs`` or ``limits`` belongs to another program.
    """
    section = document.get(PROFILES) if isinstance(document, Mapping) else None
    if not isinstance(section, Mapping) or not are_profiles(section):
        return ()
    return tuple(made for name, entry in section.items() if (made := _profile(str(name), entry, notes)))


def _is_ours(entry: object) -> bool:
    if not isinstance(entry, Mapping):
        return False
    mistyped = "hosts" in entry and any(get_close_matches(str(key), OF_PLAYBOOKS, n=1, cutoff=ALIKE) for key in entry)
    return mistyped or bool({*OF_PLAYBOOKS} & entry.keys())


def are_profiles(section: object) -> bool:
    """Whether *section*, whatever it is called, has the form of ``profiles:``."""
    return isinstance(section, Mapping) and any(map(_is_ours, section.values()))


def _profile(name: str, entry: object, notes: Notes) -> WrittenProfile | None:
    path: Path = (PROFILES, name)
    known = len(notes.problems)
    if not isinstance(entry, Mapping):
        notes.add(path, f"{_dotted(path)}: expected a mapping with {', '.join(KEYS)}")
        return None
    _refuse_unknown(entry, KEYS, path, notes)
    pattern = entry.get("hosts")
    if not isinstance(pattern, str) or not pattern.strip():
        hint = "such as all, a group, or gpu=*H100*"
        notes.add((*path, "hosts") if "hosts" in entry else path, f"{_dotted(path)}.hosts: expected a pattern", hint)
    inputs = {
        str(playbook): {str(key): value for key, value in given.items()}
        for playbook, given in _mappings(entry, "inputs", path, notes)
    }
    limits = _limits(entry, path, notes)
    if len(notes.problems) > known:
        return None
    profile = Profile(
        name=name,
        hosts=(),
        inputs=inputs,
        **limits,
        where=notes.at(path),
        places={(book, key): notes.at((*path, "inputs", book, key)) for book, given in inputs.items() for key in given},
    )
    return WrittenProfile(pattern=str(pattern), profile=profile)


def _limits(entry: Mapping[Any, Any], path: Path, notes: Notes) -> dict[str, float]:
    written = entry.get("limits", {})
    if not isinstance(written, Mapping):
        notes.add((*path, "limits"), f"{_dotted(path)}.limits: expected a mapping with {', '.join(LIMITS)}")
        return {}
    _refuse_unknown(written, LIMITS, (*path, "limits"), notes)
    found = {}
    for key in LIMITS:
        try:
            found[key] = duration(written[key]) if key in written else 0.0
        except ConfigError as error:
            notes.add((*path, "limits", key), f"{_dotted((*path, 'limits', key))}: {error}")
    return found


def _mappings(entry: Mapping[Any, Any], key: str, path: Path, notes: Notes) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Yield the mappings under *key*; anything else there is a mistake."""
    section = entry.get(key, {})
    if not isinstance(section, Mapping):
        words = f"expected a mapping of playbooks to inputs, not {value_in_words('', section)}"
        notes.add((*path, key), f"{_dotted((*path, key))}: {words}")
        return
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield name, value
        else:
            words = f"expected a mapping of inputs to values, not {value_in_words('', value)}"
            notes.add((*path, key, str(name)), f"{_dotted((*path, key, str(name)))}: {words}")


def _refuse_unknown(entry: Mapping[Any, Any], known: Sequence[str], path: Path, notes: Notes) -> None:
    for key in entry:
        if key not in known:
            notes.add((*path, str(key)), f"{_dotted(path)}: unknown key {str(key)[:40]!r}", suggest(str(key), known))


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def with_profiles(inventory: Inventory, written: Sequence[WrittenProfile]) -> Inventory:
    """Return *inventory* with the profiles in *written*.  Raises ConfigError for a pattern with unknown names, for two
    profiles of one name, and for two that give a host the same input.
    """
    problems: list[Problem] = []
    found: list[Profile] = []
    for each in written:
        profile, where = each.profile, each.profile.where
        try:
            chosen = select(inventory, each.pattern, include_not_ready=True, may_be_none=True)
            hosts = (*(host.name for host in chosen.hosts), *(left.host for left in chosen.left_out))
        except ConfigError as error:
            problems += [
                problem_at(where, f"{PROFILES}.{profile.name}.hosts: {problem.message}", problem.hint)
                for problem in error.problems
            ]
            continue
        found.append(replace(profile, hosts=hosts))
    problems += _clashes(found)
    if problems:
        raise ConfigError(*problems)
    return replace(inventory, profiles=tuple(found))


def _clashes(profiles: Sequence[Profile]) -> Iterator[Problem]:
    for number, one in enumerate(profiles):
        for other in profiles[:number]:
            if one.name == other.name:
                yield problem_at(one.where, f"the profile {one.name} is also in {other.where}", "keep one of them")
            elif shared := sorted({*one.hosts} & {*other.hosts}):
                yield from _given_twice(one, other, shared[0])


def _given_twice(one: Profile, other: Profile, host: str) -> Iterator[Problem]:
    for playbook, name in one.places:
        if (playbook, name) in other.places and one.inputs[playbook][name] != other.inputs[playbook][name]:
            words = f"{name} of {playbook}: the profile {other.name} gives {host} another value"
            yield problem_at(one.places[playbook, name], words, f"see {other.places[playbook, name]}")
