"""The lines that are printed for each event, the same on a terminal and without one."""

from __future__ import annotations

from runbook.reporters.console.recap import recap
from runbook.text.name_ranges import fold
from runbook.values.event import (
    BatchFinished,
    Event,
    HostFinished,
    RunFinished,
    RunStarted,
    StepFinished,
    Waiting,
)
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, Mode, Status
from runbook.values.types import plural, seconds
from runbook.values.verbosity import Verbosity
from runbook.wording.evidence import short
from runbook.wording.host_lines import cause, grouped, owed_lines, step_line
from runbook.wording.summary import SHOWN_CAUSE, next_line, not_well


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
