"""Host files to an Inventory: one file per format, and the patterns that choose hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from engine.errors import ConfigError, PluginError, Problem
from engine.inventory.fields import Notes, problem_at
from engine.inventory.groups import NamedGroup, formed, named_in
from engine.inventory.host_names import nearest
from engine.inventory.hosts import named_twice
from engine.inventory.jump_hosts import led
from engine.protocols import InventoryFormat, Place
from engine.values.inventory import Host, Inventory

EXPECTED = "an inventory has `hosts:` with a mapping of host names to their fields"


_KEYS = re.compile(r"""^\s*(?:[{,]\s*)?["']?(?:hosts|groups|standard_hosts|vast_hosts)["']?\s*:""", re.MULTILINE)


def could_be_inventory(text: str) -> bool:
    """Whether one of our keys stands in *text*; of any other file nothing is repeated, whatever is wrong with it."""
    return bool(_KEYS.search(text))


def discover() -> dict[str, InventoryFormat]:
    """Every format there is, by name: the modules here that recognise one."""
    found: dict[str, InventoryFormat] = {}
    for it in iter_modules(__path__):
        module = import_module(f"{__name__}.{it.name}")
        if not hasattr(module, "recognises"):
            continue
        if not callable(getattr(module, "load", None)) or not module.__doc__:
            raise PluginError(f"inventory format {it.name!r} lacks {'a docstring' if not module.__doc__ else 'load'}")
        found[it.name] = cast("InventoryFormat", module)
    return found


def read(documents: Sequence[tuple[object, str, Place]], transports: Collection[str] = ()) -> Inventory:
    """Every host in *documents*, each a parsed file with its name and the places in it.

    *transports* are those that a host may name; empty: any.
    Raises ConfigError with every mistake in all of them.  The digest is for whoever has the text.
    """
    formats = discover()
    problems: list[Problem] = [] if documents else [Problem(message="no inventory was given")]
    parts: list[Inventory] = []
    named: list[NamedGroup] = []
    for document, source, where in documents:
        notes = Notes(source=source, where=where)
        parts += _parts(document, notes, formats)
        named += named_in(document, notes)
        problems += sorted(dict.fromkeys(notes.problems), key=lambda it: (it.line, it.column))
    hosts = [it for part in parts for it in part.hosts]
    problems += named_twice(hosts)
    problems += [mistake for host in hosts if transports and (mistake := _transport_mistake(host, transports))]
    if problems:  # which names there are is not known before every file has been understood
        raise ConfigError(*problems)
    found, groups = formed(led(hosts), named)
    return Inventory(
        hosts=found,
        groups=groups,
        secrets=tuple(dict.fromkeys(it for part in parts for it in part.secrets)),
        sources=tuple(source for _, source, _ in documents),
    )


def _transport_mistake(host: Host, transports: Collection[str]) -> Problem | None:
    if host.transport in transports:
        return None
    near = nearest(host.transport, transports)
    hint = f"did you mean {near}?" if near else f"there are: {', '.join(sorted(transports))}"
    return problem_at(
        host.place_of("transport"), f"{host.name}: transport: there is none called {host.transport!r}", hint
    )


def _parts(document: object, notes: Notes, formats: Mapping[str, InventoryFormat]) -> list[Inventory]:
    """What each format that recognises *document* finds in it: a file may be half-way from one to another."""
    fitting = [it for it in formats.values() if it.recognises(document)]
    if not fitting:
        empty = document is None or document == {}
        notes.add((), "the file is empty" if empty else "no inventory that we know", EXPECTED)
    parts: list[Inventory] = []
    for it in fitting:
        try:
            parts.append(it.load(document, notes.source, notes.where))
        except ConfigError as error:
            notes.problems.extend(error.problems)
    return parts
