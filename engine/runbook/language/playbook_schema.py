"""The JSON Schema of a playbook, and its violations in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from runbook.errors import Problem
from runbook.language.ansible_hints import MEANT
from runbook.language.keys import ID, PLAYBOOK, STEP, exactly, properties_of, schema_of
from runbook.language.schema_violations import in_words, shown
from runbook.language.yaml_source import Document
from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex
from runbook.text.suggestions import nearest, suggest
from runbook.values.playbook import Phase
from runbook.values.types import Json, Raw, plural

YES_OR_NO = {"yes": "true", "on": "true", "no": "false", "off": "false"}


def playbook_schema(actions: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of a playbook; the arguments of *actions* are not in it (see ``arguments``)."""
    step = exactly({**properties_of(STEP), **dict.fromkeys(actions, True)})
    sections = {str(phase): {**PLAYBOOK[phase].schema, "items": step} for phase in Phase}
    whole = schema_of(PLAYBOOK)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "properties": {**properties_of(PLAYBOOK), **sections},
    }


def violations(value: Json, schema: Mapping[str, Json]) -> list[str]:
    """Return the mistakes of *value* according to *schema*, as texts.

    *schema* must contain everything that it refers to, because nothing is fetched.
    """
    errors = _Bounded(dict(schema), registry=Registry()).iter_errors(value)
    return [f"{_path(error)}{words}" for error in errors for _, words, _ in said(error)]


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    """Check a pattern as JSON Schema does; if the search exceeds its time limit, the value is refused."""
    if not isinstance(value, str):
        return
    try:
        if not SearchBudget().found(compile_regex(pattern), value):
            yield ValidationError(f"{value[:80]!r} does not match {pattern!r}")
    except SearchTimeout as error:
        yield ValidationError(f"{value[:80]!r} {error}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, _: Any) -> Iterator[ValidationError]:
    """Check the values by patterns of their keys, as JSON Schema does; if a search exceeds its time limit, the key is
    refused.
    """
    budget = SearchBudget()
    for key in value if isinstance(value, dict) else ():
        for pattern, schema in patterns.items():
            try:
                if budget.found(compile_regex(pattern), key):
                    yield from validator.descend(value[key], schema, path=key, schema_path=pattern)
            except SearchTimeout as error:
                yield ValidationError(f"the key {key[:80]!r} {error}")


def _additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Check for further keys as JSON Schema does; if the search for a pattern exceeds its time limit,
    ``patternProperties`` refuses the key.
    """
    patterns = schema.get("patternProperties")
    if not patterns or not isinstance(value, dict):
        yield from Draft202012Validator.VALIDATORS["additionalProperties"](validator, allowed, value, schema)
        return
    budget = SearchBudget()
    for key in value:
        try:
            known = key in schema.get("properties", {}) or any(
                budget.found(compile_regex(pattern), key) for pattern in patterns
            )
        except SearchTimeout:
            continue
        if not known and isinstance(allowed, Mapping):
            yield from validator.descend(value[key], allowed, path=key)
        elif not known and not allowed:
            yield ValidationError(f"the key {key[:80]!r} matches none of: {', '.join(patterns)}")


_Bounded: Any = extend(  # type: ignore[no-untyped-call] # jsonschema's
    Draft202012Validator,
    {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    },
)


def problems_in(document: Document, schema: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield every violation of *schema* in *document*, with its place."""
    for error in Draft202012Validator(dict(schema)).iter_errors(document.value):
        for path, words, hint in said(error):
            yield document.problem(path, words, hint)


def _path(error: ValidationError) -> str:
    words = "".join(f"[{value}]" if isinstance(value, int) else f".{value}" for value in error.absolute_path).lstrip(
        "."
    )
    return f"{words}: " if words else ""


def said(violation: ValidationError) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the path of *violation*, its message, and a hint."""
    error: Any = violation
    path = tuple(error.absolute_path)
    if isinstance(error.instance, Raw):
        yield path, f"{_key(path)}`!raw` is for arguments of actions and defaults of inputs", _BRACES
        return
    match error.validator:
        case "additionalProperties":
            yield from _unknown_keys(error)
        case "required":
            missing = [each for each in error.validator_value if each not in error.instance]
            named = error.message.partition("'")[2].partition("'")[0]
            if named in missing:
                yield path, f"{named!r} is missing", ""
        case "type":
            yield path, *_wrong_type(error)
        case "enum":
            yield path, *_not_a_choice(error)
        case "pattern" if error.validator_value == ID:
            yield path, f"{shown(error.instance)} is not an id: letters, digits and _ only, and no digit first", ""
        case "minLength" | "minItems" | "maxLength" | "maxItems":
            yield path, _wrong_length(error), ""
        case "oneOf" | "anyOf":
            yield from _none_of(error)
        case _:
            yield path, f"{_key(path)}{in_words(error)}", ""


def _unknown_keys(error: Any) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    path, known = tuple(error.absolute_path), list(error.schema.get("properties", {}))
    for key in error.instance:
        if key not in known:
            yield (*path, key), *_unknown_key(str(key), known, path)


def _wrong_type(error: Any) -> tuple[str, str]:
    """Return the message and the hint for a value of a wrong type."""
    path, wanted = tuple(error.absolute_path), error.validator_value
    words = " or ".join(_TYPES.get(word, word) for word in ([wanted] if isinstance(wanted, str) else wanted))
    hint = ""
    if isinstance(error.instance, list) and path[-1:] == ("when",):
        hint = "join them by `and`: when: a.there and not b.there"
    if "boolean" in wanted and isinstance(error.instance, str) and error.instance in YES_OR_NO:
        hint = f"write {YES_OR_NO[error.instance]}: yes, no, on and off are text here"
    return f"{_key(path)}expected {words}, got {shown(error.instance)}", hint


def _not_a_choice(error: Any) -> tuple[str, str]:
    """Return the message and the hint for a value that is not one of the allowed values."""
    choices = [str(each) for each in error.validator_value]
    key = _key(tuple(error.absolute_path))
    message = f"{key}{shown(error.instance)} is not allowed; use one of: {', '.join(choices)}"
    return message, suggest(str(error.instance), choices, "")


def _wrong_length(error: Any) -> str:
    if error.validator.startswith("min") and error.validator_value == 1:
        return "must not be empty"
    side = "at least" if error.validator.startswith("min") else "at most"
    what = plural(error.validator_value, "character" if error.validator.endswith("Length") else "item")
    return f"{_key(tuple(error.absolute_path))}{shown(error.instance)} must have {side} {what}"


def _none_of(error: Any) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the mistake of a value that has none of several forms: its wrong type, or the mistake in the most similar
    form.
    """
    path = tuple(error.absolute_path)
    here = [each for each in error.context if tuple(each.absolute_path) == path]
    kinds = [
        each.validator_value for each in here if each.validator == "type" and isinstance(each.validator_value, str)
    ]
    if not error.context:
        yield path, f"{_key(path)}{shown(error.instance)} matches more than one of the allowed forms", ""
    elif len(kinds) == len(error.context):
        wanted = " or ".join(dict.fromkeys(_TYPES.get(kind, kind) for kind in kinds))
        yield path, f"{_key(path)}expected {wanted}, got {shown(error.instance)}", ""
    else:
        nearest = max(error.context, key=lambda it: (len(it.absolute_path), it.validator != "type"))
        yield from said(nearest)


def _unknown_key(key: str, known: list[str], path: tuple[str | int, ...]) -> tuple[str, str]:
    if key in MEANT and path[:1] != ("inputs",):
        return f"unknown key {key!r}", MEANT[key]
    last = key.rpartition(".")[2]  # ansible.builtin.service
    if last != key and last in MEANT:
        return f"unknown key {key!r}", MEANT[last]
    near = last if last in known else nearest(key, known)
    if not near and key in STEP:
        return f"unknown key {key!r}", "it is a key of a step, under diagnose, remediate or verify"
    few = f"there are: {', '.join(known)}" if len(known) < len(STEP) else ""
    return f"unknown key {key!r}", f"did you mean {near}?" if near else few


def _key(path: tuple[str | int, ...]) -> str:
    return f"{path[-1]}: " if path and isinstance(path[-1], str) else ""


_BRACES = "leave it out; for a literal {{, write {{ '{{' }}"
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "nothing",
}
