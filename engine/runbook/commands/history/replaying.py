"""The command ``runbook history replay``: send a recorded run through any reporter."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from runbook.commands.options import Output
from runbook.commands.workspace import outputs_of
from runbook.execution.fleet import Cancellation
from runbook.records.finding_runs import load_run
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RecordedRun, RunState
from runbook.text.timestamps import iso
from runbook.values.event import Event, HostFinished, RunFinished
from runbook.values.result import RunResult, scripts_of


def replay(folder: PrivateFolder, run: str, output: Output, complain: Callable[[str], None]) -> int:
    """Send a recorded run to stdout and the reports.  Returns the exit code: 1 if an output could not be written."""
    recorded = load_run(folder, run)
    if recorded.state is not RunState.FINISHED:
        words = "is still under way" if recorded.state is RunState.RUNNING else "was interrupted"
        complain(f"run {recorded.run} {words}: its hosts without an end are shown as far as it got")
    for fault in recorded.faults:
        complain(f"run {recorded.run} is not as it was written: {fault}")
    outputs = outputs_of(output, sys.stdout, complain, Cancellation())
    with outputs:
        for event in events_of(recorded):
            outputs.on(event)
    return outputs.code(0)


def events_of(recorded: RecordedRun) -> tuple[Event, ...]:
    """Return the events of a run; an interrupted run gets final events, because reporters need them."""
    if recorded.finished:
        return recorded.events
    ended = {event.result.host for event in recorded.events if isinstance(event, HostFinished)}
    missing = tuple(HostFinished(result=host) for host in recorded.hosts if host.host not in ended)
    counted = Counter(host.verdict.value for host in recorded.hosts)
    origin = recorded.started.origin
    result = RunResult(
        run=recorded.run,
        playbook=recorded.started.playbook,
        mode=recorded.started.mode,
        inputs=origin.inputs if origin else {},
        profile_inputs=origin.profile_inputs if origin else {},
        started_at=recorded.started.at.partition(".")[0] + "Z",
        seconds=0.0,
        exit_code=130,
        left_out=recorded.started.left_out,
        hosts=recorded.hosts,
        totals=dict(counted),
        scripts=scripts_of(recorded.hosts),
    )
    last = RunFinished(result=replace(result, seconds=_seconds(recorded)), at=recorded.events[-1].at)
    return (*recorded.events, *missing, last)


def _seconds(recorded: RecordedRun) -> float:
    """Return the seconds from the first to the last event of the run."""
    began, ended = iso(recorded.started.at), iso(recorded.events[-1].at)
    return round(ended - began, 3) if began is not None and ended is not None else 0.0
