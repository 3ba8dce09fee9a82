"""Read the old form of inventories: ``standard_hosts:`` and ``vast_hosts:``, each a mapping with short names of
fields.
"""

from __future__ import annotations

from collections.abc import Mapping

from runbook.inventory.fields import Notes
from runbook.inventory.hosts import checked_defaults, hosts_in, inventory_of
from runbook.protocols import Place
from runbook.values.inventory import Inventory

SECTIONS = ("standard_hosts", "vast_hosts")
SPELLED = {"ssh_host": "host", "ssh_user": "user", "ssh_port": "port", "ringrift_path": "remote_path"}
"""Maps the name of a field to its old name; both sections may use either name."""


def recognises(document: object) -> bool:
    """Whether *document* has one of the two sections."""
    return isinstance(document, Mapping) and any(section in document for section in SECTIONS)


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the hosts of both sections.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    sections = document if isinstance(document, Mapping) else {}
    there = [section for section in SECTIONS if sections.get(section) is not None] or [
        section for section in SECTIONS if section in sections
    ]
    fields = [each for word in there if isinstance(sections[word], Mapping) for each in sections[word].values()]
    defaults = checked_defaults(document, fields, notes, SPELLED)
    hosts = [host for word in there for host in hosts_in(sections[word], (word,), notes, SPELLED, defaults)]
    return inventory_of(hosts, document, notes)
