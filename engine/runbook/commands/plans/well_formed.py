"""Check that the file of a plan holds what plans hold, field by field: who edits it can also make its digest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from runbook.codec import first_difference, to_json
from runbook.values.playbook import HostOrder
from runbook.values.types import Json

if TYPE_CHECKING:
    from runbook.commands.plans.document import SavedPlan

LISTS = ("tags", "skip_tags")
FLAGS = ("force", "include_not_ready")
TEXTS = (
    "timeout", "deadline", "host_deadline", "max_unavailable", "stop_after", "batches", "pause_between", "order",
)  # fmt: skip
MOST_INVENTORIES = 1000
"""Files of an inventory that a plan may name, each of them once: all are read again."""
RECORDED = (*LISTS, *FLAGS, *TEXTS)
"""The options that decide what is done where; beside them the hosts."""

_ID = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(r"([0-9a-f]{2})+")
_UNPRINTABLE = re.compile(r"[\0\ud800-\udfff]")


def faults(saved: SavedPlan, tree: Mapping[str, Json]) -> Iterator[str]:
    """What is wrong with the fields of *saved*, which was read from *tree*."""
    if where := first_difference(tree, to_json(saved)):
        yield f"{where} has another type than in a plan"
        return
    if not _ID.fullmatch(saved.plan):
        yield "its id is not one"
    for name, moment in (("made.at", saved.made.at), ("expires_at", saved.expires_at)):
        if not _is_moment(moment):
            yield f"{name} is no time with a zone: {moment!r}"
    if saved.approvals < 0:
        yield f"approvals is {saved.approvals}"
    if not _HEX.fullmatch(saved.inputs.salt):
        yield "inputs.salt is not written in hexadecimal digits"
    yield from (f"inputs.secrets.{name} is no digest" for name, it in saved.inputs.secrets.items() if not it.isascii())
    yield from _of_options(saved.options)
    places = {"playbook.path": saved.playbook.path, "playbook.given": saved.playbook.given}
    if len(saved.inventory.paths) > MOST_INVENTORIES:
        yield f"inventory.paths has {len(saved.inventory.paths)} files, and may have {MOST_INVENTORIES}"
    yield from (f"inventory.paths names {path!r} twice" for path in _doubles(saved.inventory.paths))
    places |= {f"inventory.paths[{number}]": it for number, it in enumerate(saved.inventory.paths)}
    yield from (f"{name} names no file" for name, it in places.items() if _UNPRINTABLE.search(it))


def _doubles(paths: Sequence[str]) -> list[str]:
    return [path for path, count in Counter(paths).items() if count > 1]


def _of_options(options: Mapping[str, Json]) -> Iterator[str]:
    for name in (*RECORDED, "hosts"):
        if name not in options:
            yield f"options.{name} is not there"
    for name, value in options.items():
        if name in LISTS:
            good = isinstance(value, list) and all(isinstance(each, str) for each in value)
        elif name in FLAGS:
            good = isinstance(value, bool)
        elif name == "order":
            good = value in (None, "", *(order.value for order in HostOrder))
        else:
            good = name in (*TEXTS, "hosts") and (value is None or isinstance(value, str))
        if not good:
            yield f"options.{name} is not what that option can be"


def _is_moment(text: str) -> bool:
    with suppress(ValueError):
        return datetime.fromisoformat(text).tzinfo is not None
    return False
