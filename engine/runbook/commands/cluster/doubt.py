"""The result of a host that a worker was permitted to change before it fell silent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from runbook.values.playbook import Phase, Playbook, written_id
from runbook.values.result import HostResult, Sent, Status, StepResult, Verdict

NOT_AGAIN = "it may have been sent, and is not sent a second time"


def doubtful(
    playbook: Playbook, host: str, permitted: Collection[str], why: str, fresh: HostResult | None = None
) -> HostResult:
    """Return ``unknown`` for *host*: the steps in *permitted* may have been sent.  *fresh*: what a probe says since."""
    given: dict[str, list[str]] = {}
    for step_id in sorted(permitted):
        given.setdefault(written_id(step_id), []).append(step_id)
    looks = [step for step in fresh.steps if step.phase is Phase.DIAGNOSE] if fresh else []
    if not looks:
        looks = [StepResult.of(step, Status.BLOCKED, why) for step in playbook.diagnose]
    made = []
    for step in (*playbook.remediate, *playbook.verify):
        if step.id in given:
            plain = replace(StepResult.of(step, Status.UNKNOWN, f"{why}: {NOT_AGAIN}"), sent=Sent.PART)
            made += [replace(plain, id=step_id) for step_id in given[step.id]]
        else:
            made.append(StepResult.of(step, Status.BLOCKED, f"not known: {why}"))
    return HostResult(
        host=host,
        verdict=Verdict.UNKNOWN,
        error=why,
        findings=fresh.findings if fresh else (),
        steps=(*looks, *made),
        owed=fresh.owed if fresh else (),
        seconds=fresh.seconds if fresh else 0.0,
    )
