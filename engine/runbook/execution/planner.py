"""Make the plan of one host from a playbook; sends probes only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from runbook.codec import to_json
from runbook.errors import ConfigError
from runbook.execution.diagnosis.diagnose import Diagnosis, diagnose
from runbook.execution.diagnosis.earlier_runs import (
    changed_earlier,
    continued,
    follows_again,
    needs_no_finding,
    permitted,
)
from runbook.execution.diagnosis.findings import evaluate_findings
from runbook.execution.diagnosis.gates import gate_of, victims_of, within
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import SkippedInstance, StepInstance, step_instances
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.diagnosis.refusal import Refusal, fault_of, refused_result, refused_step
from runbook.values.earlier_change import equal_items
from runbook.values.plan import Blocked, Change, Decision, Finding, NoChange, PlannedStep, Skip, Target
from runbook.values.playbook import Playbook, Step, written_id
from runbook.values.result import Fault, HostPlan, SentCommand, Status, StepResult
from runbook.values.shown import described_later, described_rest
from runbook.values.types import Json


def make_plan(context: HostContext, *, force: bool = False) -> tuple[HostPlan, Diagnosis]:
    """Return the plan of the host of *context*, and the diagnosis from which it was made.

    *force* allows steps whose finding is unknown.  Raises TransportError and Cancelled as the connection does.
    """
    with context.recent.while_planning():
        return _made_plan(context, force=force)


def _made_plan(context: HostContext, *, force: bool) -> tuple[HostPlan, Diagnosis]:
    seen = diagnose(context)
    findings = evaluate_findings(context, seen.states)
    drafts = [draft for step in context.playbook.remediate for draft in _drafts(step, context, seen, findings, force)]
    asked = [draft for draft in drafts if draft.request is not None]
    for draft, probed in zip(asked, _probed(asked, context), strict=True):
        draft.decide(probed, context)
    planned = _with_conditions(drafts, context)
    verify_args, verifying = _verify(context, seen)
    steps = tuple(planned_result(draft, planned_step) for draft, planned_step in zip(drafts, planned, strict=True))
    plan = HostPlan(
        host=context.host.name,
        looks=seen.results,
        look_args={
            name: tuple(time.args for time in times if isinstance(time, StepInstance))
            for name, times in seen.taken.items()
        },
        findings=findings,
        steps=planned,
        verify_args=verify_args,
        results=(*steps, *verifying),
    )
    return plan, seen


def _probed(drafts: Sequence[_Draft], context: HostContext) -> tuple[ProbeResult, ...]:
    """Run the probes of *drafts*; recent answers from the diagnosis are used again."""
    return run_probes([draft.request for draft in drafts if draft.request], context, planning=True)


@dataclass(slots=True)
class _Draft:
    """A step of the plan until its decision is final."""

    step: Step
    decision: Decision = field(default_factory=lambda: NoChange(why=""))
    args: Mapping[str, Json] = field(default_factory=dict)
    item: Json = None
    equal: tuple[int, ...] = ()
    """The positions of the items of the step's ``each`` that are equal to its item."""
    request: ProbeRequest | None = None
    ready: bool = False
    dormant: str = ""
    """The reason why the step would do nothing now but may do something later; it is probed only for its targets."""
    gate: Blocked | None = None
    """Set if a finding of the step is unknown: the step changes nothing, unless it is owed clean-up."""
    fault: Fault = Fault.NONE
    inapplicable: bool = False
    """Whether the host lacks the subject of the step."""
    state: Mapping[str, Json] = field(default_factory=dict)
    commands: tuple[SentCommand, ...] = ()
    reach: tuple[Target, ...] = ()
    would: Change | None = None
    awaits: bool = False
    """Whether an earlier step may remove the obstacle, so that the change is planned for later."""
    if_repeated: Decision | None = None
    """The decision as if no earlier run had sent the change."""

    def decide(self, probed: ProbeResult, context: HostContext) -> None:
        """Decide what the step does, from the result of its probe."""
        self.commands = probed.commands
        action = context.action(self.step)
        match probed.outcome:
            case ProbeFailure(why=why, malformed=malformed):
                self.decision = Blocked(why=why, malformed=malformed)
                self.fault = Fault.ARGUMENTS if malformed else Fault.PROBE
            case ProbeAnswer(args=args, state=state, absent=absent):
                seen = to_json(state)
                self.state = seen if isinstance(seen, Mapping) else {"value": seen}
                assert action.decide is not None
                decision = Skip(why=absent) if absent else action.decide(args, state)
                self.decision = continued(context, self.step, self.item, decision, equal=self.equal)
                self.if_repeated = permitted(context, decision) if self.decision is not decision else None
                own = self.decision.targets if isinstance(self.decision, Change) else ()
                self.reach = action.reach(args, state) if action.reach else own
                if isinstance(self.decision, NoChange) and action.latent:
                    self.would = action.latent(args)
                self.inapplicable = bool(absent)
        if self.dormant:
            self.would = self.decision if isinstance(self.decision, Change) else self.would
            self.decision, self.fault = Skip(why=self.dormant), Fault.NONE
        if self.gate or self.dormant:
            self.if_repeated = None

    def decide_within_gate(self) -> None:
        """Withdraw a change that an unknown finding does not permit."""
        decision = self.decision if self.dormant else within(self.gate, self.decision)
        if decision is not self.decision:
            self.decision, self.fault = decision, Fault.PROBE


