"""Return to an earlier run: the code that `resume`, `undo`, `settle` and `apply` share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from runbook.commands.input_files import inventory_paths, read_inventory
from runbook.commands.inventory_sources import is_source
from runbook.commands.options import FleetOptions
from runbook.commands.sources import selected
from runbook.errors import ConfigError
from runbook.inventory.addresses import inventory_of_addresses, is_address
from runbook.text.name_ranges import fold
from runbook.values.inventory import Inventory
from runbook.values.run_origin import RestsOn

ALL_THE_SAME = "--changed-inventory takes it all the same"


def inventory_again(given: Sequence[str], basis: RestsOn) -> Inventory:
    """Return the inventory of an earlier run: the *given* files, or the files of the run, or its hosts if these are
    addresses.

    Raises ConfigError.
    """
    if not given and not basis.inventory and basis.hosts and all(map(is_address, basis.hosts)):
        return inventory_of_addresses(basis.hosts)
    return read_inventory(inventory_paths(given or basis.inventory))


def inventories_again(given: Sequence[str], bases: Iterable[RestsOn]) -> Inventory:
    """Return the *given* inventory files, or else the files of the earlier runs that still exist.

    Raises ConfigError.
    """
    if given:
        return read_inventory(inventory_paths(given))
    known = list(bases)
    files = dict.fromkeys(
        path for basis in known for path in basis.inventory if is_source(path) or Path(path).is_file()
    )
    names = dict.fromkeys(name for basis in known if not basis.inventory for name in basis.hosts)
    found = read_inventory([Path(path) for path in files]) if files else Inventory(hosts=())
    there = {host.name for host in found.hosts}
    others = inventory_of_addresses(name for name in names if is_address(name) and name not in there)
    return replace(found, hosts=(*found.hosts, *others.hosts))


def hosts_meant(inventory: Inventory, options: FleetOptions) -> frozenset[str] | None:
    """Return the hosts that ``--hosts`` names, ready or not; None if the option was not given.  Raises ConfigError."""
    pattern = options.choosing.hosts
    if pattern is None:
        return None
    if not pattern.strip():
        raise ConfigError("--hosts is empty: name hosts, or leave the option out")
    every = replace(options.choosing, include_not_ready=True)
    chosen = selected(inventory, pattern, every, options.recording.records)
    return frozenset(host.name for host in chosen.hosts)


def other_machines(hosts: Collection[str]) -> str:
    """Return the message that refuses *hosts*: their entries in the inventory have changed since the run."""
    return f"what the inventory says of {fold(hosts)} has changed since that run: it may be another machine"


def other_secrets(secrets: Mapping[str, Collection[str]]) -> list[str]:
    """Return the messages that refuse *secrets*: for these hosts, the inventory now takes the secrets from other
    places.
    """
    return [
        f"the inventory has the secret {name} of {fold(hosts)} elsewhere than in that run"
        for name, hosts in secrets.items()
    ]
