"""The command ``runbook settle``: do what `always` steps of earlier runs still owe to hosts."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from runbook.commands.continuing import hosts_meant, inventories_again
from runbook.commands.input_files import read_inputs_file, values_given
from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions, GivenInputs, Output, RunOptions
from runbook.commands.order import Order
from runbook.commands.owed.keeping import Unreadable, all_records
from runbook.commands.owed.record import Record
from runbook.commands.owed.settling import GivenAgain, Prepared, Settling
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.secret_sources.resolution import SecretValues
from runbook.commands.workspace import OpenRun, Person, go, order_for
from runbook.errors import ConfigError
from runbook.executor import Consent
from runbook.executor.owed import DONE
from runbook.fleet import Cancellation
from runbook.protocols import ConnectOptions
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.records.process_identity import lives
from runbook.secrets.documents import secrets_in
from runbook.values.event import Event, HostFinished, RunFinished
from runbook.values.inventory import Inventory, LeftOut, Selection
from runbook.values.playbook import Playbook
from runbook.values.result import HostResult, Mode
from runbook.values.types import plural

NAME = "settle"
INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleOptions(FleetOptions):
    """The options of ``runbook settle``."""

    given: GivenInputs = field(default_factory=GivenInputs)
    changed_inventory: bool = False
    forget: str = ""
    """A run: remove its records, and do nothing on hosts."""


def settle(options: SettleOptions, person: Person) -> int:
    """Settle what is owed, or forget a record.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory, options.given)) as hiding:
        hiding.learn(secrets_in({"secret": values_given(options.given.inputs, options.given.inputs_file)}))
        folder = _folder()
        if options.forget:
            return _forget(folder, options, person)
        return _settle(folder, options, person, hiding)


def settle_first(order: Order, options: RunOptions, person: Person, hiding: SecretMasking) -> int:
    """Settle what earlier runs with the inventory of *order* owe to its hosts; beside JSON it is shown on stderr.

    Returns the exit code: 0 where nothing is owed any more.
    """
    folder = _folder()
    records, damaged = all_records(folder)
    _tell_damaged(damaged, person)
    hosts = {host.name for host in order.selection.hosts}
    files = tuple(str(Path(source).absolute()) for source in order.inventory.sources)
    named = tuple(record for record in records if record.host in hosts)
    others = [record for record in named if record.rests_on.inventory != files]
    for other in others:  # a host of the same name may be another machine
        where = " ".join(f"-i {shlex.quote(path)}" for path in other.rests_on.inventory)
        person.say(f"{other.host}: run {other.run} of {other.playbook} had another inventory: `runbook settle {where}`")
    living = _without_living(own := tuple(record for record in named if record not in others), person)
    code = int(bool(damaged or others or len(living) < len(own)))
    if not living:
        return code
    given = _given_again(order, options.given, living)
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


def _given_again(order: Order, given: GivenInputs, records: Sequence[Record]) -> GivenAgain:
    """What the command line gives of the secret inputs of *records*."""
    digests = {record.rests_on.playbook_digest for record in records}
    known = digests <= {order.playbook.digest}  # else an input of that name is another
    secret = {name for record in records for name in record.rests_on.secret_inputs} if known else set()
    of_file = values_given((), given.inputs_file)
    return GivenAgain(
        options=tuple(option for option in given.inputs if option.partition("=")[0] in secret),
        values={name: value for name, value in of_file.items() if name in secret},
    )


def _folder() -> PrivateFolder:
    try:
        return PrivateFolder(state_directory("owed"))
    except Unsafe as error:
        raise ConfigError(str(error.strerror)) from error


def _tell_damaged(damaged: Sequence[Unreadable], person: Person) -> None:
    for broken in damaged:
        hint = "" if Path(broken.file).is_dir() else " (`rm` removes it)"
        person.say(f"{broken.file} is not believed: {broken.why}{hint}")


def _without_living(records: Sequence[Record], person: Person) -> tuple[Record, ...]:
    """*records* of runs that are over."""
    for record in (running := [each for each in records if lives(each.maker)]):
        maker = f"process {record.maker.pid}"
        person.say(f"{record.host}: run {record.run} of {record.playbook} is still under way ({maker}): left alone")
    return tuple(record for record in records if record not in running)


