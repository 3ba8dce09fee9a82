"""Make the JSON Schema of a playbook for editors: the loader's schema with the arguments of all actions and
descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from runbook.language.input_schema import KEYWORDS
from runbook.language.keys import (
    COUNT,
    FINDING,
    GROUP,
    ID,
    INPUT,
    LATER,
    LIMITS,
    PLAYBOOK,
    QUANTITY,
    SECRET,
    SHARE_OF_HOSTS,
    STEP,
    Key,
    exactly,
    properties_of,
)
from runbook.language.playbook_schema import playbook_schema
from runbook.protocols import Action
from runbook.text.field_descriptions import description
from runbook.values.playbook import Phase
from runbook.values.types import Duration, Json, ProcessPattern, Regex, Size
from runbook.values.units import DURATION, SHARE, SIZE

Schema = dict[str, Any]

TEMPLATE: Mapping[str, Any] = {"type": "string", "pattern": r"\{\{|\{%|\{#"}
"""The schema of a template, which may be used in place of a value of any type."""

TIMES: Mapping[str, Any] = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": f"^{DURATION}$"}]}
BYTES: Mapping[str, Any] = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": f"^{SIZE}$"}]}
HOSTS: Mapping[str, Any] = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": rf"^\s*{SHARE}\s*$"}]
}

_SCALARS: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    None: {"type": "null"},
    Duration: TIMES,
    Size: BYTES,
    Regex: {"type": "string"},
    ProcessPattern: {"type": "string", "minLength": 1},
}


def exported_schema(actions: Mapping[str, Action]) -> Schema:
    """Return the output of ``runbook schema``, which accepts whatever the loader accepts."""
    schema: Schema = _sharpened(playbook_schema(actions))
    top = schema["properties"]
    top["inputs"]["additionalProperties"] = _input()
    top["secrets"] = _secrets()
    for phase in Phase:
        top[str(phase)]["items"] = _item(phase, actions)
    single, group = top["findings"]["items"]["else"], top["findings"]["items"]["then"]
    single["properties"] = _told(single["properties"], FINDING)
    group["properties"] = _told({**group["properties"], "findings": {"type": "array", "items": single}}, GROUP)
    top["defaults"]["properties"] = _told(top["defaults"]["properties"], STEP)
    top["limits"]["properties"] = _told(top["limits"]["properties"], LIMITS)
    return {
        **schema,
        "title": "A playbook of runbook",
        "properties": _told(top, PLAYBOOK),
        "$defs": {
            "template": dict(TEMPLATE),
            **{f"action_{action.name}": _action(action) for action in actions.values()},
        },
    }


def _sharpened(schema: Any) -> Any:
    """Return a copy of *schema* that describes the form of durations and of shares of the hosts."""
    if schema is QUANTITY:
        return dict(TIMES)
    if schema is LATER:
        return {"anyOf": [*TIMES["anyOf"], dict(TEMPLATE)]}
    if schema is COUNT:
        return {"anyOf": [{"type": "integer", "minimum": 2}, dict(TEMPLATE)]}
    if schema is SHARE_OF_HOSTS:
        return dict(HOSTS)
    match schema:
        case Mapping():
            return {key: _sharpened(value) for key, value in schema.items()}
        case list() | tuple():
            return [_sharpened(each) for each in schema]
    return schema


def _told(properties: Mapping[str, Any], keys: Mapping[str, Key]) -> Schema:
    """Return *properties*, each with the description of its key and the further rules for editors."""
    return {
        name: {**value, **keys[name].exported, "description": keys[name].about} if name in keys else value
        for name, value in properties.items()
    }


def _input() -> Schema:
    kinds = {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]}
    known: Schema = {keyword: {} for keyword in KEYWORDS} | {name: dict(key.schema) for name, key in INPUT.items()}
    known["type"] = {"anyOf": [kinds, {"type": "array", "items": kinds}]}
    needs = [{"required": ["default"]}, {"required": ["required"], "properties": {"required": {"const": True}}}]
    return {**exactly(_told(known, INPUT), ("about",)), "anyOf": needs}


def _secrets() -> Schema:
    sources = [{"required": [name]} for name in SECRET if name != "description"]
    elsewhere = {"not": {"anyOf": sources}}  # the inventory says where it is
    reference = {**exactly(_told(properties_of(SECRET), SECRET)), "oneOf": [*sources, elsewhere]}
    return {"type": ["object", "null"], "propertyNames": {"pattern": ID}, "additionalProperties": reference}


def _item(phase: Phase, actions: Mapping[str, Action]) -> Schema:
    """Return the schema of an entry of the section *phase*: a step, or (except in verify) an include."""
    able = [action.name for action in actions.values() if _stands_in(action, phase)]
    own = {name: key for name, key in STEP.items() if phase in key.phases}
    named = {word: {"$ref": f"#/$defs/action_{word}", "description": actions[word].summary} for word in able}
    step: Schema = {
        **exactly({**_told(_sharpened(properties_of(own)), STEP), **named}),
        "oneOf": [{"required": [word]} for word in able],
        **({"required": ["id"]} if phase is Phase.DIAGNOSE else {}),
    }
    if phase is Phase.VERIFY:
        return step
    included = {name: key for name, key in STEP.items() if key.of_include}
    brought = exactly(_told(_sharpened(properties_of(included)), STEP), ("id",))
    return {"if": {"type": "object", "required": ["include"]}, "then": brought, "else": step}


def _stands_in(action: Action, phase: Phase) -> bool:
    ability = {Phase.REMEDIATE: action.decide, Phase.VERIFY: action.holds}
    return phase is Phase.DIAGNOSE or bool(ability[phase] or action.waits)


def _action(action: Action) -> Schema:
    made = _arguments(action.Args)
    return {**made, "type": ["object", "null"], "description": action.doc}


def _arguments(kind: Any) -> Schema:
    """Return the schema of the arguments in the dataclass *kind*."""
    hints = get_type_hints(kind)
    known = fields(kind)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [
            field_.name.rstrip("_")
            for field_ in known
            if field_.default is MISSING and field_.default_factory is MISSING
        ],
        "properties": {field_.name.rstrip("_"): _argument(kind, hints[field_.name], field_) for field_ in known},
    }


def _argument(owner: Any, kind: Any, argument: Field[Any]) -> Schema:
    made = _or_template(_of(kind, argument.metadata))
    about = description(owner, argument)
    words = {"description": about} if about else {}
    plain = isinstance(argument.default, str | int | float | bool) and argument.default != ""
    return {**made, **words, **({"default": argument.default} if plain else {})}


def _or_template(schema: Schema) -> Schema:
    """Return a schema that accepts *schema* or a template; a schema of any text accepts templates anyway."""
    if schema in ({}, {"type": "string"}):
        return schema
    return {"anyOf": [schema, {"$ref": "#/$defs/template"}]}


def _of(kind: Any, rules: Mapping[str, Any]) -> Schema:
    """Return the schema of the type *kind*; *rules* are the limits of its field."""
    if kind in _SCALARS:
        return _bounded(dict(_SCALARS[kind]), rules)
    origin = get_origin(kind)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin is tuple:
        inner = {name: rule for name, rule in rules.items() if name != "min_items"}
        made: Schema = {"type": "array", "items": _or_template(_of(get_args(kind)[0], inner))}
        return made | ({"minItems": rules["min_items"]} if "min_items" in rules else {})
    if is_dataclass(kind):
        return _arguments(kind)
    if origin in (Union, UnionType):
        kinds = get_args(kind)
        return {} if {str, int, float, bool} <= set(kinds) else {"anyOf": [_of(kind, rules) for kind in kinds]}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _or_template(_of(get_args(kind)[1], {}))}
    return {}


def _bounded(schema: Schema, rules: Mapping[str, Any]) -> Schema:
    """Return *schema* with the limits in *rules* on its numbers and texts."""
    if "anyOf" in schema:
        return {"anyOf": [_bounded(dict(schema["anyOf"][0]), rules), *schema["anyOf"][1:]]}
    numbers: dict[str, Json] = {word: rules[word] for word in ("minimum", "maximum") if word in rules}
    if schema["type"] in ("integer", "number"):
        return schema | numbers
    if schema["type"] == "string" and "min_length" in rules:
        return schema | {"minLength": rules["min_length"]}
    return schema
