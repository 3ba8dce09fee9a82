"""A field of an action is described by the docstring below it, which is printed without its marks."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from runbook.commands.listings import parts_of, public_fields
from runbook.plugins import discover
from runbook.text.field_descriptions import description
from tests.support.program import runbook
from tests.support.tables import every_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A value."""

    size: int
    """Bytes."""
    name: str
    """The name that ``ps``
    gives *name*; of *pid* 1 init.

    What only who reads the code needs.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Child(Parent):
    """One that has more."""

    size: int
    """KiB on disk."""
    both: str = field(metadata={"minimum": 1})
    """Beside `a` * b * c."""
    bare: int = 0
    _text = "not the docstring of a field"

    @property
    def late(self) -> int:
        """Of a property, which is no field."""
        return 0


def described(kind: type[Any]) -> dict[str, str]:
    """Every field of *kind* with its description."""
    return {each.name: description(kind, each) for each in fields(kind)}


def test_a_field_has_the_words_of_its_docstring():
    """Mutants: without the base classes; the bases last; all paragraphs; the marks left in."""
    name = "The name that `ps` gives name; of pid 1 init."
    assert described(Parent) == {"size": "Bytes.", "name": name}
    assert described(Child) == {
        "size": "KiB on disk.",
        "name": name,
        "both": "Beside `a` * b * c.",
        "bare": "",
    }


def test_a_class_without_its_source_has_no_docstrings():
    assert described(make_dataclass("Made", [("a", int)])) == {"a": ""}


def undescribed(action: Any) -> list[str]:
    """The fields of *action*, and of what it is made of, that no three words say anything about."""
    return [
        f"{kind.__module__}.{kind.__name__}.{each.name}"
        for kind in (action.Args, action.State, *parts_of(action))
        for each in fields(kind)
        if each.name in public_fields(kind) and len(description(kind, each).split()) < 3
    ]


@every_row("name", sorted(discover()))
def test_every_field_that_an_author_writes_or_an_expression_reads_is_described(name: str):
    assert undescribed(discover()[name]) == []


def test_a_field_without_a_description_is_found():
    """Mutants: ``undescribed`` without the parts, or without the docstrings."""

    @dataclass(frozen=True, kw_only=True)
    class State:
        """What was seen."""

        child: Child
        """All that it has."""
        hidden: int = field(default=0, metadata={"private": True})

    found = undescribed(SimpleNamespace(Args=Parent, State=State))
    assert [each.rpartition("test_field_descriptions.")[2] for each in found] == ["Parent.size", "Child.bare"]


def test_what_an_action_gives_is_printed_with_its_description(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "100")
    printed = runbook("actions", "memory").out
    assert "\n  resident       int, required\n      Bytes of memory that it holds (VmRSS), " in printed
