"""Take the steps of one host, one after the other, and account for every one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from engine.errors import Cancelled, TransportError
from engine.executor.narrowing import named, narrowed
from engine.executor.sending import send
from engine.executor.verifying import verify
from engine.executor.watching import Watch
from engine.judge.diagnosis import Diagnosis
from engine.judge.gates import gate_of, victims_of
from engine.judge.looking import Blind, Request, Seen, look
from engine.judge.site import Site
from engine.ports import Action
from engine.values.event import StepFinished
from engine.values.plan import Blocked, Change, Finding, NoChange, PlannedStep, Presence, Risk, Skip
from engine.values.playbook import Step
from engine.values.result import Fault, HostPlan, Status, StepResult


class Consent(Enum):
    """What a person has agreed to."""

    SHOWN = "shown"  # saw this plan, and said yes
    YES = "yes"  # said yes beforehand, to whatever the looks call for
    NONE = "none"  # nobody was asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a host's steps and findings."""

    steps: tuple[StepResult, ...]
    findings: tuple[Finding, ...]
    error: str | None = None


def execute(site: Site, plan: HostPlan, seen: Diagnosis, consent: Consent, *, force: bool = False) -> Outcome:
    """Do what *plan* shows, or less.  Every step has a result, whatever happens.

    *seen* is the diagnosis that the plan rests on.
    """
    run = _Run(site=site, plan=plan, watch=Watch(site, seen, plan.findings), consent=consent, force=force)
    for step, planned in zip(site.playbook.remediate, plan.steps, strict=True):
        run.finish(step, run.take(step, planned))
    run.look_a_last_time()
    for step, result in verify(site, plan, run.results, wrote=run.wrote, lost=run.lost, cured=run.cured()):
        run.finish(step, result)
    looks = run.watch.diagnosis.results
    return Outcome(steps=(*looks, *run.results), findings=run.watch.findings, error=run.lost or None)


