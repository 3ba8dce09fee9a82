"""The section ``symptom`` of a playbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runbook.language.sections.placed_values import PlacedValues
from runbook.text.symptoms import fault_in_pattern, fault_in_text
from runbook.values.playbook import Symptom, SymptomKind
from runbook.values.types import Json

_TEXT: Mapping[str, Json] = {"type": "string", "minLength": 1}
_PATTERN: Mapping[str, Json] = {
    "type": "object",
    "required": ["pattern"],
    "additionalProperties": False,
    "properties": {"pattern": _TEXT},
}
SYMPTOMS: Mapping[str, Json] = {"type": "array", "minItems": 1, "items": {"oneOf": [_TEXT, _PATTERN]}}
"""The shape of the section."""


def symptoms_of(listed: Any, values: PlacedValues) -> tuple[Symptom, ...]:
    """The symptoms of *listed*, the list under ``symptom``; one that would find anything is a mistake."""
    return tuple(_symptoms(listed, values)) if isinstance(listed, list) else ()


def _symptoms(listed: list[Any], values: PlacedValues) -> Iterator[Symptom]:
    seen: set[Symptom] = set()
    for number, entry in enumerate(listed):
        path, symptom = ("symptom", number), _symptom(entry)
        if symptom is None:
            continue
        if symptom in seen:
            values.wrong(path, f"symptom: {symptom.written[:80]!r} stands here twice")
        elif fault := _fault(symptom):
            values.wrong(path, f"symptom: {fault}")
        seen.add(symptom)
        yield symptom


def _symptom(entry: Any) -> Symptom | None:
    """The symptom that *entry* is; None where the schema has objected to it."""
    match entry:
        case str(written) if written:
            return Symptom(written=written)
        case {"pattern": str(written)} if written:
            return Symptom(written=written, kind=SymptomKind.PATTERN)
    return None


def _fault(symptom: Symptom) -> str:
    match symptom.kind:
        case SymptomKind.TEXT:
            return fault_in_text(symptom.written)
        case SymptomKind.PATTERN:
            return fault_in_pattern(symptom.written)
