"""Everything that belongs to one host during a run: playbook, inputs, connections, earlier changes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace

from runbook.codec import to_json
from runbook.dataclass import dataclass
from runbook.execution.diagnosis.probe_types import PartialSamples
from runbook.execution.diagnosis.shared_probes import SharedProbes, no_other_hosts
from runbook.language.expressions.history import HistoryScope
from runbook.language.expressions.templates import WRITTEN_SECRETS, Scope
from runbook.language.secret_uses import only_in_change, uses_in
from runbook.protocols import Action, Clock, Connection, Emit, KeptFiles, OwedRecords, Permits, RecordedPast
from runbook.values.command import Command, Completed, Effect
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Host
from runbook.values.playbook import Playbook, Step
from runbook.values.types import Json, Unknown


@dataclass(frozen=True, slots=True)
class RecentAnswer:
    """The answer of a host to a command, its number, and the time when the command was sent."""

    answer: Completed
    number: int
    """The position among all answers of the host: a probe that asks twice needs a later answer the second time."""
    at: float
    """The time on the clock when the command was sent."""


class RecentAnswers:
    """The answers to commands with ``valid_for``, keyed by the host that was asked and the command."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, Command], list[RecentAnswer]] = {}
        self._count = 0
        self._planning = self._lasting = False

    @contextmanager
    def while_planning(self) -> Iterator[None]:
        """Keep answers within this context; forget them at its end, unless the plan is carried out at once."""
        self._planning = True
        try:
            yield
        finally:
            self._planning = False
            if not self._lasting:
                self.forget()

    @contextmanager
    def while_carried_out_at_once(self) -> Iterator[None]:
        """Keep the answers of planning for the steps of the plan; forget them at the end of this context."""
        self._lasting = True
        try:
            yield
        finally:
            self._lasting = False
            self.forget()

    def note(self, place: str, command: Command, answer: Completed, sent: float) -> int:
        """Keep *answer* to *command*, if a plan is being made; return the number of the answer.

        *sent*: the time when *command* was sent.
        """
        self._count += 1
        if self._planning and command.valid_for and command.effect is Effect.READ and answer.exit_code == 0:
            self._kept.setdefault((place, _question(command)), []).append(RecentAnswer(answer, self._count, sent))
        return self._count

    def known(self, place: str, command: Command, after: int) -> RecentAnswer | None:
        """Return the first answer to *command* that is still valid and has a number above *after*; None if there is
        none.

        The first answer is taken so that two probes which ask twice get the same two answers.
        """
        oldest = self._clock.now() - command.valid_for
        kept = self._kept.get((place, _question(command)), ())
        return next((answer for answer in kept if answer.number > after and answer.at >= oldest), None)

    def forget(self) -> None:
        """Drop every answer, so that each later command is sent to the host."""
        self._kept.clear()


def _question(command: Command) -> Command:
    """Return *command* without the fields that do not affect its answer."""
    return replace(command, timeout=0.0, owed=False)


RESTS = 60.0
"""Seconds in which a program that did not answer is not asked again; a change ends this time early."""


@dataclass(frozen=True, slots=True)
class _Hang:
    at: float
    patience: float
    """The seconds that the program had to answer."""
    answer: Completed


