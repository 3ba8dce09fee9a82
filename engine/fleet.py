"""The same for many hosts: side by side, each with its own end, every one reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from engine.diagnosis import HostContext, OtherHosts, SharedProbes, verdict
from engine.diagnosis.diagnose import Diagnosis
from engine.diagnosis.probe_types import PartialSamples
from engine.diagnosis.shared_probes import no_other_hosts
from engine.errors import Cancelled, ConnectionLost, TransportError
from engine.executor import Consent, execute
from engine.executor.cancellation import Cancellation as Cancellation
from engine.planner import make_plan
from engine.protocols import Action, Clock, Connection, Emit
from engine.values.event import HostFinished, HostPlanned, HostStarted
from engine.values.excerpts import kept, kept_plan
from engine.values.inventory import Host
from engine.values.playbook import Phase, Playbook
from engine.values.result import HostPlan, HostResult, Status, StepResult, Verdict
from engine.values.types import Json, plural

T = TypeVar("T")

POLL = 0.1
"""Seconds between two looks at whether the run was asked to stop."""


Cut = dict[str, PartialSamples]
"""What looks had seen when they were cut short, by their ids."""

UNWELL = (Verdict.FAILED, Verdict.UNKNOWN, Verdict.UNRESOLVED, Verdict.UNREACHABLE)
"""What counts for ``stop_after``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A host whose plan is made, with the diagnosis that it rests on; or a host that already has its end."""

    host: Host
    plan: HostPlan | None = None
    seen: Diagnosis | None = None
    result: HostResult
    """What is to be said of the host if nothing more is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The hosts of a run, and how to get to them."""

    playbook: Playbook
    inputs: Mapping[str, Json]
    run: Mapping[str, Json]
    actions: Mapping[str, Action]
    connect: Callable[[Host], Connection]
    clock: Clock
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of every included playbook, by its prefix."""
    once: SharedProbes | None = None
    """Where the looks are kept that the hosts share."""
    elsewhere: OtherHosts | None = None
    """The connections to the hosts that steps name with ``on``."""
    emit: Emit = field(repr=False)
    """Called from many threads at once."""
    stop: Cancellation
    parallel: int = 32
    force: bool = False
    deadline: float = 0.0
    """Seconds on the clock after which no more is begun; 0 for none."""

    def plan(self, hosts: Sequence[Host]) -> tuple[Planned, ...]:
        """Look at every host, and decide; sends looks only.  A host that gets no plan has its end now."""
        return self._each(
            hosts,
            self._plan_one,
            lambda host, why: Planned(host=host, result=self._finish(self._unbegun(host, why))),
        )

    def carry_out(self, planned: Sequence[Planned], consent: Consent) -> tuple[HostResult, ...]:
        """Do what the plans show, or less; a host without a plan keeps the end that it has."""
        by_name = {it.host.name: it for it in planned}
        idle = [it.host for it in planned if not _has_work(it)]
        return self._each(
            [it.host for it in planned],
            lambda host: self._carry_out_one(by_name[host.name], consent),
            lambda host, why: self._left(by_name[host.name], why),
            self._paced([it.host for it in planned], idle),
        )

    def plan_and_carry_out(self, hosts: Sequence[Host], consent: Consent) -> tuple[HostResult, ...]:
        """Plan and execute host by host: the fresh look is the plan."""
        return self._each(
            hosts,
            lambda host: self._both(host, consent),
            lambda host, why: self._finish(self._unbegun(host, why)),
            self._paced(hosts, ()),
        )

    def conclude(self, planned: Sequence[Planned]) -> tuple[HostResult, ...]:
        """The ends of hosts that are only planned."""
        return tuple(self._finish(it.result) if it.plan else it.result for it in planned)

    def _each(
        self,
        hosts: Sequence[Host],
        work: Callable[[Host], T],
        unbegun: Callable[[Host, str], T],
        batches: Sequence[Sequence[Host]] = (),
    ) -> tuple[T, ...]:
        """*work* on every host, batch after batch, at most ``parallel`` at a time; in the order of *hosts*."""
        done: dict[str, T] = {}
        queue = _Queue([list(batch) for batch in batches or [hosts]])
        with ThreadPoolExecutor(max_workers=max(1, min(self.parallel, len(hosts) or 1))) as pool:
            running: dict[Future[T], Host] = {}
            while queue or running:
                while len(running) < self.parallel and not self._halted() and (host := queue.next(bool(running))):
                    running[pool.submit(work, host)] = host
                if why := self._halted():
                    done |= {host.name: unbegun(host, why) for host in queue.clear()}
                ended, _ = wait(running, timeout=POLL, return_when=FIRST_COMPLETED)
                done |= {running.pop(future).name: future.result() for future in ended}
                if queue:
                    self._count_unwell(done, len(hosts))
                self._heed_deadline()
        return tuple(done[host.name] for host in hosts)

    def _heed_deadline(self) -> None:
        """Ask the run to end once its deadline is over."""
        if self.deadline and self.clock.now() >= self.deadline and not self.stop.level():
            self.stop.ask("the deadline of the run is over", level=1, over=True)

    def _halted(self) -> str:
        """Why no further host may be begun; empty: it may."""
        return self.stop.why or "the run was asked to end" if self.stop.level() else self.stop.spent

    def _paced(self, hosts: Sequence[Host], idle: Sequence[Host]) -> list[list[Host]]:
        """The batches in which *hosts* are taken: those with nothing to do first, then as ``batches`` says."""
        batches, rest = [list(idle)] if idle else [], [it for it in hosts if it not in idle]
        sizes = [it.of(len(hosts)) for it in self.playbook.limits.batches if self.playbook.remediate]
        while rest:
            size = (sizes.pop(0) if len(sizes) > 1 else sizes[0]) if sizes else len(rest)
            batches.append(rest[:size])
            rest = rest[size:]
        return batches

    def _count_unwell(self, done: Mapping[str, object], total: int) -> None:
        """Begin no further host once too many have not come out well."""
        limit = self.playbook.limits.stop_after
        unwell = [name for name, it in done.items() if isinstance(it, HostResult) and it.verdict in UNWELL]
        if limit and not self.stop.spent and len(unwell) >= limit.of(total):
            these = f"{len(unwell)} of {plural(total, 'host')} did not come out well: {', '.join(unwell[:5])}"
            self.stop.spent = f"stop_after {limit}: {these}{' ...' if len(unwell) > 5 else ''}"

    def _site(self, host: Host, connection: Connection, cut: Cut) -> HostContext:
        return HostContext(
            playbook=self.playbook,
            host=host,
            inputs=self.inputs,
            run=self.run,
            actions=self.actions,
            connection=connection,
            clock=self.clock,
            emit=self.emit,
            parts=self.parts,
            elsewhere=self.elsewhere.to if self.elsewhere else no_other_hosts,
            once=self.once,
            cut=lambda it: cut.update({it.step: it}),
        )

    def _plan_one(self, host: Host) -> Planned:
        began = self.clock.now()
        self.emit(HostStarted(host=host.name))
        planned = self._guarded(host, began, lambda cut: self._planned(host, began, cut))
        if planned.plan is None:
            self._finish(planned.result)
        return planned

    def _planned(self, host: Host, began: float, cut: Cut, *, again: bool = True) -> Planned:
        connection = self.connect(host)
        try:
            plan, seen = make_plan(self._site(host, connection, cut), force=self.force)
        except ConnectionLost:
            if not again:
                raise
        else:
            self.emit(HostPlanned(plan=(plan := kept_plan(plan))))
            return Planned(host=host, plan=plan, seen=seen, result=self._as_planned(plan, began))
        finally:
            connection.close()
        return self._planned(host, began, cut, again=False)  # nothing but looks was sent, so they may be sent again

    def _as_planned(self, plan: HostPlan, began: float) -> HostResult:
        steps = (*plan.looks, *plan.results)
        return HostResult(
            host=plan.host,
            verdict=verdict(self.playbook, steps, plan.findings),
            findings=plan.findings,
            steps=steps,
            seconds=round(self.clock.now() - began, 3),
        )

    def _carry_out_one(self, planned: Planned, consent: Consent) -> HostResult:
        if planned.plan is None or planned.seen is None:
            return planned.result
        if not _has_work(planned):
            return self._finish(planned.result)
        plan, seen, began = planned.plan, planned.seen, self.clock.now()
        host = planned.host
        ended = self._guarded(host, began, lambda cut: self._executed(host, plan, seen, consent, began, cut))
        return self._finish(ended.result)

    def _executed(
        self, host: Host, plan: HostPlan, seen: Diagnosis, consent: Consent, began: float, cut: Cut
    ) -> Planned:
        connection = self.connect(host)
        try:
            return self._execute(self._site(host, connection, cut), plan, seen, consent, began)
        finally:
            connection.close()

    def _both(self, host: Host, consent: Consent) -> HostResult:
        began = self.clock.now()
        self.emit(HostStarted(host=host.name))
        ended = self._guarded(host, began, lambda cut: self._planned_and_executed(host, consent, began, cut))
        return self._finish(ended.result)

    def _planned_and_executed(
        self, host: Host, consent: Consent, began: float, cut: Cut, *, again: bool = True
    ) -> Planned:
        connection = self.connect(host)
        try:
            site = self._site(host, connection, cut)
            try:
                plan, seen = make_plan(site, force=self.force)
            except ConnectionLost:
                if not again:
                    raise
            else:
                self.emit(HostPlanned(plan=(plan := kept_plan(plan))))
                return self._execute(site, plan, seen, consent, began)
        finally:
            connection.close()
        return self._planned_and_executed(host, consent, began, cut, again=False)

    def _execute(self, site: HostContext, plan: HostPlan, seen: Diagnosis, consent: Consent, began: float) -> Planned:
        outcome = execute(site, plan, seen, consent, force=self.force)
        word = verdict(self.playbook, outcome.steps, outcome.findings)
        if outcome.error and word in (Verdict.RESOLVED, Verdict.HEALTHY):
            word = Verdict.UNKNOWN  # it could not be inspected in the end
        result = HostResult(
            host=plan.host,
            verdict=word,
            error=outcome.error,
            findings=outcome.findings,
            steps=kept(outcome.steps),
            seconds=round(self.clock.now() - began, 3),
        )
        return Planned(host=site.host, plan=plan, seen=seen, result=result)

    def _guarded(self, host: Host, began: float, work: Callable[[Cut], Planned]) -> Planned:
        """*work*, with every way of failing made a result: one bad host harms no other."""
        cut: Cut = {}
        try:
            return work(cut)
        except TransportError as error:
            over = f"{self.stop.why}, while it was being reached: " if self.stop.level() else ""
            kind = (Verdict.CANCELLED, Status.CANCELLED) if over else (Verdict.UNREACHABLE, Status.UNREACHABLE)
            ended = (*kind, f"{over}{error}")
        except Cancelled as error:
            ended = (Verdict.CANCELLED, Status.CANCELLED, str(error) or self.stop.why)
        except Exception as error:
            ended = (Verdict.FAILED, Status.FAILED, f"internal error: {type(error).__name__}: {error}")
        word, status, why = ended
        spent = round(self.clock.now() - began, 3)
        steps = _all_steps(self.playbook, status, why, cut)
        return Planned(
            host=host, result=HostResult(host=host.name, verdict=word, error=why, steps=steps, seconds=spent)
        )

    def _unbegun(self, host: Host, why: str) -> HostResult:
        steps = _all_steps(self.playbook, Status.BLOCKED, f"not started: {why}")
        return HostResult(host=host.name, verdict=Verdict.NOT_STARTED, error=why, steps=steps)

    def _left(self, planned: Planned, why: str) -> HostResult:
        """The end of a planned host whose turn never came."""
        return self._finish(self._unbegun(planned.host, why)) if planned.plan else planned.result

    def _finish(self, result: HostResult) -> HostResult:
        self.emit(HostFinished(result=result))
        return result


