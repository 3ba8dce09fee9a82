"""The lines that each event is worth, the same on a terminal and without one."""

from __future__ import annotations

from typing import assert_never

from engine.reporters.console.evidence import short
from engine.reporters.console.recap import recap
from engine.reporters.console.summary import SHOWN_CAUSE, next_line, not_well
from engine.reporters.console.wording import cause, grouped, step_line
from engine.text.name_ranges import fold
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
from engine.values.types import plural, seconds


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
    """How *host* ended; where it is not well, the cause and what comes next."""
    head = f"{host.host}: {host.verdict} ({seconds(host.seconds)})"
    if host.error:
        head += f": {host.error}"
    elif not_well(host):
        head += f": {short(cause(host), SHOWN_CAUSE)}"
    return [head, *(f"  {it}" for it in [next_line(host)] if it)]


def _beginning(event: RunStarted) -> list[str]:
    what = "dry run, nothing is changed" if event.mode is Mode.PLAN else "run"
    lines = [f"{event.playbook}: {what}, on {plural(len(event.hosts), 'host')} ({fold(event.hosts)})"]
    for why, hosts in grouped((it.why, it.host) for it in event.left_out).items():
        lines.append(f"left out: {fold(hosts)} ({why})")
    return [*lines, ""]
