"""Find the mistakes in the values of ``let`` and in the conditions of groups, each by itself and in its own place."""

from __future__ import annotations

from engine.errors import Problem
from engine.lang.name_resolution import Allowed, Naming
from engine.lang.shorthand import guards_of, late_names, values_of, with_values
from engine.lang.yaml_source import Document


def faults_in_shorthand(document: Document, allowed: Allowed) -> dict[str, list[Problem]]:
    """The mistakes in the values, by name, and in the conditions of groups, by the place of each.

    *document* is not written out yet; *allowed* says what may be named.
    """
    naming, found = Naming(document), dict[str, list[Problem]]()
    for name in values_of(document):
        if late := late_names(document, name):
            words = f"a value may name only those before it, and {', '.join(late)} is not"
            found[name] = [document.problem(("let", name), words)]
        elif problems := list(naming.expression(values_of(document, found)[name], ("let", name), allowed)):
            found[name] = problems
    for place, written in guards_of(document).items():
        guard = with_values(written, values_of(document, found))
        number = int(place.removeprefix("findings[").removesuffix("]"))
        if problems := list(naming.expression(guard, ("findings", number, "when"), allowed)):
            found[place] = problems
    return found
