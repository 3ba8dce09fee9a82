"""The command ``runbook settle``: run the `always` steps that earlier runs still owe to hosts."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TextIO

from runbook.commands.continuing import hosts_meant, inventories_again
from runbook.commands.input_files import values_given
from runbook.commands.inventory_sources import lasting_name
from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions, GivenInputs, Output, RunOptions
from runbook.commands.order import Order
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.settling import GivenAgain, Prepared, Settling, given_for, given_for_playbook
from runbook.commands.workspace import OpenRun, Person, go, order_for
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.execution.executor import Consent
from runbook.execution.executor.owed import DONE
from runbook.execution.fleet import Cancellation
from runbook.protocols import ConnectOptions
from runbook.records.owed_record import Record
from runbook.records.owed_records import Unreadable, all_records
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.records.process_identity import lives
from runbook.reporting.collector import Collector
from runbook.secret_sources.resolution import SecretValues
from runbook.secrets.documents import secrets_in
from runbook.values.inventory import Inventory, LeftOut, Selection
from runbook.values.playbook import Playbook
from runbook.values.result import Mode
from runbook.values.types import plural

COMMAND = "settle"
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleOptions(FleetOptions):
    """The options of ``runbook settle``."""

    given: GivenInputs = field(default_factory=GivenInputs)
    changed_inventory: bool = False
    forget: str = ""
    """A run whose records are removed without doing anything on hosts."""


def settle(options: SettleOptions, person: Person) -> int:
    """Do the owed clean-up, or forget a record.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory, options.given)) as hiding:
        hiding.learn(secrets_in({"secret": values_given(options.given.inputs, options.given.inputs_file)}))
        folder = _folder()
        if options.forget:
            return _forget(folder, options, person)
        return _settle(folder, options, person, hiding)


def settle_first(order: Order, options: RunOptions, person: Person, hiding: SecretMasking) -> int:
    """Do the clean-up that earlier runs with the same inventory owe to the hosts of *order*.

    With JSON output, its progress is shown on stderr.  Returns the exit code; 0: nothing is owed any more.
    """
    folder = _folder()
    records, damaged = all_records(folder)
    _tell_damaged(damaged, person)
    hosts = {host.name for host in order.selection.hosts}
    files = tuple(map(lasting_name, order.inventory.sources))
    named = tuple(record for record in records if record.host in hosts)
    others = [record for record in named if record.rests_on.inventory != files]
    for other in others:  # a host of the same name may be another machine
        where = " ".join(f"-i {shlex.quote(path)}" for path in other.rests_on.inventory)
        person.say(f"{other.host}: run {other.run} of {other.playbook} had another inventory: `runbook settle {where}`")
    living = _without_living(own := tuple(record for record in named if record not in others), person)
    code = int(bool(damaged or others or len(living) < len(own)))
    if not living:
        return code
    given = given_for_playbook(order.playbook, options.given, living)
    settling = SettleOptions(
        choosing=options.choosing,
        connecting=options.connecting,
        limits=replace(options.limits, pause_between=""),
        output=Output(verbosity=options.output.verbosity),
        recording=options.recording,
        plan_only=options.plan_only,
        yes=options.yes,
    )
    stdout = sys.stdout if options.output.output == "console" else sys.stderr
    return (
        _settle_records(folder, living, order.inventory, given, settling, person, hiding, stdout, order.options) or code
    )


def _folder() -> PrivateFolder:
    try:
        return PrivateFolder(state_directory("owed"))
    except Unsafe as error:
        raise ConfigError(str(error.strerror)) from error


def _tell_damaged(damaged: Sequence[Unreadable], person: Person, *, stays: bool = True) -> None:
    for broken in damaged:
        hint = " (`rm` removes it)" if stays and not Path(broken.file).is_dir() else ""
        person.say(f"{broken.file} is not believed: {broken.why}{hint}")


