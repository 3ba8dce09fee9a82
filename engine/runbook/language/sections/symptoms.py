"""The section ``symptom`` of a playbook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runbook.language.lenient_read import ids
from runbook.language.yaml_source import Path
from runbook.protocols import Action
from runbook.text.suggestions import suggest
from runbook.text.symptoms import fault_in_pattern, fault_in_text
from runbook.values.playbook import Playbook, Step, Symptom, SymptomKind
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


def symptoms_of(listed: Any) -> tuple[Symptom, ...]:
    """Return the symptoms in *listed*, the list under ``symptom``."""
    return tuple(filter(None, map(_symptom, listed))) if isinstance(listed, list) else ()


def faults_in_symptoms(
    listed: Any, steps: Iterable[Step], actions: Mapping[str, Action]
) -> Iterator[tuple[Path, str, str]]:
    """Yield the mistakes in *listed*: for each its path, a message and a hint; *steps*: the steps of ``diagnose``.

    A symptom that matches every text is a mistake.
    """
    seen: set[Symptom] = set()
    known = _known_signs(steps, actions)
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        path, symptom = ("symptom", number), _symptom(entry)
        if symptom is None:
            continue
        signs = known.get(symptom.written, {})
        if symptom in seen:
            yield path, f"symptom: {symptom.written[:80]!r} stands here twice", ""
        elif fault := _fault(symptom):
            yield path, f"symptom: {fault}", ""
        elif symptom.kind is SymptomKind.STEP and not signs:
            words = f"symptom: no step {symptom.written!r} of diagnose has signs of a fault"
            yield (*path, "signs"), words, suggest(symptom.written, known)
        elif wrong := [name for name in symptom.names if name not in signs]:
            words = f"symptom: the step {symptom.written!r} has no sign {wrong[0]!r}"
            yield (*path, "of"), words, suggest(wrong[0], signs)
        seen.add(symptom)


def with_signs(book: Playbook, actions: Mapping[str, Action]) -> tuple[Symptom, ...]:
    """Return the symptoms of *book* with each that names a step replaced by the patterns of this step."""
    known = _known_signs(book.diagnose, actions)
    found: list[Symptom] = []
    for symptom in book.symptom:
        signs = known.get(symptom.written, {})
        by_step = [sign for name, sign in signs.items() if name in (symptom.names or signs)]
        found += by_step if symptom.kind is SymptomKind.STEP else [symptom]
    return tuple(dict.fromkeys(found))


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


def _known_signs(steps: Iterable[Step], actions: Mapping[str, Action]) -> dict[str, Mapping[str, Symptom]]:
    return {step.id: signs for step in steps if (signs := _signs(step, actions))}


def _signs(step: Step, actions: Mapping[str, Action]) -> Mapping[str, Symptom]:
    action = actions.get(step.action)
    signs = action.signs(step.args) if action and action.signs else {}
    return {name: sign for name, sign in signs.items() if not _fault(sign)}
