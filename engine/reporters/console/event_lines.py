"""The lines that are printed for each event, the same on a terminal and without one."""

from __future__ import annotations

from engine.reporters.console.recap import recap
from engine.text.name_ranges import fold
from engine.values.event import (
    BatchFinished,
    Event,
    HostFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    Waiting,
)
from engine.values.playbook import Phase
from engine.values.result import HostResult, Mode, Status
from engine.values.types import plural, seconds
from engine.values.verbosity import Verbosity
from engine.wording.evidence import short
from engine.wording.host_lines import cause, grouped, owed_lines, step_line
from engine.wording.summary import SHOWN_CAUSE, next_line, not_well


def lines_of(event: Event, verbosity: Verbosity) -> list[str]:
    """What is to be said of *event*; often nothing."""
    match event:
        case RunStarted():
            return [] if verbosity is Verbosity.QUIET else _beginning(event)
        case RunFinished(result=result):
            return recap(result, verbosity)
        case BatchFinished(number=number, hosts=hosts, pause=pause) if verbosity is not Verbosity.QUIET:
            rest = f"; the next one begins in {seconds(pause)}" if pause else ""
            return [f"batch {number} has ended: {plural(len(hosts), 'host')} ({fold(hosts)}){rest}"]
        case _:
            return _in_progress(event) if verbosity is Verbosity.VERBOSE else []


def _in_progress(event: Event) -> list[str]:
    """What steps and hosts come to while the run is on."""
    match event:
        case StepFinished(host=host, result=result):
            quiet = result.status in (Status.OK, Status.SKIPPED) or result.phase is Phase.DIAGNOSE
            return [] if quiet else [f"{host}: {step_line(result)}"]
        case Waiting(host=host, why=why):
            return [f"{host}: {why}"]
        case HostFinished(result=result):
            return _ended(result)
        case _:
            return []


def _ended(host: HostResult) -> list[str]:
    """How *host* ended; where it is not well, the cause and what comes next."""
    head = f"{host.host}: {host.verdict} ({seconds(host.seconds)})"
    if host.error:
        head += f": {host.error}"
    elif not_well(host):
        head += f": {short(cause(host), SHOWN_CAUSE)}"
    return [head, *(f"  {line}" for line in [next_line(host), *owed_lines(host)] if line)]


def _beginning(event: RunStarted) -> list[str]:
    what = "dry run, nothing is changed" if event.mode is Mode.PLAN else "run"
    origin = event.origin
    book = f" ({origin.playbook})" if origin and origin.playbook else ""
    inventory = f" of {', '.join(origin.inventory)}" if origin and origin.inventory else ""
    lines = [f"{event.playbook}{book}: {what}, on {plural(len(event.hosts), 'host')} ({fold(event.hosts)}){inventory}"]
    for why, hosts in grouped((left_out.why, left_out.host) for left_out in event.left_out).items():
        lines.append(f"left out: {fold(hosts)} ({why})")
    return [*lines, ""]
