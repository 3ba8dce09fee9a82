"""The knobs of a playbook: what was given, checked against what is declared."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from engine.errors import ConfigError, Problem
from engine.lang.schema import violations
from engine.lang.source import parse_playbook
from engine.values.playbook import Input, Playbook
from engine.values.text import Json


def parse_input_option(option: str, playbook: Playbook) -> tuple[str, Json]:
    """Name and value of ``NAME=VALUE``; the value is read as YAML unless the input wants text.  Raises ConfigError."""
    name, sign, text = option.partition("=")
    if not sign:
        raise ConfigError(f"-e {option}: expected NAME=VALUE")
    declared = _declared(name, playbook)
    if declared.schema.get("type") == "string":
        return name, text
    value: Json = parse_playbook(text, f"-e {name}").value if text.strip() else text
    wants_list = declared.schema.get("type") == "array"
    if wants_list and isinstance(value, str):
        return name, [it.strip() for it in value.split(",")]
    return name, [value] if wants_list and not isinstance(value, list) else value


def resolve_inputs(playbook: Playbook, given: Mapping[str, Json]) -> Mapping[str, Json]:
    """Every input with its value: given, or its default.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    for name in given:
        try:
            _declared(name, playbook)
        except ConfigError as error:
            problems.extend(error.problems)
    values: dict[str, Json] = {}
    for it in playbook.inputs:
        if it.name not in given and it.required:
            problems.append(Problem(message=f"the input {it.name!r} is required: -e {it.name}=...  ({it.about})"))
            continue
        values[it.name] = given.get(it.name, it.default)
        if it.name in given:
            problems += [Problem(message=f"input {it.name}: {words}") for words in faults(it, values[it.name])]
    if problems:
        raise ConfigError(*problems)
    return values


def faults(it: Input, value: Json) -> list[str]:
    """Why *value* is none for the input; a secret one is not repeated."""
    found = violations(value, it.schema)
    return ["is not as its schema says"] if found and it.secret else found


def _declared(name: str, playbook: Playbook) -> Input:
    known = {it.name: it for it in playbook.inputs}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known) or 'none'}"
    raise ConfigError(Problem(message=f"{playbook.name} has no input {name!r}", hint=hint))
