"""Read the journal of a run: its changes, the result of each host, and the unfinished parts of an interrupted run."""

from __future__ import annotations

import fcntl
import re
from contextlib import suppress
from dataclasses import field, replace
from enum import StrEnum

from runbook.codec import from_json
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.records.chain import Link, links
from runbook.records.journal import ENDING
from runbook.records.ledger import Entry, Ledger, unlike_ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.process_identity import lives
from runbook.records.reading import in_flight
from runbook.text.printable import printable
from runbook.values.event import (
    Event,
    HostFinished,
    HostPlanned,
    HostStarted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, Mode, Status, StepResult, Verdict
from runbook.values.run_origin import ProcessIdentity

RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4,16}")
"""The id of a run."""

INTERRUPTED = "the run was interrupted"


class RunState(StrEnum):
    """Whether a run has finished."""

    FINISHED = "finished"
    RUNNING = "running"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run, read from its journal."""

    run: str
    started: RunStarted
    events: tuple[Event, ...] = field(repr=False)
    """All events, in order; the last event of a finished run has the results of the hosts again."""
    state: RunState
    faults: tuple[str, ...] = ()
    """The parts of the journal that were changed or damaged."""
    torn: bool = False
    """Whether the last line is incomplete, as after a power cut or on a full disk."""

    @property
    def hosts(self) -> tuple[HostResult, ...]:
        """Return the result of every host of the run, in its order.

        A host without a result gets the result of ``unfinished``.
        """
        ended = {event.result.host: event.result for event in self.events if isinstance(event, HostFinished)}
        return tuple(ended.get(name) or unfinished(self, name) for name in self.started.hosts)

    def result_of(self, host: str) -> HostResult | None:
        """Return the result of *host*; None if the run has no such host."""
        return next((result for result in self.hosts if result.host == host), None)

    @property
    def finished(self) -> RunFinished | None:
        """Return the last event of a run that has finished; None if the run has not."""
        return next((event for event in reversed(self.events) if isinstance(event, RunFinished)), None)


def read_run(folder: PrivateFolder, run: str) -> RecordedRun:
    """Read the run with the id *run*.  Raises OSError, and ConfigError if no part of its journal can be trusted."""
    if not RUN.fullmatch(run):  # as a damaged record may name one that it goes on with
        raise ConfigError(f"{printable(run)!r} is not the id of a run")
    noted, unread = _noted(folder, run)  # before the journal, which may be growing
    with folder.opened(run + ENDING) as file:
        lines = file.readlines()
        written = is_locked(file.fileno())
    found = list(links(lines))
    faults = [
        *(f"line {each.number}: {each.fault}" for each in found if each.fault),
        *unlike_ledger(found, noted),
        *unread,
    ]
    events: list[Event] = []
    for link in found:
        event, fault = _event(link)
        if event is not None:
            events.append(event)
        elif fault:
            faults.append(fault)
    if not events or not isinstance(events[0], RunStarted):
        raise ConfigError(f"{folder.path / (run + ENDING)} is no journal of a run: its first line is not `run_started`")
    started = events[0]
    ended = isinstance(events[-1], RunFinished)
    living = written or (started.origin is not None and lives(started.origin.process))
    state = RunState.FINISHED if ended else RunState.RUNNING if living else RunState.INTERRUPTED
    torn = bool(lines) and not lines[-1].endswith(b"\n")
    recorded = RecordedRun(run=run, started=started, events=tuple(events), state=state, faults=tuple(faults), torn=torn)
    return replace(recorded, events=_with_hosts(recorded)) if ended else recorded


def _noted(folder: PrivateFolder, run: str) -> tuple[list[Entry], list[str]]:
    """Return the ledger's entries about *run*, and the reason if the ledger cannot be read."""
    try:
        return [entry for entry in Ledger(folder).entries()[0] if entry.run == run], []
    except OSError as error:
        return [], [f"the ledger cannot be read: {error.strerror or error}"]


def lives_on(folder: PrivateFolder, run: str, process: ProcessIdentity | None) -> bool:
    """Whether a run without an end is still in progress: its journal is locked, or its process lives."""
    with suppress(OSError), folder.opened(run + ENDING) as file:
        if is_locked(file.fileno()):
            return True
    return process is not None and lives(process)


def is_locked(file: int) -> bool:
    """Whether a living run on this machine holds the lock on the journal that is open as *file*."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _event(link: Link) -> tuple[Event | None, str]:
    """Return the event of a line; or None and the reason why it has none.

    The reason is empty for a fault that is reported elsewhere.
    """
    if not isinstance(link.value, dict) or link.fault == "it is not JSON":
        return None, ""
    try:
        return from_json(Event, link.value.get("event")), ""  # type: ignore[arg-type]  # a union is a type to cattrs
    except ValueError as error:
        return None, f"line {link.number}: {str(error)[:200]}"


def _with_hosts(recorded: RecordedRun) -> tuple[Event, ...]:
    """Return the events with the results of the hosts added to the last event; a journal has each result only once."""
    last = recorded.events[-1]
    assert isinstance(last, RunFinished)
    return (*recorded.events[:-1], replace(last, result=replace(last.result, hosts=recorded.hosts)))


def unfinished(recorded: RecordedRun, host: str) -> HostResult:
    """Return a result for a host that has none: changes in flight are unknown, later steps have not begun."""
    events = recorded.events
    done = [event.result for event in events if isinstance(event, StepFinished) and event.host == host]
    plans = (event.plan for event in reversed(events) if isinstance(event, HostPlanned) and event.plan.host == host)
    plan = next(plans, None)
    flying = [change for change in in_flight(events) if change.host == host]
    why = INTERRUPTED if recorded.state is RunState.INTERRUPTED else "the run is still under way"
    begun = any(isinstance(event, HostStarted) and event.host == host for event in events)
    verdict = Verdict.UNKNOWN if done or flying else Verdict.CANCELLED if begun else Verdict.NOT_STARTED
    lost = tuple(
        StepResult(
            id=started.step,
            phase=Phase.REMEDIATE,
            action=started.action,
            status=Status.UNKNOWN,
            risk=started.risk,
            planned=started.summary,
            why=f"{why} while this was sent: {started.summary}",
        )
        for started in flying
    )
    looks = plan.looks if plan else ()
    findings = plan.findings if plan else ()
    return HostResult(host=host, verdict=verdict, error=why, findings=findings, steps=(*looks, *done, *lost))


def resumable(recorded: RecordedRun) -> tuple[str, ...]:
    """Return the hosts that a later run would continue with: not started, failed, unreachable or in doubt."""
    if recorded.started.mode is Mode.PLAN:
        return ()
    return tuple(host.host for host in recorded.hosts if host.verdict in OPEN)


OPEN = (
    Verdict.NOT_STARTED,
    Verdict.FAILED,
    Verdict.UNREACHABLE,
    Verdict.CANCELLED,
    Verdict.UNKNOWN,
    Verdict.DRIFTED,
    Verdict.PLANNED,
)
"""The verdicts of hosts on which a run has not finished its work."""
