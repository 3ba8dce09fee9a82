"""A change by an earlier run, for a run that continues it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass

from runbook.values.playbook import place_in_each, written_id
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierChange:
    """A change that an earlier run sent to a host."""

    run: str
    at: str
    """When it was begun: ISO 8601, UTC."""
    step: str
    """The id of the step as its playbook has it."""
    item: Json = None
    """The item of the step's ``each``, where it has one."""
    position: int = -1
    """Its place in that list then, from 0: equal items are each their own; -1: all of them, or there is no ``each``."""
    done: bool
    """Whether it is known to be done; otherwise its outcome is unknown."""
    assumed: bool = False
    """Whether a person has said that the change is done; without a position, that holds for all items of the step."""
    boot_id: str = ""
    """Of a reboot: the boot that it was to end."""
    verifiable: bool
    """Whether a probe can tell if it was done."""


def item_text(item: Json) -> str:
    """*item* as text by which it is compared: ``1`` is not ``true``."""
    return json.dumps(item, sort_keys=True, default=_plain)


def _plain(value: object) -> object:
    """*value*, which JSON has no type for, by its parts."""
    if isinstance(value, Mapping):
        return dict(value)
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def equal_items(step: str, item: Json, taken: Iterable[tuple[str, Json]]) -> tuple[int, ...]:
    """The places in the list of its ``each``, in their order, of the items that equal *item* of *step*.

    *taken*: the ids and items of the steps that are taken in a run.
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
