"""Expand an entry whose name has a range, ``gpu-[001-128]``: hosts with the same fields, each with its own address."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runbook.inventory.entries.placeholders import is_placeholder
from runbook.inventory.fields import Fields, value_in_words
from runbook.text.name_ranges import MOST_NAMES, expanded

NUMBERED = ("ssh_host", "tailscale_ip", "fallback_host", "cloudflare_tunnel", "ssh_port", "ssh_proxy")
"""Fields that may have a range, too; the n-th value belongs to the n-th host."""

_ADDRESSES = NUMBERED[:4]
_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\w+)?\]")
_HINT = "ranges are numbers with a '-' between them, such as gpu-[01-16] or gpu-[1-3,7]"


def is_range(name: object) -> bool:
    """Whether *name* contains a bracket, so that it should stand for several hosts."""
    return isinstance(name, str) and bool(set(name) & set("[]"))


def entries_of(name: str, fields: Fields) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each host of the range *name* with its values of *fields*; yield none, and add a mistake, if the range is
    wrong.

    The place of *fields* is the place of the whole entry.
    """
    notes = fields.notes
    try:
        names = expanded(name, MOST_NAMES, "hosts")
    except ValueError as error:
        notes.add(fields.path, f"{'.'.join(map(str, fields.path))}: the name {value_in_words('', name)} {error}", _HINT)
        return
    before = len(notes.problems)
    along = {key: values for key in NUMBERED if (values := _along(key, len(names), fields))}
    _note_shared_addresses(along, len(names), fields)
    if len(notes.problems) == before:
        for number, each in enumerate(names):
            yield each, {**fields.values, **{key: values[number] for key, values in along.items()}}


def _along(key: str, count: int, fields: Fields) -> list[str]:
    """Return the value of *key* for each of *count* hosts; empty if it has no range, or a wrong range (which is
    reported).
    """
    text = fields.values.get(key)
    if not isinstance(text, str) or not is_range(text) or _IPV6.fullmatch(text.strip().rpartition("@")[2]):
        return []
    try:
        found = expanded(text.strip(), MOST_NAMES, "values")
    except ValueError as error:
        fields.wrong(key, f"{value_in_words('', text)} {error}", _HINT)
        return []
    if len(found) == count:
        return found
    fields.wrong(key, f"{value_in_words('', text)} stands for {len(found)}, and the name of the entry for {count}")
    return []


def _note_shared_addresses(along: Mapping[str, object], count: int, fields: Fields) -> None:
    """Add a mistake for an address that all hosts of the entry would share, if nothing else distinguishes them."""
    if count == 1 or fields.values.get("transport") == "local" or "ssh_proxy" in along:
        return
    for key in _ADDRESSES:
        text = fields.values.get(key)
        by_port = "ssh_port" in along and key in ("ssh_host", "fallback_host")
        if not isinstance(text, str) or not text.strip() or key in along or by_port or is_placeholder(text.strip()):
            continue
        if is_range(text) and not _IPV6.fullmatch(text.strip().rpartition("@")[2]):
            continue  # noted
        hint = (
            "give it a range of the same length, such as 10.0.0.[1-16], or leave it out where the names are addresses"
        )
        fields.wrong(key, f"{value_in_words('', text)} would be the address of all {count} hosts of the entry", hint)