@dataclass(slots=True)
class _Run:
    site: Site
    plan: HostPlan
    watch: Watch
    consent: Consent
    force: bool
    results: list[StepResult] = field(default_factory=list)
    broken: str = ""
    """The step that stopped the host, with what became of it."""
    lost: str = ""
    """Why the host cannot be asked any more."""
    wrote: bool = False

    def finish(self, step: Step, result: StepResult) -> None:
        """Take note of a step's end, and tell."""
        self.results.append(result)
        stops = result.status in (Status.UNKNOWN, Status.CANCELLED) or result.fault is Fault.COMMAND
        if stops and not result.ignored and not self.broken:
            self.broken = f"{step.id} {_ended(result)}"
        self.site.emit(StepFinished(host=self.site.host.name, result=result))

    def take(self, step: Step, planned: PlannedStep) -> StepResult:
        """Do one step, as far as it may be done."""
        began = self.site.clock.now()
        plain = _plain(step, planned)
        try:
            result = self._take(step, planned, plain)
        except Cancelled as error:
            self.lost = self.lost or str(error)
            result = replace(plain, status=Status.CANCELLED, why=str(error))
        except TransportError as error:
            self.lost = str(error)
            result = replace(plain, status=Status.UNREACHABLE, why=str(error), fault=Fault.LOOK)
        return replace(result, seconds=round(self.site.clock.now() - began, 3))

    def _take(self, step: Step, planned: PlannedStep, plain: StepResult) -> StepResult:
        if self.lost:
            return replace(plain, status=Status.BLOCKED, why=f"the host cannot be asked any more: {self.lost}")
        if self.broken:
            return replace(plain, status=Status.BLOCKED, why=f"{self.broken}; nothing is done after that")
        if why := self._rests_on_failure(step):
            return replace(plain, status=Status.BLOCKED, why=why)
        if barrier := self._barrier(step, planned):
            blind = isinstance(barrier, Blocked)
            status = Status.BLOCKED if blind else Status.SKIPPED
            return replace(plain, status=status, why=barrier.why, fault=Fault.LOOK if blind else Fault.NONE)
        (looked,) = look([Request(step=step, args=planned.args)], self.site)
        plain = replace(plain, commands=looked.commands)
        match looked.outcome:
            case Blind(why=why):
                waits = self.site.action(step).decide is None
                status = Status.FAILED if waits else Status.BLOCKED
                return replace(
                    plain,
                    status=status,
                    why=why,
                    fault=Fault.GOAL if waits else Fault.LOOK,
                    ignored=step.ignore_failure,
                )
            case Seen() as fresh:
                return self._decide(step, planned, fresh, plain)

    def _rests_on_failure(self, step: Step) -> str:
        for it in self.results:
            if it.id in step.after and it.status in _UNSUCCESSFUL and not it.ignored:
                return f"it comes after {it.id}, which {_ended(it)}"
        return ""

    def _barrier(self, step: Step, planned: PlannedStep) -> Skip | Blocked | None:
        """Why the findings of this moment, or the plan, keep the step from running."""
        named_findings = step.for_ or tuple(it.id for it in self.watch.findings if it.severity.drives)
        if self.wrote and self.site.playbook.findings:
            self.watch.recheck(named_findings)
        gate = gate_of(step, self.watch.findings, force=self.force)
        if gate is not None:
            return gate
        if planned.ready:
            return None
        if late := self._appeared(named_findings):
            return Skip(why=f"{late} appeared during the run; a step without `after` does not act on that")
        assert isinstance(planned.decision, Skip | Blocked)
        return planned.decision

    def _appeared(self, named: tuple[str, ...]) -> str:
        """The findings of *named* that are there now, when none of them was when the plan was made."""
        now = [it.id for it in self.watch.findings if it.id in named and it.status is Presence.PRESENT]
        then = {it.id for it in self.plan.findings if it.status in (Presence.PRESENT, Presence.UNKNOWN)}
        return "" if then & set(now) or not now else ", ".join(now)

    def _decide(self, step: Step, planned: PlannedStep, fresh: Seen, plain: StepResult) -> StepResult:
        action = self.site.action(step)
        if action.decide is None:
            assert action.waits is not None
            return replace(plain, status=Status.OK, why=action.waits(fresh.args), verified=True)
        if fresh.absent:
            return replace(plain, status=Status.SKIPPED, why=fresh.absent)
        decision = action.decide(fresh.args, fresh.state)
        left_alone: frozenset[str] = frozenset()
        spared = ""
        if isinstance(decision, Change) and self.consent is Consent.SHOWN:
            less = narrowed(decision, planned, fresh, action)
            if isinstance(less, str):
                return replace(plain, status=Status.DRIFTED, why=less)
            spared = named(decision, less[1])
            decision, left_alone = less
        match decision:
            case NoChange(why=why):
                return replace(plain, status=Status.OK, why=why, verified=True)
            case Skip(why=why):
                return replace(plain, status=Status.SKIPPED, why=why)
            case Blocked(why=why):
                return replace(plain, status=Status.BLOCKED, why=why, ignored=step.ignore_failure)
            case Change():
                result = self._change(step, fresh, decision, left_alone, plain)
                note = f"; left alone, because the plan did not show it: {spared}" if spared else ""
                return replace(result, why=result.why + note)

    def _change(
        self, step: Step, fresh: Seen, change: Change, left_alone: frozenset[str], plain: StepResult
    ) -> StepResult:
        plain = replace(
            plain,
            risk=change.risk,
            diff=change.diff or None,
            planned=change.summary,
            victims=victims_of(change.targets),
        )
        if self.consent is Consent.NONE and (step.confirm or change.risk.at_least(Risk.RESETS_HARDWARE)):
            asks = "the step says confirm: true" if step.confirm else f"its risk is {change.risk}"
            if change.risk is not Risk.UNKNOWN or step.confirm:
                return replace(plain, status=Status.BLOCKED, why=f"needs --yes: {asks}, and nobody could be asked")
        done = send(self.site, step, change)
        if done.sent:
            self.wrote = True
            self.watch.changed()
        self.lost = self.lost or done.lost
        plain = replace(plain, commands=(*plain.commands, *done.commands))
        if done.status is not Status.CHANGED:
            ignored = step.ignore_failure and done.status is Status.FAILED
            return replace(plain, status=done.status, why=done.why, fault=Fault.COMMAND, ignored=ignored)
        if not change.verifiable:
            return replace(plain, status=Status.CHANGED, why=f"{change.summary} (not checked)", verified=False)
        return self._second_look(step, fresh, change, left_alone, plain)

    def _second_look(
        self, step: Step, fresh: Seen, change: Change, left_alone: frozenset[str], plain: StepResult
    ) -> StepResult:
        action = self.site.action(step)
        args = next(it.args for it in self.plan.steps if it.id == step.id)
        try:
            (looked,) = look([Request(step=step, args=args)], self.site)
        except TransportError as error:
            self.lost = str(error)
            why = f"done, but the host could not be looked at again: {error}"
            return replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.LOOK)
        plain = replace(plain, commands=(*plain.commands, *looked.commands))
        if isinstance(looked.outcome, Blind):
            why = f"done, but a second look gave no answer: {looked.outcome.why}"
            return replace(plain, status=Status.UNKNOWN, why=why, fault=Fault.LOOK)
        after = looked.outcome.state
        if left_alone and action.without:
            after = action.without(after, left_alone)
        if looked.outcome.absent or settled(action, fresh, after):
            return replace(plain, status=Status.CHANGED, why=change.summary, verified=True)
        words = action.explain(fresh.args, fresh.state, after) if action.explain else ""
        why = words or "done, but a second look still sees what it was to change"
        return replace(plain, status=Status.FAILED, why=why, fault=Fault.GOAL, ignored=step.ignore_failure)

    def cured(self) -> bool:
        """Whether no error is found on the host."""
        return not any(it.severity.drives and it.status is Presence.PRESENT for it in self.watch.findings)

    def look_a_last_time(self) -> None:
        """Repeat the whole diagnosis after a change."""
        if not self.wrote or not self.site.playbook.findings:
            return
        if self.lost:
            self.watch.forget(f"the host could not be looked at after the change: {self.lost}")
            return
        try:
            self.watch.recheck(tuple(it.id for it in self.site.playbook.findings), last=True)
        except (TransportError, Cancelled) as error:
            self.lost = str(error)
            self.watch.forget(f"the host could not be looked at after the change: {error}")


_UNSUCCESSFUL = (Status.FAILED, Status.BLOCKED, Status.UNKNOWN, Status.DRIFTED, Status.UNREACHABLE, Status.CANCELLED)


def _plain(step: Step, planned: PlannedStep) -> StepResult:
    return StepResult(
        id=step.id,
        name=step.name or None,
        phase=step.phase,
        action=step.action,
        status=Status.OK,
        condition=planned.condition,
    )


def _ended(result: StepResult) -> str:
    words = {Status.UNKNOWN: "has an unknown outcome", Status.UNREACHABLE: "could not reach the host"}
    return words.get(result.status, f"{'was ' if result.status is not Status.FAILED else ''}{result.status}")


def settled(action: Action, before: Seen, after: object) -> bool:
    """Whether the second look agrees that the change is done; by default, when nothing is left to decide."""
    if action.settled is not None:
        return action.settled(before.args, before.state, after)
    assert action.decide is not None
    return isinstance(action.decide(before.args, after), NoChange)
