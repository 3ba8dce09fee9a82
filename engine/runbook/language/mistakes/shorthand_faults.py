"""Find the mistakes in the values of ``let`` and in the conditions of groups, each by itself and in its own place."""

from __future__ import annotations

from dataclasses import replace

from runbook.errors import Problem
from runbook.language.name_resolution import Allowed, Naming
from runbook.language.shorthand import guards_of, late_names, let_of
from runbook.language.yaml_source import Document, Path


def faults_in_shorthand(document: Document, allowed: Allowed) -> dict[Path, list[Problem]]:
    """Return the mistakes in the values of ``let`` and in the conditions of groups; the keys are their paths.

    *document* still has its groups in the short form; *allowed*: the names that may be used.
    """
    naming, found = Naming(document), dict[Path, list[Problem]]()
    for number, (name, value) in enumerate(let_of(document)):
        place: Path = ("let", name)
        if late := late_names(document, name):
            words = f"a value may name only those before it, and {', '.join(late)} is not"
            found[place] = [document.problem(place, words)]
            continue
        earlier = replace(allowed, let=let_of(document, found)[:number])
        if problems := list(naming.expression(value, place, earlier)):
            found[place] = problems
    allowed = replace(allowed, let=let_of(document, found))
    for place, guard in guards_of(document).items():
        if problems := list(naming.expression(guard, place, allowed)):
            found[place] = problems
    return found
