"""Days as people name them."""

from __future__ import annotations

from runbook.text.timestamps import day, written
from tests.support.tables import every_row

NOW = 1795464000.0
"""2026-11-23T20:00:00Z."""


@every_row(
    ("text", "found"),
    [
        ("today", "2026-11-23T00:00:00Z"),
        ("yesterday", "2026-11-22T00:00:00Z"),
        ("2026-02-28", "2026-02-28T00:00:00Z"),
        (" 2026-11-23 ", "2026-11-23T00:00:00Z"),
    ],
)
def test_a_day_begins_at_midnight_in_utc(text, found):
    assert written(day(text, NOW) or 0.0) == found


@every_row("text", ["", "tomorrow", "2026-02-30", "2026-11", "23.11.2026", "2026-11-23T10:00Z", "1d"])
def test_what_is_no_day_is_none(text):
    assert day(text, NOW) is None
