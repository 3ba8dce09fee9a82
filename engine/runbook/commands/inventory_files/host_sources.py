"""Where the hosts of a command come from: the files of an inventory, or, without one, addresses."""

from __future__ import annotations

from dataclasses import replace

from runbook.commands.input_files import found_inventories, inventory_paths, read_inventory
from runbook.commands.options import Choosing
from runbook.errors import ConfigError, Problem
from runbook.inventory.addresses import addresses_in, inventory_of_addresses
from runbook.values.inventory import Inventory


def inventory_for(choosing: Choosing, pattern: str) -> Inventory:
    """The inventory that *choosing* or the environment give; where there is none, the addresses that *pattern* lists.

    Raises ConfigError, also with every mistake in the inventory.
    """
    paths = () if choosing.only_addresses else found_inventories(choosing.inventory)
    if paths:
        return read_inventory(paths)
    if addresses := addresses_in(pattern):
        return inventory_of_addresses(addresses)
    try:
        return read_inventory(inventory_paths(choosing.inventory))
    except ConfigError as error:
        raise ConfigError(*(_with_address(problem, pattern) for problem in error.problems)) from error


def _with_address(problem: Problem, pattern: str) -> Problem:
    """*problem*, which is that there is no inventory, with what can be written where *pattern* is one plain name."""
    name = pattern.strip() if pattern.strip().replace("-", "").replace("_", "").isalnum() else ""
    if not name or name == "all" or problem.hint:
        return problem
    return replace(problem, hint=f"without one, write an address: --hosts USER@{name}")
