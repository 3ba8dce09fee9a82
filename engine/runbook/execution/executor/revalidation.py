"""Probe again, after a yes or a wait for the lock, whether the findings still call for the planned steps."""

from __future__ import annotations

from dataclasses import replace

from runbook.execution.diagnosis.diagnose import named
from runbook.execution.diagnosis.gates import gate_of, is_cleanup
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import skipped_now
from runbook.execution.executor.finding_watch import FindingWatch
from runbook.values.plan import Blocked, Change, Finding, PlannedStep, Presence, Skip
from runbook.values.playbook import FindingRule, Step, written_step
from runbook.values.result import HostPlan, Status

_WEIGHT = {Presence.ABSENT: 0, Presence.GONE: 0, Presence.UNKNOWN: 1, Presence.PRESENT: 2}


class Revalidation:
    """The findings and guards that a plan rests on, until the run itself has changed the host.

    From then on what the steps do is what moves the probes: the findings are the watch's, and guards stay as they were.
    """

    def __init__(self, context: HostContext, plan: HostPlan, watch: FindingWatch, *, shown: bool, force: bool) -> None:
        self._context, self._plan, self._watch, self._shown, self._force = context, plan, watch, shown, force
        self._withdrawn: dict[str, Skip | Blocked] = {}
        self.due = shown and any(isinstance(step.decision, Change) for step in plan.steps)
        """Time has passed since the probes that the plan rests on were taken."""

    def look_again(self) -> None:
        """Where it is due, run those probes once more that the findings and the guards of the steps rest on.

        Raises TransportError and Cancelled as the connection does.
        """
        if not self.due:
            return
        written = self._context.playbook.remediate
        steps = [(written_step(written, step.id), step) for step in self._plan.steps if step.ready]
        rules = self._rules([step for step, _ in steps])
        probes = {probe for rule in rules for probe in rule.probes}
        for step, _ in steps:
            probes |= named(replace(step, args={}))
        self._watch.probe_once_more(probes, rules)
        for step, planned in steps:
            if refused := skipped_now(step, planned.item, self._context, self._watch.diagnosis.states):
                why = f"no longer called for: {refused.why}"
                blocked = Blocked(why=why, rests_on=refused.rests_on)
                self._withdrawn[planned.id] = Skip(why=why) if refused.status is Status.SKIPPED else blocked
        self.due = False

    def withdrawn(self, step: Step, *, wrote: bool) -> Skip | Blocked | None:
        """Why nothing calls for *step* any more; None where something does.  *wrote*: the run has changed the host."""
        if why := self._withdrawn.get(step.id):
            return why
        if wrote or is_cleanup(step):
            return None
        then, now, least = (
            gate_of(step, findings, force=self._force)
            for findings in (self._plan.findings, self._watch.findings, self.findings())
        )
        if least is not None and then is None:
            return replace(least, why=f"no longer called for: {least.why}")
        if isinstance(then, Skip) and now is None:
            return Skip(why=f"{then.why} in the plan that was shown; what has appeared since is left alone")
        return None

    def gate(self, step: Step, planned: PlannedStep, *, wrote: bool, owes: bool) -> Skip | Blocked | None:
        """Why the findings of this moment keep *step* from changing anything.

        *owes*: it is clean-up after a change, which is done also where its finding is unknown.
        """
        if is_cleanup(step):
            return None
        if step.always and wrote:  # as the plan was made: it cleans up, also where the finding is gone
            calling = self._plan.findings
        else:
            calling = self._watch.findings if wrote or not planned.ready else self.findings()
        return gate_of(step, calling, force=self._force or owes)

    def appeared(self, named_findings: tuple[str, ...]) -> str:
        """The findings of *named_findings* that are there now, when none of them was when the plan was made."""
        present = [finding.id for finding in self._watch.findings if finding.status is Presence.PRESENT]
        now = [name for name in present if name in named_findings]
        then = {finding.id for finding in self._plan.findings if finding.status in (Presence.PRESENT, Presence.UNKNOWN)}
        return "" if then & set(now) or not now else ", ".join(now)

    def findings(self) -> tuple[Finding, ...]:
        """The findings as they may call for a step: where a plan was shown, what has appeared since does not."""
        if not self._shown:
            return self._watch.findings
        then = {finding.id: finding for finding in self._plan.findings}
        return tuple(
            min(finding, then[finding.id], key=lambda one: _WEIGHT[one.status]) for finding in self._watch.findings
        )

    def _rules(self, steps: list[Step]) -> list[FindingRule]:
        """The findings that call for any of *steps*, and those that would supersede them."""
        every = self._context.playbook.findings
        wanted = {finding_rule.id for finding_rule in every if any(finding_rule.id in step.for_ for step in steps)}
        if any(not step.for_ and not is_cleanup(step) for step in steps):
            wanted |= {finding_rule.id for finding_rule in every if finding_rule.severity.drives}
        for rule in reversed(every):  # what supersedes a finding stands before it
            wanted |= {*rule.unless} if rule.id in wanted else set()
        return [finding_rule for finding_rule in every if finding_rule.id in wanted]