def _drafts(
    step: Step, context: HostContext, seen: Diagnosis, findings: tuple[Finding, ...], force: bool
) -> list[_Draft]:
    """Return the drafts of *step*: one draft, or one for each item of its ``each``."""
    owed = step.always and bool(context.earlier)  # runs with which this one goes on have changed the host
    gate = None if needs_no_finding(context, step) else gate_of(step, findings, force=force or owed)
    if isinstance(gate, Skip) and not step.after:
        return [_Draft(step=step, decision=gate)]
    times = step_instances(step, context, seen.states)
    if isinstance(times, Skip | Blocked):
        return [_refused(step, times, gate)]
    if not times:
        return [_Draft(step=step, decision=Skip(why=f"{step.each} is empty"))]
    numbered = [step] if not step.each else [replace(step, id=f"{step.id}[{number}]") for number in range(len(times))]
    drafts = [_draft(own, time, context, gate) for own, time in zip(numbered, times, strict=True)]
    if step.each and context.earlier:
        taken = [(each.step.id, each.item) for each in drafts if each.ready]
        for draft in drafts:
            draft.equal = equal_items(draft.step.id, draft.item, taken)
    return drafts


def _draft(step: Step, taking: StepInstance | SkippedInstance, context: HostContext, gate: Refusal | None) -> _Draft:
    if isinstance(taking, SkippedInstance):
        return _refused(step, taking.refusal, gate)
    draft = _Draft(step=step, args=taking.args, item=taking.item, ready=True)
    draft.dormant = gate.why if isinstance(gate, Skip) else ""
    draft.gate = gate if isinstance(gate, Blocked) else None
    if step.if_failed:
        draft.dormant = f"only if {' or '.join(step.if_failed)} fails"
    action = context.action(step)
    if action.decide is None:
        words = _waiting_decision(step, context, taking.args)
        draft.decision = Skip(why=draft.dormant) if draft.dormant else draft.gate or words
        unknown = isinstance(draft.decision, Blocked)
        draft.fault = Fault.PROBE if unknown else Fault.NONE
    else:
        draft.request = ProbeRequest(step=step, args=taking.args)
    return draft


def _refused(step: Step, refusal: Refusal, gate: Refusal | None) -> _Draft:
    if isinstance(gate, Skip):
        return _Draft(step=step, decision=gate)
    return _Draft(step=step, decision=refusal, fault=fault_of(refusal))


def _waiting_decision(step: Step, context: HostContext, args: Mapping[str, Json]) -> NoChange | Blocked:
    from runbook.language.arguments import build

    action = context.action(step)
    assert action.waits is not None
    try:
        words = action.waits(build(action.Args, args))
    except ConfigError as error:
        return Blocked(why=f"its arguments: {error}", malformed=True)
    return NoChange(why=f"{words} (at its turn, not in a plan)")


