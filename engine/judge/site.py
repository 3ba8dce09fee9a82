"""Everything that stays the same while one host is worked on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.codec import to_json
from engine.lang.templates import Scope
from engine.ports import Action, Clock, Connection, Emit
from engine.values.inventory import Host
from engine.values.playbook import Playbook, Step
from engine.values.text import Json, Unknown

States = Mapping[str, Json | Unknown]
"""What each look saw, by its id: the State as JSON, or Unknown where it did not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
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

    def scope(self, states: States) -> Scope:
        """The names that an expression may use, given what the looks saw."""
        host: dict[str, Json] = {
            **self.host.vars,
            "name": self.host.name,
            "address": self.host.addresses[0].host if self.host.addresses else self.host.name,
            "user": self.host.user,
            "status": self.host.status,
            "groups": to_json(self.host.groups),
        }
        return Scope(inputs=self.inputs, host=host, run=self.run, looks=states)

    def action(self, step: Step) -> Action:
        """The action of *step*; the loader has proved that there is one."""
        return self.actions[step.action]
