"""Read the journal of a run: what it did, how each host ended, and what is in doubt where it was interrupted."""

from __future__ import annotations

import fcntl
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum

from runbook.codec import from_json
from runbook.errors import ConfigError
from runbook.records.chain import Link, links
from runbook.records.journal import ENDING
from runbook.records.ledger import Entry, Ledger, unlike_ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.process_identity import lives
from runbook.text.printable import printable
from runbook.values.earlier_change import EarlierChange, equal_items, item_text, own_change
from runbook.values.event import (
    ChangeStarted,
    Event,
    HostFinished,
    HostPlanned,
    HostStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
)
from runbook.values.playbook import Phase, place_in_each, written_id
from runbook.values.result import HostPlan, HostResult, Mode, Sent, Status, StepResult, Verdict
from runbook.values.run_origin import ProcessIdentity

RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4,16}")
"""The id of a run."""

INTERRUPTED = "the run was interrupted"


class RunState(StrEnum):
    """Whether a run came to its end."""

    FINISHED = "finished"
    RUNNING = "running"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A run as its journal has it."""

    run: str
    started: RunStarted
    events: tuple[Event, ...] = field(repr=False)
    """All of them, in their order; the last one of a finished run has its hosts again."""
    state: RunState
    faults: tuple[str, ...] = ()
    """What of the journal is not as it was written."""
    torn: bool = False
    """Its last line is not whole, as it is after a power cut or on a full disk."""

    @property
    def hosts(self) -> tuple[HostResult, ...]:
        """How every host of the run ended, in its order; see ``unfinished`` for those that have no end."""
        ended = {event.result.host: event.result for event in self.events if isinstance(event, HostFinished)}
        return tuple(ended.get(name) or unfinished(self, name) for name in self.started.hosts)

    def result_of(self, host: str) -> HostResult | None:
        """How *host* ended; None where it is none of this run."""
        return next((result for result in self.hosts if result.host == host), None)

    @property
    def finished(self) -> RunFinished | None:
        """The last event of a run that came to its end."""
        return next((event for event in reversed(self.events) if isinstance(event, RunFinished)), None)


def read_run(folder: PrivateFolder, run: str) -> RecordedRun:
    """The run with that id.  Raises OSError, and ConfigError where its journal cannot be believed at all."""
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
    """What the ledger has of *run*; and why it cannot be read, where that is so."""
    try:
        return [entry for entry in Ledger(folder).entries()[0] if entry.run == run], []
    except OSError as error:
        return [], [f"the ledger cannot be read: {error.strerror or error}"]


def lives_on(folder: PrivateFolder, run: str, process: ProcessIdentity | None) -> bool:
    """Whether a run without an end is still under way: by the lock on its journal, or by its process."""
    with suppress(OSError), folder.opened(run + ENDING) as file:
        if is_locked(file.fileno()):
            return True
    return process is not None and lives(process)


def is_locked(file: int) -> bool:
    """Whether the run still lives whose journal is open as *file*: it holds a lock on it, wherever on this machine."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _event(link: Link) -> tuple[Event | None, str]:
    """The event of a line; or why it has none, unless that is a fault of the line."""
    if not isinstance(link.value, dict) or link.fault == "it is not JSON":
        return None, ""
    try:
        return from_json(Event, link.value.get("event")), ""  # type: ignore[arg-type]  # a union is a type to cattrs
    except ValueError as error:
        return None, f"line {link.number}: {str(error)[:200]}"


def _with_hosts(recorded: RecordedRun) -> tuple[Event, ...]:
    """The events, with the hosts in the last one: a journal has each host once."""
    last = recorded.events[-1]
    assert isinstance(last, RunFinished)
    return (*recorded.events[:-1], replace(last, result=replace(last.result, hosts=recorded.hosts)))


def unfinished(recorded: RecordedRun, host: str) -> HostResult:
    """The end of a host that has none: what was in flight is unknown, and what was not begun is said to be so."""
    own = [event for event in recorded.events if _host_of(event) == host]
    done = [value.result for value in own if isinstance(value, StepFinished)]
    plan = next((value.plan for value in reversed(own) if isinstance(value, HostPlanned)), None)
    flying = in_flight(own)
    why = INTERRUPTED if recorded.state is RunState.INTERRUPTED else "the run is still under way"
    begun = any(isinstance(value, HostStarted) for value in own)
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