def _with_conditions(drafts: list[_Draft], context: HostContext) -> tuple[PlannedStep, ...]:
    """Return the steps of the plan, each with its condition: on earlier steps that would change something, or on a
    finding.
    """
    restless: list[Step] = []
    rivals: list[Step] = []
    """The steps that change the host, so that a finding may be gone after them."""
    stuck: list[str] = []
    """Steps that are blocked, and that no earlier change could free."""
    planned: list[PlannedStep] = []
    earlier = {written_id(each.step.id) for each in drafts if changed_earlier(context, each.step)}
    doubtful = ""
    for draft in drafts:
        if not (draft.step.always and rivals):  # else it is owed by then
            draft.decide_within_gate()
        if draft.if_repeated is not None and follows_again(draft.step, {written_id(step.id) for step in restless}):
            draft.decision = draft.if_repeated
        if doubtful and isinstance(draft.decision, Change) and not draft.step.always:
            draft.decision, draft.reach = Blocked(why=f"{doubtful} is in doubt; no later step runs"), ()
        if isinstance(draft.decision, Blocked) and draft.decision.in_doubt:
            doubtful = draft.step.id
        _hold_back(draft, restless, stuck, earlier)
        _clear_the_way(draft, restless)
        condition = _condition(draft, restless, rivals, context.playbook)
        if isinstance(draft.decision, Blocked) and not (restless or draft.step.ignore_failure):
            stuck.append(draft.step.id)
        if isinstance(draft.decision, Change):
            restless.append(draft.step)
            rivals += [] if draft.decision.only_reads else [draft.step]
        planned.append(
            PlannedStep(
                id=draft.step.id,
                args=draft.args,
                item=draft.item,
                decision=draft.decision,
                ready=draft.ready,
                condition=condition,
                reach=draft.reach,
                would=draft.would,
            )
        )
    return tuple(planned)


def _hold_back(draft: _Draft, restless: list[Step], stuck: list[str], earlier: set[str]) -> None:
    """Withdraw the change of *draft* if a step before it, on which it depends, is blocked or would change nothing."""
    moved = {written_id(step.id) for step in restless} | earlier
    idle = [word for word in draft.step.if_changed if word not in moved]
    wants = isinstance(draft.decision, Change) or (draft.request is None and isinstance(draft.decision, NoChange))
    if draft.step.if_changed and len(idle) == len(draft.step.if_changed) and wants:
        would = "it would" if len(idle) == 1 else "they would"
        draft.decision = Skip(why=f"only if {' or '.join(idle)} changes something, but {would} not")
        draft.dormant = draft.decision.why
    held = next((word for word in stuck if written_id(word) in draft.step.after), None)
    if held and isinstance(draft.decision, Change) and not draft.step.always:
        draft.decision, draft.reach = Blocked(why=f"it comes after {held}, which is blocked", rests_on=(held,)), ()


def _clear_the_way(draft: _Draft, restless: list[Step]) -> None:
    """Plan the change of a blocked *draft* for later, if an earlier step of the plan may remove the obstacle."""
    blocked = draft.decision
    if not isinstance(blocked, Blocked) or blocked.then is None or not blocked.clears:
        return
    if {written_id(step.id) for step in restless}.intersection(draft.step.after):
        draft.decision, draft.would, draft.reach = (
            Skip(why=f"not yet: {blocked.why}"),
            blocked.then,
            blocked.then.targets,
        )
        draft.awaits = True


def _condition(draft: _Draft, restless: list[Step], rivals: list[Step], playbook: Playbook) -> str | None:
    """Return the condition of *draft* when it runs, in words for the plan; None if it has none.

    *restless*: the earlier steps that would change something.  *rivals*: the steps of *restless* that change the host.
    """
    step = draft.step
    before = list(dict.fromkeys(written_id(change.id) for change in restless))
    if draft.dormant:
        return _condition_of_dormant(draft, before)
    if draft.awaits:
        moved = ", ".join(name for name in before if name in step.after)
        return f"probed again after {moved}{described_later(draft.would)}"
    if not isinstance(draft.decision, Change | NoChange | Blocked):
        return None
    if step.if_changed:
        moving = [word for word in step.if_changed if word in before]
        return f"only if {' or '.join(moving)} changes something" if moving else None
    if step.always:  # also where there is nothing to clean up as things stand: an earlier step may leave something
        comes = isinstance(draft.decision, Change) or draft.would is not None
        if draft.gate and comes and rivals:
            names = dict.fromkeys(written_id(rival.id) for rival in rivals)
            return f"only if {' or '.join(names)} changes something, as {draft.gate.why}"
        return "whatever happened before" if comes and before else None
    return _condition_of_findings(step, rivals, before, playbook)


