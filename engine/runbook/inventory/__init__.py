"""Read host files into an Inventory: one module per file format, and the patterns that select hosts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pkgutil import iter_modules
from typing import cast

from runbook.errors import ConfigError, PluginError, Problem
from runbook.extensions import INVENTORIES, load, with_extensions
from runbook.inventory.entries.top_level_keys import note_slips
from runbook.inventory.fields import Notes, folded, once_a_place, problem_at
from runbook.inventory.groups import NamedGroup, formed, named_in
from runbook.inventory.host_secrets import secrets_at
from runbook.inventory.hosts import named_twice
from runbook.inventory.profiles import WrittenProfile, profiles_in, with_profiles
from runbook.inventory.text_formats import TextDocument
from runbook.protocols import InventoryFormat, Place
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import SecretReference


def led(hosts: Sequence[Host]) -> tuple[Host, ...]:
    """Return *hosts*, each with the host through which it is reached.  Raises ConfigError for unknown names and
    circles.
    """
    by_name = {host.name: host for host in hosts}
    if problems := [mistake for host in hosts if (mistake := _mistake(host, by_name))]:
        raise ConfigError(*once_a_place(problems))
    return tuple(_led(host, by_name) for host in hosts)


def _through(host: Host) -> tuple[str, str]:
    """Return the field that names the host through which *host* is reached, and that host; empty if there is none."""
    key = "container_host" if host.container else "ssh_proxy" if host.transport == "ssh" else ""
    name = host.vars.get(key)
    return (key, str(name).strip()) if name not in (None, "") else ("", "")


def _mistake(host: Host, by_name: Mapping[str, Host]) -> Problem | None:
    key, name = _through(host)
    if name and name not in by_name:
        hint = suggest(
            name, by_name, "for a host of your ssh_config, write ProxyJump there" if key == "ssh_proxy" else None
        )
        return problem_at(host.place_of(key), f"{host.name}: {key}: no host of the inventory is called {name}", hint)
    if name and by_name[name].container and name != host.name:
        return problem_at(host.place_of(key), f"{host.name}: {key}: {name} is a container, not a machine")
    way = [host.name]
    while name and name not in way:
        way.append(name)
        name = _through(by_name[name])[1] if name in by_name else ""
    if name != host.name:
        return None
    return problem_at(host.place_of(key), f"{host.name}: {key} forms a loop: {' via '.join([*way, name])}")


def _led(host: Host, by_name: Mapping[str, Host]) -> Host:
    _, name = _through(host)
    return replace(host, via=_led(by_name[name], by_name)) if name else host


EXPECTED = "an inventory has `hosts:` with a mapping of host names to their fields"


_KEYS = re.compile(r"""^\s*(?:[{,]\s*)?["']?(?:hosts|groups|standard_hosts|vast_hosts)["']?\s*:""", re.MULTILINE)


def could_be_inventory(text: str) -> bool:
    """Whether *text* contains one of runbook's keys; if not, messages repeat nothing of the file."""
    return bool(_KEYS.search(text))


def _modules() -> Mapping[str, str]:
    return with_extensions(INVENTORIES, {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)})


def discover() -> dict[str, InventoryFormat]:
    """Return every inventory format by name: the modules of this package that have ``recognises``."""
    found: dict[str, InventoryFormat] = {}
    for name, path in _modules().items():
        module = load(INVENTORIES, name, path)
        if not hasattr(module, "recognises"):
            continue
        if not callable(getattr(module, "load", None)) or not module.__doc__:
            raise PluginError(f"inventory format {name!r} lacks {'a docstring' if not module.__doc__ else 'load'}")
        found[name] = cast("InventoryFormat", module)
    return found


def parsed_text(text: str, file: str, *, json: bool = False) -> TextDocument | None:
    """Return *text*, which is not YAML, as parsed by the first inventory module that recognises it; None if no module
    does.

    *json*: only modules that read what programs print in JSON.  Raises ConfigError with every mistake in it.
    """
    for name, path in _modules().items():
        module = load(INVENTORIES, name, path)
        parse = getattr(module, "parse_text", None) if not json or getattr(module, "READS_JSON", False) else None
        found: TextDocument | None = parse(text, file) if parse else None
        if found:
            return found
    return None


def read(documents: Sequence[tuple[object, str, Place]], transports: Collection[str] = ()) -> Inventory:
    """Return every host in *documents*; each document is a parsed file with its name and its places.

    *transports*: the transports that hosts may name; empty: any.  Raises ConfigError with every mistake in all
    documents.  The caller, who has the text, fills in the digest.
    """
    formats = discover()
    problems: list[Problem] = [] if documents else [Problem(message="no inventory was given")]
    parts: list[Inventory] = []
    named: list[NamedGroup] = []
    references: list[SecretReference] = []
    profiles: list[WrittenProfile] = []
    for document, source, where in documents:
        notes = Notes(source=source, where=where)
        parts += _parts(document, notes, formats)
        note_slips(document, notes)
        named += named_in(document, notes)
        references += _references(document, notes, references)
        profiles += profiles_in(document, notes)
        problems += sorted(folded(notes.problems), key=lambda problem: (problem.line, problem.column))
    hosts = [host for part in parts for host in part.hosts]
    problems += named_twice(hosts)
    wrong = (mistake for host in hosts if transports and (mistake := _transport_mistake(host, transports)))
    problems += once_a_place(wrong)
    if problems:  # which names there are is not known before every file has been understood
        raise ConfigError(*problems)
    found, groups = formed(led(hosts), named)
    inventory = Inventory(
        hosts=found,
        groups=groups,
        secrets=tuple(dict.fromkeys(secret for part in parts for secret in part.secrets)),
        references=tuple(references),
        sources=tuple(source for _, source, _ in documents),
    )
    return with_profiles(inventory, profiles) if profiles else inventory


def _references(document: object, notes: Notes, earlier: Sequence[SecretReference]) -> list[SecretReference]:
    """Return the entries of ``secrets:`` in *document*; a name that is also in *earlier* (other files) is a mistake."""
    found = secrets_at(document, (), notes) if isinstance(document, Mapping) else ()
    known = {reference.name: reference for reference in earlier}
    for reference in found:
        if reference.name in known:
            words = f"the secret {reference.name} is also in {known[reference.name].where}"
            notes.problems.append(problem_at(reference.where, words, "keep one of them"))
    return [reference for reference in found if reference.name not in known]


def _transport_mistake(host: Host, transports: Collection[str]) -> Problem | None:
    if host.transport in transports:
        return None
    hint = suggest(host.transport, sorted(transports))
    return problem_at(host.place_of("transport"), f"{host.name}: there is no transport {host.transport!r}", hint)


def formats_of(document: object, formats: Mapping[str, InventoryFormat]) -> dict[str, InventoryFormat]:
    """Return the formats in which *document* is written, by name."""
    every = {name: each for name, each in formats.items() if each.recognises(document)}
    return {name: each for name, each in every.items() if not getattr(each, "ONLY_IF_NO_OTHER", False)} or every


def _parts(document: object, notes: Notes, formats: Mapping[str, InventoryFormat]) -> list[Inventory]:
    """Return the hosts that each format finds in *document*; a file may contain two formats at once."""
    fitting = formats_of(document, formats)
    if not fitting:
        empty = document is None or document == {}
        notes.add((), "the file is empty" if empty else "not an inventory in a known format", EXPECTED)
    parts: list[Inventory] = []
    for format_ in fitting.values():
        try:
            parts.append(format_.load(document, notes.source, notes.where))
        except ConfigError as error:
            notes.problems.extend(error.problems)
    return parts
