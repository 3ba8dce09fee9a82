"""Describe violations of a JSON Schema in words for authors of playbooks."""

from __future__ import annotations

from typing import Any

from runbook.values.types import plural


def in_words(error: Any) -> str:
    """Return one sentence about *error* (of jsonschema), for the keywords that need no more."""
    wanted, value = error.validator_value, shown(error.instance)
    match error.validator:
        case "minimum":
            return f"{value} is below {wanted}"
        case "exclusiveMinimum":
            return f"{value} is not above {wanted}"
        case "maximum":
            return f"{value} is above {wanted}"
        case "exclusiveMaximum":
            return f"{value} is not below {wanted}"
        case "multipleOf":
            return f"{value} is not a multiple of {wanted}"
        case "const":
            return f"expected {shown(wanted)}, got {value}"
        case "uniqueItems":
            return "the list contains the same item twice"
        case "contains" | "minContains" | "maxContains":
            return "has too few or too many items of the required kind"
        case "minProperties" | "maxProperties":
            side = "at least" if error.validator == "minProperties" else "at most"
            return f"must have {side} {plural(wanted, 'key')}"
        case "dependentRequired":
            return "a key is missing that another given key requires"
        case "not":
            return f"{value} is excluded by the schema"
        case "unevaluatedItems" | "unevaluatedProperties" | "items" | "prefixItems" | None:
            return f"{value} is not allowed here"
    return str(error.message)[:200]  # a pattern: the words are ours


def shown(value: object) -> str:
    """Return words for *value* in a sentence."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
