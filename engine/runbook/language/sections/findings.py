"""The section ``findings`` of a playbook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.language import lenient_read
from runbook.language.sections.placed_values import PlacedValues
from runbook.language.yaml_source import Path
from runbook.values.playbook import Comparison, FindingRule, Severity, Step


def findings_of(listed: Any, values: PlacedValues, diagnose: tuple[Step, ...]) -> tuple[FindingRule, ...]:
    """The rules of *listed*, the list under ``findings``; *diagnose* are the probes that they rest on."""
    made = []
    behind = lenient_read.ProbesBehind(diagnose)
    for number, tree in enumerate(listed if isinstance(listed, list) else ()):
        path: Path = ("findings", number)
        if not isinstance(tree, Mapping) or not isinstance(tree.get("id"), str):
            continue
        severity = tree.get("severity")
        when = lenient_read.expression(tree.get("when"))
        advise = tree.get("advise", [])
        across = comparison(tree["across"]) if "across" in tree else None
        compared = (across.value, across.by) if across else ()
        made.append(
            FindingRule(
                id=tree["id"],
                when=when,
                say=lenient_read.text(tree.get("say")) or tree["id"],
                severity=Severity(severity) if severity in list(Severity) else Severity.ERROR,
                across=across,
                unless=lenient_read.ids(tree.get("unless")),
                settle=values.seconds(tree, "settle", path),
                gone_for=values.seconds(tree, "gone_for", path),
                evidence={
                    name: lenient_read.text(value) for name, value in lenient_read.mapping(tree.get("evidence")).items()
                },
                advise=tuple(map(lenient_read.text, [advise] if isinstance(advise, str) else advise)),
                probes=behind.of(when, *compared),
                where=values.where(path),
            )
        )
    return tuple(made)


def comparison(tree: Any) -> Comparison:
    """What ``across`` compares: an expression, or one with another that groups the hosts."""
    if isinstance(tree, Mapping):
        return Comparison(value=lenient_read.text(tree.get("value")), by=lenient_read.text(tree.get("by")))
    return Comparison(value=lenient_read.text(tree))
