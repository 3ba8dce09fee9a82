"""The evidence for the steps of a host: the latest probes, their age, and the steps that the findings still call
for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from math import inf
from typing import Any

from runbook.dataclass import dataclass
from runbook.execution.diagnosis.diagnose import Diagnosis, names_used, probe_again
from runbook.execution.diagnosis.earlier_runs import needs_no_finding
from runbook.execution.diagnosis.findings import evaluate_findings
from runbook.execution.diagnosis.gates import gate_of, is_cleanup
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import prepare, skipped_now
from runbook.execution.diagnosis.polling import poll
from runbook.execution.diagnosis.refusal import Refusal, no_longer
from runbook.protocols import NARROWS
from runbook.text.shortened import first_few
from runbook.values.plan import Blocked, Change, Finding, PlannedStep, Presence, Skip
from runbook.values.playbook import FindingRule, Step, written_step
from runbook.values.result import HostPlan
from runbook.values.types import Json, seconds

POLL = 1.0
"""The seconds between two probes while the run waits for a finding to be gone."""

VALID = 5.0
"""The seconds for which a probe after the last change is recent enough for every finding."""

_WEIGHT = {Presence.ABSENT: 0, Presence.GONE: 0, Presence.UNKNOWN: 1, Presence.PRESENT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentArguments:
    """The arguments of a step when the step runs, and the planned items that were removed."""

    args: Mapping[str, Json]
    dropped: tuple[Json, ...] = ()
    """The items that were in the plan and that the expression no longer gives."""

    def dropped_in_words(self) -> str:
        """Return the removed items as the end of a sentence; empty if there are none."""
        if not self.dropped:
            return ""
        said = (
            f"pid {each['pid']}" if isinstance(each, Mapping) and "pid" in each else str(each) for each in self.dropped
        )
        return f"; left alone, because it is not called for any more: {first_few(said, 5)}"


class Evidence:
    """The latest diagnosis of one host, its findings, and the steps that the findings still call for.

    Until the run has changed the host, a step needs the findings of its plan.  After that, the run's own steps affect
    the probes: then the current findings decide, together with the conditions (``when``) of the plan.
    """

    def __init__(self, context: HostContext, plan: HostPlan, seen: Diagnosis, *, shown: bool, force: bool) -> None:
        """Store the plan and its diagnosis *seen*; *shown*: whether a person has seen the plan."""
        self._context, self._plan, self._shown, self._force = context, plan, shown, force
        self._planned = {finding.id: finding for finding in plan.findings}
        self._confirmed: set[str] = set()
        """The findings for which the run has already waited since the last change."""
        self._probed_at: dict[str, float] = {}
        """The time on the clock when each probe last ran after the last change."""
        self._withdrawn: dict[str, Refusal] = {}
        self._is_old = shown and any(isinstance(step.decision, Change) for step in plan.steps)
        """Whether time has passed since the probes of the plan, because a person was asked or a lock was waited for."""
        self.diagnosis = seen
        self.findings = plan.findings

    # how old it may be

    def host_changed(self) -> None:
        """Record that the host was changed: earlier probes are no longer valid."""
        self._confirmed.clear()
        self._probed_at.clear()

    def host_changed_by_another_run(self, *, wrote: bool) -> None:
        """Record that another run was at work on the host; *wrote*: this run has changed the host, too."""
        self.host_changed()
        self._is_old = not wrote

    def time_passed(self) -> None:
        """Record that the run has waited: each probe is run again when it is needed."""
        self._probed_at.clear()

    def connection_lost(self, why: str) -> None:
        """Make every finding unknown because of *why*: the host can no longer be probed."""
        self.findings = tuple(replace(finding, status=Presence.UNKNOWN, why=why) for finding in self.findings)

    def revalidate(self) -> None:
        """Run the probes of the plan again if they are old, and withdraw the steps that are no longer called for.

        Raises TransportError and Cancelled as the connection does.
        """
        if not self._is_old:
            return
        written = self._context.playbook.remediate
        steps = [(written_step(written, step.id), step) for step in self._plan.steps if step.ready]
        rules = self._rules([step for step, _ in steps])
        probes = {probe for rule in rules for probe in rule.probes}
        for step, _ in steps:
            probes |= names_used(replace(step, args={}), self._context.playbook)
        # nothing was changed: no finding is given time to go (`settle`), only to be really gone
        self._until_settled(probes, [rule for rule in rules if rule.gone_for and self._was_present(rule)], 0.0)
        for step, planned in steps:
            if refusal := skipped_now(step, planned.item, self._context, self.diagnosis.states):
                self._withdrawn[planned.id] = no_longer(refusal)
        self._is_old = False

    def recheck(self, wanted: tuple[str, ...], *, last: bool = False) -> None:
        """Run the probes of the findings *wanted* again, until each finding is gone, or its waiting time is over.

        *last*: run every probe of the playbook, not only the probes of *wanted*.
        """
        rules = [finding for finding in self._context.playbook.findings if finding.id in wanted]
        open_rules = [rule for rule in rules if rule.id not in self._confirmed]
        if not open_rules and not last:
            return
        every = [step.id for step in self._context.playbook.diagnose]
        probes = every if last else sorted({probe for rule in open_rules for probe in rule.probes})
        acted = [rule for rule in open_rules if (rule.settle or rule.gone_for) and self._was_present(rule)]
        self._until_settled(probes, acted, max((rule.settle for rule in acted), default=0.0))
        self._confirmed.update(rule.id for rule in open_rules)

    def refresh(self, probes: Collection[str]) -> None:
        """Run *probes* again, except probes that are recent and were run after the last change.

        Raises TransportError and Cancelled as the connection does.
        """
        oldest = self._context.clock.now() - VALID
        if due := [probe for probe in probes if self._probed_at.get(probe, oldest) <= oldest]:
            self._probe(due)

    def _until_settled(self, probes: Collection[str], acted: Sequence[FindingRule], settle: float) -> None:
        """Run *probes* until the findings of *acted* are gone and stay gone, or *settle* seconds have passed."""
        clock, began = self._context.clock, self._context.clock.now()
        gone_for = max((rule.gone_for for rule in acted), default=0.0)
        absent_since: float | None = None
        first = True

        def why_to_wait() -> str:
            nonlocal absent_since, first
            if first:
                self.refresh(probes)
            else:
                self._probe(probes)
            first, now = False, clock.now()
            there = [rule.id for rule in acted if self._status(rule.id) in (Presence.PRESENT, Presence.UNKNOWN)]
            if there:
                absent_since = None
                words = f"waiting up to {seconds(settle)} for {', '.join(there)} to go"
                return words if now - began < settle else ""
            absent_since = now if absent_since is None else absent_since
            words = f"making sure for {seconds(gone_for)} that {', '.join(rule.id for rule in acted)} stays gone"
            return words if now - absent_since < gone_for else ""

        def due() -> float:
            return inf if absent_since is None else absent_since + gone_for

        poll(self._context, why_to_wait, lambda why: not why, within=inf, every=POLL, waiting=lambda why: why, due=due)

    def _probe(self, probes: Collection[str]) -> None:
        self._probed_at |= dict.fromkeys(probes, self._context.clock.now())
        self.diagnosis = probe_again(self._context, self.diagnosis, probes)
        self.findings = evaluate_findings(self._context, self.diagnosis.states, self._planned)

    def _status(self, finding_id: str) -> Presence:
        return next(finding.status for finding in self.findings if finding.id == finding_id)

    def _was_present(self, rule: FindingRule) -> bool:
        return self._planned[rule.id].status is Presence.PRESENT

    # what it calls for

    def withdrawn(self, step: Step, *, wrote: bool) -> Refusal | None:
        """Return the reason why *step* is no longer called for; None if it still is.

        *wrote*: the run has changed the host.
        """
        if refusal := self._withdrawn.get(step.id):
            return refusal
        if wrote or needs_no_finding(self._context, step):
            return None
        then, now, least = (
            gate_of(step, findings, force=self._force)
            for findings in (self._plan.findings, self.findings, self._permitting())
        )
        if least is not None and then is None:
            return no_longer(least)
        if isinstance(then, Skip) and now is None:
            return Skip(why=f"{then.why} in the plan that was shown; what has appeared since is left alone")
        return None

    def gate(self, step: Step, planned: PlannedStep, *, wrote: bool, owes: bool) -> Refusal | None:
        """Return the reason why the current findings do not allow *step* to change anything; None if they do.

        *wrote*: the run has changed the host.  *owes*: the step is clean-up after a change, which runs also if its
        finding
        is unknown.
        """
        if needs_no_finding(self._context, step):
            return None
        if step.always and wrote:  # as the plan was made: it cleans up, also where the finding is gone
            calling = self._plan.findings
        else:
            calling = self.findings if wrote or not planned.ready else self._permitting()
        return gate_of(step, calling, force=self._force or owes)

    def appeared(self, wanted: tuple[str, ...]) -> str:
        """Return the ids of the findings in *wanted* that are present now, separated by commas.

        Empty if one of these findings was present or unknown in the plan.
        """
        present = [finding.id for finding in self.findings if finding.status is Presence.PRESENT]
        now = [name for name in present if name in wanted]
        then = {finding.id for finding in self._plan.findings if finding.status in (Presence.PRESENT, Presence.UNKNOWN)}
        return "" if then & set(now) or not now else ", ".join(now)

    def has_current_arguments(self, step: Step) -> bool:
        """Whether *step* has a list argument from an expression, which may have fewer items now than in the plan."""
        lists = _restrictable(self._context.action(step).Args).keys() & step.args.keys()
        return bool(lists) and bool(names_used(step, self._context.playbook))

    def current_arguments(self, step: Step, planned: PlannedStep) -> CurrentArguments | Refusal:
        """Return the arguments of *planned*, without list items that the current probes no longer give.

        The probes of these arguments are run again if they are older than the last change.  Returns a refusal if the
        step is no longer called for, or if that is unknown.  Raises TransportError and Cancelled.
        """
        self.refresh(names_used(step, self._context.playbook))
        states = self.diagnosis.states
        refusal = skipped_now(step, planned.item, self._context, states)
        now = refusal or prepare(step, self._context.scope(states, step.part, planned.item))
        if isinstance(now, Skip):
            return no_longer(now)
        if isinstance(now, Blocked):
            return now
        args, dropped = dict(planned.args), list[Json]()
        for name, keys in _restrictable(self._context.action(step).Args).items():
            listed, fresh = args.get(name), now.get(name)
            if isinstance(listed, Sequence) and isinstance(fresh, Sequence):
                there = [_identity(each, keys) for each in fresh]
                args[name] = [each for each in listed if _identity(each, keys) in there]
                dropped += [each for each in listed if _identity(each, keys) not in there]
        return CurrentArguments(args=args, dropped=tuple(dropped))

    def _permitting(self) -> tuple[Finding, ...]:
        """Return the findings that may call for a step; if a person has seen the plan, new findings do not count."""
        if not self._shown:
            return self.findings
        return tuple(
            min(finding, self._planned[finding.id], key=lambda one: _WEIGHT[one.status]) for finding in self.findings
        )

    def _rules(self, steps: list[Step]) -> list[FindingRule]:
        """Return the findings that call for one of *steps*, and the findings that supersede them (``unless``)."""
        every = self._context.playbook.findings
        wanted = {rule.id for rule in every if any(rule.id in step.for_ for step in steps)}
        if any(not step.for_ and not is_cleanup(step) for step in steps):
            wanted |= {rule.id for rule in every if rule.severity.drives}
        for rule in reversed(every):  # what supersedes a finding stands before it
            wanted |= {*rule.unless} if rule.id in wanted else set()
        return [rule for rule in every if rule.id in wanted]


def _restrictable(kind: type[Any]) -> Mapping[str, Collection[str]]:
    """Return the arguments from which items may be removed, each with the keys that identify an item."""
    return {field.name: field.metadata[NARROWS] for field in fields(kind) if NARROWS in field.metadata}


def _identity(each: Json, keys: Collection[str]) -> Json:
    return [each.get(key) for key in keys] if isinstance(each, Mapping) else each
