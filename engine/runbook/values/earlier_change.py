"""A change by an earlier run, for the run that continues this earlier run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass

from runbook.dataclass import dataclass
from runbook.values.playbook import place_in_each, written_id
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierChange:
    """A change that an earlier run sent to a host."""

    run: str
    at: str
    """When the change was begun: ISO 8601, UTC."""
    step: str
    """The id of the step in its playbook."""
    item: Json = None
    """The item of the step's ``each``, if the step has ``each``."""
    position: int = -1
    """The position of the item in that list at the time, from 0.  -1 means all items, or no ``each``."""
    done: bool
    """Whether the change is known to be done; if not, its outcome is unknown."""
    assumed: bool = False
    """Whether a person has said that the change is done; without a position, this is true for all items of the step."""
    boot_id: str = ""
    """For a reboot: the id of the boot that the reboot should end."""
    verifiable: bool
    """Whether a probe can tell if the change was done."""


def item_text(item: Json) -> str:
    """Return *item* as text for comparisons: ``1`` and ``true`` are different."""
    return json.dumps(item, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    """Return *value*, which JSON has no type for, as a mapping of its parts or as text."""
    if isinstance(value, Mapping):
        return dict(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def equal_items(step: str, item: Json, taken: Iterable[tuple[str, Json]]) -> tuple[int, ...]:
    """Return the positions of the items in the list of ``each`` that equal *item* of *step*, in order.

    *taken*: the ids and items of the steps of a run.
    """
    text = item_text(item)
    same = (name for name, it in taken if written_id(name) == written_id(step) and item_text(it) == text)
    return tuple(sorted(map(place_in_each, same)))


def own_change(same: Sequence[EarlierChange], place: int, equal: Sequence[int]) -> EarlierChange | None:
    """Return the change of *same*, made for equal items, that was made for the item at *place*.

    *equal*: all present places of such items.  Each change belongs to one item, found by its place.  If the list has
    changed since, the order decides, and uncertain changes come first.
    """
    then = {change.position: change for change in same}
    shorter = len(equal) < len(then)
    if place in then and not shorter:
        return then[place]
    left = [change for change in then.values() if shorter or change.position not in equal]
    left.sort(key=lambda it: (it.done, it.position))
    places = [each for each in equal if shorter or each not in then]
    number = places.index(place) if place in places else 0
    return left[number] if number < len(left) else None