@dataclass(slots=True)
class _Queue:
    """The hosts that have not been begun, in batches; a batch begins when the one before it has ended."""

    batches: list[list[Host]]
    current: list[Host] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.current or self.batches)

    def next(self, running: bool) -> Host | None:
        """The host to begin now; None where there is none, or hosts of the batch before are still *running*."""
        if not self.current and self.batches and not running:
            self.current = self.batches.pop(0)
        return self.current.pop(0) if self.current else None

    def clear(self) -> list[Host]:
        """Take out every host that is left."""
        left = [host for batch in (self.current, *self.batches) for host in batch]
        self.current, self.batches = [], []
        return left


def _has_work(planned: Planned) -> bool:
    """Whether there is anything to carry out."""
    steps = planned.plan.results if planned.plan and planned.seen else ()
    return any(it.status in (Status.WOULD_CHANGE, Status.BLOCKED) or waits(it) for it in steps)


def waits(result: StepResult) -> bool:
    """Whether a planned step only waits, or tells something, when its turn comes."""
    return result.phase is Phase.REMEDIATE and result.status is Status.OK and not result.verified


def _all_steps(
    playbook: Playbook, status: Status, why: str, cut: Mapping[str, PartialSamples] = MappingProxyType({})
) -> tuple[StepResult, ...]:
    """Every step of *playbook* with the same end: no step goes unreported; those *cut* short say what they had seen."""
    steps = (*playbook.diagnose, *playbook.remediate, *playbook.verify)
    plain = [StepResult.of(step, status, why) for step in steps]
    return tuple(
        replace(it, why=f"{why}; {cut[it.id].why}", state=cut[it.id].state) if it.id in cut else it for it in plain
    )
