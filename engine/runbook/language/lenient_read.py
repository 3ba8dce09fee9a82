"""Read values from a parsed tree without errors; the schema check reports the values of a wrong type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from runbook.errors import ConfigError
from runbook.language.expressions.templates import is_template, names
from runbook.values.playbook import Comparison, Let, Severity, Step, Telling
from runbook.values.types import Json, Raw


class ProbesBehind:
    """Finds the probes of *diagnose* on which an expression depends."""

    def __init__(self, diagnose: tuple[Step, ...], let: Let) -> None:
        self._let = let
        self._steps = {step.id: step for step in diagnose}
        self._place = {step.id: number for number, step in enumerate(diagnose)}
        self._named: dict[str, frozenset[str]] = {}

    def of(self, *expressions: str) -> tuple[str, ...]:
        """Return the probes that *expressions* name, and the probes on which these probes depend, in the order of
        *diagnose*.
        """
        found: set[str] = set()
        wanted = frozenset(name for word in expressions if word for name in self._in(word))
        while wanted:
            found |= wanted
            wanted = frozenset(inner for probe in wanted for inner in self._named_by(probe)) - found
        return tuple(sorted(found, key=self._place.__getitem__))

    def _named_by(self, probe: str) -> frozenset[str]:
        if probe not in self._named:
            step = self._steps[probe]
            texts = [word for word in (step.when, step.each) if word] + texts_in(step.args)
            self._named[probe] = frozenset(name for text in texts for name in self._in(text))
        return self._named[probe]

    def _in(self, text: str) -> frozenset[str]:
        try:
            return frozenset(root for root, _ in names(text, self._let) if root in self._steps)
        except ConfigError:
            return frozenset()


def texts_in(tree: Any) -> list[str]:
    """Return every template in *tree*, a tree of arguments."""
    match tree:
        case str():
            return [tree] if is_template(tree) else []
        case Mapping():
            return [text for each in tree.values() for text in texts_in(each)]
        case list() | tuple():
            return [text for each in tree for text in texts_in(each)]
    return []


def text(value: Any) -> str:
    """Return *value* if it is text, otherwise an empty text."""
    value = value.value if isinstance(value, Raw) else value
    return value if isinstance(value, str) else ""


def scalar(value: Any) -> str:
    """Return *value* as text; a boolean becomes ``true`` or ``false``."""
    value = unraw(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def mapping(value: Any) -> Mapping[str, Any]:
    """Return *value* if it is a mapping, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def ids(value: Any) -> tuple[str, ...]:
    """Return the ids in *value*, which is one id or a list of ids."""
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def expression(value: Any) -> str:
    """Return *value*, an expression, as text; it may be a plain boolean."""
    return scalar(value) if isinstance(value, bool) else text(value)


def list_expression(value: Any) -> str:
    """Return *value* as the text of an expression that gives a list; it may be a plain list."""
    if not isinstance(value, list):
        return text(value)
    return "[" + ", ".join(_literal(unraw(each)) for each in value) + "]"


def samples(value: Any) -> Mapping[str, Json]:
    """Return the mapping ``samples`` with the value of ``while`` as an expression."""
    return {key: expression(it) if key == "while" else unraw(it) for key, it in mapping(value).items()}


def _literal(value: Json) -> str:
    match value:
        case None:
            return "none"
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(key)}: {_literal(it)}" for key, it in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def flag(value: Any) -> bool:
    """Return whether *value* is the boolean true."""
    return value is True


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts in *value*, which is one text or a list of texts."""
    listed = [value] if isinstance(value, str) else value
    return tuple(map(text, listed)) if isinstance(listed, list) else ()


def texts_by_name(value: Any) -> Mapping[str, str]:
    """Return *value* as a mapping of names to texts."""
    return {str(name): text(each) for name, each in mapping(value).items()}


def variables(value: Any) -> tuple[tuple[str, str], ...]:
    """Return *value*, a mapping of names to texts, numbers or booleans, as environment variables."""
    return tuple((str(name), scalar(each)) for name, each in mapping(value).items())


def severity(value: Any) -> Severity:
    """Return *value* as a severity; return ``error`` if it is not a severity (the schema check reports that)."""
    return Severity(value) if value in list(Severity) else Severity.ERROR


def telling(value: Any) -> Telling | None:
    """Return *value* as what a finding tells; None if it is nothing of the kind."""
    return Telling(value) if value in list(Telling) else None


def comparison(value: Any) -> Comparison:
    """Return the comparison that ``across`` describes: an expression, or an expression and another that groups the
    hosts.
    """
    if isinstance(value, Mapping):
        return Comparison(value=text(value.get("value")), by=text(value.get("by")))
    return Comparison(value=text(value))


def become(value: Any) -> str:
    """Return the user name in *value*; ``yes`` and similar words, which other tools use, mean root."""
    match text(value).lower():
        case "yes" | "on" | "true":
            return "root"
        case "no" | "off" | "false":
            return ""
    return "root" if value is True else text(value)


def unraw(value: Any) -> Json:
    """Return *value* without the ``!raw`` marks."""
    match value:
        case Raw(value=inner):
            return inner
        case Mapping():
            return {key: unraw(it) for key, it in value.items()}
        case list():
            return [unraw(each) for each in value]
    plain: Json = value
    return plain