class HangingPrograms:
    """The programs that did not answer in time, keyed by the host that was asked and the program
    (``Command.hangs``).
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._noted: dict[tuple[str, str], _Hang] = {}

    def note(self, place: str, command: Command, answer: Completed) -> None:
        """Remember the program of *command* as hanging if *answer* timed out; forget it if the program answered."""
        if not command.hangs:
            return
        if answer.timed_out:
            silent = Completed(exit_code=None, timed_out=True, seconds=answer.seconds)
            self._noted[place, command.hangs] = _Hang(self._clock.now(), command.timeout, silent)
        elif not answer.refused:
            self._noted.pop((place, command.hangs), None)

    def known(self, place: str, command: Command) -> Completed | None:
        """Return the recent timeout of the program of *command*, instead of waiting for it again; None: send the
        command.
        """
        noted = self._noted.get((place, command.hangs))
        if noted is None or command.effect is not Effect.READ or command.timeout > noted.patience:
            return None
        return noted.answer if self._clock.now() - noted.at <= RESTS else None

    def forget(self) -> None:
        """Forget all hanging programs, so that each command is sent again."""
        self._noted.clear()


States = Mapping[str, Json | Unknown]
"""The state of each probe, keyed by probe id: the State as JSON, or Unknown if the probe did not answer."""


def ignore_partial(_: PartialSamples) -> None:
    """Drop samples that were cut short; the default for ``HostContext.cut``."""


def host_variables(host: Host) -> dict[str, Json]:
    """Return the values of ``host.`` in expressions: the variables of the inventory, and name, address, user and so
    on.
    """
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
class RunContext:
    """The values that all hosts of a run share; made once for the run."""

    inputs: Mapping[str, Json]
    facts: Mapping[str, Json]
    """The values behind ``run.`` in expressions: ``id``, ``playbook``, ``started_at``; and ``by``, the user who
    started it."""
    planned_in: Mapping[str, Json] = field(default_factory=dict)
    """The facts of the run that made the saved plan, if this run applies one: expressions see these facts instead."""
    actions: Mapping[str, Action]
    emit: Emit = field(repr=False)
    """Called from many threads at once."""
    once: SharedProbes | None = None
    """The probes that all hosts share; None: there is only one host."""
    owed: OwedRecords | None = None
    """Records the clean-up that is owed to hosts; None: it is not recorded."""
    files: KeptFiles | None = field(default=None, repr=False)
    """Keeps the files that are fetched from hosts; None: the run has no record."""
    past: RecordedPast | None = field(default=None, repr=False)
    """The changes and observations of earlier runs on hosts; None: this command reads no records."""
    repeats: frozenset[str] = frozenset()
    """The steps that are sent again although their outcome in an earlier run is unknown."""
    keeps_copies: bool = False
    """Whether hosts keep copies of the files that are changed, so that the run can be undone; needs a record."""
    wait_lock: float = 60.0
    """The seconds to wait for another run to finish with a host."""
    permits: Permits | None = field(default=None, repr=False)
    """Permits each write; None: this process alone works on the hosts of the run."""
    attempt: str = ""
    """The end of the name of this process's locks: others work for the same run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostContext:
    """One host of a run, its playbook, and the connection to it."""

    run: RunContext
    playbook: Playbook
    host: Host
    connection: Connection
    clock: Clock
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of every included playbook, keyed by its prefix."""
    secrets: Mapping[str, Mapping[str, Json]] = field(default_factory=dict, repr=False)
    """The secrets of every included playbook, keyed by its prefix; ``""``: those of the playbook itself."""
    renew: Callable[[], None] = field(default=lambda: None, repr=False)
    """Connects to the host again after the connection was lost.  Raises Unreachable, and Cancelled."""
    elsewhere: Callable[[str], Connection] = no_other_hosts
    """Returns the connection to another host, which is given by its name."""
    cut: Callable[[PartialSamples], None] = field(default=ignore_partial, repr=False)
    """Receives the samples of a probe that was cut short."""
    earlier: tuple[EarlierChange, ...] = ()
    """The changes that the earlier runs which this run continues have sent to the host."""
    why_ended: Callable[[], str] = field(default=lambda: "", repr=False)
    """Gives the reason to end the work on the host; empty: there is no reason."""
    refusal: Callable[[], str] = field(default=lambda: "", repr=False)
    """Gives the reason why the limits over several runs forbid a change of the host; empty: a change is allowed."""
    begin_change: Callable[[], str] = field(default=lambda: "", repr=False)
    """Records that a change begins, right before it is sent; returns the reason if it is forbidden."""
    began: float = field(init=False, compare=False)
    """The time on the clock when this object was made: all knowledge about the host is newer."""
    hangs: HangingPrograms = field(init=False, repr=False, compare=False)
    """The programs that did not answer in time recently."""
    recent: RecentAnswers = field(init=False, repr=False, compare=False)
    """The recent answers of the host, while its plan is made."""
    changes: Changes = field(default_factory=Changes, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hangs", HangingPrograms(self.clock))
        object.__setattr__(self, "recent", RecentAnswers(self.clock))
        object.__setattr__(self, "began", self.clock.now())

    def at(self, place: str) -> Connection:
        """Return the connection to the host named *place*; if *place* is empty, the connection to this host."""
        return self.elsewhere(place) if place else self.connection

    def scope(self, states: States, part: str = "", item: Json = None) -> Scope:
        """Return the names that an expression may use, with the states of probes.

        *part*: the included playbook that contains the expression; empty: the playbook itself.  The expression then
        uses
        the inputs and probes of the included playbook.
        """
        own, inputs = states, self.parts.get("", self.run.inputs)
        if part:
            inputs, whole = self.parts[part], f"{part}_"
            own = {name.removeprefix(whole): state for name, state in states.items() if name.startswith(whole)}
        return Scope(
            inputs=inputs,
            host=host_variables(self.host),
            run={**(self.run.planned_in or self.run.facts), "changed": self.changes.made},
            states=own,
            item=item,
            history=HistoryScope(past=self.run.past, host=self.host.name, part=part),
            let=self.playbook.let_of(part),
        )

    def sending_scope(self, part: str = "") -> Scope:
        """Return the names that a command may use when it is sent: inputs, host, run, and the values of secrets.

        No plan and no record contains these values.  In a dry run, a secret that no probe needs has no value.
        """
        values = ChainMap({**self.secrets.get(part, {})}, WRITTEN_SECRETS)  # type: ignore[arg-type] # only read
        return replace(self.scope({}, part), secrets=values)

    def unread_secret(self, step: Step, *, changing: bool) -> str:
        """Return the name of a secret that *step* needs and that was not read; empty if there is none.

        Without *changing*, only the secrets that the probe of *step* needs count.
        """
        own = self.secrets.get(step.part, {})
        for use in uses_in(step):
            if use.name not in own and (changing or not only_in_change(use, self.action(step))):
                return use.shown
        return ""

    def action(self, step: Step) -> Action:
        """Return the action of *step*; the loader has checked that it exists."""
        return self.run.actions[step.action]
