"""The command ``runbook resume``: continue a run that did not finish."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field, replace
from pathlib import Path

from runbook.commands.continuing import ALL_THE_SAME, hosts_meant, inventory_again, other_machines, other_secrets
from runbook.commands.history.recording import records_folder
from runbook.commands.history.undone import undone_hosts
from runbook.commands.input_files import (
    places_of,
    read_inputs,
    read_playbook,
    values_given,
)
from runbook.commands.options import FleetOptions, GivenInputs
from runbook.commands.placed import at_its_place
from runbook.commands.rests_on import changed_since, origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import unapproved
from runbook.commands.step_resolution import with_tags
from runbook.commands.workspace import Person, order_for, perform
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.inventory.host_patterns import select
from runbook.language.includes import inputs_of_parts
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import earlier_changes
from runbook.records.recorded_run import resumable
from runbook.records.run_chain import Chain, chain_from, root_of
from runbook.secret_sources.resolution import problems_with_references
from runbook.secrets.documents import secrets_in
from runbook.secrets.names import MASK
from runbook.text.name_ranges import fold
from runbook.text.suggestions import suggest
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Inventory, Selection
from runbook.values.playbook import Playbook, written_id
from runbook.values.run_origin import RunOrigin
from runbook.values.types import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions(FleetOptions):
    """The options of ``runbook resume``."""

    given: GivenInputs = field(default_factory=GivenInputs)
    repeat: tuple[str, ...] = ()
    """The steps to send again although they may have been done."""
    assume_done: tuple[str, ...] = ()
    """The steps to assume as done if their outcome is unknown."""
    changed_inventory: bool = False
    changed_playbook: bool = False
    undone: bool = False
    """Whether to include hosts on which the run was undone."""


def resume(run: str, options: ResumeOptions, person: Person) -> int:
    """Continue the run that *run* names.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory, options.given)) as hiding:
        hiding.learn(secrets_in({"secret": values_given(options.given.inputs, options.given.inputs_file)}))
        folder = records_folder(options.recording.records or "")
        root = root_of(folder, run)
        with nullcontext() if options.plan_only else _claimed(folder, root):
            chain = chain_from(folder, root)
            undone = undone_hosts(folder, [recorded_run.run for recorded_run in chain])
            return _resume(chain, undone, options, person, hiding)


def _resume(
    chain: Chain, undone: Mapping[str, str], options: ResumeOptions, person: Person, hiding: SecretMasking
) -> int:
    recorded = chain[-1]
    origin = recorded.started.origin
    assert origin
    playbook = _playbook(origin, options)
    earlier = without_undone(_earlier(chain, playbook, options), undone)
    hosts = _hosts(chain)
    if not hosts:
        person.say(f"run {recorded.run}: nothing to resume: every host came to its end")
        return 0
    if playbook.comparisons:
        words = f"{playbook.name} compares hosts with each other, and changes nothing: some of them alone say nothing"
        raise ConfigError(Problem(message=words, hint=f"run it again: runbook run {playbook.name}"))
    inventory = inventory_again(options.choosing.inventory, origin)
    chosen = _selected(inventory, hosts, chain, playbook, options)
    _refuse_undone(recorded.run, [host.name for host in chosen.hosts], undone, options)
    known = {name: value for name, value in origin.inputs.items() if value != MASK}
    _refuse_other_inputs(origin, playbook, options)
    given = replace(options.given, below=known)
    inputs = read_inputs(given, playbook)
    parts = inputs_of_parts(playbook, inputs) or {}
    problems = problems_with_inputs_given(playbook, discover(), parts, places_of(given)) if parts else []
    problems += problems_with_references(playbook, inventory, chosen.hosts)
    problems += [] if options.plan_only else unapproved(playbook.name, playbook)
    if problems:
        raise ConfigError(*problems)
    playbook = with_tags(playbook, origin.tags, origin.skip_tags)
    order = order_for(
        playbook,
        options,
        person,
        inputs=inputs,
        parts=parts,
        profile_inputs=origin.profile_inputs,
        inventory=inventory,
        selection=chosen,
    )
    order = at_its_place(replace(order, keeps_owed=True), options, hiding)
    diagnoses = origin.diagnose_only
    origin_now = origin_of(replace(order, reason=order.reason or origin.reason), "resume", diagnose_only=diagnoses)
    order = replace(
        order,
        origin=replace(origin_now, resumes=recorded.run, tags=origin.tags, skip_tags=origin.skip_tags),
        earlier=earlier,
        chain=tuple(recorded_run.run for recorded_run in chain),
        repeats=frozenset(options.repeat),
    )
    count = f"{plural(len(chosen.hosts), 'host')} of {_all(chain)}"
    person.say(f"run {recorded.run} of {playbook.name}: {count} to go on with")
    return perform(order, options, person, hiding)


def _selected(
    inventory: Inventory, hosts: tuple[str, ...], chain: Chain, playbook: Playbook, options: ResumeOptions
) -> Selection:
    """Return those of *hosts* that the user selects; each must be unchanged and have the same secrets.  Raises
    ConfigError.
    """
    there, wanted = {host.name for host in inventory.hosts}, hosts
    if (named := hosts_meant(inventory, options)) is not None:
        wanted = tuple(host for host in hosts if host in named)
        if not wanted:
            pattern = options.choosing.hosts
            raise ConfigError(f"--hosts {pattern}: none of these hosts is open (open: {fold(hosts)})")
    problems = []
    if gone := [name for name in wanted if name not in there]:
        message = f"{fold(gone)} of that run is not in the inventory any more"
        problems.append(Problem(message=message, hint="--hosts takes the others"))
    origins = [run.started.origin for run in chain]
    elsewhere = {name for origin in origins if origin for name in origin.hosts} - {
        name for run in chain for name in run.started.hosts
    }
    taken = [host for host in inventory.hosts if host.name in wanted]
    changes = changed_since(origins, inventory, {*wanted, *elsewhere}, playbook=playbook, hosts=taken)
    if not options.changed_inventory:
        words = [*([other_machines(changes.hosts)] if changes.hosts else []), *other_secrets(changes.secrets)]
        problems += [Problem(message=message, hint=ALL_THE_SAME) for message in words]
    if problems:
        raise ConfigError(*problems)
    return select(inventory, ",".join(wanted), include_not_ready=True)


