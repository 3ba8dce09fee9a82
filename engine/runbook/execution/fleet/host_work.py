"""Work on one host: connect, make the plan, carry it out; every failure becomes a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from types import MappingProxyType

from runbook.dataclass import dataclass
from runbook.errors import Cancelled, ConnectionLost, TransportError
from runbook.execution.diagnosis import HostContext, OtherHosts, verdict
from runbook.execution.diagnosis.comparing import Candidate, Offers, compared, offers_of
from runbook.execution.diagnosis.diagnose import Diagnosis
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.diagnosis.probe_types import PartialSamples
from runbook.execution.diagnosis.shared_probes import no_other_hosts
from runbook.execution.executor import Consent, execute
from runbook.execution.executor.cancellation import Cancellation, HostCancellation
from runbook.execution.fleet.change_limits import ChangeLimits
from runbook.execution.planner import make_plan
from runbook.protocols import Clock, Connection
from runbook.values.command import Command, Completed, Effect
from runbook.values.earlier_change import EarlierChange
from runbook.values.event import HostPlanned
from runbook.values.inventory import Host
from runbook.values.kept_output import kept, kept_plan
from runbook.values.owed import Owed
from runbook.values.plan import Finding
from runbook.values.playbook import Phase, Playbook
from runbook.values.result import HostPlan, HostResult, Sent, Status, StepResult, Verdict
from runbook.values.types import Json

Spent = tuple[tuple[Command, ...], float]


class Renewable:
    """A connection that can be opened again after the host was not reachable.

    *spent*: commands during which an earlier connection was lost, and the seconds that they had run.  If these commands
    are sent again, their timeout is shortened by that time, once.
    """

    def __init__(
        self, connect: Callable[[], Connection], spent: Spent = ((), 0.0), now: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._connect, self._before, self._now = connect, spent, now
        self._inner = connect()
        self.spent = spent

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*."""
        sent, began = commands, self._now()
        if commands == self._before[0]:
            sent = tuple(
                replace(command, timeout=command.timeout and max(1.0, command.timeout - self._before[1]))
                for command in commands
            )
            self._before = (), 0.0
        try:
            return self._inner.run(*sent)
        except ConnectionLost:
            self.spent = commands, self._now() - began
            raise

    def renew(self) -> None:
        """Close the connection, and open a new one.  Raises Unreachable."""
        self._inner.close()
        self._inner = self._connect()

    def close(self) -> None:
        """Close the connection."""
        self._inner.close()


@dataclass(frozen=True, slots=True)
class UntilDeadline:
    """A connection that sends only owed commands once the host's own deadline has passed."""

    inner: Connection
    own: HostCancellation

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*.  Raises Cancelled; its text names the deadline of the host if that is the reason."""
        if self.own.passed and not all(command.owed for command in commands):
            raise Cancelled(f"{self.own.why}; not sent any more: {commands[0].brief()}")
        try:
            return self.inner.run(*commands)
        except Cancelled as error:
            if not self.own.is_why:
                raise
            raise Cancelled(f"{self.own.why}: {error}", sent=error.sent) from error

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()


@dataclass(slots=True)
class WithoutTurn:
    """A connection to a host that must not be changed yet: probes are sent, changes are refused."""

    inner: Connection
    asked: bool = False
    """Whether a change was refused."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* if none of them changes the host; otherwise remember the request.  Raises Cancelled."""
        for command in commands:
            if command.effect is Effect.WRITE:
                self.asked = True
                raise Cancelled(f"not sent, because the host's turn has not come: {command.brief()}")
        return self.inner.run(*commands)

    def close(self) -> None:
        """Close the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class HostClock:
    """A clock on which no sleep lasts longer than the host's own deadline."""

    inner: Clock
    own: HostCancellation

    def now(self) -> float:
        """Return the time in seconds."""
        return self.inner.now()

    def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*; return early if the run is asked to end, or if the host's deadline passes."""
        self.inner.sleep(min(seconds, max(0.0, self.own.left())))


Cut = dict[str, PartialSamples]
"""The samples of probes that were cut short, keyed by probe id."""