def in_flight(events: Sequence[Event]) -> tuple[ChangeStarted, ...]:
    """The changes in *events* of one host that were begun and have no end."""
    begun: dict[str, ChangeStarted] = {}
    for event in events:
        match event:
            case ChangeStarted():
                begun[event.step] = event
            case StepFinished(result=result):
                begun.pop(result.id, None)
    return tuple(begun.values())


def earlier_changes(runs: Sequence[RecordedRun]) -> Mapping[str, tuple[EarlierChange, ...]]:
    """The changes that *runs*, each of which goes on with the one before it, have sent to each host.

    Of a change that was sent several times, the last one counts.
    """
    found: dict[str, dict[tuple[str, str], EarlierChange]] = {}
    for recorded in runs:
        begun: dict[tuple[str, str], ChangeStarted] = {}
        before: dict[str, dict[tuple[str, str], EarlierChange]] = {}
        plans: dict[str, HostPlan] = {}
        for event in recorded.events:
            if isinstance(event, HostPlanned):
                plans[event.plan.host] = event.plan
            elif isinstance(event, ChangeStarted):
                begun[event.host, event.step] = event
                before[event.host] = dict(found.get(event.host, {}))
                _supersede(found, recorded.run, event, plans.get(event.host))
                _note(found, recorded.run, event, done=False)
            elif isinstance(event, StepFinished) and (started := begun.pop((event.host, event.result.id), None)):
                if _was_not_sent(event.result):
                    found[event.host] = before[event.host]  # the last word is that of an earlier run
                else:
                    _end(found, recorded.run, started, event.result)
    return {host: tuple(changes.values()) for host, changes in found.items()}


Changes = dict[str, dict[tuple[str, str], EarlierChange]]


def _key(started: ChangeStarted) -> tuple[str, str]:
    """What a change is known by: its step with its place in the list, and its item as JSON has it (``1`` is not
    ``true``)."""
    return started.step, item_text(started.item)


def _supersede(found: Changes, run: str, event: ChangeStarted, plan: HostPlan | None) -> None:
    """Forget the change of an earlier run that *event* sends again, where its item has another place now."""
    own, item = found.get(event.host, {}), item_text(event.item)
    if plan is None or _key(event) in own:
        return
    step = written_id(event.step)
    same = {key: it for key, it in own.items() if it.run != run and it.step == step and item_text(it.item) == item}
    equal = equal_items(
        event.step,
        event.item,
        ((planned_step.id, planned_step.item) for planned_step in plan.steps if planned_step.ready),
    )
    before = own_change([*same.values()], place_in_each(event.step), equal)
    for key in (key for key, it in same.items() if it is before):
        del own[key]


def _note(found: Changes, run: str, event: ChangeStarted, *, done: bool) -> None:
    change = EarlierChange(
        run=run,
        at=event.at,
        step=written_id(event.step),
        item=event.item,
        position=place_in_each(event.step),
        done=done,
        verifiable=event.verifiable,
        boot_id=event.boot_id,
    )
    found.setdefault(event.host, {})[_key(event)] = change


def _was_not_sent(result: StepResult) -> bool:
    """Whether nothing was sent of a change that was recorded as begun."""
    return result.sent is Sent.NOTHING or result.status is Status.BLOCKED


def _end(found: Changes, run: str, started: ChangeStarted, result: StepResult) -> None:
    """Take note of how a change ended that was sent; one that is known to have failed is none."""
    if result.status is Status.CHANGED:
        _note(found, run, started, done=True)
    elif result.status in (Status.UNKNOWN, Status.CANCELLED, Status.UNREACHABLE):
        _note(found, run, started, done=False)
    else:
        found.get(started.host, {}).pop(_key(started), None)


def resumable(recorded: RecordedRun) -> tuple[str, ...]:
    """The hosts of a run with which a later one would go on: not begun, failed, unreachable or in doubt."""
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
"""The verdicts of hosts that a run has not done with."""


def _host_of(event: Event) -> str:
    match event:
        case HostPlanned(plan=plan):
            return plan.host
        case HostFinished(result=result):
            return result.host
        case HostStarted(host=host) | StepStarted(host=host) | ChangeStarted(host=host) | StepFinished(host=host):
            return host
    return ""
