"""Read inventories with a mapping of names to hosts under ``hosts:``; unknown top-level keys belong to other
programs.
"""

from __future__ import annotations

from collections.abc import Mapping

from runbook.inventory.fields import Notes
from runbook.inventory.hosts import checked_defaults, hosts_in, inventory_of
from runbook.protocols import Place
from runbook.values.inventory import Inventory


def recognises(document: object) -> bool:
    """Whether *document* has ``hosts:`` with a value that is not a list."""
    return isinstance(document, Mapping) and "hosts" in document and not isinstance(document["hosts"], list | tuple)


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the hosts in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    section = document.get("hosts") if isinstance(document, Mapping) else None
    defaults = checked_defaults(document, section.values() if isinstance(section, Mapping) else (), notes)
    return inventory_of(hosts_in(section, ("hosts",), notes, defaults=defaults), document, notes)