def _refuse_undone(run: str, hosts: Sequence[str], undone: Mapping[str, str], options: ResumeOptions) -> None:
    """Raise ConfigError if the run was undone on some of *hosts*, unless ``--undone`` was given."""
    found = {undo: [host for host in hosts if undone.get(host) == undo] for undo in dict.fromkeys(undone.values())}
    problems = [
        Problem(
            message=f"run {run} was undone on {fold(names)}, by run {undo}: going on would repeat what was taken back",
            hint="--undone does so; --hosts takes the others",
        )
        for undo, names in found.items()
        if names
    ]
    if problems and not options.undone:
        raise ConfigError(*problems)


def without_undone(
    earlier: Mapping[str, tuple[EarlierChange, ...]], undone: Mapping[str, str]
) -> Mapping[str, tuple[EarlierChange, ...]]:
    """Return *earlier* without the changes that may have been undone and that a probe can check.

    The probe then decides.
    """
    return {
        host: tuple(change for change in changes if host not in undone or change.assumed or not change.verifiable)
        for host, changes in earlier.items()
    }


@contextmanager
def _claimed(folder: PrivateFolder, root: str) -> Iterator[None]:
    """Hold a lock on the run for this process.  Raises ConfigError if another process continues the run."""
    try:
        file = folder.appending(f".{root}.resumed")
    except OSError as error:
        raise ConfigError(f"{folder.path}: {error.strerror or error}") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"another `runbook resume` of run {root} is under way") from error
    finally:
        os.close(file)


def _playbook(origin: RunOrigin, options: ResumeOptions) -> Playbook:
    playbook = read_playbook(Path(origin.playbook), discover())
    if playbook.digest != origin.playbook_digest and not options.changed_playbook:
        message = f"{origin.playbook} has changed since that run, so that its steps may be others now"
        hint = "--changed-playbook goes on all the same; `runbook run` begins again"
        raise ConfigError(Problem(message=message, hint=hint))
    if origin.diagnose_only:
        return replace(playbook, remediate=(), verify=())
    return playbook


def _refuse_other_inputs(origin: RunOrigin, playbook: Playbook, options: ResumeOptions) -> None:
    """Raise ConfigError if a secret input is missing, which no record has, or if any other input is given."""
    given = values_given(options.given.inputs, options.given.inputs_file).keys()
    from_here = {each.name for each in playbook.inputs if each.env and each.env in os.environ}
    secret = {name for name, value in origin.inputs.items() if value == MASK}
    problems = [
        Problem(message=f"-e {name}: it is no secret input of that run, whose inputs stay as they were")
        for name in sorted(given - secret)
    ]
    problems += [
        Problem(
            message=f"the input {name} is secret, and not recorded",
            hint="give it again with -e NAME=VALUE or --inputs FILE",
        )
        for name in origin.secret_inputs
        if name not in given | from_here
    ]
    if problems:
        raise ConfigError(*problems)


def _hosts(chain: Chain) -> tuple[str, ...]:
    """Return the hosts that are not finished; for each host, its latest run decides."""
    last = {host: recorded for recorded in chain for host in recorded.started.hosts}
    open_in = {recorded.run: frozenset(resumable(recorded)) for recorded in chain}
    return tuple(host for host, recorded in last.items() if host in open_in[recorded.run])


def _all(chain: Chain) -> int:
    return len({host for recorded in chain for host in recorded.started.hosts})


def _no_step(option: str, name: str, known: Sequence[str]) -> Problem:
    return Problem(message=f"{option}: the playbook has no such remediate step", hint=suggest(name, known))


def _earlier(chain: Chain, playbook: Playbook, options: ResumeOptions) -> Mapping[str, tuple[EarlierChange, ...]]:
    """Return the changes of the runs of the chain; changes that ``--assume-done`` names are marked as done.

    Raises ConfigError for a step that the playbook does not have.
    """
    found = earlier_changes(chain)
    ids = [step.id for step in playbook.remediate]
    problems = [
        _no_step(f"--{option.replace('_', '-')} {name}", written_id(name), [written_id(word) for word in ids])
        for option, names in (("repeat", options.repeat), ("assume_done", options.assume_done))
        for name in names
        if written_id(name) not in ids
    ]
    if problems:
        raise ConfigError(*problems)
    taken = frozenset(options.assume_done)
    if both := taken & frozenset(options.repeat):
        raise ConfigError(f"--repeat and --assume-done name the same step: {', '.join(sorted(both))}")
    return {host: tuple(_assumed(change, taken) for change in changes) for host, changes in found.items()}


def _assumed(change: EarlierChange, taken: Collection[str]) -> EarlierChange:
    """Return *change*, marked as done if *taken* has its step, or its step with the position of its item."""
    if change.step in taken:
        return replace(change, done=True, assumed=True, position=-1)
    return replace(change, done=True, assumed=True) if f"{change.step}[{change.position}]" in taken else change
