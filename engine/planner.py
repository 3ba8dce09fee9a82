"""Playbook and host in, plan out; sends looks only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.codec import to_json
from engine.judge.diagnosis import Diagnosis, diagnose, prepare
from engine.judge.findings import evaluate_findings
from engine.judge.gates import gate_of, victims_of
from engine.judge.looking import Blind, Looked, Request, Seen, look
from engine.judge.site import Site
from engine.values.plan import Blocked, Change, Decision, Finding, NoChange, PlannedStep, Skip, Target
from engine.values.playbook import Playbook, Step
from engine.values.result import Fault, HostPlan, SentCommand, Status, StepResult
from engine.values.text import Json


def make_plan(site: Site, *, force: bool = False) -> tuple[HostPlan, Diagnosis]:
    """What would be done to the host of *site*, and what the looks saw.

    *force* lets steps run whose finding is unknown.  Raises TransportError and Cancelled as the connection does.
    """
    seen = diagnose(site)
    findings = evaluate_findings(site, seen.states)
    drafts = [_draft(step, site, seen, findings, force) for step in site.playbook.remediate]
    asked = [it for it in drafts if it.request is not None]
    for draft, looked in zip(asked, look([it.request for it in asked if it.request], site), strict=True):
        draft.decide(looked, site)
    planned = _with_conditions(drafts, site.playbook)
    verify_args, verifying = _verify(site, seen)
    steps = tuple(planned_result(it, planned_step) for it, planned_step in zip(drafts, planned, strict=True))
    plan = HostPlan(
        host=site.host.name,
        looks=seen.results,
        look_args=seen.args,
        findings=findings,
        steps=planned,
        verify_args=verify_args,
        results=(*steps, *verifying),
    )
    return plan, seen


@dataclass(slots=True)
class _Draft:
    """A step on its way to a decision."""

    step: Step
    decision: Decision = field(default_factory=lambda: NoChange(why=""))
    args: Mapping[str, Json] = field(default_factory=dict)
    request: Request | None = None
    ready: bool = False
    dormant: str = ""
    """Why it would do nothing now although it might at its turn; it is looked at only for its reach."""
    fault: Fault = Fault.NONE
    state: Mapping[str, Json] = field(default_factory=dict)
    commands: tuple[SentCommand, ...] = ()
    reach: tuple[Target, ...] = ()

    def decide(self, looked: Looked, site: Site) -> None:
        """Decide on what the probe of the step saw."""
        self.commands = looked.commands
        action = site.action(self.step)
        match looked.outcome:
            case Blind(why=why):
                self.decision, self.fault = Blocked(why=why), Fault.LOOK
            case Seen(args=args, state=state, absent=absent):
                seen = to_json(state)
                self.state = seen if isinstance(seen, Mapping) else {"value": seen}
                assert action.decide is not None
                self.decision = Skip(why=absent) if absent else action.decide(args, state)
                own = self.decision.targets if isinstance(self.decision, Change) else ()
                self.reach = action.reach(args, state) if action.reach else own
        if self.dormant:
            self.decision, self.fault = Skip(why=self.dormant), Fault.NONE


def _draft(step: Step, site: Site, seen: Diagnosis, findings: tuple[Finding, ...], force: bool) -> _Draft:
    gate = gate_of(step, findings, force=force)
    if gate is not None and not (step.after and isinstance(gate, Skip)):
        fault = Fault.LOOK if isinstance(gate, Blocked) else Fault.NONE
        return _Draft(step=step, decision=gate, fault=fault)
    prepared = prepare(step, site.scope(seen.states))
    if isinstance(prepared, StepResult):
        refusal = Skip(why=prepared.why) if prepared.status is Status.SKIPPED else Blocked(why=prepared.why)
        return _Draft(step=step, decision=gate or refusal, fault=Fault.NONE if gate else prepared.fault)
    draft = _Draft(step=step, args=prepared, ready=True, dormant=gate.why if gate else "")
    action = site.action(step)
    if action.decide is None:
        draft.decision = gate or NoChange(why=_words(step, site, prepared))
    else:
        draft.request = Request(step=step, args=prepared)
    return draft


def _words(step: Step, site: Site, args: Mapping[str, Json]) -> str:
    from engine.lang.arguments import build

    action = site.action(step)
    assert action.waits is not None
    return f"{action.waits(build(action.Args, args))} (at its turn, not in a plan)"


def _with_conditions(drafts: list[_Draft], playbook: Playbook) -> tuple[PlannedStep, ...]:
    """The steps with what each hinges on: earlier steps that would change something, and their shared findings."""
    restless: list[Step] = []
    planned: list[PlannedStep] = []
    for draft in drafts:
        condition = _condition(draft, restless, playbook)
        if isinstance(draft.decision, Change):
            restless.append(draft.step)
        planned.append(
            PlannedStep(
                id=draft.step.id,
                args=draft.args,
                decision=draft.decision,
                ready=draft.ready,
                condition=condition,
                reach=draft.reach,
            )
        )
    return tuple(planned)


def _condition(draft: _Draft, restless: list[Step], playbook: Playbook) -> str | None:
    step = draft.step
    moved = [it.id for it in restless if it.id in step.after]
    if draft.dormant:
        if not moved:
            return None
        named = " or ".join(step.for_)
        reach = f", at most on {', '.join(it.say for it in draft.reach)}" if draft.reach else ""
        return f"only if {named} is found after {', '.join(moved)}{reach}"
    if not isinstance(draft.decision, Change | NoChange | Blocked):
        return None
    rivals = [it.id for it in restless if not playbook.findings or _share(it, step)]
    if playbook.findings and rivals:
        what = " or ".join(step.for_) or "a finding"
        return f"only while {what} is still there after {', '.join(rivals)}"
    return f"looked at afresh after {', '.join(moved)}" if moved else None


def _share(one: Step, other: Step) -> bool:
    return not one.for_ or not other.for_ or bool(set(one.for_) & set(other.for_))


def _verify(site: Site, seen: Diagnosis) -> tuple[dict[str, Mapping[str, Json]], list[StepResult]]:
    args: dict[str, Mapping[str, Json]] = {}
    results: list[StepResult] = []
    for step in site.playbook.verify:
        match prepare(step, site.scope(seen.states)):
            case StepResult() as refused:
                results.append(replace(refused, fault=Fault.NONE))
            case rendered:
                args[step.id] = rendered
                results.append(
                    StepResult(
                        id=step.id,
                        name=step.name or None,
                        phase=step.phase,
                        action=step.action,
                        status=Status.SKIPPED,
                        why="looked at after the change" if site.playbook.remediate else "looked at in a run",
                    )
                )
    return args, results


def planned_result(draft: _Draft, planned: PlannedStep) -> StepResult:
    """A planned step as a plan reports it."""
    step, decision = draft.step, planned.decision
    plain = StepResult(
        id=step.id,
        name=step.name or None,
        phase=step.phase,
        action=step.action,
        status=Status.OK,
        condition=planned.condition,
        fault=draft.fault,
        state=draft.state,
        commands=draft.commands,
        ignored=step.ignore_failure and isinstance(decision, Blocked) and draft.fault is not Fault.NONE,
    )
    match decision:
        case NoChange(why=why):
            return replace(plain, status=Status.OK, why=why, verified=True)
        case Skip(why=why):
            return replace(plain, status=Status.SKIPPED, why=why)
        case Blocked(why=why):
            return replace(plain, status=Status.BLOCKED, why=why)
        case Change():
            return replace(
                plain,
                status=Status.WOULD_CHANGE,
                why=decision.summary,
                risk=decision.risk,
                diff=decision.diff or None,
                planned=decision.summary,
                victims=victims_of(decision.targets),
                commands=(*draft.commands, *map(SentCommand.planned, (*decision.commands, *decision.finally_))),
            )
