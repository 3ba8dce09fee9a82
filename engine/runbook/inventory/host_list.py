"""Read inventories with a list under ``hosts:``; each item has its own ``name``, ``host``, ``fallback_host`` and
``port``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runbook.inventory.fields import Notes, value_in_words
from runbook.inventory.hosts import Values, checked_defaults, hosts_at, inventory_of
from runbook.protocols import Place
from runbook.values.inventory import Host, Inventory

SPELLED = {"ssh_host": "host", "ssh_user": "user", "ssh_port": "port"}


def recognises(document: object) -> bool:
    """Whether *document* has ``hosts:`` with a list as its value."""
    return isinstance(document, Mapping) and isinstance(document.get("hosts"), list | tuple)


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the hosts in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    items = document.get("hosts") if isinstance(document, Mapping) else None
    if not isinstance(items, list | tuple) or not items:
        notes.add(("hosts",), "hosts: names no hosts")
        items = ()
    defaults = checked_defaults(document, items, notes, SPELLED)
    hosts = [host for number, item in enumerate(items) for host in _hosts(item, number, notes, defaults)]
    return inventory_of(hosts, document, notes)


def _hosts(item: object, number: int, notes: Notes, defaults: Values) -> Iterator[Host]:
    if not isinstance(item, Mapping):
        notes.add(("hosts", number), f"hosts.{number}: expected a mapping with a name, not {value_in_words('', item)}")
        return
    if item.get("name") is None:
        notes.add(("hosts", number), f"hosts.{number}: lacks a name")
        return
    yield from hosts_at(item["name"], item, ("hosts", number), notes, SPELLED, defaults)
