"""The lines that each event is worth, the same on a terminal and without one."""

from __future__ import annotations

from typing import assert_never

from engine.facts.folding import fold
from engine.reporters.console.recap import recap
from engine.reporters.console.wording import grouped, step_line
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
from engine.values.result import Mode, Status
from engine.values.text import plural, seconds


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
            reason = f": {result.error}" if result.error else ""
            return [f"{result.host}: {result.verdict} ({seconds(result.seconds)}){reason}"]
        case RunFinished(result=result):
            return recap(result)
        case _:
            assert_never(event)


def _beginning(event: RunStarted) -> list[str]:
    what = "dry run, nothing is changed" if event.mode is Mode.PLAN else "run"
    lines = [f"{event.playbook}: {what}, on {plural(len(event.hosts), 'host')} ({fold(event.hosts)})"]
    for why, hosts in grouped((it.why, it.host) for it in event.left_out).items():
        lines.append(f"left out: {fold(hosts)} ({why})")
    return [*lines, ""]
