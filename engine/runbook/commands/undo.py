"""The command ``runbook undo``: undo the changes of a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runbook.commands.continuing import ALL_THE_SAME, hosts_meant, inventory_again, other_machines
from runbook.commands.history.recording import records_folder
from runbook.commands.history.undo_steps import COMMAND, HostUndo, assignments_of_undo, playbook_of_undo, undo_steps
from runbook.commands.history.undone import limits_of_undo
from runbook.commands.options import FleetOptions
from runbook.commands.order import Order
from runbook.commands.placed import at_its_place
from runbook.commands.plan import PlanFile, save_plan
from runbook.commands.rests_on import changed_since, origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.workspace import Person, order_for, perform
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.records.finding_runs import LAST, latest_run, load_run
from runbook.records.index import RunRow
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RecordedRun, RunState
from runbook.text.name_ranges import fold
from runbook.values.inventory import Inventory, LeftOut, Selection
from runbook.values.result import Mode
from runbook.values.run_origin import RunOrigin
from runbook.values.types import plural

EXIT_NOTHING_UNDOABLE = 1
"""The exit code if a run has changed hosts, but none of its changes can be undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions(FleetOptions):
    """The options of ``runbook undo``."""

    plan: str = ""
    """The file in which to save the plan of the undo; then nothing is changed."""
    expires: str = "24h"
    changed_inventory: bool = False


