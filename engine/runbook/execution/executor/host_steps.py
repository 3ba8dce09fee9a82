"""Run the steps of one host, one after the other, and return a result for every step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import Cancelled, RecordLost, TransportError
from runbook.execution.diagnosis.diagnose import Diagnosis
from runbook.execution.diagnosis.earlier_runs import continued
from runbook.execution.diagnosis.gates import is_cleanup, victims_of, within
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.diagnosis.refusal import (
    Refusal,
    cut_off,
    fault_of,
    owing,
    plain_result,
    refused_result,
    unchanged_result,
)
from runbook.execution.executor.apply import send
from runbook.execution.executor.consent import Consent, why_unconfirmed
from runbook.execution.executor.dependencies import disabled_by, ended, unmet_dependency
from runbook.execution.executor.evidence import Evidence
from runbook.execution.executor.host_lock import Lock
from runbook.execution.executor.owed import OwedRecord, OwedSettlement, owed_in
from runbook.execution.executor.permitted import permitted_decision
from runbook.execution.executor.recheck import confirmed_result, patient
from runbook.execution.executor.restart import may_have_begun, not_back, objection, settle_in, wait_until_back
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
    """The results of a host's steps, and its findings."""

    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    error: str | None = None


def execute(context: HostContext, plan: HostPlan, seen: Diagnosis, consent: Consent, *, force: bool = False) -> Outcome:
    """Do what *plan* shows, or less.  Every step has a result, whatever happens.

    *seen*: the diagnosis from which *plan* was made.
    """
    evidence = Evidence(context, plan, seen, shown=consent is Consent.SHOWN, force=force)
    execution = _HostExecution(
        context=context,
        plan=plan,
        evidence=evidence,
        consent=consent,
        lock=Lock(context, plan),
        owed=owed_in(context, plan),
    )
    execution.run_steps()
    execution.diagnose_again()
    execution.run_checks()
    execution.close()
    results = (*evidence.diagnosis.results, *execution.progress.results)
    return Outcome(steps=results, findings=evidence.findings, error=execution.progress.ending or None)


@dataclass(slots=True)
class _Progress:
    """The progress of a run on one host."""

    results: list[StepResult] = field(default_factory=list)
    stopped_by: str = ""
    """The step after which no later step begins, with its outcome."""
    stopped_before_change: bool = False
    """Whether the step that stopped the host was not begun; if nothing was changed before it, no clean-up is due."""
    ending: str = ""
    """The reason why no more commands are sent to the host: it is unreachable, or the run was asked to end."""
    disconnected: bool = False
    """Whether the host is unreachable.  After a request to end only, owed clean-up can still run."""
    wrote: bool = False
    unneeded: bool = False
    """Whether a planned change is no longer needed; its finding may be gone."""

    def disconnect(self, why: str) -> None:
        """Record that the host can no longer be asked, because of *why*."""
        self.ending, self.disconnected = why, True


