"""Run a playbook on many hosts concurrently: batches, limits, cancellation; every host is reported."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeVar

from runbook.dataclass import dataclass
from runbook.execution.diagnosis.verdicts import sent
from runbook.execution.executor import Consent
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.host_work import HostWork, Planned, all_steps, has_work, needs_turn
from runbook.execution.fleet.rollout import BatchEnded, Rollout
from runbook.execution.fleet.scheduling import HostJobs, Schedule
from runbook.values.event import BatchFinished, HostFinished, HostStarted
from runbook.values.inventory import Host
from runbook.values.result import HostResult, Status, Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet(HostWork):
    """The hosts of a run: plan them and change them, within the limits of the run."""

    parallel: int = 32
    deadline: float = 0.0
    """Time on the clock after which no host is started; 0: no deadline."""
    shared_rollout: Callable[[BatchEnded], Rollout] | None = field(default=None, repr=False)
    """Returns the rollout that other processes share, which work on other hosts of the run; None: there are none."""

    def plan(self, hosts: Sequence[Host]) -> tuple[Planned, ...]:
        """Probe every host and make its plan; only probes are sent.  A host that gets no plan gets its result now."""

        def leave(host: Host, why: str) -> Planned:
            return Planned(host=host, result=self._finish(self._not_started(host, why)))

        jobs = HostJobs(begin=self._plan, resume=lambda planned: planned, leave=leave)
        planned = self._schedule(jobs, self._unbounded(hosts), deque(hosts)).work_off(hosts)
        return self.with_comparisons(planned)

    def carry_out(self, planned: Sequence[Planned], consent: Consent) -> tuple[HostResult, ...]:
        """Carry out the plans of the hosts, and return their results; a host without a plan keeps its result.

        Results that hosts already have are counted before the first change.
        """
        hosts, by_name = [each.host for each in planned], {each.host.name: each for each in planned}
        rollout = self._rollout(hosts, consent)

        def watch(host: Host) -> HostResult:
            self.run.emit(HostStarted(host=host.name))
            ended = self.carried_out(by_name[host.name], consent, turn=False)
            return self._ended(ended.result, rollout)

        def change(it: Planned) -> HostResult:
            self.run.emit(HostStarted(host=it.host.name))
            return self._ended(self.carried_out(it, consent).result, rollout)

        def leave(host: Host, why: str) -> HostResult:
            return self._finish(self._not_started(host, why))

        idle = [each for each in planned if not has_work(each)]
        done = {each.host.name: self._idle(each, rollout) for each in idle}
        rest = [each for each in planned if each.host.name not in done]
        schedule = self._schedule(HostJobs(begin=watch, resume=change, leave=leave), rollout)
        schedule.fresh.extend(each.host for each in rest if not needs_turn(each))
        schedule.waiting.update({each.host.name: each for each in rest if needs_turn(each)})
        schedule.done.update(done)
        return schedule.work_off(hosts)

    def plan_and_carry_out(self, hosts: Sequence[Host], consent: Consent) -> tuple[HostResult, ...]:
        """Plan and execute host by host, and return the results; each plan is based on a fresh probe.

        A host that needs a change before its turn is left, and probed again at its turn.
        Hosts that are compared with each other get their results together, after the last of them is probed.
        """
        if self.playbook.comparisons:
            return self.conclude(self.plan(hosts))
        rollout = self._rollout(hosts, consent)

        def begin(host: Host) -> HostResult | Planned:
            self.run.emit(HostStarted(host=host.name))
            may_change = (lambda: rollout.ask(host.name)) if rollout.bounded else None
            ended = self.planned_and_carried_out(host, consent, may_change)
            return ended if ended.waits else self._ended(ended.result, rollout)

        def resume(it: Planned) -> HostResult:
            self.run.emit(HostStarted(host=it.host.name))
            return self._ended(self.planned_and_carried_out(it.host, consent, None).result, rollout)

        def leave(host: Host, why: str) -> HostResult:
            return self._finish(self._not_started(host, why))

        return self._schedule(HostJobs(begin=begin, resume=resume, leave=leave), rollout, deque(hosts)).work_off(hosts)

    def conclude(self, planned: Sequence[Planned]) -> tuple[HostResult, ...]:
        """Return the results of hosts for which only a plan was made."""
        return tuple(self._finish(each.result) if each.plan else each.result for each in planned)

    def _schedule(self, jobs: HostJobs[T], rollout: Rollout, fresh: deque[Host] | None = None) -> Schedule[T]:
        return Schedule(
            jobs=jobs,
            rollout=rollout,
            parallel=self.parallel,
            stop=self.stop,
            clock=self.clock,
            deadline=self.deadline,
            fresh=fresh if fresh is not None else deque(),
        )

    def _rollout(self, hosts: Sequence[Host], consent: Consent) -> Rollout:
        """Return the order and limits for changing *hosts*; if the run changes nothing, all hosts may begin at once."""
        if not self.playbook.remediate or consent is Consent.NONE:
            return self._unbounded(hosts)
        if self.shared_rollout:
            return self.shared_rollout(self._batch_ended)
        bounds = Bounds.of(self.playbook.limits, hosts)
        return Rollout([host.name for host in hosts], bounds, self.clock, self._batch_ended)

    def _unbounded(self, hosts: Sequence[Host]) -> Rollout:
        return Rollout([host.name for host in hosts], Bounds(total=len(hosts)), self.clock, self._batch_ended)

    def _batch_ended(self, number: int, hosts: tuple[str, ...], pause: float) -> None:
        self.run.emit(BatchFinished(number=number, hosts=hosts, pause=round(pause, 3)))

    def _plan(self, host: Host) -> Planned:
        self.run.emit(HostStarted(host=host.name))
        planned = self.planned(host)
        if planned.plan is None:
            self._finish(planned.result)
        return planned

    def _idle(self, planned: Planned, rollout: Rollout) -> HostResult:
        """Return the result of a host for which there is nothing to do."""
        result = self._finish(planned.result) if planned.plan else planned.result
        rollout.ended(result.host, result.verdict, touched=False)
        return result

    def _ended(self, result: HostResult, rollout: Rollout) -> HostResult:
        """Report *result*, and only then let other hosts take the host's place."""
        self._finish(result)
        rollout.ended(result.host, result.verdict, touched=_touched(result))
        return result

    def _not_started(self, host: Host, why: str) -> HostResult:
        steps = all_steps(self.playbook_of(host.name), Status.BLOCKED, f"not started: {why}")
        return HostResult(host=host.name, verdict=Verdict.NOT_STARTED, error=why, steps=steps)

    def _finish(self, result: HostResult) -> HostResult:
        self.run.emit(HostFinished(result=result))
        return result


def _touched(result: HostResult) -> bool:
    """Whether a command that may have changed the host was sent; true if that is unknown."""
    return any(map(sent, result.steps)) or (result.verdict is Verdict.FAILED and result.error is not None)
