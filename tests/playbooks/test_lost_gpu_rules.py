"""The second time within a week that a GPU falls off the bus, by what the records and the journal say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runbook.commands.input_files import find_playbook, read_playbook
from runbook.language.expressions.history import HistoryScope
from runbook.language.expressions.templates import Scope, evaluate
from runbook.plugins import discover
from runbook.values.recorded_change import RecordedAnswer
from runbook.values.types import Unknown
from tests.support.tables import every_row

LOST = "0000:3d:00.0"


@dataclass
class Past:
    """What an earlier run saw, so many seconds ago."""

    state: Any
    ago: float = 3600.0

    def answer(self, _host: str, _probe: str) -> Any:
        if self.state is None or isinstance(self.state, Unknown):
            return self.state
        return RecordedAnswer(run="r", state=self.state, ago=self.ago)

    def changes(self, _host: str, _within: float) -> tuple[Any, ...]:
        return ()


def seen(lost: list[str], boot: str) -> dict[str, Any]:
    return {"lost": [f"GPU {it}: gone" for it in lost], "off_the_bus": lost, "boot_id": boot}


@every_row(
    ("now", "past", "journal", "again"),
    [
        (seen([LOST], "b-2"), Past(None), [], False),
        (seen([LOST], "b-2"), Past(seen([LOST], "b-1")), [], True),
        (seen([LOST], "b-2"), Past(seen([LOST], "b-2")), [], False),
        (seen([LOST], "b-2"), Past(seen([LOST], "b-1"), ago=700_000.0), [], False),
        (seen([LOST], "b-2"), Past(seen([], "b-1")), [], False),
        (seen([LOST], "b-2"), Past(None), ["b1"], True),
        (seen([LOST], "b-2"), Past(None), ["b2"], False),
        (seen([], "b-2"), Past(seen([LOST], "b-1")), ["b1"], False),
    ],
)
def test_it_is_the_second_time_only_in_another_boot_of_the_last_week(now, past, journal, again):
    """Mutants: without the boot's id; without the week; without the journal."""
    book = read_playbook(find_playbook("gpu-lost"), discover())
    rule = next(it for it in book.findings if it.id == "again")
    looks = {"health": now, "bus": {"boot_id": now["boot_id"]}, "earlier": {"value": journal}}
    earlier = HistoryScope(past=past, host="h")  # type: ignore[arg-type]
    scope = Scope(inputs={}, host={"name": "h"}, run={}, states=looks, history=earlier, let=book.let[""])
    assert bool(evaluate(rule.when, scope)) is again