@dataclass(slots=True, kw_only=True)
class _Turn:
    """The step that runs now, its plan, and its arguments."""

    step: Step
    planned: PlannedStep
    plain: StepResult
    """The result of the step as far as it is known before the step runs."""
    args: Mapping[str, Json]
    """The arguments of the plan, or fewer items of them."""
    dropped: str = ""
    """The items that were in the plan and that the expression no longer gives, in words."""
    sending: bool = False

    def is_ready(self) -> bool:
        """Whether the arguments of the step were known when the plan was made."""
        return self.planned.ready


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """A change that is to be sent, and the probe that it is based on."""

    fresh: ProbeAnswer
    """The answer of the step's own probe."""
    change: Change
    left_alone: tuple[Target, ...]
    """The targets that the plan did not show."""
    plain: StepResult
    """The result of the step as far as it is known before the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _HostExecution:
    context: HostContext
    plan: HostPlan
    evidence: Evidence
    consent: Consent
    lock: Lock
    owed: OwedRecord | OwedSettlement
    progress: _Progress = field(default_factory=_Progress)

    def run_steps(self) -> None:
        """Run every step of the plan, and record its result."""
        for planned in self.plan.steps:
            step = replace(written_step(self.context.playbook.remediate, planned.id), id=planned.id)
            self.context.run.emit(StepStarted(host=self.context.host.name, step=step.id, action=step.action))
            self._finish(step, self._take(step, planned))

    def run_checks(self) -> None:
        """Run every step of ``verify``; if one had to wait, diagnose a host that still has an error again."""
        progress, waited = self.progress, False
        checks = verify(self.context, self.plan, progress.results, wrote=progress.wrote, lost=progress.ending)
        for step, result in checks:
            self._finish(step, result)
            waited = waited or (step.within > 0 and result.status is Status.OK)
        if waited and self._is_sick():  # what was still there may have gone meanwhile
            self.evidence.time_passed()
            self.diagnose_again()

    def close(self) -> None:
        """End the record of owed clean-up, and release the locks on the host."""
        self.owed.close(wrote=self.progress.wrote)
        if not self.progress.disconnected:
            self.lock.give()

    def diagnose_again(self) -> None:
        """Run the whole diagnosis again if the run changed the host, or if a planned change was no longer needed."""
        progress, evidence = self.progress, self.evidence
        if not (progress.wrote or progress.unneeded) or not self.context.playbook.findings:
            return
        if progress.ending:
            evidence.connection_lost(f"the host could not be probed after the change: {progress.ending}")
            return
        try:
            evidence.recheck(tuple(finding.id for finding in self.context.playbook.findings), last=True)
        except (TransportError, Cancelled) as error:
            progress.ending = (self.context.why_ended() if isinstance(error, Cancelled) else "") or str(error)
            evidence.connection_lost(f"the host could not be probed after the change: {error}")
        except Exception as error:  # a fault of ours: what was done stays reported, and nothing is called healthy
            progress.ending = f"internal error: {type(error).__name__}: {error}"
            evidence.connection_lost(f"the host was not probed after the change: {progress.ending}")

    def _is_sick(self) -> bool:
        """Whether a finding of severity error is present on the host."""
        return any(finding.severity.drives and finding.status is Presence.PRESENT for finding in self.evidence.findings)

    def _finish(self, step: Step, result: StepResult) -> None:
        """Record the result of *step*, report it, and stop later steps if it requires that."""
        self.progress.results.append(result)
        self.owed.ended(result)
        stops = result.status in (Status.UNKNOWN, Status.CANCELLED) or result.fault in (Fault.COMMAND, Fault.ARGUMENTS)
        if stops and not result.ignored and not self.progress.stopped_by:
            self.progress.stopped_by = f"{step.id} {ended(result)}"
        self.context.run.emit(StepFinished(host=self.context.host.name, result=result))

    def _take(self, step: Step, planned: PlannedStep) -> StepResult:
        """Run *step* if it may run, and return its result; every exception becomes a result."""
        began = self.context.clock.now()
        plain = plain_result(self.context, step, planned)
        turn = _Turn(step=step, planned=planned, plain=plain, args=planned.args)
        try:
            result = self._result(turn)
        except Cancelled as error:
            self._asked_to_end(error)
            result = cut_off(step, plain, Status.CANCELLED, str(error))
        except TransportError as error:
            self.progress.disconnect(str(error))
            result = replace(cut_off(step, plain, Status.UNREACHABLE, str(error)), fault=Fault.PROBE)
        except Exception as error:  # a fault of ours: what was sent may have been done, and the rest is not begun
            status = Status.UNKNOWN if turn.sending else Status.FAILED
            why = f"internal error: {type(error).__name__}: {error}"
            result = replace(plain, status=status, why=why, fault=Fault.COMMAND)
        return replace(result, seconds=round(self.context.clock.now() - began, 3))

    def _asked_to_end(self, error: Cancelled) -> None:
        """Record that the run was asked to end: from now on only owed commands are sent."""
        self.progress.ending = self.progress.ending or self.context.why_ended() or str(error)

    def _result(self, turn: _Turn) -> StepResult:
        step, is_change = turn.step, isinstance(turn.planned.decision, Change)
        if refused := self._refused_unseen(turn):
            return refused
        if is_change and self.consent is not Consent.NONE and (busy := self._take_lock(step)):
            return self._stopped_before_change(step, turn.plain, busy.why)
        while True:
            due = self._due(turn)
            if isinstance(due, StepResult):
                return due
            if why := self._unconfirmed(step, due.change):
                return refused_result(due.plain, Blocked(why=why))
            if self.lock.has(step.on, step.become):
                return self._change(turn, due)
            # the plan did not show a change here, so there is no lock yet: take it, and probe once more under it
            if busy := self._take_lock(step):
                return self._stopped_before_change(step, due.plain, busy.why)

    def _stopped_before_change(self, step: Step, plain: StepResult, why: str) -> StepResult:
        """Stop the work on the host at a step that is due but not allowed, so that no later step runs before it.

        Returns the result of *step*; *why*: the reason why it is not allowed.
        """
        self.progress.stopped_by = self.progress.stopped_by or f"{step.id} was blocked"
        self.progress.stopped_before_change = True
        return refused_result(plain, Blocked(why=why))

    def _owes(self, step: Step) -> bool:
        """Whether *step* is clean-up after a change of this run, or after an earlier run that this run continues or
        cleans up.
        """
        changed = self.progress.wrote or bool(self.context.earlier) or isinstance(self.owed, OwedSettlement)
        return step.always and changed

    def _unconfirmed(self, step: Step, change: Change) -> str:
        """Return the reason why the person's consent does not cover *change*; empty if it does."""
        least = self.context.playbook.limits.confirm_from
        owing = self.progress.wrote or isinstance(self.owed, OwedSettlement)
        return why_unconfirmed(self.consent, step, change, least, owing=owing)

    def _take_lock(self, step: Step) -> LockBusy | None:
        """Take the locks that *step* needs; if the run had to wait for another run, earlier probes are outdated."""
        had_waited = self.lock.waited
        if busy := self.lock.take(step.on, step.become):
            return busy
        if self.lock.waited and not had_waited:
            self.evidence.host_changed_by_another_run(wrote=self.progress.wrote)
        return None

    def _refused_unseen(self, turn: _Turn) -> StepResult | None:
        """Return the result of a step that must not begin, without probing for it; None if the step may begin."""
        progress, step, plain = self.progress, turn.step, turn.plain
        if off := disabled_by(turn.planned):
            return refused_result(plain, Skip(why=off))
        if progress.ending and step.always and (progress.disconnected or not turn.is_ready()):
            return owing(turn.planned, plain, progress.ending)
        if progress.ending and not step.always:
            return refused_result(plain, Blocked(why=f"no more commands can be sent to the host: {progress.ending}"))
        follows = self._owes(step) if step.always and progress.stopped_before_change else step.always or step.if_failed
        if progress.stopped_by and not follows:
            return refused_result(plain, Blocked(why=f"{progress.stopped_by}; no later step runs"))
        if refusal := unmet_dependency(step, progress.results):
            return refused_result(plain, refusal)
        return None

    def _due(self, turn: _Turn) -> StepResult | _Due:
        """Return the change that *turn* must send now; or the result of the step, if it sends none."""
        step, plain = turn.step, turn.plain
        if refusal := self._refusal(turn):
            return refused_result(plain, refusal, fault=fault_of(refusal))
        at_once = not (self.progress.wrote or self.lock.waited or self.consent is Consent.SHOWN)
        if not at_once and self.evidence.has_current_arguments(step):
            current = self.evidence.current_arguments(step, turn.planned)
            if isinstance(current, Skip | Blocked):
                return refused_result(plain, current, fault=fault_of(current), ignored=step.ignore_failure)
            turn.args, turn.dropped = current.args, current.dropped_in_words()
        (probed,) = run_probes([ProbeRequest(step=step, args=turn.args)], self.context, planning=at_once)
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
                return self._decided(turn, fresh, plain)

    def _refusal(self, turn: _Turn) -> Refusal | None:
        """Return the reason why the plan or the current findings do not allow the step to run; None if they do."""
        step, planned, evidence, wrote = turn.step, turn.planned, self.evidence, self.progress.wrote
        findings = step.for_ or tuple(finding.id for finding in evidence.findings if finding.severity.drives)
        if turn.is_ready() and not self.progress.ending:
            evidence.revalidate()
        if turn.is_ready() and (refusal := evidence.withdrawn(step, wrote=wrote)):
            return refusal
        if is_cleanup(step):
            return self._refusal_of_plan(turn)
        if (wrote or self.lock.waited) and self.context.playbook.findings and not step.always:
            evidence.recheck(findings)
        gate = evidence.gate(step, planned, wrote=wrote, owes=self._owes(step))
        if isinstance(gate, Skip):
            return gate
        if gate is not None and (not turn.is_ready() or self.context.action(step).decide is None):
            return gate
        if not turn.is_ready() and (late := evidence.appeared(findings)):
            return Skip(why=f"{late} appeared during the run; a step without `after` does not act on that")
        return self._refusal_of_plan(turn)

    def _refusal_of_plan(self, turn: _Turn) -> Refusal | None:
        """Return the reason why the arguments of the step could not be filled in by the plan; None if they were."""
        if turn.is_ready():
            return None
        assert isinstance(turn.planned.decision, Skip | Blocked)
        return turn.planned.decision

    def _decided(self, turn: _Turn, fresh: ProbeAnswer, plain: StepResult) -> StepResult | _Due:
        """Return the permitted part of the change that the probe *fresh* calls for; or the result, if it calls for
        no change.
        """
        step, planned, progress = turn.step, turn.planned, self.progress
        action = self.context.action(step)
        if action.decide is None:
            assert action.waits is not None
            self.evidence.time_passed()
            return replace(plain, status=Status.OK, why=action.waits(fresh.args), verified=True)
        planned_change = isinstance(planned.decision, Change)
        if fresh.absent:
            progress.unneeded = progress.unneeded or planned_change
            return replace(refused_result(plain, Skip(why=fresh.absent)), inapplicable=True)
        decision = action.decide(fresh.args, fresh.state)
        decision = continued(
            self.context, step, planned.item, decision, progress.results, self._equal_items(step, planned)
        )
        progress.unneeded = progress.unneeded or (planned_change and isinstance(decision, NoChange))
        gate = self.evidence.gate(step, planned, wrote=progress.wrote, owes=self._owes(step))
        if gate is not None and within(gate, decision) is gate:
            return refused_result(plain, gate, fault=Fault.PROBE)
        left_alone: tuple[Target, ...] = ()
        if isinstance(decision, Change) and self.consent is Consent.SHOWN:
            permitted = permitted_decision(decision, planned, fresh, action)
            decision, left_alone = permitted.decision, permitted.left_alone
        if not isinstance(decision, Change):
            unchanged = unchanged_result(step, decision, plain)
            return replace(unchanged, why=unchanged.why + turn.dropped)
        shown = replace(
            plain,
            risk=decision.risk,
            diff=decision.diff or None,
            planned=decision.summary,
            victims=victims_of(decision.targets),
        )
        return _Due(fresh=fresh, change=decision, left_alone=left_alone, plain=shown)

    def _equal_items(self, step: Step, planned: PlannedStep) -> tuple[int, ...]:
        """Return the positions of the items in the step's ``each`` that are equal to the item of *planned*."""
        ready = ((one.id, one.item) for one in self.plan.steps if one.ready and self.context.earlier)
        return equal_items(step.id, planned.item, ready)

    def _change(self, turn: _Turn, due: _Due) -> StepResult:
        """Record the clean-up that the run will owe, send the change, and probe again; return the result of the
        step.
        """
        step, planned = turn.step, turn.planned
        ended_steps = {result.id for result in self.progress.results}
        if why := self.context.begin_change() or self.owed.keep(step.id, ended_steps):
            return self._stopped_before_change(step, due.plain, why)
        try:
            self.context.run.emit(change_started(self.context, step, planned.item, due.fresh, due.change))
        except RecordLost as error:
            if not step.always:  # what is owed is done all the same
                why = f"not sent, because the run cannot be recorded: {error}"
                return self._stopped_before_change(step, due.plain, why)
        result = self._changed(turn, due)
        spared = ", ".join(target.say for target in due.left_alone)
        note = f"; left alone, because the plan did not show it: {spared}" if spared else ""
        return replace(result, why=result.why + note + turn.dropped + self.lock.untold(step.on) + self.owed.untold())

    def _changed(self, turn: _Turn, due: _Due) -> StepResult:
        step, change, progress = turn.step, due.change, self.progress
        if why := objection(self.context, step, change.restart):
            return refused_result(due.plain, Blocked(why=why))
        turn.sending = True
        done = send(self.context, step, change, self.lock.held(step.on, step.become))
        if done.sent and not change.only_reads:
            progress.wrote = self.context.changes.made = True
            self.evidence.host_changed()
        plain = replace(due.plain, commands=(*due.plain.commands, *done.commands), kept=done.kept, sent=done.extent)
        if change.restart and may_have_begun(done):
            return self._through_restart(turn, change.restart, replace(due, plain=plain))
        if done.lost:
            progress.disconnect(progress.ending or done.lost)
        if done.status is not Status.CHANGED:
            ignored = step.ignore_failure and done.status.is_failure
            return replace(plain, status=done.status, why=done.why, fault=Fault.COMMAND, ignored=ignored)
        if action := self.context.action(step).outcome:
            change = replace(change, summary=action(change.summary, tuple(command.stdout for command in done.commands)))
        if not change.verifiable:
            return replace(plain, status=Status.CHANGED, why=f"{change.summary} (not checked)", verified=False)
        return self._confirmed(turn, replace(due, change=change, plain=plain))

    def _through_restart(self, turn: _Turn, restart: Restart, due: _Due) -> StepResult:
        """Wait until the host has rebooted, and probe it then; return the result of the step."""
        due = replace(due, plain=replace(due.plain, sent=Sent.PART))  # no answer of the command says that it is done
        try:
            found = wait_until_back(self.context, restart, turn.step.every)
            why = settle_in(self.context, turn.step, self.lock, self.owed) if found is None else ""
        except (TransportError, Cancelled) as error:
            self.progress.disconnect(str(error))
            status = Status.CANCELLED if isinstance(error, Cancelled) else Status.UNKNOWN
            return replace(due.plain, status=status, why=f"the reboot was sent, but not seen to its end: {error}")
        if found is not None:
            result = not_back(due.plain, restart, found)
            self.progress.ending, self.progress.disconnected = ("", False) if found.reached else (result.why, True)
            return result
        if why:
            return replace(due.plain, status=Status.UNKNOWN, why=why, fault=Fault.COMMAND)
        return self._confirmed(turn, due)

    def _confirmed(self, turn: _Turn, due: _Due) -> StepResult:
        """Probe again after a change was sent, and return the result of the step."""
        plain, change = replace(due.plain, sent=Sent.ALL), due.change
        request = ProbeRequest(step=patient(turn.step, change), args=turn.args)
        try:
            left_alone = frozenset(target.key for target in due.left_alone)
            return confirmed_result(self.context, request, due.fresh, change, left_alone, plain)
        except TransportError as error:
            self.progress.disconnect(str(error))
            why = f"done, but the host could not be probed again: {error}"
            return replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.PROBE)
        except Cancelled as error:
            self._asked_to_end(error)
            return replace(plain, status=Status.CANCELLED, why=f"done, but not probed again: {error}")
