"""Decide which owed clean-ups can run now, with which arguments, and explain why the others cannot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache
from pathlib import Path

from runbook.commands.continuing import other_machines
from runbook.commands.input_files import read_inputs_file, read_playbook, values_given
from runbook.commands.options import GivenInputs
from runbook.commands.rests_on import changed_since
from runbook.commands.secret_masking import secret_inputs, secrets_of
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.fleet import Assignment
from runbook.language.includes import inputs_of_parts
from runbook.language.inputs import faults, parse_input_option
from runbook.language.secret_uses import with_templates_of_secrets
from runbook.plugins import discover
from runbook.records.owed_record import Record, decoded, inputs_in
from runbook.records.private_folder import PrivateFolder
from runbook.secret_sources.reading import value_of
from runbook.secret_sources.resolution import resolved
from runbook.secrets.documents import secrets_in
from runbook.values.inventory import Inventory
from runbook.values.owed import NotRecorded, OwedCleanup, OwedStep
from runbook.values.playbook import Playbook, Step, Where, written_step
from runbook.values.types import Json

CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A record whose clean-up cannot run now, and the reason."""

    record: Record
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The clean-ups that can run now, keyed by host, and those that cannot."""

    assignments: Mapping[str, Assignment]
    records: SettledRecords
    refused: tuple[Refused, ...]
    secrets: tuple[str, ...] = field(repr=False)
    handed_out: tuple[str, ...] = field(default=(), repr=False)
    """The values of secrets that the steps use."""


class _Refusal(Exception):
    """The clean-up of a record cannot run now; the message gives the reason."""


class SettledRecords:
    """The records whose clean-up this run does, in the form that the executor needs."""

    def __init__(self, folder: PrivateFolder, owed: Mapping[str, Sequence[tuple[Record, Mapping[str, str]]]]) -> None:
        """Store *owed*: for each host its records, each with the ids that its steps have in this run."""
        self._folder = folder
        self._records = {(it.run, host): (it, ids) for host, records in owed.items() for it, ids in records}

    def settled_here(self, host: str) -> tuple[OwedCleanup, ...]:
        """See ``runbook.protocols.OwedRecords``."""
        return tuple(
            replace(it.cleanup, steps=tuple(replace(step, id=ids[step.id]) for step in it.steps))
            for (_, name), (it, ids) in self._records.items()
            if name == host
        )

    def gone_on_with(self, host: str) -> tuple[OwedCleanup, ...]:
        """See ``runbook.protocols.OwedRecords``."""
        return ()

    def is_open(self, cleanup: OwedCleanup) -> bool:
        """See ``runbook.protocols.OwedRecords``."""
        try:
            return self._records[cleanup.run, cleanup.host][0].name in self._folder.names()
        except OSError:
            return True

    def keep(self, cleanup: OwedCleanup) -> OwedCleanup | NotRecorded:
        """Update the record to the steps that *cleanup* still has."""
        record, ids = self._records[cleanup.run, cleanup.host]
        left = {step.id for step in cleanup.steps}
        if self.is_open(cleanup):
            with suppress(OSError):  # then it names one step too many, whose probe will find nothing to do
                steps = tuple(step for step in record.steps if ids[step.id] in left)
                self._folder.write(record.name, replace(record, steps=steps).text())
        return cleanup

    def drop(self, cleanup: OwedCleanup) -> None:
        """See ``runbook.protocols.OwedRecords``."""
        with suppress(OSError):
            self._folder.remove(self._records[cleanup.run, cleanup.host][0].name)

    def open_hosts(self) -> frozenset[str]:
        """Return the hosts to which clean-up of these records is still owed."""
        return frozenset(host for _, host in self._records if any(map(self.is_open, self.settled_here(host))))


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenAgain:
    """Inputs that no record holds, and that a command line must therefore give again."""

    options: tuple[str, ...] = ()
    """The inputs as typed: ``NAME=VALUE``."""
    values: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """The inputs from a file; ``options`` override them."""
    places: Mapping[str, Where] = field(default_factory=dict)
    """The places of these inputs in the file."""


_ALL_THE_SAME = "`runbook settle --changed-inventory` takes it all the same"


class Settling:
    """Prepares the steps for records one after the other; for each host, from the latest record to the earliest."""

    def __init__(
        self,
        inventory: Inventory,
        given: GivenAgain,
        *,
        force: bool,
        changed_inventory: bool = False,
        changes: bool = True,
    ) -> None:
        """Store *inventory* and the inputs *given*.

        *changes*: hosts may be changed.  *changed_inventory*: a host may have another entry than in the earlier run.
        """
        self._hosts = {host.name for host in inventory.hosts if not host.placeholder}
        self._given, self._force, self._may_be_others = given, force, changed_inventory
        self._playbooks: dict[str, Playbook | str] = {}
        self._steps: dict[str, list[Step]] = {}
        self._parts: dict[str, dict[str, Mapping[str, Json]]] = {}
        self._owed: dict[str, list[tuple[Record, Mapping[str, str]]]] = {}
        self._secrets: list[str] = []
        self._inventory, self._changes = inventory, changes
        self._read = cache(value_of)
        self._values: dict[str, dict[str, Mapping[str, Json]]] = {}
        self._handed_out: list[str] = []

    def prepared(self, records: Sequence[Record], folder: PrivateFolder) -> Prepared:
        """Prepare the steps for *records*.  Raises ConfigError for secrets that are missing, or that no record
        needs.
        """
        refused: list[Refused] = []
        problems: list[Problem] = _given_in_vain(self._given, records)
        for record in sorted(records, key=lambda it: (it.since, it.run), reverse=True):
            try:
                self._add(record)
            except _Refusal as error:
                refused.append(Refused(record=record, why=str(error)))
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(*dict.fromkeys(problems))
        made = {
            host: Assignment(
                playbook=Playbook(name="settle", remediate=tuple(steps)),
                parts=self._parts[host],
                secrets=self._values.get(host, {}),
            )
            for host, steps in self._steps.items()
        }
        return Prepared(
            assignments=made,
            records=SettledRecords(folder, self._owed),
            refused=tuple(refused),
            secrets=tuple(self._secrets),
            handed_out=tuple(dict.fromkeys(self._handed_out)),
        )

    def _add(self, record: Record) -> None:
        """Add the steps for *record*.  Raises _Refusal, and ConfigError for inputs that the command line lacks."""
        if record.host not in self._hosts:
            raise _Refusal("no host of this name (with an address) is in the inventory any more")
        if withheld := next((owed_step for owed_step in record.steps if owed_step.withheld), None):
            raise _Refusal(f"the step {withheld.id} is not recorded in full: {withheld.withheld}")
        playbook = self._playbook(record)
        written = [self._written(owed_step, record, playbook) for owed_step in record.steps]
        self._refuse_changes(record, playbook, written)
        inputs = self._inputs(record, playbook, written)
        try:
            own = record.rests_on.profile_inputs.get(record.host, {})
            parts = inputs_of_parts(playbook, {**inputs, **own.get(playbook.name, {})}, own)
        except ConfigError as error:
            raise _Refusal(f"the inputs do not fit the playbook: {error}") from error
        values = self._secret_values(record.host, playbook, written)
        taken, ids = {each.id for each in self._steps.get(record.host, ())}, {}
        for owed, step in zip(record.steps, written, strict=True):
            ids[owed.id] = f"{owed.id}@{record.run}" if owed.id in taken else owed.id
            part = f"{record.run}/{step.part}"
            given = {name: decoded(value, inputs) for name, value in owed.args.items()}
            args = {name: with_templates_of_secrets(step.args.get(name), value) for name, value in given.items()}
            alone = _alone(replace(step, id=ids[owed.id], on=owed.on, become=owed.become, args=args, part=part))
            self._steps.setdefault(record.host, []).append(alone)
            self._parts.setdefault(record.host, {})[part] = parts[step.part]
            self._values.setdefault(record.host, {})[part] = values.get(step.part, {})
        self._owed.setdefault(record.host, []).append((record, ids))

    def _secret_values(
        self, host: str, playbook: Playbook, written: Sequence[Step]
    ) -> Mapping[str, Mapping[str, Json]]:
        """Return the values of the secrets that the steps *written* use on *host*, keyed by part.  Raises
        ConfigError.
        """
        alone = replace(playbook, diagnose=(), remediate=tuple(written), verify=())
        hosts = [each for each in self._inventory.hosts if each.name == host]
        found = resolved(alone, self._inventory, hosts, discover(), changes=self._changes, read=self._read)
        self._handed_out += found.masked
        return found.of(host)

    def _refuse_changes(self, record: Record, playbook: Playbook, written: Sequence[Step]) -> None:
        """Raise _Refusal if a host may be another machine now, or if a secret of the steps *written* has another
        place.
        """
        if self._may_be_others:
            return
        alone = replace(playbook, diagnose=(), remediate=tuple(written), verify=())
        hosts = [host for host in self._inventory.hosts if host.name == record.host]
        names = record.rests_on.hosts
        changes = changed_since([record.rests_on], self._inventory, names, playbook=alone, hosts=hosts)
        if changes.hosts:
            raise _Refusal(f"{other_machines(sorted(changes.hosts))}; {_ALL_THE_SAME}")
        if changes.secrets:
            words = f"the inventory has the secret {', '.join(changes.secrets)} elsewhere than in that run"
            raise _Refusal(f"{words}; {_ALL_THE_SAME}")

    def _playbook(self, record: Record) -> Playbook:
        if record.rests_on.playbook not in self._playbooks:
            try:
                self._playbooks[record.rests_on.playbook] = read_playbook(Path(record.rests_on.playbook), discover())
            except ConfigError as error:
                self._playbooks[record.rests_on.playbook] = str(error)
        found = self._playbooks[record.rests_on.playbook]
        if isinstance(found, str):
            raise _Refusal(f"its playbook cannot be read: {found}")
        if found.digest != record.rests_on.playbook_digest and not self._force:
            path = record.rests_on.playbook
            raise _Refusal(f"{path} has changed since that run; --force takes its steps as they are now")
        return found

    def _written(self, owed: OwedStep, record: Record, playbook: Playbook) -> Step:
        try:
            step = written_step(playbook.remediate, owed.id)
        except KeyError as error:
            raise _Refusal(f"{record.rests_on.playbook} has no step {owed.id} any more") from error
        if step.action != owed.action or not step.always:
            raise _Refusal(f"the step {owed.id} of {record.rests_on.playbook} is another one now")
        if owed.on and owed.on != CONTROLLER and owed.on not in self._hosts:
            words = f"{owed.id} is for the host {owed.on}"
            raise _Refusal(f"{words}, and no host of this name is in the inventory any more")
        return step

    def _given_again(self, record: Record, playbook: Playbook) -> dict[str, Json]:
        """Return the secret inputs of the run in *record*: from the environment, a file, or the command line."""
        wanted = {*record.rests_on.secret_inputs} & {declared.name for declared in playbook.inputs}
        variables = {declared.name: os.environ.get(declared.env or "") for declared in playbook.inputs}
        given: dict[str, Json] = {name: value for name, value in variables.items() if name in wanted and value}
        given |= {name: value for name, value in self._given.values.items() if name in wanted}
        for option in self._given.options:
            if option.partition("=")[0] in wanted:
                name, value = parse_input_option(option, playbook)
                given[name] = value
        return given

    def _inputs(self, record: Record, playbook: Playbook, written: Sequence[Step]) -> Mapping[str, Json]:
        """Return the inputs of the run in *record*: the recorded values, else the values given now, else the defaults.

        *written*: the steps of the playbook that are owed.
        """
        declared = {each.name: each for each in playbook.inputs}
        given = self._given_again(record, playbook)
        named = {name for owed_step in record.steps for name in inputs_in(owed_step.args)}
        if foreign := sorted(named - declared.keys()):
            raise _Refusal(f"the playbook has no input {foreign[0]} any more")
        needed = named & {*record.rests_on.secret_inputs}
        if any("{{" in text for step in written for text in (step.cwd, *(value for _, value in step.env))):
            needed |= {*record.rests_on.secret_inputs}
        if missing := sorted(needed - given.keys()):
            words = (
                f"run {record.run} of {record.playbook} was given {', '.join(missing)}, and secrets are not recorded"
            )
            give = " ".join(f"-e {word}=..." for word in missing)
            hint = f"runbook settle --hosts {record.host} {give}, or --inputs FILE"
            raise ConfigError(Problem(message=words, hint=hint))
        wrong = [f"input {name}: {words}" for name, value in given.items() for words in faults(declared[name], value)]
        if wrong:
            raise ConfigError(*wrong)
        inputs = {name: record.rests_on.inputs.get(name, it.default) for name, it in declared.items()} | given
        secret = {name for name, it in declared.items() if it.hides(inputs[name])} | secret_inputs(playbook)
        self._secrets += (*secrets_of(playbook), *secrets_in({"secret": [inputs.get(word) for word in sorted(secret)]}))
        self._secrets += secrets_in({"secret": list(given.values())})
        return inputs


def given_for_playbook(playbook: Playbook, given: GivenInputs, records: Sequence[Record]) -> GivenAgain:
    """Return the secret inputs of *records* that a command line for *playbook* gives."""
    digests = {record.rests_on.playbook_digest for record in records}
    known = digests <= {playbook.digest}  # else an input of that name is another
    secret = {name for record in records for name in record.rests_on.secret_inputs} if known else set()
    of_file = values_given((), given.inputs_file)
    return GivenAgain(
        options=tuple(option for option in given.inputs if option.partition("=")[0] in secret),
        values={name: value for name, value in of_file.items() if name in secret},
    )


def given_for(given: GivenInputs, records: Sequence[Record]) -> GivenAgain:
    """Return the secret inputs of *records* that the command line gives again.  Raises ConfigError."""
    if not given.inputs_file:
        return GivenAgain(options=given.inputs)
    names = sorted({name for record in records for name in record.rests_on.secret_inputs})
    values, places = read_inputs_file(given.inputs_file, names, "what is owed")
    return GivenAgain(options=given.inputs, values=values, places=places)


def _given_in_vain(given: GivenAgain, records: Sequence[Record]) -> list[Problem]:
    """Return the mistakes in inputs that are given again: only secret inputs, which no record holds, may be given."""
    known = sorted({name for record in records for name in record.rests_on.secret_inputs})
    problems = []
    for name, at in given.places.items():
        if name not in known:
            words, near = f"{name}: no owed step needs it", f"only these are to be given: {', '.join(known)}"
            problems.append(Problem(file=at.file, line=at.line, column=at.column, message=words, hint=near))
    for option in given.options:
        name, sign, _ = option.partition("=")
        if not sign:
            problems.append(Problem(message=f"-e {name}: expected NAME=VALUE"))
        elif name not in known:
            hint = f"only these are to be given: {', '.join(known)}" if known else "all inputs are recorded"
            problems.append(Problem(message=f"-e {name}: no owed step needs it", hint=hint))
    return problems


def _alone(step: Step) -> Step:
    """Return *step* without its dependencies on other steps and findings."""
    return replace(step, when="", for_=(), after=(), if_changed=(), if_failed=(), each="", left_out="", tags=())