def _without_living(records: Sequence[Record], person: Person) -> tuple[Record, ...]:
    """Return those of *records* whose runs have ended."""
    for record in (running := [each for each in records if lives(each.maker)]):
        maker = f"process {record.maker.pid}"
        person.say(f"{record.host}: run {record.run} of {record.playbook} is still under way ({maker}): left alone")
    return tuple(record for record in records if record not in running)


def _settle(folder: PrivateFolder, options: SettleOptions, person: Person, hiding: SecretMasking) -> int:
    records, damaged = all_records(folder)
    _tell_damaged(damaged, person)
    inventory = inventories_again(options.choosing.inventory, [record.rests_on for record in records])
    records = _chosen(records, inventory, options)
    if not records and options.output.output == "console":
        print("nothing is owed" + (f" by what can be read in {folder.path}" if damaged else ""))
        return int(bool(damaged))
    records = _without_living(records, person)
    given = given_for(options.given, records)
    return _settle_records(folder, records, inventory, given, options, person, hiding, sys.stdout) or int(bool(damaged))


def _settle_records(
    folder: PrivateFolder,
    records: Sequence[Record],
    inventory: Inventory,
    given: GivenAgain,
    options: SettleOptions,
    person: Person,
    hiding: SecretMasking,
    stdout: TextIO,
    connecting: ConnectOptions | None = None,
) -> int:
    """Do the clean-up of *records* on hosts of *inventory*, and return the exit code.

    *connecting*: the options for connecting, if they are already known.
    """
    settling = Settling(
        inventory,
        given,
        force=options.force,
        changed_inventory=options.changed_inventory,
        changes=not options.plan_only,
    )
    prepared = settling.prepared(records, folder)
    _list(records, prepared, person)
    hiding.learn((*prepared.secrets, *prepared.handed_out))
    order = _order(prepared, inventory, options, person, connecting)
    code = _perform(order, prepared, options, person, hiding, stdout)
    return code or int(bool(prepared.refused))


def _chosen(records: Sequence[Record], inventory: Inventory, options: SettleOptions) -> tuple[Record, ...]:
    """Return the records that ``--hosts`` selects; a host that is in no inventory any more can be named alone."""
    if not records:
        return ()
    gone = {record.host for record in records} - {host.name for host in inventory.hosts}
    pattern = options.choosing.hosts
    named = {pattern} & gone or hosts_meant(inventory, options)
    return tuple(record for record in records if named is None or record.host in named)


def _list(records: Sequence[Record], prepared: Prepared, person: Person) -> None:
    """Print the owed clean-ups; if one cannot be done, also the reason, and the commands to do it by hand."""
    refused = {(each.record.run, each.record.host): each.why for each in prepared.refused}
    for record in records:
        words = "; ".join(step.words for step in record.steps)
        person.say(
            f"{record.host}: run {record.run} of {record.playbook}, by {record.by}, since {record.since}, owes {words}"
        )
        if why := refused.get((record.run, record.host)):
            person.say(f"{record.host}: run {record.run} is not settled: {why}")
            for step in record.steps:
                for line in step.by_hand:
                    person.say(
                        f"{record.host}: {step.id} by hand{f' (as {step.become})' if step.become else ''}: {line}"
                    )


def _order(
    prepared: Prepared, inventory: Inventory, options: SettleOptions, person: Person, connecting: ConnectOptions | None
) -> Order:
    names = prepared.assignments.keys()
    hosts = tuple(host for host in inventory.hosts if host.name in names)
    left_out = [
        LeftOut(host=refused.record.host, why=f"run {refused.record.run}: {refused.why}")
        for refused in prepared.refused
    ]
    steps = tuple(step for host in hosts for step in prepared.assignments[host.name].playbook.remediate)
    order = order_for(
        Playbook(name=COMMAND, remediate=steps),
        options,
        person,
        inventory=inventory,
        selection=Selection(hosts=hosts, left_out=tuple(left_out)),
        connecting=connecting,
    )
    return replace(
        order,
        assignments=prepared.assignments,
        secrets=prepared.secrets,
        secret_values=SecretValues(masked=prepared.handed_out),
        settles=prepared.records,
    )


