"""Keep the plans and the results of hosts, for the command that has started a run."""

from __future__ import annotations

from runbook.values.event import Event, HostFinished, HostPlanned, RunFinished
from runbook.values.result import HostPlan, HostResult, RunResult


class Collector:
    """Receives the events of a run, and keeps the plan and the result of each host."""

    def __init__(self) -> None:
        self.plans: dict[str, HostPlan] = {}
        self.hosts: dict[str, HostResult] = {}
        self.result: RunResult | None = None
        """The result of the whole run, once it is over."""

    def on(self, event: Event) -> None:
        """Record *event*."""
        match event:
            case HostPlanned(plan=plan):
                self.plans[plan.host] = plan
            case HostFinished(result=host_result):
                self.hosts[host_result.host] = host_result
            case RunFinished(result=result):
                self.result = result
