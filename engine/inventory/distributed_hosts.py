"""A mapping of names to hosts under ``hosts:``; every other top-level key belongs to other programs."""

from __future__ import annotations

from collections.abc import Mapping

from engine.inventory.fields import Notes
from engine.inventory.hosts import hosts_in, inventory_of
from engine.protocols import Place
from engine.values.inventory import Inventory


def recognises(document: object) -> bool:
    """Whether *document* has ``hosts:`` that is not a list."""
    return isinstance(document, Mapping) and "hosts" in document and not isinstance(document["hosts"], list | tuple)


def load(document: object, source: str, where: Place) -> Inventory:
    """The hosts in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    section = document.get("hosts") if isinstance(document, Mapping) else None
    return inventory_of(hosts_in(section, ("hosts",), notes), document, notes)