class _Results:
    """Listens to a run, and keeps how its hosts ended."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostResult] = {}
        self.mode = Mode.PLAN

    def on(self, event: Event) -> None:
        """Take note of *event*."""
        match event:
            case HostFinished(result=result):
                self.hosts[result.host] = result
            case RunFinished(result=whole):
                self.mode = whole.mode


def _settle(folder: PrivateFolder, options: SettleOptions, person: Person, hiding: SecretMasking) -> int:
    records, damaged = all_records(folder)
    _tell_damaged(damaged, person)
    inventory = inventories_again(options.choosing.inventory, [record.rests_on for record in records])
    records = _chosen(records, inventory, options)
    if not records and options.output.output == "console":
        print("nothing is owed" + (f" by what can be read in {folder.path}" if damaged else ""))
        return int(bool(damaged))
    records = _without_living(records, person)
    given = _given(options.given, records)
    return _settle_records(folder, records, inventory, given, options, person, hiding, sys.stdout) or int(bool(damaged))


def _given(given: GivenInputs, records: Sequence[Record]) -> GivenAgain:
    """The inputs that are given again for *records*.  Raises ConfigError."""
    if not given.inputs_file:
        return GivenAgain(options=given.inputs)
    names = sorted({name for record in records for name in record.rests_on.secret_inputs})
    values, places = read_inputs_file(given.inputs_file, names, "what is owed")
    return GivenAgain(options=given.inputs, values=values, places=places)


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
    """Settle *records* of *inventory*.  *connecting*: how to connect, where that is known already."""
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
    """Those of *records* that ``--hosts`` names; a host that no inventory has any more can be named alone."""
    if not records:
        return ()
    gone = {record.host for record in records} - {host.name for host in inventory.hosts}
    pattern = options.choosing.hosts
    named = {pattern} & gone or hosts_meant(inventory, options)
    return tuple(record for record in records if named is None or record.host in named)


def _list(records: Sequence[Record], prepared: Prepared, person: Person) -> None:
    """Say what is owed, and of what is not settled also why, and how to do it by hand."""
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
        Playbook(name=NAME, remediate=steps),
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
    results = _Results()
    order = replace(order, origin=origin_of(order, NAME, reason=options.recording.reason))
    with OpenRun(order, options, person, hiding, changing=False, listeners=(results,), stdout=stdout) as open_run:
        stop, code = open_run.stop, go(open_run.run, options, person)
        if results.mode is Mode.RUN and code != INTERRUPTED and not options.plan_only:
            code = _strike_needless(order, prepared, results, person, stop) or code
    return open_run.code(INTERRUPTED if stop.asked else code)


def _strike_needless(order: Order, prepared: Prepared, results: _Results, person: Person, stop: Cancellation) -> int:
    """Remove the records of hosts on which nothing was to be done; they are probed once more, never changed.

    Returns 1 where one of them stays.
    """
    needless = {
        name
        for name in prepared.records.open_hosts()
        if name in results.hosts and all(step.status in DONE for step in results.hosts[name].steps)
    }
    if needless:
        hosts = tuple(host for host in order.selection.hosts if host.name in needless)
        again = _Results()
        Run(replace(order, selection=Selection(hosts=hosts)), (again,), stop).go(Consent.NONE)
        needless &= prepared.records.open_hosts()
        for name in sorted(needless):
            why = again.hosts[name].error if name in again.hosts else None
            words = "nothing is to be done, but its record could not be removed"
            person.say(f"{name}: {words}{f': {why}' if why else ''}; settle again")
    return int(bool(needless))


def _forget(folder: PrivateFolder, options: SettleOptions, person: Person) -> int:
    """Remove the records of one run, whatever they say."""
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
    _tell_unbelieved(broken, person)
    count = plural(len(wanted) + len(broken), "record")
    if not options.yes and not _confirmed(count, person):
        return INTERRUPTED
    _remove(folder, [each.name for each in wanted] + [Path(unreadable.file).name for unreadable in broken])
    person.say(f"{count} removed; a host's own note goes when it restarts (in /run/runbook or ~/.cache/runbook there)")
    return 0


def _tell_unbelieved(broken: Iterable[Unreadable], person: Person) -> None:
    for unreadable in broken:
        person.say(f"{unreadable.file} is not believed: {unreadable.why}")


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
