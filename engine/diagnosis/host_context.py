"""Everything that stays the same while one host is worked on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from engine.codec import to_json
from engine.diagnosis.hanging_programs import HangingPrograms
from engine.diagnosis.probe_types import PartialSamples
from engine.diagnosis.shared_probes import SharedProbes, no_other_hosts
from engine.expressions.templates import Scope
from engine.protocols import Action, Clock, Connection, Emit
from engine.values.inventory import Host
from engine.values.playbook import Playbook, Step
from engine.values.types import Json, Unknown

States = Mapping[str, Json | Unknown]
"""What each look saw, by its id: the State as JSON, or Unknown where it did not answer."""


def ignore_partial(_: PartialSamples) -> None:
    """Who is informed where nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """One host, the playbook held against it, and the way there."""

    playbook: Playbook
    host: Host
    inputs: Mapping[str, Json]
    run: Mapping[str, Json]
    """Facts about the run that expressions may name: ``id``, ``playbook``, ``started_at``."""
    actions: Mapping[str, Action]
    connection: Connection
    clock: Clock
    emit: Emit = field(repr=False)
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of every included playbook, by its prefix."""
    elsewhere: Callable[[str], Connection] = no_other_hosts
    """The connection to another host, by name."""
    once: SharedProbes | None = None
    """Where the looks are that all hosts of the run share; None: there is only this one."""
    cut: Callable[[PartialSamples], None] = field(default=ignore_partial, repr=False)
    """Receives what a look had seen when it was cut short."""
    hangs: HangingPrograms = field(init=False, repr=False, compare=False)
    """The programs that have just not answered."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "hangs", HangingPrograms(self.clock))

    def at(self, place: str) -> Connection:
        """The connection to the host *place*; to this one if it is empty."""
        return self.elsewhere(place) if place else self.connection

    def scope(self, states: States, part: str = "", item: Json = None) -> Scope:
        """The names that an expression may use, given what the looks saw.

        *part*: the included playbook in which the expression stands, whose own names these are then.
        """
        host: dict[str, Json] = {
            **self.host.vars,
            "name": self.host.name,
            "address": self.host.addresses[0].host if self.host.addresses else self.host.name,
            "user": self.host.user,
            "status": self.host.status,
            "groups": to_json(self.host.groups),
        }
        if not part:
            return Scope(inputs=self.inputs, host=host, run=self.run, looks=states, item=item)
        own = {name.removeprefix(f"{part}_"): it for name, it in states.items() if name.startswith(f"{part}_")}
        return Scope(inputs=self.parts[part], host=host, run=self.run, looks=own, item=item)

    def action(self, step: Step) -> Action:
        """The action of *step*; the loader has proved that there is one."""
        return self.actions[step.action]
