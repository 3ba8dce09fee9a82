"""Run the steps of one host, one after the other, with a result for every one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from runbook.errors import Cancelled, RecordLost, TransportError
from runbook.execution.diagnosis.diagnose import Diagnosis
from runbook.execution.diagnosis.earlier_runs import continued
from runbook.execution.diagnosis.gates import is_cleanup, victims_of, within
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.executor.apply import send
from runbook.execution.executor.consent import Consent, why_unconfirmed
from runbook.execution.executor.dependencies import disabled_by, ended, unmet_dependency
from runbook.execution.executor.finding_watch import FindingWatch
from runbook.execution.executor.host_lock import Lock
from runbook.execution.executor.narrowing import is_narrowed, narrowed
from runbook.execution.executor.owed import OwedRecord, OwedSettlement, owed_in
from runbook.execution.executor.permitted import permitted_decision
from runbook.execution.executor.recheck import confirmed_result, patient
from runbook.execution.executor.restart import may_have_begun, not_back, objection, settle_in, wait_until_back
from runbook.execution.executor.revalidation import Revalidation
from runbook.execution.executor.step_ends import as_planned, cut_off, held_back, not_changed, owing, plain_result
from runbook.execution.executor.undoing import change_started
from runbook.execution.executor.verification import verify
from runbook.onhost.host_lock import LockBusy
from runbook.values.earlier_change import equal_items
from runbook.values.event import StepFinished, StepStarted
from runbook.values.plan import Blocked, Change, Finding, NoChange, PlannedStep, Presence, Restart, Skip, Target
from runbook.values.playbook import Step, written_step
from runbook.values.result import Fault, HostPlan, Sent, Status, StepResult
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a host's steps and findings."""

    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    error: str | None = None


