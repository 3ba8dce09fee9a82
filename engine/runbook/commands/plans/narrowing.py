"""Compare fresh plans with a saved plan: a host that would get more than was shown is ``drifted``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runbook.commands.one_run import Run
from runbook.commands.plans.document import SavedPlan
from runbook.commands.workspace import Person
from runbook.execution.executor.permitted import Difference, More, difference, shown_host
from runbook.execution.fleet import Planned
from runbook.reporting.wording.host_digest import NOT_AS_PLANNED
from runbook.values.event import Answered, Asked
from runbook.values.plan import Finding
from runbook.values.result import HostResult, Status, StepResult, Verdict
from runbook.values.shown import ShownHost
from runbook.values.types import plural

MOST_LINES = 20
"""The maximum number of hosts that are listed one by one with the work that is left out."""


class Narrowing:
    """The part of fresh plans that a plan which a person has seen permits.

    *hosts* and *findings*: that plan, made at the time *made*.  *replans*: for drifted hosts, ask to use fresh plans.
    """

    def __init__(
        self,
        hosts: Mapping[str, ShownHost],
        findings: Mapping[str, tuple[Finding, ...]],
        made: str,
        run: Run,
        person: Person,
        *,
        replans: bool,
    ) -> None:
        self._run, self._person, self._replans = run, person, replans
        self._hosts, self._findings, self._made = hosts, findings, made

    @classmethod
    def of(cls, saved: SavedPlan, run: Run, person: Person, *, replans: bool) -> Narrowing:
        """Return the part of fresh plans that *saved* permits."""
        hosts = {host.host: host for host in saved.hosts}
        findings = {host.host: host.findings for host in saved.result.hosts}
        return cls(hosts, findings, saved.made.at, run, person, replans=replans)

    def narrowed(self, planned: tuple[Planned, ...]) -> tuple[Planned, ...]:
        """Return *planned*; nothing will be done on a host whose fresh plan does more than the saved plan."""
        found = {each.host.name: self._difference(each) for each in planned if each.plan}
        self._say_less({host: each.less for host, each in found.items() if each.less and not each.more})
        drifted = [each for each in planned if each.plan and found[each.host.name].more]
        if drifted and self._replans and not self._run.stop.level() and self._agreed(drifted):
            return planned
        names = {each.host.name for each in drifted}
        return tuple(
            self._held_back(each, found[each.host.name].more) if each.host.name in names else each for each in planned
        )

    def _difference(self, planned: Planned) -> Difference:
        assert planned.plan
        host = planned.host.name
        fresh = self._run.masked_plan(planned.plan)
        shown = self._hosts.get(host) or ShownHost(host=host, steps=())
        return difference(shown, shown_host(fresh), self._findings.get(host, ()), fresh.findings)

    def _held_back(self, planned: Planned, more: Sequence[More]) -> Planned:
        """Return the host of *planned* with ``drifted`` as its result, so that nothing is carried out on it."""
        words = "; ".join(each.words for each in more)
        steps = tuple(_not_sent(step, more) for step in planned.result.steps)
        result = replace(planned.result, verdict=Verdict.DRIFTED, error=f"{NOT_AS_PLANNED}{words}", steps=steps)
        return replace(planned, seen=None, result=result)

    def _agreed(self, drifted: Sequence[Planned]) -> bool:
        """Show the new plans of the drifted hosts, and ask whether to carry them out."""
        names = [planned.host.name for planned in drifted]
        self._run.emit(Asked(hosts=tuple(names)))
        plans = tuple(self._run.masked_plan(planned.plan) for planned in drifted if planned.plan)
        self._person.say(f"{plural(len(names), 'host')} changed since the plan was made ({self._made}); again:")
        agreed = self._person.ask(plans, len(names))
        self._run.emit(Answered(answer="yes" if agreed else "no"))
        return agreed

    def _say_less(self, less: dict[str, tuple[str, ...]]) -> None:
        for host, words in list(less.items())[:MOST_LINES]:
            self._person.say(f"{host}: less than the plan showed: {'; '.join(words)}")
        if len(less) > MOST_LINES:
            self._person.say(f"less than the plan showed is done on {plural(len(less) - MOST_LINES, 'more host')}, too")


def _not_sent(step: StepResult, more: Sequence[More]) -> StepResult:
    """Return the result of *step* on a host to which nothing is sent."""
    sent = tuple(command for command in step.commands if command.exit_code is not None)
    if own := [each.words for each in more if each.step == step.id]:
        return replace(step, status=Status.DRIFTED, why=f"not sent: {'; '.join(own)}", commands=sent, victims=())
    if step.status is not Status.WOULD_CHANGE:
        return step
    why = "not sent: the host has changed since the plan was made"
    return replace(step, status=Status.BLOCKED, why=why, commands=sent, victims=())


def ends_of_others(saved: SavedPlan) -> tuple[HostResult, ...]:
    """Return the results of the hosts without a plan, to which nothing is sent."""
    planned = {host.host for host in saved.hosts}
    return tuple(
        HostResult(
            host=result.host,
            verdict=Verdict.NOT_STARTED,
            error=f"the plan has nothing for this host: it was {result.verdict} when the plan was made",
            steps=tuple(_blocked(step) for step in result.steps),
        )
        for result in saved.result.hosts
        if result.host not in planned
    )


def _blocked(step: StepResult) -> StepResult:
    return replace(step, status=Status.BLOCKED, why="not started: the plan has nothing for this host", commands=())
