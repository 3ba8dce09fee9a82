"""The evidence for a host's steps grows old, is given time to change, and only takes away from what was planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from runbook.execution.diagnosis import verdict
from runbook.execution.executor import Consent, execute
from runbook.execution.executor.evidence import VALID, CurrentArguments, Evidence
from runbook.execution.planner import make_plan
from runbook.protocols import NARROWS
from runbook.values.plan import NoChange, Presence, Skip
from runbook.values.playbook import Phase, Step
from runbook.values.result import Verdict
from tests.support.tables import every_row
from tests.support.toy_actions import (
    ACTIONS,
    Procs,
    ToyHost,
    action,
    book,
    end,
    look_at,
    probe_all,
    restart,
    rule,
    site,
    with_run,
)

ZOMBIE = {4: (1, "zombie")}
BLIND: Mapping[int, tuple[int, str]] = {-1: (0, "")}
"""A moment in which the processes cannot be listed."""


class Scripted(ToyHost):
    """A host whose processes are these, probe after probe; the last ones stay."""

    moments: tuple[Mapping[int, tuple[int, str]], ...] = ()

    def _run(self, command):
        if command.argv == ("ps",) and self.moments:
            now, *later = self.moments
            self.procs, self.blind = ({}, True) if now is BLIND else (dict(now), False)
            self.moments = tuple(later)
        return super()._run(command)


def evidence_of(host: ToyHost, *, shown: bool = False, step: Step | None = None, **finding: Any) -> Evidence:
    """What was seen of *host* when the plan was made."""
    made = book(
        step or restart("r", for_=("held",)), findings=(rule(**finding),), diagnose=(look_at("zombie"),)
    )  # fmt: skip
    where = site(made, host)
    plan, seen = make_plan(where)
    host.sent.clear()
    return Evidence(where, plan, seen, shown=shown, force=False)


def clock(evidence: Evidence) -> Any:
    return evidence._context.clock


def test_what_was_seen_counts_for_a_few_seconds():
    """Mutants: `VALID` without end, or of no time; `refresh` that does not note when it was."""
    host = ToyHost(procs=dict(ZOMBIE))
    evidence = evidence_of(host)
    evidence.refresh(["seen"])
    clock(evidence).sleep(VALID - 1)
    evidence.refresh(["seen"])
    assert len(host.sent) == 1
    clock(evidence).sleep(1)
    evidence.refresh(["seen"])
    assert len(host.sent) == 2


@every_row(
    ("finding", "moments", "seconds", "status"),
    [
        ({"settle": 3.0}, (ZOMBIE, ZOMBIE, {}), 2.0, Presence.GONE),
        ({"settle": 3.0}, (ZOMBIE,), 3.0, Presence.PRESENT),
        ({"settle": 3.0}, (BLIND, {}), 1.0, Presence.GONE),
        ({}, (ZOMBIE,), 0.0, Presence.PRESENT),
        ({"gone_for": 2.0}, ({},), 2.0, Presence.GONE),
        ({"gone_for": 2.5}, ({},), 2.5, Presence.GONE),
        ({"gone_for": 2.0, "settle": 9.0}, ({}, ZOMBIE, {}), 4.0, Presence.GONE),
        ({"gone_for": 2.0}, ({}, ZOMBIE), 1.0, Presence.PRESENT),
    ],
)
def test_a_finding_has_its_time_to_go_and_must_stay_gone(finding, moments, seconds, status):
    """Mutants: no time; an unknown one counts as gone; the time of its absence does not begin anew when it returns;
    `poll` that does not mind when it is due."""
    host = Scripted(procs=dict(ZOMBIE))
    evidence = evidence_of(host, **finding)
    host.moments = moments
    evidence.recheck(("held",))
    assert (clock(evidence).now(), evidence.findings[0].status) == (seconds, status)


def test_the_whole_diagnosis_is_repeated_last():
    """Mutant: `last` with the probes of the findings only."""
    made = book(
        restart("r", for_=("held",)),
        findings=(rule(),),
        diagnose=(look_at("zombie"), look_at("serve", "other")),
    )
    host = ToyHost(procs=dict(ZOMBIE))
    where = site(made, host)
    evidence = Evidence(where, *make_plan(where), shown=False, force=False)
    host.procs = {5: (1, "serve")}
    evidence.recheck(("held",), last=True)
    assert evidence.diagnosis.states["other"]["matches"]


def test_a_connection_that_is_lost_after_a_change_leaves_every_finding_unknown():
    """Mutant: `connection_lost` that keeps what was seen before."""

    class Lost(ToyHost):
        def _run(self, command):
            self.lose_at = len(self.sent) if self.writes() else -1
            return super()._run(command)

    made = book(end("zombie", "k", for_=("held",)), findings=(rule(),), diagnose=(look_at("zombie"),))
    where = site(made, Lost(procs=dict(ZOMBIE)))
    outcome = execute(where, *make_plan(where), Consent.YES)
    assert [it.status for it in outcome.findings] == [Presence.UNKNOWN]
    assert verdict(made, outcome.steps, outcome.findings) is not Verdict.RESOLVED


@every_row(
    ("then", "now", "appeared", "gate"),
    [({}, ZOMBIE, "held", True), (ZOMBIE, ZOMBIE, "", False), (ZOMBIE, {}, "", True), ({}, {}, "", True)],
)
def test_what_has_appeared_since_it_was_shown_calls_for_nothing(then, now, appeared, gate):
    """Mutants: `appeared` without what was there then; `gate` by what is there now only."""
    host = ToyHost(procs=dict(then))
    evidence = evidence_of(host, shown=True)
    host.procs = dict(now)
    evidence.refresh(["seen"])
    assert evidence.appeared(("held",)) == appeared
    (step,), (planned,) = evidence._context.playbook.remediate, evidence._plan.steps
    refusal = evidence.gate(step, replace(planned, ready=True), wrote=False, owes=False)
    assert isinstance(refusal, Skip) is gate
    after_a_change = evidence.gate(step, replace(planned, ready=True), wrote=True, owes=False)
    assert isinstance(after_a_change, Skip) is not bool(now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    processes: tuple[Mapping[str, Any], ...] = field(metadata={NARROWS: ("pid", "start")})


LISTED = action(
    "listed", Args=Listed, State=Procs, probe=probe_all, decide=lambda args, state: NoChange(why="it is a toy")
)


@every_row(
    ("now", "left", "words"),
    [
        ({4: (1, "zombie"), 5: (1, "zombie")}, [4, 5], ""),
        ({5: (1, "zombie")}, [5], "; left alone, because it is not called for any more: pid 4"),
        ({4: (2, "zombie"), 5: (1, "zombie")}, [5], "; left alone, because it is not called for any more: pid 4"),
        ({4: (1, "zombie"), 5: (1, "zombie"), 6: (1, "zombie")}, [4, 5], ""),
    ],
)
def test_the_arguments_at_its_turn_are_those_of_the_plan_or_fewer(now, left, words):
    """Mutants: without the probe; with what is new; by the pid alone; what is left out is not told."""
    step = Step(id="k", phase=Phase.REMEDIATE, action="listed", args={"processes": "{{ seen.matches }}"})
    host = ToyHost(procs={4: (1, "zombie"), 5: (1, "zombie")})
    where = with_run(site(book(step, diagnose=(look_at("zombie"),)), host), actions={**ACTIONS, "listed": LISTED})
    plan, seen = make_plan(where)
    evidence = Evidence(where, plan, seen, shown=True, force=False)
    host.procs = dict(now)
    current = evidence.current_arguments(step, plan.steps[0])
    assert isinstance(current, CurrentArguments)
    assert [it["pid"] for it in current.args["processes"]] == left
    assert current.dropped_in_words() == words
