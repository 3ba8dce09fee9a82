"""The section ``findings`` of a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.errors import ConfigError
from runbook.language.expressions.templates import demands_silence
from runbook.language.keys import FINDING, fields_of
from runbook.language.lenient_read import ProbesBehind
from runbook.language.sections.placed_values import Entry, PlacedValues
from runbook.language.yaml_source import Path
from runbook.values.playbook import FindingRule, Let, Step, Telling


def findings_of(listed: Any, values: PlacedValues, diagnose: tuple[Step, ...], let: Let) -> tuple[FindingRule, ...]:
    """Return the findings in *listed*, the list under ``findings``; *diagnose* are the probes that they may use."""
    made = []
    behind = ProbesBehind(diagnose, let)
    for number, tree in enumerate(listed if isinstance(listed, list) else ()):
        path: Path = ("findings", number)
        if not isinstance(tree, Mapping) or not isinstance(tree.get("id"), str):
            continue
        given = fields_of(FINDING, Entry(tree, path, values))
        across = given["across"]
        compared = (across.value, across.by) if across else ()
        given["tells"] = given["tells"] or _telling(given["when"], let)
        made.append(FindingRule(**given, probes=behind.of(given["when"], *compared), where=values.where(path)))
    return tuple(made)


def _telling(when: str, let: Let) -> Telling:
    try:
        return Telling.UNKNOWN if demands_silence(when, let) else Telling.FAULT
    except ConfigError:  # another check reports the expression
        return Telling.FAULT
