"""Results of hosts of a made-up run, and what a recap says of them."""

from __future__ import annotations

from dataclasses import replace

from runbook.reporting.reporters.console import lines_of as event_lines
from runbook.reporting.reporters.console.recap import recap
from runbook.values.event import Event
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, RunResult, Status, StepResult, Verdict
from runbook.values.verbosity import Verbosity


def step(status: Status, why: str, **keys) -> StepResult:
    return StepResult(
        **{
            "id": "stop",
            "phase": Phase.REMEDIATE,
            "action": "pkill",
            "status": status,
            "why": why,
            "verified": True,
            **keys,
        }
    )


def host(
    number: int, verdict: Verdict, *steps: StepResult, findings: tuple[Finding, ...] = (), error: str | None = None
) -> HostResult:
    return HostResult(
        host=f"gpu-{number:02}", verdict=verdict, steps=steps, findings=findings, error=error, seconds=number / 10
    )


def said(
    *hosts: HostResult, playbook: str = "zombie-gpu", verbosity: Verbosity = Verbosity.VERBOSE, **rest
) -> list[str]:
    totals = {
        it.value: sum(one.verdict is it for one in hosts) for it in Verdict if any(one.verdict is it for one in hosts)
    }
    result = RunResult(
        run="r", playbook=playbook, mode=Mode.RUN, started_at="", seconds=1, exit_code=0, hosts=hosts, totals=totals
    )
    return recap(replace(result, **rest), verbosity)


def lines_of(event: Event) -> list[str]:
    return event_lines(event, Verbosity.VERBOSE)


def finding(name: str = "xid", status: Presence = Presence.PRESENT, **keys) -> Finding:
    return Finding(**{"id": name, "severity": Severity.ERROR, "status": status, "say": "XID on 3 GPUs", **keys})