def undo(run: str, options: UndoOptions, person: Person) -> int:
    """Undo the changes of *run*, or save the plan for it.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory)) as hiding:
        planning = bool(options.plan)
        if planning and (options.plan_only or options.yes):
            raise ConfigError("--plan FILE only saves what would be undone: leave out --dry-run and --yes")
        order = undo_order(run, options, person, approved=planning)
        if isinstance(order, int):
            return order
        if planning:
            undone = order.origin.undoes if order.origin else run
            return save_plan(
                order, undone, options, person, hiding, PlanFile(path=options.plan, expires=options.expires)
            )
        order = at_its_place(order, options, hiding)
        return perform(order, options, person, hiding)


def undo_order(run: str, options: UndoOptions, person: Person, *, approved: bool) -> Order | int:
    """Return the order that undoes the changes of *run*; or an exit code if there is nothing to undo.

    *approved*: the undo is only saved as a plan, which can be approved (limit `approvals`).  Raises ConfigError.
    """
    folder = records_folder(options.recording.records or "")
    recorded = load_run(folder, _last(folder, person) if run == LAST else run)
    origin = _checked(recorded)
    inventory = inventory_again(options.choosing.inventory, origin)
    hosts = _hosts(recorded, inventory, options)
    found = undo_steps(recorded, {host.name for host in inventory.hosts})
    named = {name: it for name, it in found.items() if name in hosts}
    _list(named, person)
    steps = {name: it for name, it in named.items() if it.steps}
    if not steps:
        return _nothing_to_do(recorded, named, person)
    _refuse_others(recorded, steps, inventory, options)
    selection = _selection(steps, inventory)
    if not selection.hosts:
        raise ConfigError(f"no host of run {recorded.run} that was changed is in the inventory any more")
    changes = not options.plan_only and not approved
    limits = limits_of_undo(recorded, lambda it: load_run(folder, it), person.say, changes=changes)
    playbook = playbook_of_undo(recorded.run, {host.name: steps[host.name].steps for host in selection.hosts})
    playbook = replace(playbook, limits=limits)
    order = order_for(playbook, replace(options, force=False), person, inventory=inventory, selection=selection)
    assignments = assignments_of_undo(playbook, {name: it.steps for name, it in steps.items()})
    origin_now = replace(origin_of(order, COMMAND), undoes=recorded.run)
    count = plural(len(selection.hosts), "host")
    person.say(f"run {recorded.run} of {recorded.started.playbook}: {count} with changes that can be undone")
    return replace(order, assignments=assignments, origin=origin_now)


def _last(folder: PrivateFolder, person: Person) -> str:
    """Return the newest run that may have changed hosts and is no undo.  Raises ConfigError."""
    passed: list[RunRow] = []

    def may_have_changed(run: RunRow) -> bool:
        passed.append(run)
        return run.mode == Mode.RUN and run.sent > 0 and not run.undoes

    found = latest_run(folder, may_have_changed)
    if not found:
        hint = f"`runbook history` lists the recorded runs; they are in {folder.path}"
        raise ConfigError(Problem(message="no recorded run has changed hosts", hint=hint))
    newer = passed[:-1]
    if newer:
        what = "changed nothing, or is an undo" if len(newer) == 1 else "changed nothing, or are undos"
        person.say(f"`{LAST}` is run {found}: {plural(len(newer), 'newer run')} {what}")
    return found


def _checked(recorded: RecordedRun) -> RunOrigin:
    """Return the origin of *recorded*, which must be a run that can be undone.  Raises ConfigError if it is not."""
    origin, run = recorded.started.origin, recorded.run
    if recorded.faults:
        raise ConfigError(
            f"run {run} cannot be undone: its record is not as it was written ({recorded.faults[0]}), "
            "so that nobody knows what it did"
        )
    if recorded.state is RunState.RUNNING:
        raise ConfigError(f"run {run} is still under way")
    if recorded.started.mode is Mode.PLAN:
        raise ConfigError(f"run {run} was a dry run, or was declined: there is nothing to undo")
    if origin is None:
        raise ConfigError(f"the record of run {run} does not say where it comes from")
    return origin


def _hosts(recorded: RecordedRun, inventory: Inventory, options: UndoOptions) -> frozenset[str]:
    """Return the hosts of the run that ``--hosts`` selects.  Raises ConfigError."""
    all_hosts = frozenset(recorded.started.hosts)
    if (wanted := hosts_meant(inventory, options)) is None:
        return all_hosts
    if not wanted & all_hosts:
        known, pattern = ", ".join(sorted(all_hosts)), options.choosing.hosts
        raise ConfigError(f"--hosts {pattern}: none of these hosts is of run {recorded.run} (it has: {known})")
    return all_hosts & wanted


def _refuse_others(
    recorded: RecordedRun, steps: Mapping[str, HostUndo], inventory: Inventory, options: UndoOptions
) -> None:
    """Raise ConfigError if a host may now be another machine of the same name."""
    places = {*steps, *(step.on for host_undo in steps.values() for step in host_undo.steps)}
    others = changed_since([recorded.started.origin], inventory, places).hosts
    if others and not options.changed_inventory:
        hint = f"{ALL_THE_SAME}, --hosts takes the others"
        raise ConfigError(Problem(message=other_machines(others), hint=hint))


def _list(found: Mapping[str, HostUndo], person: Person) -> None:
    """Print, for each host, the changes of the run that the undo cannot take back."""
    for host, own in found.items():
        for stay in own.stays:
            person.say(f"{host}: not undone: {stay.step} ({stay.action}): {stay.summary}: {stay.why}")


def _nothing_to_do(recorded: RecordedRun, found: Mapping[str, HostUndo], person: Person) -> int:
    """Print the reason why nothing is undone.  Returns the exit code."""
    changed = sorted(name for name, it in found.items() if it.changed)
    if not changed:
        person.say(f"run {recorded.run} has changed nothing on these hosts: there is nothing to undo")
        return 0
    person.say(f"run {recorded.run}: nothing can be undone; {fold(changed)} stays as that run has left it")
    return EXIT_NOTHING_UNDOABLE


def _selection(steps: Mapping[str, HostUndo], inventory: Inventory) -> Selection:
    hosts = tuple(host for host in inventory.hosts if host.name in steps and not host.placeholder)
    gone = sorted(steps.keys() - {host.name for host in hosts})
    left_out = tuple(
        LeftOut(host=word, why="no host of this name (with an address) is in the inventory") for word in gone
    )
    return Selection(hosts=hosts, left_out=left_out)
