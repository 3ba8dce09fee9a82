"""Re-evaluate the findings of a host after each change, waiting for `settle` and `gone_for`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from runbook.execution.diagnosis.diagnose import Diagnosis, probe_again
from runbook.execution.diagnosis.findings import evaluate_findings
from runbook.execution.diagnosis.host_context import HostContext
from runbook.values.event import Waiting
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import FindingRule
from runbook.values.types import seconds

POLL = 1.0
"""Seconds between two probes while a finding is given time to go."""

VALID = 5.0
"""Seconds for which what a probe has seen since the last change counts for every finding."""


class FindingWatch:
    """The latest diagnosis of one host, and the findings that follow from it."""

    def __init__(self, context: HostContext, first: Diagnosis, findings: tuple[Finding, ...]) -> None:
        self._context = context
        self._before = {finding.id: finding for finding in findings}
        self._confirmed: set[str] = set()
        self._read: dict[str, float] = {}
        """When each probe was last run, on the clock, since the last change."""
        self.diagnosis = first
        self.findings = findings
        self.stale = False
        """A change was made since the findings were last inspected."""

    def changed(self) -> None:
        """Note that the host has been changed, so that nothing is confirmed any more."""
        self.stale = True
        self._confirmed.clear()
        self._read.clear()

    def outdated(self) -> None:
        """Note that something was waited for, so that what the probes saw before counts no more."""
        self._read.clear()

    def recheck(self, named: tuple[str, ...], *, last: bool = False) -> None:
        """Run the probes behind the findings *named* again: for as long as each may settle, or must stay gone.

        *last*: run every probe of the playbook, not only those.
        """
        rules = [finding for finding in self._context.playbook.findings if finding.id in named]
        open_rules = [rule for rule in rules if rule.id not in self._confirmed]
        if not open_rules and not last:
            return
        every = [step.id for step in self._context.playbook.diagnose]
        wanted = every if last else sorted({probe for rule in open_rules for probe in rule.probes})
        acted = [
            rule
            for rule in open_rules
            if (rule.settle or rule.gone_for) and self._before[rule.id].status is Presence.PRESENT
        ]
        self._until_settled(wanted, acted, max((finding_rule.settle for finding_rule in acted), default=0.0))
        self._confirmed.update(rule.id for rule in open_rules)
        self.stale = False

    def probe_once_more(self, wanted: Collection[str], rules: Sequence[FindingRule]) -> None:
        """Run the probes *wanted* again before anything was changed: *rules* are given no time to go, only to be gone.

        Raises TransportError and Cancelled as the connection does.
        """
        acted = [rule for rule in rules if rule.gone_for and self._before[rule.id].status is Presence.PRESENT]
        self._until_settled(wanted, acted, 0.0)

    def refresh(self, wanted: Collection[str]) -> None:
        """Run the probes *wanted* again, but for those that were run since the last change, and lately.

        Raises TransportError and Cancelled as the connection does.
        """
        oldest = self._context.clock.now() - VALID
        if due := [probe for probe in wanted if self._read.get(probe, oldest) <= oldest]:
            self._probe(due)

    def forget(self, why: str) -> None:
        """Nothing can be inspected any more: what was found is now unknown."""
        self.findings = tuple(replace(finding, status=Presence.UNKNOWN, why=why) for finding in self.findings)

    def _until_settled(self, wanted: Collection[str], acted: Sequence[FindingRule], settle: float) -> None:
        clock, began = self._context.clock, self._context.clock.now()
        gone_for = max((rule.gone_for for rule in acted), default=0.0)
        absent_since: float | None = None
        reported = False
        self.refresh(wanted)
        while True:
            now = clock.now()
            there = [rule for rule in acted if self._status(rule.id) in (Presence.PRESENT, Presence.UNKNOWN)]
            if there:
                absent_since = None
                if now - began >= settle:
                    return
                why = f"waiting up to {seconds(settle)} for {', '.join(rule.id for rule in there)} to go"
            else:
                absent_since = now if absent_since is None else absent_since
                if now - absent_since >= gone_for:
                    return
                why = f"making sure for {seconds(gone_for)} that {', '.join(rule.id for rule in acted)} stays gone"
            if not reported:
                self._context.run.emit(Waiting(host=self._context.host.name, why=why))
                reported = True
            clock.sleep(POLL)
            self._probe(wanted)

    def _probe(self, wanted: Collection[str]) -> None:
        self._read |= dict.fromkeys(wanted, self._context.clock.now())
        self.diagnosis = probe_again(self._context, self.diagnosis, wanted)
        self.findings = evaluate_findings(self._context, self.diagnosis.states, self._before)

    def _status(self, finding_id: str) -> Presence:
        return next(finding.status for finding in self.findings if finding.id == finding_id)
