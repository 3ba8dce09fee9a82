"""A file of ours is believed where what was read from it is written like the file again."""

from __future__ import annotations

import json

import pytest

from runbook.codec import first_difference
from runbook.records.owed_record import Damaged, Record, parsed
from runbook.values.owed import OwedStep
from runbook.values.run_origin import ProcessIdentity, RestsOn
from tests.support.tables import every_row

STEP = OwedStep(id="put_back", action="command", say="restore it", by_hand=("true",))
OWED = Record(
    run="20261123T020000Z-7f3a", playbook="flip", rests_on=RestsOn(playbook="/p/flip.yaml", playbook_digest="a" * 64), host="gpu-01", by="ann@ops",
    since="2026-11-23T02:00:00+00:00", steps=(STEP,), maker=ProcessIdentity(machine="ops", boot="b", pid=1, start=2),
)  # fmt: skip


@every_row(
    ("written", "read", "where"),
    [
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}, ""),
        ({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "y"}]}, "$.a[1].b"),
        ({"a": 1}, {"a": "1"}, "$.a"),
        ({"a": 1}, {"a": True}, "$.a"),
        ({"a": True}, {"a": 1}, "$.a"),
        ({"a": [1, 2]}, {"a": [1]}, "$.a"),
        ({"a": [1]}, {"a": [1, 2]}, "$.a"),
        ({"a": [1]}, {"a": {"0": 1}}, "$.a"),
        ({"a": {}}, {"a": []}, "$.a"),
        ({"a": 1, "b": 2}, {"a": 1}, "$.b"),
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}, "$.a"),
    ],
)
def test_the_first_place_that_is_read_differently_is_named(written, read, where):
    """Mutants: ``first_difference`` without the types of numbers, the lengths of lists, or the place."""
    assert first_difference(written, read) == where


@every_row(
    "alter",
    [
        lambda tree: tree["maker"].update(pid="1"),
        lambda tree: tree["maker"].update(pid=True),
        lambda tree: tree.update(by=5),
        lambda tree: tree.pop("notes"),
        lambda tree: tree["steps"][0].pop("by_hand"),
    ],
)
def test_a_record_of_what_is_owed_has_every_field_in_its_type(alter):
    """Mutants: ``parsed`` that compares the other way round, or nothing."""
    tree = json.loads(OWED.text())
    assert parsed(json.dumps(tree), OWED.name) == OWED
    alter(tree)
    with pytest.raises(Damaged, match="a value in it is of another type than in a record"):
        parsed(json.dumps(tree), OWED.name)
