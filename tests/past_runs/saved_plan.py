"""The document of a saved plan, made from the plans of hosts without a run."""

from __future__ import annotations

from dataclasses import replace

from runbook.commands.plan import _brief
from runbook.commands.plans.document import (
    FLAGS,
    LISTS,
    TEXTS,
    Maker,
    SavedPlan,
    SecretDigests,
)
from runbook.execution.executor.permitted import shown_host
from runbook.values.result import HostPlan, HostResult, Mode, RunResult, Verdict
from runbook.values.run_origin import RestsOn

OPTIONS = {
    **{name: [] for name in LISTS}, **dict.fromkeys(FLAGS, False), **dict.fromkeys(TEXTS, ""), "hosts": "all",
}  # fmt: skip


def saved_plan(plan: HostPlan, **keys) -> SavedPlan:
    """The document that holds *plan*; *keys*: fields that are to be others."""
    steps = (*plan.looks, *plan.results)
    host = _brief(HostResult(host=plan.host, verdict=Verdict.PLANNED, findings=plan.findings, steps=steps))
    result = RunResult(
        run="r", playbook="p", mode=Mode.PLAN, started_at="2026-01-01T00:00:00Z", seconds=1.0, exit_code=0, hosts=(host,),
        totals={"planned": 1},
    )  # fmt: skip
    whole = SavedPlan(
        plan="ab" * 16, made=Maker(user="alice", host="ops", at="2026-01-01T00:00:00Z"),
        expires_at="2026-01-02T00:00:00Z", engine_version="0", options=OPTIONS, run={},
        rests_on=RestsOn(playbook="/p.yaml", playbook_digest="0", inventory=("/i.yaml",), inventory_digest="0"), named="p", parts={},
        secrets=SecretDigests(salt="00"),
        hosts=(shown_host(plan),), result=result,
    )  # fmt: skip
    return replace(whole, **keys).sealed()
