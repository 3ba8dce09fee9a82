"""Journals of runs as the engine writes them, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from runbook.records.chain import START, sealed
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.process_identity import this_process
from runbook.values.event import ChangeStarted, Event, HostFinished, HostStarted, RunFinished, RunStarted, StepFinished
from runbook.values.plan import Finding, Presence, Risk
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, RunResult, Sent, Status, StepResult, Verdict
from runbook.values.run_origin import ProcessIdentity, RunOrigin

GONE = ProcessIdentity(machine="ops", boot="b", pid=1, start=2)
RUN = "20260101T000000Z-0001"


def origin(process: ProcessIdentity = GONE, resumes: str = "", undoes: str = "", playbook: str = "") -> RunOrigin:
    return RunOrigin(
        command="undo" if undoes else "run", by="ann@ops", version="1", process=process, resumes=resumes,
        undoes=undoes, playbook=playbook,
    )  # fmt: skip


def started(*hosts: str, run: str = RUN, mode: Mode = Mode.RUN, alive: bool = False, **about: str) -> RunStarted:
    process = this_process() if alive else GONE
    at = f"{run[:4]}-{run[4:6]}-{run[6:8]}T{run[9:11]}:{run[11:13]}:{run[13:15]}.000Z"
    return RunStarted(run=run, playbook="toy", mode=mode, hosts=hosts or ("a",), origin=origin(process, **about), at=at)


def change(step: str, host: str = "a", *, verifiable: bool = False, item: object = None) -> ChangeStarted:
    return ChangeStarted(
        host=host, step=step, action="command", summary=f"do {step}", risk=Risk.UNKNOWN, verifiable=verifiable,
        item=item, at="2026-01-01T00:00:01.000Z",
    )  # fmt: skip


def step(name: str, status: Status = Status.CHANGED, sent: Sent = Sent.UNSAID) -> StepResult:
    return StepResult(id=name, phase=Phase.REMEDIATE, action="command", status=status, sent=sent)


def ended(name: str, host: str = "a", status: Status = Status.CHANGED, sent: Sent = Sent.UNSAID) -> StepFinished:
    return StepFinished(host=host, result=step(name, status, sent))


def host_end(
    host: str = "a", verdict: Verdict = Verdict.RESOLVED, findings: tuple[Finding, ...] = (), steps: tuple = ()
) -> HostFinished:
    return HostFinished(result=HostResult(host=host, verdict=verdict, findings=findings, steps=steps))


def finding(name: str, status: Presence = Presence.PRESENT) -> Finding:
    return Finding(id=name, severity=Severity.ERROR, status=status, say="it is there")


def finished(*hosts: HostFinished, run: str = RUN, code: int = 0) -> RunFinished:
    result = RunResult(
        run=run, playbook="toy", mode=Mode.RUN, started_at="2026-01-01T00:00:00Z", seconds=1.0, exit_code=code,
        hosts=tuple(it.result for it in hosts),
    )  # fmt: skip
    return RunFinished(result=result)


def journal(place: Path, *events: Event, run: str = RUN) -> PrivateFolder:
    """The journal of *events*, in the directory *place*."""
    folder = PrivateFolder(place)
    made = Journal(folder, run)
    for event in events:
        made.on(event)
    made.close()
    return folder


def whole(
    place: Path, run: str = RUN, *, hosts: tuple[str, ...] = ("a",), verdict: Verdict = Verdict.RESOLVED
) -> PrivateFolder:
    """A run that came to its end."""
    ends = [host_end(it, verdict) for it in hosts]
    begun = [HostStarted(host=it) for it in hosts]
    return journal(place, started(*hosts, run=run), *begun, *ends, finished(*ends, run=run), run=run)


def forge(place: Path, alter: Callable[[dict], object], run: str = RUN) -> None:
    """Write the journal of *run* again, each event as *alter* leaves it, with digests that fit."""
    file, before, made = place / f"{run}.jsonl", START, []
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        event = json.loads(line)["event"]
        alter(event)
        written, before = sealed(f'{{"n":{number},"event":{json.dumps(event)}}}', before)
        made.append(written + "\n")
    file.write_text("".join(made))
