"""The lines that each event is worth, the same on a terminal and without one."""

from __future__ import annotations

from typing import assert_never

from engine.facts.folding import fold
from engine.reporters.console.evidence import short
from engine.reporters.console.recap import FINE, recap
from engine.reporters.console.wording import cause, grouped, next_action, step_line
from engine.values.event import (
    Answered,
    Asked,
    Event,
    HostFinished,
    HostPlanned,
    HostStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Waiting,
)
from engine.values.playbook import Phase
from engine.values.result import HostResult, Mode, Status
from engine.values.text import plural, seconds

SHOWN_CAUSE = 200
"""Letters of a cause, and of what to do, while the run is on; the recap has all of them."""


def lines_of(event: Event) -> list[str]:
    """What is to be said of *event*; often nothing."""
    match event:
        case RunStarted():
            return _beginning(event)
        case HostPlanned() | HostStarted() | StepStarted() | Asked() | Answered():
            return []
        case StepFinished(host=host, result=result):
            quiet = result.status in (Status.OK, Status.SKIPPED) or result.phase is Phase.DIAGNOSE
            return [] if quiet else [f"{host}: {step_line(result)}"]
        case Waiting(host=host, why=why):
            return [f"{host}: {why}"]
        case HostFinished(result=result):
            return _ended(result)
        case RunFinished(result=result):
            return recap(result)
        case _:
            assert_never(event)


def _ended(host: HostResult) -> list[str]:
    """How *host* ended, the cause where it is not fine, and the first thing to do about it."""
    reason = f": {short(cause(host), SHOWN_CAUSE)}" if host.verdict not in FINE and not host.error else ""
    reason = f": {host.error}" if host.error else reason
    action = next_action(host)
    lines = [f"{host.host}: {host.verdict} ({seconds(host.seconds)}){reason}"]
    return [*lines, f"  what to do: {short(action, SHOWN_CAUSE)}"] if action else lines


def _beginning(event: RunStarted) -> list[str]:
    what = "dry run, nothing is changed" if event.mode is Mode.PLAN else "run"
    lines = [f"{event.playbook}: {what}, on {plural(len(event.hosts), 'host')} ({fold(event.hosts)})"]
    for why, hosts in grouped((it.why, it.host) for it in event.left_out).items():
        lines.append(f"left out: {fold(hosts)} ({why})")
    return [*lines, ""]
