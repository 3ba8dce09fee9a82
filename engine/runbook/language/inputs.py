"""The inputs of a playbook: given values, validated against their declarations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runbook.errors import ConfigError, Problem
from runbook.language.yaml_source import parse_playbook
from runbook.text.suggestions import suggest
from runbook.values.playbook import Input, Playbook, Where
from runbook.values.types import Json


def parse_input_option(option: str, playbook: Playbook) -> tuple[str, Json]:
    """Return the name and the value of the option ``NAME=VALUE``.  Raises ConfigError."""
    name, sign, text = option.partition("=")
    if not sign:
        raise ConfigError(f"-e {option}: expected NAME=VALUE")
    declared = _declared(name, playbook)
    if declared.schema.get("type") == "string":
        return name, text
    try:
        value: Json = parse_playbook(text, "").value if text.strip() else text
    except ConfigError as error:
        words = error.problems[0].message
        raise ConfigError(Problem(message=f"-e {name}: cannot be read as YAML: {words}")) from error
    if declared.schema.get("type") == "array" and not isinstance(value, list):
        return name, _single(name, text, value, declared)
    return name, value


def _single(name: str, text: str, value: Json, declared: Input) -> Json:
    """Return *value* as a list of one item; raise ConfigError if the text may stand for several items."""
    hint = f"""write -e '{name}=["one", "another"]'"""
    shown = "***" if declared.hides(text) else repr(text if len(text) <= 80 else f"{text[:80]}...")
    if isinstance(value, Mapping):
        raise ConfigError(Problem(message=f"-e {name}: a list is wanted (YAML or JSON), got a mapping", hint=hint))
    if isinstance(value, str) and "," in value:
        words = f"-e {name}: a list is wanted (YAML or JSON); {shown} may be meant as one item or as several"
        raise ConfigError(Problem(message=words, hint=hint))
    if faults(declared, [value]):
        words = f"-e {name}: a list is wanted (YAML or JSON), but {shown} is neither a list nor a valid item"
        raise ConfigError(Problem(message=words, hint=hint))
    return [value]


def resolve_inputs(
    playbook: Playbook, given: Mapping[str, Json], places: Mapping[str, Where] | None = None
) -> Mapping[str, Json]:
    """Return every input with its value: the value in *given*, else the default.  Raises ConfigError with every
    mistake.

    *places* are the places of the values that come from a file.
    """
    problems: list[Problem] = []
    for name in given:
        try:
            _declared(name, playbook)
        except ConfigError as error:
            problems.extend(_placed(problem, name, places) for problem in error.problems)
    values: dict[str, Json] = {}
    for declared in playbook.inputs:
        if declared.name not in given and declared.required:
            ways = f"-e {declared.name}=...{f', or ${declared.env}' if declared.env else ''}"
            problems.append(Problem(message=f"the input {declared.name!r} is required: {ways}  ({declared.about})"))
            continue
        values[declared.name] = given.get(declared.name, declared.default)
        if declared.name in given:
            wrong = [
                Problem(message=f"input {declared.name}: {words}") for words in faults(declared, values[declared.name])
            ]
            problems += [_placed(one, declared.name, places) for one in wrong]
    if problems:
        raise ConfigError(*problems)
    return values


def _placed(problem: Problem, name: str, places: Mapping[str, Where] | None) -> Problem:
    at = (places or {}).get(name)
    return replace(problem, file=at.file, line=at.line, column=at.column) if at else problem


def faults(declared: Input, value: Json) -> list[str]:
    """Return the reasons why *value* does not match the schema of the input; the value of a secret input is not
    shown.
    """
    from runbook.language.playbook_schema import violations  # it needs jsonschema, which takes long to import

    found = violations(value, declared.schema)
    return ["does not match its schema"] if found and declared.hides(value) else found


def _declared(name: str, playbook: Playbook) -> Input:
    known = {each.name: each for each in playbook.inputs}
    if name in known:
        return known[name]
    if name in playbook.moved:
        hint = f"runbook run {playbook.moved[name]} -e {name}=..."
        raise ConfigError(Problem(message=f"{playbook.name} has no input {name!r} any more", hint=hint))
    raise ConfigError(Problem(message=f"{playbook.name} has no input {name!r}", hint=suggest(name, known)))
