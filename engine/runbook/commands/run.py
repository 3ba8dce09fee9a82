"""The command ``runbook run``: diagnose hosts with a playbook, and change them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from runbook.commands.input_files import find_playbook, places_of, read_inputs, read_playbook
from runbook.commands.one_run import Run
from runbook.commands.options import GivenInputs, RunOptions
from runbook.commands.order import Order
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.settle import settle_first
from runbook.commands.step_resolution import only_diagnosing, with_places, with_tags, without_scratch
from runbook.commands.workspace import (
    OpenRun,
    Person,
    go,
    inventory_for,
    or_problems,
    order_for,
    selected,
    times,
    with_secrets_resolved,
)
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.fleet.limit_options import given_limits, problems_with_variables
from runbook.language.includes import inputs_of_parts
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.secret_sources.resolution import problems_with_references
from runbook.secrets.detection import masked_argv
from runbook.values.inventory import Inventory, Selection
from runbook.values.playbook import Playbook
from runbook.values.run_origin import RunOrigin
from runbook.values.types import Json, plural

ONLY_PLAN = "--dry-run"


def run_playbook(name: str, options: RunOptions, person: Person) -> int:
    """Run the playbook *name*.  Returns the exit code; every mistake in the arguments is found before any
    connection.
    """
    with SecretMasking(lambda: secrets_on_command_line(name, options.choosing.inventory, options.given)) as hiding:
        order = order_from(name, options, person)
        order = with_secrets_resolved(order, hiding, changes=not options.plan_only)
        if options.settle and (code := settle_first(order, options, person, hiding)):
            person.say(f"{order.playbook.name} was not begun: something may still be owed to its hosts")
            return code
        order = replace(order, origin=origin_of_playbook(order, options, "run"))
        changing = not options.plan_only and bool(order.playbook.remediate)
        with OpenRun(order, options, person, hiding, changing=changing) as open_run:
            code = go(open_run.run, options, person)
        if options.plan_only and open_run.run.waiting and options.output.output == "console" and options.typed:
            person.say(f"to do it, after a yes: {_typed_to_do_it(open_run.run, options)}")
        return open_run.code(code)


def order_from(name: str, options: RunOptions, person: Person) -> Order:
    """Return the order for a run of the playbook *name* with *options*.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    sources = read_sources(name, options, problems)
    if sources and not options.plan_only and not options.diagnoses_only:
        problems += unapproved(name, sources.playbook, settles=options.settle)
    return replace(order_of(sources, options, person, problems), keeps_owed=True)


def origin_of_playbook(order: Order, options: RunOptions, command: str) -> RunOrigin:
    """Return the origin of a run of a playbook that *command* starts with *options*."""
    tags, skipped = (
        tuple(part for text in texts for part in text.split(",")) for texts in (options.tags, options.skip_tags)
    )
    origin = origin_of(order, command, diagnose_only=options.diagnoses_only)
    return replace(origin, tags=tags, skip_tags=skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The playbook, inventory, inputs and hosts that a command line names, read from their files."""

    name: str
    """The name or path of the playbook, as given."""
    playbook: Playbook
    inventory: Inventory
    inputs: Mapping[str, Json]
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
    if playbook and chosen:
        problems += problems_with_variables(playbook.limits, chosen.hosts)
    if playbook is None or inventory is None or inputs is None or chosen is None:
        return None
    return Sources(
        name=name, playbook=playbook, inventory=inventory, inputs=inputs, given=options.given, selection=chosen
    )


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
        playbook = or_problems(problems, lambda: with_places(playbook, parts, sources.inventory)) or playbook
    if problems:
        raise ConfigError(*problems)
    return order_for(
        playbook,
        options,
        person,
        inputs=inputs,
        parts=parts,
        inventory=sources.inventory,
        selection=sources.selection,
    )


def unapproved(name: str, playbook: Playbook, *, settles: bool = False) -> list[Problem]:
    """Return a problem if the limits of *playbook* ask for approvals, which a run without a saved plan cannot have."""
    count = playbook.limits.approvals
    if not count or not (settles or _may_change(playbook)):
        return []
    words = f"{playbook.name} changes nothing without {plural(count, 'approval')} (limits.approvals)"
    hint = (
        f"make a plan: `runbook plan {shlex.quote(name)} --hosts PATTERN -o plan.json`, have it approved: "
        "`runbook approve plan.json`, and apply it: `runbook apply plan.json`; --dry-run only shows what would be done"
    )
    return [Problem(message=words, hint=hint)]


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
    elif not options.plan_only and (options.settle or (not options.diagnoses_only and _may_change(playbook))):
        words = f"{playbook.name} changes hosts, and no hosts were given: add --hosts PATTERN"
        hint = f"--hosts {shlex.quote(playbook.hosts)} is the playbook's default; --dry-run uses it without --hosts"
        problems.append(Problem(message=words, hint=hint))
    return playbook.hosts


def _may_change(playbook: Playbook) -> bool:
    """Whether a step of *playbook* can change a host."""
    actions = discover()
    return any(actions[step.action].decide for step in playbook.remediate)


def _typed_to_do_it(run: Run, options: RunOptions) -> str:
    """Return the command line that carries out the shown plan, without secrets."""
    words = [word for word in masked_argv(options.typed) if word != ONLY_PLAN]
    if not options.choosing.hosts:  # a change takes no hosts that nobody has named
        words += ["--hosts", run.order.playbook.hosts]
    return str(run.masked_value(shlex.join(["runbook", *words])))
