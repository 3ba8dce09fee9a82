"""Find the mistakes that only follow from another mistake, so that they are not reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.language.keys import ID
from runbook.text.suggestions import nearest
from runbook.values.playbook import Playbook

SECTIONS = ("diagnose", "findings", "remediate", "verify")
MOST_COMPARED = 50
"""The maximum number of invalid ids with which an unknown name is compared."""

MOST_LINES = 5
"""The maximum number of lines that the message about a repeated mistake names."""


@dataclass(frozen=True, slots=True)
class Lost:
    """Names whose step, finding or include could not be read."""

    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    """The prefixes of ids in playbooks that could not be included."""
    misnamed: tuple[str, ...] = ()
    """Invalid ids, each of which is already reported."""
    has_nameless: bool = False
    """Whether a probe or a finding has no id, which is already reported."""

    def explains(self, name: str, hint: str) -> bool:
        """Whether another mistake explains why *name* is unknown; *hint* proposes similar names, if there are any."""
        if name in self.names or name.startswith(self.prefixes):
            return True
        if any(name in re.split(r"\W+", wrong) or nearest(name, [wrong]) for wrong in self.misnamed):
            return True
        return self.has_nameless and not hint.startswith("did you mean")


def lost_names(tree: Mapping[str, Any], book: Playbook, brought: Iterable[str]) -> Lost:
    """Return the names in *tree* that *book* does not have; *brought* are the ids of the includes that could be
    read.
    """
    entries = list(_entries(tree))
    ids = [entry["id"] for _, entry in entries if isinstance(entry.get("id"), str)]
    there = {*(step.id for step in book.steps), *(rule.id for rule in book.findings)}
    parts = [entry["id"] for _, entry in entries if "include" in entry and isinstance(entry.get("id"), str)]
    return Lost(
        names=frozenset(ids) - there,
        prefixes=tuple(f"{part}_" for part in parts if part not in set(brought)),
        misnamed=tuple(each for each in ids if not re.search(ID, each))[:MOST_COMPARED],
        has_nameless=any(
            section in ("diagnose", "findings") and not isinstance(entry.get("id"), str) for section, entry in entries
        ),
    )


def _entries(tree: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for section in SECTIONS:
        listed = tree.get(section)
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, Mapping):
                yield section, entry


_UNDEFINED = re.compile(
    r"the name '.*' is not defined|there is no input '.*'|no (?:earlier )?(?:step|finding) is called '.*'"
)


def once(problems: Iterable[Problem]) -> list[Problem]:
    """Return *problems*, sorted; an undefined name that is used in several places is reported once."""
    found: dict[object, list[Problem]] = {}
    for problem in sorted(set(problems)):
        is_name = _UNDEFINED.fullmatch(problem.message)
        found.setdefault((problem.file, problem.message) if is_name else problem, []).append(problem)
    return sorted(_joined(same) for same in found.values())


def _joined(same: list[Problem]) -> Problem:
    first = same[0]
    lines = list(dict.fromkeys(str(problem.line) for problem in same if problem.line != first.line))
    if not lines:
        return first
    few = [*lines[:MOST_LINES], *(["..."] if len(lines) > MOST_LINES else [])]
    also = f"also on line {lines[0]}" if len(lines) == 1 else f"also on lines {', '.join(few)}"
    return replace(first, hint=f"{first.hint}; {also}" if first.hint else also)
