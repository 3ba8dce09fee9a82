"""The key ``symptom``: what it takes, and every mistake in it with its place."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator

from runbook.errors import ConfigError
from runbook.language.schema_export import exported_schema
from runbook.text.symptoms import fixed_part, regex_of_text
from runbook.values.playbook import Symptom, SymptomKind
from tests.lang.load_text import load
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS


def with_symptom(written: str) -> str:
    return f"name: toy\nabout: A toy.\nsymptom:\n  - fallen off the bus\n  - {written}\n"


def test_texts_and_patterns_are_read_in_their_order():
    book = load(with_symptom(r"{pattern: 'Xid .*: 79\b'}") + r"  - {topic: '\bNVRM\b'}")
    assert book.symptom == (
        Symptom(written="fallen off the bus"),
        Symptom(written=r"Xid .*: 79\b", kind=SymptomKind.PATTERN),
        Symptom(written=r"\bNVRM\b", kind=SymptomKind.TOPIC),
    )


def test_a_playbook_without_has_none():
    assert load("name: toy\nabout: A toy.\n").symptom == ()


@every_row(
    ("written", "said"),
    [
        ("''", "5:5: must not be empty"),
        ("'   '", "5:5: symptom: an empty text is in every text"),
        ("'a!'", "5:5: symptom: 'a!' is in texts of any kind"),
        (f"'{'x' * 301}'", "5:5: symptom: a text may have 300 characters, this one has 301"),
        ("{pattern: ''}", "must not be empty"),
        ("{pattern: ' '}", "5:5: symptom: an empty pattern matches every text"),
        ("{pattern: '.*'}", "5:5: symptom: it matches texts of any kind"),
        (r"{pattern: '\w+ \w+'}", "5:5: symptom: it matches texts of any kind"),
        ("{pattern: '('}", "5:5: symptom: not a regular expression"),
        ("{patern: 'Xid'}", "5:5: 'pattern' is missing"),
        ("{pattern: 'Xid', flags: i}", "unknown key 'flags'"),
        ("{topic: '.*'}", "5:5: symptom: it matches texts of any kind"),
        ("7", "expected"),
        ("fallen off the bus", "5:5: symptom: 'fallen off the bus' stands here twice"),
    ],
)
def test_a_mistake_has_its_place(written, said):
    with pytest.raises(ConfigError) as caught:
        load(with_symptom(written))
    assert said in str(caught.value)
    assert re.match(r"toy\.yaml:5:\d+: ", str(caught.value)), str(caught.value)


def test_every_mistake_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        load("name: toy\nabout: A toy.\nsymptom: ['a', {pattern: '('}, {pattern: 'b*'}]\n")
    assert len(caught.value.problems) == 3


def test_the_exported_schema_knows_it():
    check = Draft202012Validator(exported_schema(ACTIONS))
    assert check.is_valid({"name": "toy", "about": "A toy.", "symptom": ["text", {"pattern": "x"}]})
    for wrong in ([], [""], [{"patern": "x"}], "text", [7]):
        assert not check.is_valid({"name": "toy", "about": "A toy.", "symptom": wrong}), wrong
    assert "runbook find" in exported_schema(ACTIONS)["properties"]["symptom"]["description"]


@every_row(
    ("written", "text", "matches"),
    [
        ("GPU is lost", "gpu IS Lost.", True),
        ("GPU is lost", "GPU is\n   lost", True),
        ("GPU is lost", "GPU is lostless", False),
        ("GPU is lost", "eGPU is lost", False),
        ("blocked for more than 120 seconds", "blocked for more than 241 seconds", True),
        ("blocked for more than 120 seconds", "blocked for more than many seconds", False),
        ("exited with code 137", "exited with code 137", True),
        ("exited with code 137", "exited with code 1", False),
        ("exited with code 13", "exited with code 137", False),
        ("CUDA error 802: system", "CUDA error 801: system", False),
        ("mlx5 down", "mlx4 down", False),
        ("device(s) is/are busy", "device(s) is/are busy", True),
        ("device(s) is/are busy", "devices is/are busy", False),
    ],
)
def test_a_plain_text_is_searched_as_whole_words_with_any_number(written, text, matches):
    assert bool(regex_of_text(written).compiled.search(text)) is matches
    assert not matches or fixed_part(written) in text.lower()
