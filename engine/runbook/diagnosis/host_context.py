"""Everything that belongs to one host during a run: playbook, inputs, connections, results."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from runbook.codec import to_json
from runbook.diagnosis.hanging_programs import HangingPrograms
from runbook.diagnosis.probe_types import PartialSamples
from runbook.diagnosis.recent_answers import RecentAnswers
from runbook.diagnosis.shared_probes import SharedProbes, no_other_hosts
from runbook.expressions.history import HistoryScope
from runbook.expressions.templates import WRITTEN_SECRETS, Scope
from runbook.lang.secret_uses import only_in_change, uses_in
from runbook.protocols import Action, Clock, Connection, Emit, KeptFiles, OwedRecords, RecordedPast
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Host
from runbook.values.playbook import Playbook, Step
from runbook.values.types import Json, Unknown

States = Mapping[str, Json | Unknown]
"""What each probe saw, by its id: the State as JSON, or Unknown where it did not answer."""


def ignore_partial(_: PartialSamples) -> None:
    """The default receiver of samples that were cut short: drops them."""


def host_variables(host: Host) -> dict[str, Json]:
    """What expressions see of *host* behind ``host.``: the fields of its file, and what follows from them."""
    return {
        **host.vars,
        "name": host.name,
        "address": host.addresses[0].host if host.addresses else host.name,
        "user": host.user,
        "status": host.status,
        "groups": to_json(host.groups),
    }


@dataclass(slots=True)
class Changes:
    """Whether this run has sent a change to the host."""

    made: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """One host, the playbook held against it, and the way there."""

    playbook: Playbook
    host: Host
    inputs: Mapping[str, Json]
    run: Mapping[str, Json]
    """Facts about the run that expressions may name: ``id``, ``playbook``, ``started_at``."""
    planned_in: Mapping[str, Json] = field(default_factory=dict)
    """The same of the run that made the saved plan which this one applies: expressions name these then."""
    actions: Mapping[str, Action]
    connection: Connection
    clock: Clock
    emit: Emit = field(repr=False)
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of every included playbook, by its prefix."""
    secrets: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, repr=False)
    """The values of the secrets of every included playbook, by its prefix; ``""``: those of the playbook itself."""
    renew: Callable[[], None] = field(default=lambda: None, repr=False)
    """Connects to the host again, once it has been away.  Raises Unreachable, and Cancelled."""
    elsewhere: Callable[[str], Connection] = no_other_hosts
    """The connection to another host, by name."""
    once: SharedProbes | None = None
    """Where the probes are that all hosts of the run share; None: there is only this one."""
    owed: OwedRecords | None = None
    """Where it is recorded which clean-ups are owed to the host; None: nowhere."""
    cut: Callable[[PartialSamples], None] = field(default=ignore_partial, repr=False)
    """Receives what a probe had seen when it was cut short."""
    earlier: tuple[EarlierChange, ...] = ()
    """What earlier runs, with which this one goes on, have sent to the host."""
    repeats: frozenset[str] = frozenset()
    """The steps that are sent again although nobody knows whether an earlier run has done them."""
    why_ended: Callable[[], str] = field(default=lambda: "", repr=False)
    """Reason to end the work on the host, in words; empty: none."""
    keeps_copies: bool = False
    """Whether the host keeps copies of the files that are changed, so that the run can be undone; needs a record."""
    files: KeptFiles | None = field(default=None, repr=False)
    """Where files that are fetched from the host are kept; None: nowhere, the run has no record."""
    past: RecordedPast | None = field(default=None, repr=False)
    """What earlier runs did to the host, and saw there; None: this command reads no records."""
    refusal: Callable[[], str] = field(default=lambda: "", repr=False)
    """Why the limits over several runs keep the host from being changed now; empty: it may be."""
    begin_change: Callable[[], str] = field(default=lambda: "", repr=False)
    """The same, right before something is sent; where it may be, that counts."""
    lock_wait: float = 60.0
    """Seconds for which to wait until another run has done with the host."""
    began: float = field(init=False, compare=False)
    """When the clock showed that this was made: nothing that is known of the host is older."""
    hangs: HangingPrograms = field(init=False, repr=False, compare=False)
    """The programs that have just not answered."""
    recent: RecentAnswers = field(init=False, repr=False, compare=False)
    """What the host has answered while its plan is made."""
    changes: Changes = field(default_factory=Changes, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hangs", HangingPrograms(self.clock))
        object.__setattr__(self, "recent", RecentAnswers(self.clock))
        object.__setattr__(self, "began", self.clock.now())

    def at(self, place: str) -> Connection:
        """The connection to the host *place*; to this one if it is empty."""
        return self.elsewhere(place) if place else self.connection

    def scope(self, states: States, part: str = "", item: Json = None) -> Scope:
        """The names that an expression may use, given what the probes saw.

        *part*: the included playbook in which the expression stands, whose own names these are then.
        """
        own, inputs = states, self.inputs
        if part:
            inputs, whole = self.parts[part], f"{part}_"
            own = {name.removeprefix(whole): state for name, state in states.items() if name.startswith(whole)}
        return Scope(
            inputs=inputs,
            host=host_variables(self.host),
            run={**(self.planned_in or self.run), "changed": self.changes.made},
            states=own,
            item=item,
            history=HistoryScope(past=self.past, host=self.host.name, part=part),
        )

    def sending_scope(self, part: str = "") -> Scope:
        """The names for what is sent: inputs, host, run, and the values of secrets, which no plan and no record holds.

        A secret that no probe needs has no value in a dry run, where what needs it is not sent.
        """
        values = ChainMap({**self.secrets.get(part, {})}, WRITTEN_SECRETS)  # type: ignore[arg-type] # only read
        return replace(self.scope({}, part), secrets=values)

    def unread_secret(self, step: Step, *, changing: bool) -> str:
        """A secret that the commands of *step* need (its probe; *changing*: its change) and that was not read."""
        own = self.secrets.get(step.part, {})
        for use in uses_in(step):
            if use.name not in own and (changing or not only_in_change(use, self.action(step))):
                return use.shown
        return ""

    def action(self, step: Step) -> Action:
        """The action of *step*; the loader has proved that there is one."""
        return self.actions[step.action]
