"""A plan that a person was shown, at the prompt or in a file, and what is done by it once the host has changed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from runbook.commands.plans.document import parsed
from runbook.commands.plans.narrowing import Narrowing
from runbook.execution.executor import Consent, execute
from runbook.execution.executor.host_steps import Outcome
from runbook.execution.fleet import Planned
from runbook.execution.planner import make_plan
from runbook.values.playbook import Playbook
from runbook.values.result import HostPlan, HostResult, Verdict
from tests.past_runs.saved_plan import saved_plan
from tests.support.toy_actions import ToyHost, site

PROMPT, FILE = "at the prompt", "in a file"
PLACES = (PROMPT, FILE)
"""Where a person is shown a plan."""


def show_and_run(
    made: Playbook, host: ToyHost, place: str, change: Callable[[], object] = lambda: None
) -> tuple[HostPlan, Outcome]:
    """Show a plan in *place*, *change* the host, and do what may still be done."""
    where = site(made, host)
    plan, seen = make_plan(where)
    content = saved_plan(plan).text().encode()
    change()
    host.sent.clear()
    if place == PROMPT:
        return plan, execute(where, plan, seen, Consent.SHOWN)
    fresh, seen = make_plan(where)
    result = HostResult(
        host="h", verdict=Verdict.PLANNED, findings=fresh.findings, steps=(*fresh.looks, *fresh.results)
    )
    run: Any = SimpleNamespace(masked_plan=lambda plan: plan)
    person: Any = SimpleNamespace(say=lambda words: None)
    checked = Narrowing.of(parsed(content, "plan.json"), run, person, replans=False)
    (planned,) = checked.narrowed((Planned(host=where.host, plan=fresh, seen=seen, result=result),))
    if planned.seen is None:  # the host is held back
        return plan, Outcome(steps=planned.result.steps, findings=planned.result.findings, error=planned.result.error)
    return plan, execute(where, fresh, planned.seen, Consent.SHOWN)
