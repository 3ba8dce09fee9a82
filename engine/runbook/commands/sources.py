"""Read the files, inputs and hosts that a command line names, with every mistake in them.

What carries out a run is not imported here, so that a mistake is reported in a fraction of the time.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from runbook.commands.history.recording import hosts_in_records
from runbook.commands.input_files import (
    find_playbook,
    found_inventories,
    inventory_paths,
    names_given,
    read_inputs,
    read_inventory,
    read_playbook,
)
from runbook.commands.limit_options import given_limits, problems_with_variables
from runbook.commands.options import Choosing, Connecting, GivenInputs, Limits, RunOptions
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.inventory.addresses import addresses_in, inventory_of_addresses
from runbook.inventory.host_patterns import select
from runbook.plugins import discover
from runbook.values.inventory import Inventory, Selection
from runbook.values.playbook import Playbook
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import Json, plural
from runbook.values.units import duration, time_span

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The playbook, inventory, inputs and hosts that a command line names, read from their files."""

    name: str
    """The name or path of the playbook, as given."""
    playbook: Playbook
    inventory: Inventory
    inputs: Mapping[str, Json]
    profile_inputs: Mapping[str, InputsByPlaybook]
    """The inputs that profiles of the inventory give hosts, by the name of the host."""
    given: GivenInputs
    selection: Selection


def read_sources(name: str, options: RunOptions, problems: list[Problem]) -> Sources | None:
    """Read the files, inputs and hosts of *options* for the playbook *name*.

    Returns None if that fails; every mistake is added to *problems*.
    """
    choosing, limits = options.choosing, options.limits
    playbook = or_problems(problems, lambda: read_playbook(find_playbook(name), discover()))
    inventory = or_problems(problems, lambda: inventory_for(choosing, choosing.hosts or ""))
    or_problems(problems, lambda: times(options.connecting, limits))
    or_problems(problems, lambda: given_limits(limits))
    pattern = _pattern(playbook, options, problems)
    inputs = or_problems(problems, lambda: read_inputs(options.given, playbook)) if playbook else None
    chosen = None
    if inventory and pattern.strip():
        chosen = or_problems(problems, lambda: selected(inventory, pattern, choosing, options.recording.records))
    profiled: Mapping[str, InputsByPlaybook] | None = None
    if playbook and chosen and inventory:
        problems += problems_with_variables(playbook.limits, chosen.hosts)
        profiled = or_problems(problems, lambda: profile_inputs_for(options.given, playbook, inventory, chosen))
    if playbook is None or inventory is None or inputs is None or chosen is None or profiled is None:
        return None
    return Sources(
        name=name,
        playbook=playbook,
        inventory=inventory,
        inputs=inputs,
        profile_inputs=profiled,
        given=options.given,
        selection=chosen,
    )


def profile_inputs_for(
    given: GivenInputs, playbook: Playbook, inventory: Inventory, selection: Selection
) -> Mapping[str, InputsByPlaybook]:
    """Return the inputs of hosts that were recorded, or else those that profiles of *inventory* give.

    Raises ConfigError with every mistake in the profiles.
    """
    if given.of_profiles is not None:
        return given.of_profiles
    if not inventory.profiles:
        return {}
    from runbook.commands.profiles import inputs_from_profiles  # which imports what carries out a run

    return inputs_from_profiles(playbook, inventory, selection.hosts, names_given(given, playbook))


def sources_of_run(name: str, options: RunOptions, problems: list[Problem]) -> Sources | None:
    """Read the sources of a run that no saved plan permits; every mistake is added to *problems*."""
    sources = read_sources(name, options, problems)
    if sources and not options.plan_only and not options.diagnoses_only:
        problems += unapproved(name, sources.playbook, settles=options.settle)
    return sources


def unapproved(name: str, playbook: Playbook, *, settles: bool = False) -> list[Problem]:
    """Return a problem if the limits of *playbook* ask for approvals, which a run without a saved plan cannot have."""
    count = playbook.limits.approvals
    if not count or not (settles or may_change(playbook)):
        return []
    words = f"{playbook.name} changes nothing without {plural(count, 'approval')} (limits.approvals)"
    hint = (
        f"make a plan: `runbook plan {shlex.quote(name)} --hosts PATTERN -o plan.json`, have it approved: "
        "`runbook approve plan.json`, and apply it: `runbook apply plan.json`; --dry-run only shows what would be done"
    )
    return [Problem(message=words, hint=hint)]


def or_problems(problems: list[Problem], read: Callable[[], T]) -> T | None:
    """Call *read* and return its result; if it raises a ConfigError, add its problems to *problems* and return None."""
    try:
        return read()
    except ConfigError as error:
        problems.extend(error.problems)
        return None


def inventory_for(choosing: Choosing, pattern: str) -> Inventory:
    """Return the inventory of *choosing* or of the environment; without one, the addresses in *pattern*.

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
    """Return *problem*, about a missing inventory, with a hint about addresses if *pattern* is one plain name."""
    name = pattern.strip() if pattern.strip().replace("-", "").replace("_", "").isalnum() else ""
    if not name or name == "all" or problem.hint:
        return problem
    return replace(problem, hint=f"without one, write an address: --hosts USER@{name}")


def selected(inventory: Inventory, pattern: str, choosing: Choosing, records: str | None = "") -> Selection:
    """Return the hosts that *pattern* selects, including hosts of recorded runs.  Raises ConfigError."""
    return select(inventory, pattern, choosing.include_not_ready, recorded=hosts_in_records(records or ""))


def times(connecting: Connecting, limits: Limits) -> Mapping[str, float]:
    """Return every option that is a time, in seconds, keyed by name; 0: not given.  Raises ConfigError with every
    mistake.
    """
    texts = {
        "timeout": limits.timeout,
        "deadline": limits.deadline,
        "connect_timeout": connecting.connect_timeout,
        "shell_timeout": connecting.shell_timeout,
        "wait_lock": limits.wait_lock,
    }
    problems: list[Problem] = []
    found = {}
    for name, text in texts.items():
        try:
            read = duration if name == "wait_lock" else time_span  # which may be 0
            found[name] = read(text) if text else 0.0
        except ConfigError as error:
            problems.append(Problem(message=f"--{name.replace('_', '-')}: {error}"))
    if problems:
        raise ConfigError(*problems)
    return found


def _pattern(playbook: Playbook | None, options: RunOptions, problems: list[Problem]) -> str:
    """Return the pattern of the hosts: ``--hosts``, or the default of the playbook.

    Mistakes are added to *problems*.
    """
    given = options.choosing.hosts
    if given is not None:
        if not given.strip():
            problems.append(Problem(message="--hosts is empty: name hosts, or leave the option out"))
        return given
    if playbook is None:
        return ""
    if not playbook.hosts:
        problems.append(Problem(message="no hosts: name them with --hosts PATTERN (the playbook has no default)"))
    elif not options.plan_only and (options.settle or (not options.diagnoses_only and may_change(playbook))):
        words = f"{playbook.name} changes hosts, and no hosts were given: add --hosts PATTERN"
        hint = f"--hosts {shlex.quote(playbook.hosts)} is the playbook's default; --dry-run uses it without --hosts"
        problems.append(Problem(message=words, hint=hint))
    return playbook.hosts


def may_change(playbook: Playbook) -> bool:
    """Whether a step of *playbook* can change a host."""
    actions = discover()
    return any(actions[step.action].decide for step in playbook.remediate)