def _condition_of_dormant(draft: _Draft, before: list[str]) -> str | None:
    """Return the condition of a step that runs only if a step of *before* fails, or if its finding is present after
    it.
    """
    step = draft.step
    if step.if_failed:
        failing = [name for name in step.if_failed if name in before]
        return f"only if {' or '.join(failing)} fails{_reach(draft)}" if failing else None
    moved = [name for name in before if name in step.after]
    found = f"only if {' or '.join(step.for_)} is present after {', '.join(moved)}"
    return f"{found}{_reach(draft)}" if moved else None


def _condition_of_findings(step: Step, restless: list[Step], before: list[str], playbook: Playbook) -> str | None:
    """Return the condition of a step if an earlier step may cure its finding, or may change the state that it
    probes.
    """
    rivals = [each for each in restless if not playbook.findings or _share(each, step)]
    if playbook.findings and rivals:
        what = " or ".join(step.for_) or "a finding"
        named = dict.fromkeys(written_id(rival.id) for rival in rivals if written_id(rival.id) != written_id(step.id))
        return f"only while {what} is still present after {', '.join(named)}" if named else None
    moved = [name for name in before if name in step.after]
    return f"probed again after {', '.join(moved)}" if moved else None


def _reach(draft: _Draft) -> str:
    """Return the targets that the step may affect at most when it runs, as the end of a sentence."""
    if not draft.reach:
        return described_later(draft.would)
    return f", at most on {', '.join(target.say for target in draft.reach)}"


def _share(one: Step, other: Step) -> bool:
    return not one.for_ or not other.for_ or bool(set(one.for_) & set(other.for_))


def _verify(context: HostContext, seen: Diagnosis) -> tuple[dict[str, Mapping[str, Json]], list[StepResult]]:
    args: dict[str, Mapping[str, Json]] = {}
    results: list[StepResult] = []
    for step in context.playbook.verify:
        times = step_instances(step, context, seen.states)
        if isinstance(times, Skip | Blocked):
            results.append(refused_step(step, times, fault=Fault.NONE))
            continue
        if not times:
            results.append(refused_step(step, Skip(why=f"{step.each} is empty"), fault=Fault.NONE))
        for number, taking in enumerate(times):
            own = replace(step, id=f"{step.id}[{number}]") if step.each else step
            match taking:
                case SkippedInstance(refusal=refusal):
                    results.append(refused_step(own, refusal, fault=Fault.NONE))
                case StepInstance(args=rendered):
                    args[own.id] = rendered
                    why = "probed after the change" if context.playbook.remediate else "probed in a run"
                    results.append(refused_step(own, Skip(why=why), fault=Fault.NONE))
    return args, results


def planned_result(draft: _Draft, planned: PlannedStep) -> StepResult:
    """Return the result of a planned step, as the plan reports it."""
    step, decision = draft.step, planned.decision
    plain = replace(
        StepResult.of(step),
        condition=planned.condition,
        fault=draft.fault,
        state=draft.state,
        commands=draft.commands,
        ignored=step.ignore_failure and isinstance(decision, Blocked) and draft.fault is not Fault.NONE,
    )
    if planned.condition and draft.would and not isinstance(decision, Change | Blocked):  # it may come to that
        later = map(SentCommand.planned, (*draft.would.commands, *draft.would.finally_))
        plain = replace(plain, risk=draft.would.risk, planned=draft.would.summary, commands=(*draft.commands, *later))
    match decision:
        case NoChange(why=why):
            why = described_rest(why, planned.condition, draft.would)
            return replace(plain, status=Status.OK, why=why, verified=draft.request is not None)
        case Skip():
            skipped = refused_result(plain, decision, fault=plain.fault)
            return replace(skipped, inapplicable=draft.inapplicable and not draft.dormant)
        case Blocked(diff=diff):
            blocked = refused_result(plain, decision, fault=plain.fault, ignored=plain.ignored)
            return replace(blocked, status=Status.DRIFTED if decision.drifted else blocked.status, diff=diff or None)
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
