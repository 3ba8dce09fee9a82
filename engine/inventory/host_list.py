"""A list under ``hosts:``, each item with its own ``name``, ``host``, ``fallback_host`` and ``port``."""

from __future__ import annotations

from collections.abc import Mapping

from engine.inventory.fields import Notes, said
from engine.inventory.hosts import host_in, inventory_of
from engine.protocols import Place
from engine.values.inventory import Host, Inventory

SPELLED = {"ssh_host": "host", "ssh_user": "user", "ssh_port": "port"}


def recognises(document: object) -> bool:
    """Whether *document* has ``hosts:`` that is a list."""
    return isinstance(document, Mapping) and isinstance(document.get("hosts"), list | tuple)


def load(document: object, source: str, where: Place) -> Inventory:
    """The hosts in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    items = document.get("hosts") if isinstance(document, Mapping) else None
    if not isinstance(items, list | tuple) or not items:
        notes.add(("hosts",), "hosts: names no hosts")
        items = ()
    hosts = [host for number, item in enumerate(items) if (host := _host(item, number, notes))]
    return inventory_of(hosts, document, notes)


def _host(item: object, number: int, notes: Notes) -> Host | None:
    if not isinstance(item, Mapping):
        notes.add(("hosts", number), f"hosts.{number}: expected a mapping with a name, not {said('', item)}")
        return None
    if item.get("name") is None:
        notes.add(("hosts", number), f"hosts.{number}: lacks a name")
        return None
    return host_in(item["name"], item, ("hosts", number), notes, SPELLED)
