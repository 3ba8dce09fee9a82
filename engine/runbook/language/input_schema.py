"""Check the JSON Schema of an input: only known keywords, no references, no slow patterns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator

from runbook.language.ansible_hints import MEANT
from runbook.language.playbook_schema import said
from runbook.text.regexes import fault_in_regex
from runbook.text.suggestions import suggest
from runbook.values.types import Json

Path = tuple[str | int, ...]

KINDS = {
    **dict.fromkeys(("str", "text", "path", "duration", "size"), "string"),
    "int": "integer",
    "bool": "boolean",
    "float": "number",
    "list": "array",
    "dict": "object",
    "map": "object",
}
"""JSON Schema's names of types; the keys are the names of these types in other languages."""

ELSEWHERE = {
    **dict.fromkeys(("choices", "options", "values", "allowed"), "write `enum: [one, another]`"),
    **dict.fromkeys(("prompt", "help", "desc", "doc"), "write `about`"),
    **dict.fromkeys(("private", "no_log", "sensitive"), "write `secret: true`"),
    "elements": "write `items: {type: string}`",
    "value": "write `default`",
    "regex": "write `pattern`",
    "min": "write `minimum`",
    "max": "write `maximum`",
    "optional": "give it a `default`",
    **MEANT,
}
"""Keys that other programs use in declarations of inputs, each with its replacement."""

VALUES = ("const", "default", "enum", "examples", "dependentRequired", "required")
"""Keywords whose values are not schemas."""

NAMED = ("dependentSchemas", "patternProperties", "properties")
"""Keywords whose value is a mapping from names to schemas."""

KEYWORDS = (
    *VALUES,
    *NAMED,
    *("type", "multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength"),
    *("pattern", "maxItems", "minItems", "uniqueItems", "maxContains", "minContains", "maxProperties", "minProperties"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "prefixItems", "items", "contains"),
    *("additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties"),
    *("title", "description", "deprecated", "readOnly", "writeOnly", "format"),
)


def faults_in_schema(schema: Mapping[str, Json]) -> list[tuple[Path, str, str]]:
    """Return all mistakes in *schema*: for each the path in *schema*, the message, and a hint."""
    found = list(_walk(schema, ()))
    if found:
        return found
    errors = Draft202012Validator(Draft202012Validator.META_SCHEMA).iter_errors(dict(schema))
    return [(path, words, _kind_meant(error.instance) or hint) for error in errors for path, words, hint in said(error)]


def _kind_meant(value: object) -> str:
    """Return a hint with the right type of JSON Schema, if *value* is the name of a type in another language; empty
    otherwise.
    """
    meant = KINDS.get(value) if isinstance(value, str) else None
    return f"write `type: {meant}`" if meant else ""


def _walk(schema: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    match schema:
        case list():
            for number, inner in enumerate(schema):
                yield from _walk(inner, (*path, number))
        case Mapping():
            for key, value in schema.items():
                yield from _keyword(key, value, (*path, key))


def _keyword(key: str, value: Any, path: Path) -> Iterator[tuple[Path, str, str]]:
    if key.startswith("$"):
        yield path, f"{key!r} is not allowed in an input", "references are not followed: write the schema out"
    elif key not in KEYWORDS:
        hint = ELSEWHERE.get(key) or suggest(key, KEYWORDS, "an input has about, default, type, enum, pattern ...")
        yield path, f"unknown keyword {key!r}", hint
    elif key == "pattern" and isinstance(value, str) and (why := fault_in_regex(value)):
        yield path, f"pattern {value[:80]!r} is refused: {why}", ""
    elif key in NAMED:
        for name, inner in value.items() if isinstance(value, Mapping) else ():
            if key == "patternProperties" and (why := fault_in_regex(name)):
                yield (*path, name), f"pattern {name[:80]!r} is refused: {why}", ""
            yield from _walk(inner, (*path, name))
    elif key not in VALUES:
        yield from _walk(value, path)