MayChange = Callable[[], bool]
"""Returns whether the change of a host may begin now; if not, the host waits for its turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A host with its plan and the diagnosis of that plan; or a host that already has its result."""

    host: Host
    plan: HostPlan | None = None
    seen: Diagnosis | None = None
    offers: Offers | None = None
    """The values of the host for the findings that compare hosts; None: it was not probed."""
    result: HostResult
    """The result of the host if nothing more is done."""
    waits: bool = False
    """Whether the host needs a change, but its turn has not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The playbook and the values of one host, if they differ from host to host."""

    playbook: Playbook
    parts: Mapping[str, Mapping[str, Json]]
    """The inputs, keyed by part; the playbook's own are those of ``""``, or else those of the run."""
    secrets: Mapping[str, Mapping[str, Json]] | None = field(default=None, repr=False)
    """The values of secrets, keyed by part; None: those that the run has for the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """The work on the hosts of a run, and everything that it needs."""

    run: RunContext
    playbook: Playbook
    connect: Callable[[Host], Connection]
    clock: Clock
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of every included playbook, keyed by its prefix."""
    secrets: Callable[[str], Mapping[str, Mapping[str, Json]]] = field(default=lambda _: {}, repr=False)
    """Returns the values of secrets for a host, keyed by the prefix of the included playbook that uses them."""
    assignments: Mapping[str, Assignment] = field(default_factory=dict)
    """The playbook and values of hosts that have their own, keyed by host."""
    elsewhere: OtherHosts | None = None
    """The connections to the hosts that steps name with ``on``."""
    owing: Callable[[str], tuple[Owed, ...]] = field(default=lambda _: (), repr=False)
    """Returns the clean-up that is known to be owed to a host."""
    stop: Cancellation
    force: bool = False
    earlier: Mapping[str, tuple[EarlierChange, ...]] = field(default_factory=dict)
    """The changes that the earlier runs which this run continues have sent, keyed by host."""
    change_limits: ChangeLimits | None = field(default=None, repr=False)
    """The limits on changes that count earlier runs; None: there are none."""

    def planned(self, host: Host) -> Planned:
        """Return the plan of *host*; only probes are sent."""
        return self._guarded(host, lambda cut, began: self._planned(host, began, cut))

    def carried_out(self, planned: Planned, consent: Consent, *, turn: bool = True) -> Planned:
        """Do what the plan shows, or less.  *turn*: the host may be changed now."""

        def work(cut: Cut, began: float) -> Planned:
            with self._connected(planned.host) as connection:
                context = self._context(planned.host, connection, cut)
                go = self._execute if turn else self._watch
                return go(context, planned, consent, began)

        return self._guarded(planned.host, work)

    def planned_and_carried_out(self, host: Host, consent: Consent, may_change: MayChange | None) -> Planned:
        """Plan a host and execute the plan, which is based on a fresh probe.

        *may_change*: None if the host may be changed at any time.  The returned host ``waits`` if it needs a change
        that is not allowed yet.
        """
        return self._guarded(host, lambda cut, began: self._both(host, consent, began, cut, may_change))

    def playbook_of(self, host: str) -> Playbook:
        """Return the playbook for *host*."""
        return self.assignments[host].playbook if host in self.assignments else self.playbook

    def _context(self, host: Host, line: Renewable, cut: Cut) -> HostContext:
        own, assigned = self.stop.of(host.name), self.assignments.get(host.name)
        elsewhere = self.elsewhere.to if self.elsewhere else no_other_hosts
        limits = self.change_limits
        return HostContext(
            run=self.run,
            playbook=self.playbook_of(host.name),
            host=host,
            connection=UntilDeadline(line, own),
            renew=lambda: self._renew(host, line),
            clock=HostClock(self.clock, own),
            parts=assigned.parts if assigned else self.parts,
            secrets=self.secrets(host.name) if assigned is None or assigned.secrets is None else assigned.secrets,
            elsewhere=lambda name: UntilDeadline(elsewhere(name), own),
            earlier=self.earlier.get(host.name, ()),
            refusal=lambda: limits.refused(host.name) if limits else "",
            begin_change=lambda: limits.begin(host.name) if limits else "",
            cut=lambda it: cut.update({it.step: it}),
            why_ended=lambda: self._why_ended(own),
        )

    def _why_ended(self, own: HostCancellation) -> str:
        """Return the reason to end the work on a host, from the run or from the host's deadline; empty if there is
        none.
        """
        return self.stop.why if self.stop.level() else own.why if own.passed else ""

    @contextmanager
    def _connected(self, host: Host, spent: Spent = ((), 0.0)) -> Iterator[Renewable]:
        connection = Renewable(lambda: self.connect(host), spent, self.clock.now)
        try:
            yield connection
        finally:
            connection.close()

    def _renew(self, host: Host, line: Renewable) -> None:
        """Connect to *host* again over *line*.  Raises Unreachable, and Cancelled if the run is asked to end."""
        own = self.stop.of(host.name)
        try:
            line.renew()
        except TransportError as error:
            if why := self._why_ended(own):
                raise Cancelled(f"{why} while it was waited for the host to come back") from error
            raise

    def _planned(self, host: Host, began: float, cut: Cut, lost: Renewable | None = None) -> Planned:
        with self._connected(host, lost.spent if lost else ((), 0.0)) as connection:
            try:
                return self._made(self._context(host, connection, cut), began)
            except ConnectionLost:
                if lost:
                    raise
        return self._planned(host, began, cut, connection)  # only probes were sent, so they may be retried

    def _made(self, context: HostContext, began: float) -> Planned:
        """Make the plan of a connected host, report it, and return it with its result."""
        plan, seen = make_plan(context, force=self.force)
        plan = kept_plan(plan)
        if not self.playbook.comparisons:  # else once the hosts are compared
            self.run.emit(HostPlanned(plan=plan))
        steps = (*plan.looks, *plan.results)
        result = HostResult(
            host=plan.host,
            verdict=verdict(self.playbook_of(plan.host), steps, plan.findings),
            findings=plan.findings,
            steps=steps,
            seconds=self._since(began),
        )
        return Planned(host=context.host, plan=plan, seen=seen, offers=offers_of(context, seen.states), result=result)

    def with_comparisons(self, planned: Sequence[Planned]) -> tuple[Planned, ...]:
        """Return *planned* with the findings that compare the hosts; unchanged if the playbook compares no hosts."""
        if not self.playbook.comparisons:
            return tuple(planned)
        found = compared(self.playbook, [_candidate(each) for each in planned])
        return tuple(self._compared(each, found[each.host.name]) if each.plan else each for each in planned)

    def _compared(self, planned: Planned, findings: tuple[Finding, ...]) -> Planned:
        assert planned.plan
        plan = replace(planned.plan, findings=findings)
        self.run.emit(HostPlanned(plan=plan))
        word = verdict(self.playbook_of(plan.host), planned.result.steps, findings)
        return replace(planned, plan=plan, result=replace(planned.result, findings=findings, verdict=word))

    def _both(
        self, host: Host, consent: Consent, began: float, cut: Cut, may_change: MayChange | None, *, again: bool = True
    ) -> Planned:
        with self._connected(host) as connection:
            context = self._context(host, connection, cut)
            with context.recent.while_carried_out_at_once():
                try:
                    planned = self._made(context, began)
                except ConnectionLost:
                    if not again:
                        raise
                else:
                    if may_change and not needs_turn(planned):
                        return self._watch(context, planned, consent, began)
                    if may_change and not may_change():
                        return replace(planned, waits=True)
                    return self._execute(context, planned, consent, began)
        return self._both(host, consent, began, cut, may_change, again=False)

    def _watch(self, context: HostContext, planned: Planned, consent: Consent, began: float) -> Planned:
        """Run the steps of a host that must not be changed now; the returned host ``waits`` if a step would change
        it.
        """
        others = [WithoutTurn(context.connection)]

        def elsewhere(name: str) -> Connection:
            others.append(WithoutTurn(context.elsewhere(name)))
            return others[-1]

        held = replace(context, connection=others[0], elsewhere=elsewhere)
        ended = self._execute(held, planned, consent, began)
        return replace(ended, waits=any(other.asked for other in others))

    def _execute(self, context: HostContext, planned: Planned, consent: Consent, began: float) -> Planned:
        plan, seen = planned.plan, planned.seen
        assert plan
        assert seen
        outcome = execute(context, plan, seen, consent, force=self.force)
        word = verdict(self.playbook_of(plan.host), outcome.steps, outcome.findings)
        if outcome.error and word in (Verdict.RESOLVED, Verdict.HEALTHY):
            word = Verdict.UNKNOWN  # it could not be inspected in the end
        result = HostResult(
            host=plan.host,
            verdict=word,
            error=outcome.error,
            findings=outcome.findings,
            steps=kept(outcome.steps),
            seconds=self._since(began),
        )
        return Planned(host=context.host, plan=plan, seen=seen, result=result)

    def _guarded(self, host: Host, work: Callable[[Cut, float], Planned]) -> Planned:
        """Call *work* and return its result; every failure becomes a result, so that one bad host does not affect
        others.
        """
        cut: Cut = {}
        began, own = self.clock.now(), self.stop.of(host.name)
        own.allow(self.playbook_of(host.name).limits.host_deadline, self.clock)
        own.begin()
        try:
            planned = work(cut, began)
            return replace(planned, result=replace(planned.result, owed=self.owing(host.name)))
        except TransportError as error:
            over = self._why_ended(own)
            kind = (Verdict.CANCELLED, Status.CANCELLED) if over else (Verdict.UNREACHABLE, Status.UNREACHABLE)
            because = f": {error}" if self.stop.level() else ""
            ended = (*kind, f"{over} while the host was being connected to{because}" if over else str(error))
        except Cancelled as error:
            noticed = str(error) if error.sent or not self.stop.level() else ""  # else at what: it was not sent
            ended = (Verdict.CANCELLED, Status.CANCELLED, noticed or self.stop.why)
        except Exception as error:
            ended = (Verdict.FAILED, Status.FAILED, f"internal error: {type(error).__name__}: {error}")
        finally:
            own.pause()
        word, status, why = ended
        steps = all_steps(self.playbook_of(host.name), status, why, cut)
        result = HostResult(host=host.name, verdict=word, error=why, steps=steps, seconds=self._since(began))
        return Planned(host=host, result=replace(result, owed=self.owing(host.name)))

    def _since(self, began: float) -> float:
        return round(self.clock.now() - began, 3)