def execute(context: HostContext, plan: HostPlan, seen: Diagnosis, consent: Consent, *, force: bool = False) -> Outcome:
    """Do what *plan* shows, or less.  Every step has a result, whatever happens.

    *seen* is the diagnosis that the plan rests on.
    """
    watch = FindingWatch(context, seen, plan.findings)
    called = Revalidation(context, plan, watch, shown=consent is Consent.SHOWN, force=force)
    run = _Run(
        context=context,
        plan=plan,
        watch=watch,
        called=called,
        consent=consent,
        force=force,
        lock=Lock(context, plan),
        owed=owed_in(context, plan),
    )
    for planned in plan.steps:
        step = replace(written_step(context.playbook.remediate, planned.id), id=planned.id)
        context.run.emit(StepStarted(host=context.host.name, step=step.id, action=step.action))
        run.finish(step, run.take(step, planned))
    run.look_a_last_time()
    waited = False
    for step, result in verify(context, plan, run.results, wrote=run.wrote, lost=run.lost):
        run.finish(step, result)
        waited = waited or (step.within > 0 and result.status is Status.OK)
    if waited and not run.cured():  # what was still there may have gone while it was waited for
        watch.outdated()
        run.look_a_last_time()
    run.owed.close(wrote=run.wrote)
    if not run.dead:
        run.lock.give()
    probes = run.watch.diagnosis.results
    return Outcome(steps=(*probes, *run.results), findings=run.watch.findings, error=run.lost or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """A change that is to be sent, and what it rests on."""

    fresh: ProbeAnswer
    """What the step's own probe saw."""
    change: Change
    left_alone: tuple[Target, ...]
    """The targets that the plan did not show."""
    plain: StepResult
    """The result as far as it is known."""


@dataclass(slots=True)
class _Run:
    context: HostContext
    plan: HostPlan
    watch: FindingWatch
    called: Revalidation
    consent: Consent
    force: bool
    lock: Lock
    owed: OwedRecord | OwedSettlement
    results: list[StepResult] = field(default_factory=list)
    broken: str = ""
    """The step that stopped the host, and its outcome."""
    held_up: bool = False
    """That step was not begun: where nothing was changed before it, there is nothing to clean up."""
    lost: str = ""
    """Why the host cannot be asked any more."""
    dead: bool = False
    """The line is gone; else the run was only asked to end, and what is owed can still be done."""
    wrote: bool = False
    needless: bool = False
    """A change that was planned turned out to be needed no more: what called for it may be gone."""
    sending: bool = False
    """The step at hand has sent something."""
    args: Mapping[str, Json] = field(default_factory=dict)
    """The arguments of the step at hand: those of its plan, or less."""
    dropped: str = ""
    """What the plan of the step at hand names, and its expression does not any more, for people."""

    def finish(self, step: Step, result: StepResult) -> None:
        """Take note of a step's end, and tell."""
        self.results.append(result)
        self.owed.ended(result)
        stops = result.status in (Status.UNKNOWN, Status.CANCELLED) or result.fault in (Fault.COMMAND, Fault.ARGUMENTS)
        if stops and not result.ignored and not self.broken:
            self.broken = f"{step.id} {ended(result)}"
        self.context.run.emit(StepFinished(host=self.context.host.name, result=result))

    def take(self, step: Step, planned: PlannedStep) -> StepResult:
        """Do one step, as far as it may be done."""
        began = self.context.clock.now()
        plain = plain_result(self.context, step, planned)
        self.sending, self.args, self.dropped = False, planned.args, ""
        try:
            result = self._take(step, planned, plain)
        except Cancelled as error:
            self._asked_to_end(error)
            result = cut_off(step, plain, Status.CANCELLED, str(error))
        except TransportError as error:
            self.lost, self.dead = str(error), True
            result = replace(cut_off(step, plain, Status.UNREACHABLE, str(error)), fault=Fault.PROBE)
        except Exception as error:  # a fault of ours: what was sent may have been done, and the rest is not begun
            status = Status.UNKNOWN if self.sending else Status.FAILED
            why = f"internal error: {type(error).__name__}: {error}"
            result = replace(plain, status=status, why=why, fault=Fault.COMMAND)
        return replace(result, seconds=round(self.context.clock.now() - began, 3))

    def _asked_to_end(self, error: Cancelled) -> None:
        """Send nothing more but what is owed; the reason is who asked, not the command at which that was noticed."""
        self.lost = self.lost or self.context.why_ended() or str(error)

    def _take(self, step: Step, planned: PlannedStep, plain: StepResult) -> StepResult:
        if ended := self._held_back(step, planned, plain):
            return ended
        if isinstance(planned.decision, Change) and self.consent is not Consent.NONE and (busy := self._lock(step)):
            return self._held_up(step, plain, busy.why)
        while True:
            due = self._decided(step, planned, plain)
            if isinstance(due, StepResult):
                return due
            if why := self._unconfirmed(step, due.change):
                return replace(due.plain, status=Status.BLOCKED, why=why)
            if self.lock.has(step.on, step.become):
                return self._change(step, due)
            if busy := self._lock(step):  # the plan did not show a change here
                return self._held_up(step, due.plain, busy.why)

    def _held_up(self, step: Step, plain: StepResult, why: str) -> StepResult:
        """The end of a step that is due and may not begin: no later step overtakes it, whatever is possible by then."""
        self.broken = self.broken or f"{step.id} was blocked"
        self.held_up = True
        return replace(plain, status=Status.BLOCKED, why=why)

    def _owes(self, step: Step) -> bool:
        """Whether *step* is clean-up after a change: of this run, or of one that it goes on with or settles."""
        changed = self.wrote or bool(self.context.earlier) or isinstance(self.owed, OwedSettlement)
        return step.always and changed

    def _unconfirmed(self, step: Step, change: Change) -> str:
        """Why what a person has agreed to does not do for *change*, or nothing."""
        least = self.context.playbook.limits.confirm_from
        owing = self.wrote or isinstance(self.owed, OwedSettlement)
        return why_unconfirmed(self.consent, step, change, least, owing=owing)

    def _lock(self, step: Step) -> LockBusy | None:
        """Take the lock, so that what is probed from now on stays as it is; what was probed before may be outdated."""
        had_waited = self.lock.waited
        if busy := self.lock.take(step.on, step.become):
            return busy
        if self.lock.waited and not had_waited:
            self.watch.changed()
            self.called.due = not self.wrote
        return None

    def _held_back(self, step: Step, planned: PlannedStep, plain: StepResult) -> StepResult | None:
        """How the step ends where it does not begin, whatever the host looks like."""
        if off := disabled_by(planned):
            return replace(plain, status=Status.SKIPPED, why=off)
        if self.lost and step.always and (self.dead or not planned.ready):
            return owing(planned, plain, self.lost)
        if self.lost and not step.always:
            return replace(plain, status=Status.BLOCKED, why=f"no more commands can be sent to the host: {self.lost}")
        follows = self._owes(step) if step.always and self.held_up else step.always or step.if_failed
        if self.broken and not follows:
            return replace(plain, status=Status.BLOCKED, why=f"{self.broken}; no later step runs")
        if stands := unmet_dependency(step, self.results):
            return held_back(plain, stands)
        return None

    def _decided(self, step: Step, planned: PlannedStep, plain: StepResult) -> StepResult | _Due:
        """The change that is due now; or how the step ends without one."""
        if barrier := self._barrier(step, planned):
            blind = Fault.PROBE if isinstance(barrier, Blocked) else Fault.NONE
            malformed = isinstance(barrier, Blocked) and barrier.malformed
            return replace(held_back(plain, barrier), fault=Fault.ARGUMENTS if malformed else blind)
        at_once = not (self.wrote or self.lock.waited or self.consent is Consent.SHOWN)
        if not at_once and is_narrowed(step, self.context):
            less = narrowed(step, planned, self.context, self.watch, plain)
            if isinstance(less, StepResult):
                return less
            self.args, self.dropped = less.args, less.in_words()
        (probed,) = run_probes([ProbeRequest(step=step, args=self.args)], self.context, planning=at_once)
        plain = replace(plain, commands=probed.commands)
        match probed.outcome:
            case ProbeFailure(why=why, malformed=malformed):
                waits = self.context.action(step).decide is None
                status = Status.FAILED if waits and not malformed else Status.BLOCKED
                return replace(
                    plain,
                    status=status,
                    why=why,
                    fault=Fault.ARGUMENTS if malformed else Fault.GOAL if waits else Fault.PROBE,
                    ignored=step.ignore_failure,
                )
            case ProbeAnswer() as fresh:
                return self._decide(step, planned, fresh, plain)

    def _barrier(self, step: Step, planned: PlannedStep) -> Skip | Blocked | None:
        """Why the findings of this moment, or the plan, keep the step from running."""
        named_findings = step.for_ or tuple(finding.id for finding in self.watch.findings if finding.severity.drives)
        if planned.ready and not self.lost:
            self.called.look_again()
        if planned.ready and (why := self.called.withdrawn(step, wrote=self.wrote)):
            return why
        if is_cleanup(step):
            return None if planned.ready else as_planned(planned)
        if (self.wrote or self.lock.waited) and self.context.playbook.findings and not step.always:
            self.watch.recheck(named_findings)
        gate = self.called.gate(step, planned, wrote=self.wrote, owes=self._owes(step))
        if isinstance(gate, Skip):
            return gate
        if gate is not None and (not planned.ready or self.context.action(step).decide is None):
            return gate
        if planned.ready:
            return None
        if late := self.called.appeared(named_findings):
            return Skip(why=f"{late} appeared during the run; a step without `after` does not act on that")
        return as_planned(planned)

    def _decide(self, step: Step, planned: PlannedStep, fresh: ProbeAnswer, plain: StepResult) -> StepResult | _Due:
        action = self.context.action(step)
        if action.decide is None:
            assert action.waits is not None
            self.watch.outdated()
            return replace(plain, status=Status.OK, why=action.waits(fresh.args), verified=True)
        planned_change = isinstance(planned.decision, Change)
        if fresh.absent:
            self.needless = self.needless or planned_change
            return replace(plain, status=Status.SKIPPED, why=fresh.absent, inapplicable=True)
        taken = (
            (planned_step.id, planned_step.item)
            for planned_step in self.plan.steps
            if planned_step.ready and self.context.earlier
        )
        equal = equal_items(step.id, planned.item, taken)
        decision = action.decide(fresh.args, fresh.state)
        decision = continued(self.context, step, planned.item, decision, self.results, equal)
        self.needless = self.needless or (planned_change and isinstance(decision, NoChange))
        gate = self.called.gate(step, planned, wrote=self.wrote, owes=self._owes(step))
        if gate is not None and within(gate, decision) is gate:
            return replace(held_back(plain, gate), fault=Fault.PROBE)
        left_alone: tuple[Target, ...] = ()
        if isinstance(decision, Change) and self.consent is Consent.SHOWN:
            permitted = permitted_decision(decision, planned, fresh, action)
            decision, left_alone = permitted.decision, permitted.left_alone
        if not isinstance(decision, Change):
            ended = not_changed(step, decision, plain)
            return replace(ended, why=ended.why + self.dropped)
        shown = replace(
            plain,
            risk=decision.risk,
            diff=decision.diff or None,
            planned=decision.summary,
            victims=victims_of(decision.targets),
        )
        return _Due(fresh=fresh, change=decision, left_alone=left_alone, plain=shown)

    def _change(self, step: Step, due: _Due) -> StepResult:
        """Send the change, and probe a second time; before the first one, what it will be owed is written down."""
        if why := self.context.begin_change() or self.owed.keep(
            step.id, {step_result.id for step_result in self.results}
        ):
            return self._held_up(step, due.plain, why)
        try:
            self.context.run.emit(change_started(self.context, step, self._planned(step).item, due.fresh, due.change))
        except RecordLost as error:
            if not step.always:  # what is owed is done all the same
                why = f"not sent, because the run cannot be recorded: {error}"
                return self._held_up(step, due.plain, why)
        result = self._changed(step, due)
        spared = ", ".join(target.say for target in due.left_alone)
        note = f"; left alone, because the plan did not show it: {spared}" if spared else ""
        return replace(result, why=result.why + note + self.dropped + self.lock.untold(step.on) + self.owed.untold())

    def _changed(self, step: Step, due: _Due) -> StepResult:
        change = due.change
        if why := objection(self.context, step, change.restart):
            return replace(due.plain, status=Status.BLOCKED, why=why)
        self.sending = True
        done = send(self.context, step, change, self.lock.held(step.on, step.become))
        if done.sent and not change.only_reads:
            self.wrote = self.context.changes.made = True
            self.watch.changed()
        plain = replace(due.plain, commands=(*due.plain.commands, *done.commands), kept=done.kept, sent=done.extent)
        if change.restart and may_have_begun(done):
            return self._through_restart(step, change.restart, replace(due, plain=plain))
        self.dead = self.dead or bool(done.lost)
        self.lost = self.lost or done.lost
        if done.status is not Status.CHANGED:
            ignored = step.ignore_failure and done.status is Status.FAILED
            return replace(plain, status=done.status, why=done.why, fault=Fault.COMMAND, ignored=ignored)
        if action := self.context.action(step).outcome:
            change = replace(change, summary=action(change.summary, tuple(command.stdout for command in done.commands)))
        if not change.verifiable:
            return replace(plain, status=Status.CHANGED, why=f"{change.summary} (not checked)", verified=False)
        return self._second_look(step, replace(due, change=change, plain=plain))

    def _through_restart(self, step: Step, restart: Restart, due: _Due) -> StepResult:
        """Wait until the host is back in another boot, and inspect it there."""
        due = replace(due, plain=replace(due.plain, sent=Sent.PART))  # no answer of the command says that it is done
        try:
            found = wait_until_back(self.context, restart, step.every)
            why = settle_in(self.context, step, self.lock, self.owed) if found is None else ""
        except (TransportError, Cancelled) as error:
            self.lost, self.dead = str(error), True
            status = Status.CANCELLED if isinstance(error, Cancelled) else Status.UNKNOWN
            return replace(due.plain, status=status, why=f"the reboot was sent, but not seen to its end: {error}")
        if found is not None:
            ended = not_back(due.plain, restart, found)
            self.lost, self.dead = ("", False) if found.reached else (ended.why, True)
            return ended
        if why:
            return replace(due.plain, status=Status.UNKNOWN, why=why, fault=Fault.COMMAND)
        return self._second_look(step, due)

    def _second_look(self, step: Step, due: _Due) -> StepResult:
        plain, change = replace(due.plain, sent=Sent.ALL), due.change
        step = patient(step, change)
        request = ProbeRequest(step=step, args=self.args)
        try:
            left_alone = frozenset(target.key for target in due.left_alone)
            return confirmed_result(self.context, request, due.fresh, change, left_alone, plain)
        except TransportError as error:
            self.lost, self.dead = str(error), True
            why = f"done, but the host could not be probed again: {error}"
            return replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.PROBE)
        except Cancelled as error:
            self._asked_to_end(error)
            return replace(plain, status=Status.CANCELLED, why=f"done, but not probed again: {error}")

    def _planned(self, step: Step) -> PlannedStep:
        return next(planned_step for planned_step in self.plan.steps if planned_step.id == step.id)

    def cured(self) -> bool:
        """Whether no error is found on the host."""
        return not any(
            finding.severity.drives and finding.status is Presence.PRESENT for finding in self.watch.findings
        )

    def look_a_last_time(self) -> None:
        """Repeat the whole diagnosis after a change, and where a planned change was needed no more."""
        if not (self.wrote or self.needless) or not self.context.playbook.findings:
            return
        if self.lost:
            self.watch.forget(f"the host could not be probed after the change: {self.lost}")
            return
        try:
            self.watch.recheck(tuple(finding.id for finding in self.context.playbook.findings), last=True)
        except (TransportError, Cancelled) as error:
            self.lost = (self.context.why_ended() if isinstance(error, Cancelled) else "") or str(error)
            self.watch.forget(f"the host could not be probed after the change: {error}")
        except Exception as error:  # a fault of ours: what was done stays reported, and nothing is called healthy
            self.lost = f"internal error: {type(error).__name__}: {error}"
            self.watch.forget(f"the host was not probed after the change: {self.lost}")
