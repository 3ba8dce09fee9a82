"""Read the fields under ``defaults:``, which apply to every host of the file that does not set them itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runbook.inventory.field_names import HOST_FIELDS, slips
from runbook.inventory.fields import Notes, value_in_words
from runbook.inventory.host_secrets import SECRETS
from runbook.text.suggestions import suggest

DEFAULTS = "defaults"
_OF_EACH = ("name", "ssh_host", "tailscale_ip", "fallback_host", "cloudflare_tunnel")
"""The fields that each host must set itself."""


def defaults_in(
    document: object, hosts: Iterable[object], notes: Notes, spelled: Mapping[str, str]
) -> Mapping[str, object]:
    """Return the fields under ``defaults:`` in *document* by runbook's names; mistakes in names are added to *notes*.

    The fields of its *hosts* are also known names; *spelled* maps runbook's names of fields to those of the format,
    where they differ.
    """
    tree = document.get(DEFAULTS) if isinstance(document, Mapping) else None
    if tree is None:
        return {}
    if not isinstance(tree, Mapping):
        notes.add((DEFAULTS,), f"{DEFAULTS}: expected a mapping of fields, not {value_in_words('', tree)}")
        return {}
    ours = {written: field for field, written in spelled.items()}
    known = {str(key) for host in hosts if isinstance(host, Mapping) for key in host}
    found = {str(key): value for key, value in tree.items()}
    wrong = {key: mistake for key in found if (mistake := _mistake(key, ours.get(key, key), known))}
    for key, (words, hint) in wrong.items():
        notes.add((DEFAULTS, key), f"{DEFAULTS}.{key[:40]}: {words}", hint)
    return {ours.get(key, key): value for key, value in found.items() if key not in wrong}


def _mistake(key: str, field: str, known: Iterable[str]) -> tuple[str, str] | None:
    """Return why *key*, which means *field*, cannot be given for all hosts, with a remedy; None if it can.

    *known*: the fields that hosts have.
    """
    meant = field if field in HOST_FIELDS else slips([field], ()).get(field, "")
    if field in _OF_EACH or meant in _OF_EACH:
        return "each host has its own", "write it below the host"
    if field == SECRETS:
        return f"unknown field {field!r}", f"what holds for all hosts stands under `{SECRETS}:` beside `hosts:`"
    if field in HOST_FIELDS or (key in known and not meant):
        return None
    if meant:
        return "unknown field", f"did you mean {meant}?"
    fields = [*sorted(HOST_FIELDS - {*_OF_EACH}), *known]
    return "unknown field", suggest(key, fields, "a field of your own stands in one of the hosts, too")
