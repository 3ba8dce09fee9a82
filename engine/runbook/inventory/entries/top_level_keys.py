"""Find top-level keys that are probably mistyped keys of runbook's inventories.

A key of another program is no mistake, because the files belong to other programs, too.  A mistyped key of runbook
would silently leave out hosts, or fields for all hosts.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from runbook.inventory.entries.default_fields import DEFAULTS
from runbook.inventory.field_names import HOST_FIELDS, slips
from runbook.inventory.fields import Notes
from runbook.inventory.host_secrets import SECRETS
from runbook.inventory.profiles import ALIKE, PROFILES, are_profiles

SECTIONS = ("hosts", "standard_hosts", "vast_hosts")
KEYS = (*SECTIONS, DEFAULTS, "groups", SECRETS, PROFILES)
_FOR_ALL = frozenset({"vars", "host_vars", "common", "host_defaults", "all_hosts", "all"})
"""Other words that people use for ``defaults``."""


def note_slips(document: object, notes: Notes) -> None:
    """Add a mistake for each mistyped key of *document*, if the document has one of runbook's formats."""
    if not isinstance(document, Mapping) or not any(section in document for section in SECTIONS):
        return
    for key, value in document.items():
        if key not in KEYS and (hint := _meant(str(key), value)):
            notes.add((str(key),), f"unknown key {str(key)[:40]!r}", hint)


def _meant(key: str, value: object) -> str:
    """Return a hint with the likely meaning of *key* with *value*; empty if the key belongs to another program."""
    if not isinstance(value, Mapping | list | tuple):
        field = key if key in HOST_FIELDS else slips([key], ()).get(key, "")
        ours = field.startswith("ssh_") and key.casefold().startswith("ssh")
        return f"what holds for all hosts stands under {DEFAULTS}: {DEFAULTS}: {{{field}: ...}}" if ours else ""
    if alike := get_close_matches(key.strip().casefold(), [*SECTIONS, DEFAULTS], n=1, cutoff=ALIKE):
        return f"did you mean {alike[0]}?"
    if are_profiles(value) and get_close_matches(key.strip().casefold(), [PROFILES], n=1, cutoff=ALIKE):
        return f"did you mean {PROFILES}?"
    entries = value.values() if isinstance(value, Mapping) else ()
    if (
        isinstance(value, Mapping)
        and key.casefold() in _FOR_ALL
        and (HOST_FIELDS | {*slips(_texts(value), ())}) & {*value}
    ):
        return f"did you mean {DEFAULTS}?"
    hosts = entries and all(isinstance(entry, Mapping) and "ssh_host" in entry for entry in entries)
    return "hosts stand under hosts: did you mean that?" if hosts else ""


def _texts(tree: Mapping[object, object]) -> list[str]:
    return [key for key in tree if isinstance(key, str)]
