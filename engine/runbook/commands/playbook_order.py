"""Make the order for a run of a playbook from what the command line names."""

from __future__ import annotations

from dataclasses import replace

from runbook.commands.input_files import places_of
from runbook.commands.options import RunOptions
from runbook.commands.order import Order
from runbook.commands.rests_on import origin_of
from runbook.commands.sources import Sources, or_problems, sources_of_run
from runbook.commands.step_resolution import only_diagnosing, with_places, with_tags, without_scratch
from runbook.commands.workspace import Person, order_for
from runbook.errors import ConfigError, Problem
from runbook.language.includes import inputs_of_parts
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.secret_sources.resolution import problems_with_references
from runbook.values.run_origin import RunOrigin


def order_from(name: str, options: RunOptions, person: Person) -> Order:
    """Return the order for a run of the playbook *name* with *options*.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    sources = sources_of_run(name, options, problems)
    return replace(order_of(sources, options, person, problems), keeps_owed=True)


def origin_of_playbook(order: Order, options: RunOptions, command: str) -> RunOrigin:
    """Return the origin of a run of a playbook that *command* starts with *options*."""
    tags, skipped = (
        tuple(part for text in texts for part in text.split(",")) for texts in (options.tags, options.skip_tags)
    )
    origin = origin_of(order, command, diagnose_only=options.diagnoses_only)
    return replace(origin, tags=tags, skip_tags=skipped)


def order_of(sources: Sources | None, options: RunOptions, person: Person, problems: list[Problem]) -> Order:
    """Return the order for a run of *sources* with *options*.  Raises ConfigError with *problems* and new ones."""
    if sources is None or problems:
        raise ConfigError(*problems)
    playbook, inputs = sources.playbook, sources.inputs
    if options.diagnoses_only:
        if options.settle and not options.plan_only:
            raise ConfigError("--only diagnose changes nothing, and --settle may: give one of them")
        playbook = only_diagnosing(playbook, sources.name)
    parts = or_problems(problems, lambda: inputs_of_parts(playbook, inputs)) or {}
    problems += problems_with_references(playbook, sources.inventory, sources.selection.hosts)
    problems += problems_with_inputs_given(playbook, discover(), parts, places_of(sources.given)) if parts else []
    playbook = or_problems(problems, lambda: with_tags(playbook, options.tags, options.skip_tags)) or playbook
    if options.plan_only and not options.scratch:
        playbook = without_scratch(playbook)
    if parts:
        or_problems(problems, lambda: with_places(playbook, parts, sources.inventory))  # `order_for` does it, by host
    if problems:
        raise ConfigError(*problems)
    return order_for(
        playbook,
        options,
        person,
        inputs=inputs,
        parts=parts,
        profile_inputs=sources.profile_inputs,
        inventory=sources.inventory,
        selection=sources.selection,
    )