def _perform(
    order: Order, prepared: Prepared, options: SettleOptions, person: Person, hiding: SecretMasking, stdout: TextIO
) -> int:
    results = Collector()
    order = replace(order, origin=origin_of(order, COMMAND))
    with OpenRun(order, options, person, hiding, changing=False, listeners=(results,), stdout=stdout) as open_run:
        stop, code = open_run.stop, go(open_run.run, options, person)
        if results.result and results.result.mode is Mode.RUN and code != EXIT_INTERRUPTED and not options.plan_only:
            code = _strike_needless(order, prepared, results, person, stop) or code
    return open_run.code(EXIT_INTERRUPTED if stop.asked else code)


def _strike_needless(order: Order, prepared: Prepared, results: Collector, person: Person, stop: Cancellation) -> int:
    """Probe the hosts that needed no change again, and remove their records if they still need none.

    Returns 1 if a record remains.  Nothing is changed on hosts.
    """
    needless = {
        name
        for name in prepared.records.open_hosts()
        if name in results.hosts and all(step.status in DONE for step in results.hosts[name].steps)
    }
    if needless:
        hosts = tuple(host for host in order.selection.hosts if host.name in needless)
        again = Collector()
        Run(replace(order, selection=Selection(hosts=hosts)), (again,), stop).go(Consent.NONE)
        needless &= prepared.records.open_hosts()
        for name in sorted(needless):
            why = again.hosts[name].error if name in again.hosts else None
            words = "nothing is to be done, but its record could not be removed"
            person.say(f"{name}: {words}{f': {why}' if why else ''}; settle again")
    return int(bool(needless))


def _forget(folder: PrivateFolder, options: SettleOptions, person: Person) -> int:
    """Remove the records of one run without doing the clean-up."""
    run = options.forget
    records, damaged = all_records(folder)
    if options.choosing.hosts is not None:
        inventory = inventories_again(options.choosing.inventory, [record.rests_on for record in records])
        records = _chosen(records, inventory, options)
        damaged = ()
    wanted = [each for each in records if each.run == run]
    if living := next((each for each in wanted if lives(each.maker)), None):
        raise ConfigError(f"run {run} is still under way (process {living.maker.pid} of this machine)")
    broken = [unreadable for unreadable in damaged if Path(unreadable.file).name.startswith(f"{run}-")]
    if not re.fullmatch(r"[0-9A-Za-z-]+", run) or not (wanted or broken):
        known = ", ".join(dict.fromkeys(each.run for each in records)) or "none"
        raise ConfigError(f"no record of a run {run!r} (there are: {known})")
    for record in wanted:
        owed = "; ".join(step.words for step in record.steps)
        person.say(f"{record.host}: run {run} of {record.playbook} owes {owed}")
    _tell_damaged(broken, person, stays=False)
    count = plural(len(wanted) + len(broken), "record")
    if not options.yes and not _confirmed(count, person):
        return EXIT_INTERRUPTED
    _remove(folder, [each.name for each in wanted] + [Path(unreadable.file).name for unreadable in broken])
    person.say(f"{count} removed; a host's own note goes when it restarts (in /run/runbook or ~/.cache/runbook there)")
    return 0


def _confirmed(count: str, person: Person) -> bool:
    if not person.is_there():
        raise ConfigError("--forget needs --yes: there is no terminal to ask on")
    return person.confirms(f"Forget {count}, and do nothing of that?")


def _remove(folder: PrivateFolder, names: Sequence[str]) -> None:
    for name in names:
        try:
            folder.remove(name)
        except OSError as error:
            raise ConfigError(f"{folder.path / name} cannot be removed: {error.strerror}") from error