def _candidate(planned: Planned) -> Candidate:
    """Return the host of *planned* in the form that is compared with other hosts."""
    if planned.plan is None or planned.offers is None:
        return Candidate(host=planned.host.name, why=planned.result.verdict.value.replace("_", " "))
    return Candidate(host=planned.host.name, findings=planned.plan.findings, offers=planned.offers)


def has_work(planned: Planned) -> bool:
    """Whether there is anything to carry out on the host; a plan without its diagnosis was given up."""
    return planned.seen is not None and has_steps(planned.plan)


def has_steps(plan: HostPlan | None) -> bool:
    """Whether *plan* has any step that is carried out."""
    return plan is not None and any(waits(step) or step.status in TO_CHANGE for step in plan.results)


def needs_turn(planned: Planned) -> bool:
    """Whether the plan may send a command that changes the host."""
    if planned.seen is None or planned.plan is None:
        return False
    return any(step.status in TO_CHANGE for step in planned.plan.results)


TO_CHANGE = (Status.WOULD_CHANGE, Status.BLOCKED)


def waits(result: StepResult) -> bool:
    """Whether *result* is of a planned step that only waits or prints something when it runs."""
    return result.phase is Phase.REMEDIATE and result.status is Status.OK and not result.verified


def all_steps(
    playbook: Playbook, status: Status, why: str, cut: Mapping[str, PartialSamples] = MappingProxyType({})
) -> tuple[StepResult, ...]:
    """Return a result with the same *status* and *why* for every step of *playbook*, so that every step is reported.

    *cut*: the samples of probes that were cut short.
    """
    steps = (*playbook.diagnose, *playbook.remediate, *playbook.verify)
    sent = Sent.UNSAID if status is Status.FAILED else Sent.NOTHING  # a fault of ours may have come after a change
    plain = [replace(StepResult.of(step, status, why), sent=sent) for step in steps]
    return tuple(
        replace(result, why=f"{why}; {cut[result.id].why}", state=cut[result.id].state) if result.id in cut else result
        for result in plain
    )
