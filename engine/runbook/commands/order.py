"""The order of a run: its playbook, hosts and options, and the secrets among its inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from typing import Protocol

from runbook.commands.secret_masking import secret_inputs, secrets_of
from runbook.dataclass import dataclass
from runbook.execution.fleet import Assignment, Fleet
from runbook.execution.guards import TimeLimit
from runbook.protocols import ConnectOptions, KeptFiles, OwedRecords, RecordedPast
from runbook.secret_sources.resolution import SecretValues
from runbook.secrets.documents import secrets_in
from runbook.secrets.masking import Masking, masked
from runbook.values.earlier_change import EarlierChange
from runbook.values.event import Event
from runbook.values.inventory import Inventory, Selection
from runbook.values.playbook import Playbook
from runbook.values.run_origin import InputsByPlaybook, RunOrigin
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a run: its playbook, hosts and options."""

    playbook: Playbook
    inputs: Mapping[str, Json]
    inventory: Inventory
    selection: Selection
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of included playbooks, keyed by prefix."""
    profile_inputs: Mapping[str, InputsByPlaybook] = field(default_factory=dict)
    """The inputs that profiles give hosts in place of these, keyed by host; they are in *assignments*, too."""
    secret_values: SecretValues = field(default_factory=SecretValues, repr=False)
    parallel: int = 32
    force: bool = False
    reads_only: bool = False
    """Whether every connection of the run refuses commands that write, beside the guards of its parts."""
    timeout: float = 0.0
    """The timeout in seconds for probes that have none."""
    deadline: float = 0.0
    time_limit: TimeLimit | None = field(default=None, repr=False)
    """The time at which probes are given up; None: each has only its own timeout."""
    wait_lock: float = 60.0
    """The seconds to wait for another run to finish with a host."""
    detailed_exit_code: bool = False
    assignments: Mapping[str, Assignment] = field(default_factory=dict)
    """The playbooks and inputs of hosts that have their own, keyed by host."""
    secrets: tuple[str, ...] = ()
    """Further secrets, which are masked in everything that is shown."""
    settles: OwedRecords | None = None
    """The records of earlier runs whose clean-up this run does."""
    keeps_owed: bool = False
    """Whether owed clean-up is recorded, and that of earlier runs is named."""
    planned_in: Mapping[str, Json] = field(default_factory=dict)
    """The run that ``run.`` means in expressions, if a saved plan is applied: the run that made the plan."""
    options: ConnectOptions = field(default_factory=ConnectOptions)
    reason: str = ""
    """The reason of the run, for its record."""
    origin: RunOrigin | None = None
    earlier: Mapping[str, tuple[EarlierChange, ...]] = field(default_factory=dict)
    """The changes that the runs which this run continues have sent, keyed by host."""
    chain: tuple[str, ...] = ()
    """The ids of these runs, the first run first."""
    repeats: frozenset[str] = frozenset()
    """The steps that are sent again although their outcome in these runs is unknown."""
    remote: Callable[[Fleet, Order, str, datetime], Fleet] | None = field(default=None, repr=False)
    """Returns the hosts of the run with the id and the start, worked on by others; None: this process works on them."""
    debug: Callable[[str], None] | None = field(default=None, repr=False)
    """Writes a line of the debug log; None: there is none."""
    past: Callable[[str, str], RecordedPast] | None = field(default=None, repr=False)
    """Returns the records of earlier runs for the run with an id; None: this command reads no records."""


class Recorder(Protocol):
    """The recorder of the events of a run."""

    def on(self, event: Event) -> None:
        """Record *event*.  Raises RecordLost if the event must not happen without a record."""
        ...

    def files(self, mask: Callable[[str], str]) -> KeptFiles:
        """Return the store for the files that the run fetches; *mask* removes secrets from them."""
        ...

    def close(self) -> None:
        """Stop recording.  Never raises."""
        ...


Record = Callable[[str], Recorder | None]
"""Returns the recorder of the run with an id; None: the run is not recorded."""


def no_record(_: str) -> None:
    """Return None: the run is not recorded."""


def hidden_inputs(order: Order) -> frozenset[str]:
    """Return the inputs whose values must not be shown."""
    hidden = {each.name for each in order.playbook.inputs if each.hides(order.inputs.get(each.name))}
    return frozenset(hidden) | secret_inputs(order.playbook)


def secrets_of_order(order: Order) -> tuple[str, ...]:
    """Return every secret of a run of *order*; they are masked in everything that is shown."""
    password = order.options.become_password
    return (
        *order.inventory.secrets,
        *secrets_of(order.playbook),
        *secret_values_of_inputs(order),
        *((password.secret,) if password else ()),
        *order.options.passphrases.values(),
        *order.secrets,
        *order.secret_values.masked,
    )


def secret_inputs_of(order: Order) -> frozenset[str]:
    """Return the inputs that must not be recorded: secret inputs, and inputs whose values contain another secret."""
    mask, hidden = Masking(secrets_of_order(order)), hidden_inputs(order)
    telling = {name for name, value in order.inputs.items() if masked({"input": value}, mask) != {"input": value}}
    return hidden | telling


def secret_values_of_inputs(order: Order) -> list[str]:
    """Return the values of all secret inputs, also of included playbooks, and the secrets inside other values."""
    placed = secret_inputs(order.playbook)
    given = [(each, order.inputs.get(each.name), each.name in placed) for each in order.playbook.inputs]
    for part in order.playbook.parts:
        placed = secret_inputs(order.playbook, part.id)
        given += [(each, order.parts[part.id].get(each.name), each.name in placed) for each in part.inputs]
    return [
        text
        for declared, value, secret in given
        for text in secrets_in({"secret": value} if secret or declared.hides(value) else {"input": value})
    ]
