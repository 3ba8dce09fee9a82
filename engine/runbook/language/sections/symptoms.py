"""The section ``symptom`` of a playbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runbook.language.lenient_read import ids
from runbook.language.sections.placed_values import PlacedValues
from runbook.protocols import Action
from runbook.text.suggestions import suggest
from runbook.text.symptoms import fault_in_pattern, fault_in_text
from runbook.values.playbook import Step, Symptom, SymptomKind
from runbook.values.types import Json

_TEXT: Mapping[str, Json] = {"type": "string", "minLength": 1}
_PATTERN: Mapping[str, Json] = {
    "type": "object",
    "required": ["pattern"],
    "additionalProperties": False,
    "properties": {"pattern": _TEXT},
}
_TOPIC: Mapping[str, Json] = {
    "type": "object",
    "required": ["topic"],
    "additionalProperties": False,
    "properties": {"topic": _TEXT},
}
_SIGNS: Mapping[str, Json] = {
    "type": "object",
    "required": ["signs"],
    "additionalProperties": False,
    "properties": {"signs": _TEXT, "of": {"type": "array", "minItems": 1, "items": _TEXT}},
}
SYMPTOMS: Mapping[str, Json] = {"type": "array", "minItems": 1, "items": {"oneOf": [_TEXT, _PATTERN, _TOPIC, _SIGNS]}}
"""The JSON Schema of the section."""


def symptoms_of(listed: Any, values: PlacedValues) -> tuple[Symptom, ...]:
    """Return the symptoms in *listed*, the list under ``symptom``; a symptom that matches every text is a mistake."""
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
    """Return the symptom in *entry*; None if the schema has already rejected it."""
    match entry:
        case str(written) if written:
            return Symptom(written=written)
        case {"pattern": str(written)} if written:
            return Symptom(written=written, kind=SymptomKind.PATTERN)
        case {"topic": str(written)} if written:
            return Symptom(written=written, kind=SymptomKind.TOPIC)
        case {"signs": str(written), **rest} if written:
            return Symptom(written=written, kind=SymptomKind.STEP, names=ids(rest.get("of")))
    return None


def _fault(symptom: Symptom) -> str:
    match symptom.kind:
        case SymptomKind.TEXT:
            return fault_in_text(symptom.written)
        case SymptomKind.STEP:
            return ""
    return fault_in_pattern(symptom.written)


def with_signs(
    listed: Iterable[Symptom], steps: Iterable[Step], actions: Mapping[str, Action], values: PlacedValues
) -> tuple[Symptom, ...]:
    """Return *listed* with each symptom that names a step replaced by the patterns of this step."""
    return tuple(dict.fromkeys(_with_signs(tuple(listed), {step.id: step for step in steps}, actions, values)))


def _with_signs(
    listed: Sequence[Symptom], steps: Mapping[str, Step], actions: Mapping[str, Action], values: PlacedValues
) -> Iterator[Symptom]:
    known = {name: signs for name, step in steps.items() if (signs := _signs(step, actions))}
    for number, symptom in enumerate(listed):
        if symptom.kind is not SymptomKind.STEP:
            yield symptom
        elif symptom.written not in known:
            words = f"symptom: no step {symptom.written!r} of diagnose has signs of a fault"
            values.wrong(("symptom", number, "signs"), words, suggest(symptom.written, known))
        elif wrong := [name for name in symptom.names if name not in known[symptom.written]]:
            words = f"symptom: the step {symptom.written!r} has no sign {wrong[0]!r}"
            values.wrong(("symptom", number, "of"), words, suggest(wrong[0], known[symptom.written]))
        else:
            signs = known[symptom.written]
            yield from (sign for name, sign in signs.items() if name in (symptom.names or signs))


def _signs(step: Step, actions: Mapping[str, Action]) -> Mapping[str, Symptom]:
    action = actions.get(step.action)
    signs = action.signs(step.args) if action and action.signs else {}
    return {name: sign for name, sign in signs.items() if not _fault(sign)}
