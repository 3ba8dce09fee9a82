"""Pair each change that a journal records as begun with its end: sent, in flight, or relevant for later runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from runbook.dataclass import dataclass
from runbook.records.chain import Link, links
from runbook.records.journal import ENDING
from runbook.records.ledger import PRUNED, unlike_ledger
from runbook.records.ledger import Entry as Noted
from runbook.records.private_folder import PrivateFolder
from runbook.values.earlier_change import EarlierChange, equal_items, item_text, own_change
from runbook.values.event import ChangeStarted, Event, HostPlanned, StepFinished
from runbook.values.playbook import place_in_each, written_id
from runbook.values.result import HostPlan, Sent, Status
from runbook.values.types import Json

Beginning = TypeVar("Beginning")


@dataclass(slots=True, kw_only=True)
class BegunChange(Generic[Beginning]):
    """A change that a journal records as begun."""

    host: str
    beginning: Beginning
    """The part of the event that the reader needs."""
    status: str = ""
    """The status of the step; empty if it is unknown."""
    sent: bool = True
    """Whether it was sent, or may have been."""


class BegunChanges(Generic[Beginning]):
    """The changes of one run, each paired with its end."""

    def __init__(self) -> None:
        self._all: list[BegunChange[Beginning]] = []
        self._open: dict[tuple[str, str], BegunChange[Beginning]] = {}

    def begin(self, host: str, step: str, beginning: Beginning) -> None:
        """Record that the change of *step* is about to be sent to *host*."""
        change = BegunChange(host=host, beginning=beginning)
        self._open[host, step] = change
        self._all.append(change)

    def end(self, host: str, step: str) -> BegunChange[Beginning] | None:
        """Remove the change that *step* began on *host*, and return it; None if there is none."""
        return self._open.pop((host, step), None)

    @property
    def in_flight(self) -> list[BegunChange[Beginning]]:
        """Return the changes that have no end."""
        return [*self._open.values()]

    @property
    def sent(self) -> list[BegunChange[Beginning]]:
        """Return the changes that were sent, or may have been sent, in the order of their beginnings."""
        return [change for change in self._all if change.sent]


def may_have_been_sent(status: str, sent: str) -> bool:
    """Whether a part of a begun change may have reached the host, from the *status* and *sent* of its step.

    If *sent* does not say so, a failed step (also after an error of runbook itself) counts as sent, to be safe.
    """
    if sent in (Sent.PART, Sent.ALL):
        return True
    return sent != Sent.NOTHING and status not in (Status.BLOCKED, Status.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first line of a journal: the playbook, inventory and hosts of its run."""

    playbook: str = ""
    inventory: frozenset[str] = frozenset()
    """The files of its inventory, without symbolic links."""
    hosts: frozenset[str] = frozenset()
    resumes: str = ""
    """The run that this run continues."""
    begun: bool = True
    """Whether the run could have sent anything."""
    fault: str = ""
    """The reason why the line cannot be trusted: the run may have been about anything."""


@dataclass(slots=True, kw_only=True)
class Content:
    """The content of a journal: for each host its changes, its verdict and its answers."""

    changes: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """The changes that were sent to each host: the time of the beginning (seconds since the epoch), and the step."""
    ends: dict[str, str] = field(default_factory=dict)
    """The verdict of each host that has one."""
    answers: dict[tuple[str, str], Mapping[str, Json]] = field(default_factory=dict)
    """The last state of each probe, keyed by host and probe."""
    fault: str = ""
    """The reason why the content cannot be trusted."""


def head_of(folder: PrivateFolder, run: str, noted: Sequence[Noted]) -> Head:
    """Return the head of the journal of *run*.

    *noted*: the entries of the ledger, with the digest of the first line.
    """
    try:
        with folder.opened(run + ENDING) as file:
            found = list(links(file.readlines(1)))
            more = bool(file.read(1))
    except OSError as error:
        return Head(fault=error.strerror or str(error))
    if not noted and not more:  # it is in the ledger before anything is sent
        return Head(begun=False)
    if not noted:
        return Head(fault="the ledger does not know it")
    if not found or found[0].fault:
        return Head(fault=f"line 1: {found[0].fault if found else 'it is not whole'}")
    first = next((entry for entry in noted if entry.lines == 1), None)
    if first is None or first.sha != found[0].sha:
        return Head(fault="line 1: it is not the line that the ledger knows")
    try:
        event = found[0].value["event"]
        return Head(
            playbook=str(event["playbook"]),
            inventory=frozenset(map(os.path.realpath, (event.get("origin") or {}).get("inventory", ()))),
            hosts=frozenset(event["hosts"]),
            resumes=str((event.get("origin") or {}).get("resumes") or ""),
        )
    except (KeyError, TypeError, AttributeError) as error:
        return Head(fault=f"line 1: it lacks {error}")


def content_of(folder: PrivateFolder, run: str, noted: Sequence[Noted], probes: Collection[str]) -> Content:
    """Read the journal of *run*: the changes of its hosts, and the answers of *probes*."""
    reading, seen = _ContentReader(probes), []
    try:
        with folder.opened(run + ENDING) as file:
            for link in links(file):
                seen.append(Link(number=link.number, value=None, sha=link.sha))
                reading.take(link)
    except OSError as error:
        return Content(fault=error.strerror or str(error))
    unlike = next(unlike_ledger(seen, [entry for entry in noted if entry.what != PRUNED]), "")
    return Content(changes=reading.changes(), ends=reading.ends, answers=reading.answers, fault=reading.fault or unlike)


class _ContentReader:
    """Collects the content of one journal, line by line."""

    def __init__(self, probes: Collection[str]) -> None:
        self._probes = frozenset(probes)
        self._changes = BegunChanges[tuple[float, str]]()
        """Each with the time of its beginning and the id of its step in the playbook."""
        self.ends: dict[str, str] = {}
        self.answers: dict[tuple[str, str], Mapping[str, Json]] = {}
        self.fault = ""

    def take(self, link: Link) -> None:
        """Add the event of a line to the content."""
        if link.fault:
            self.fault = self.fault or f"line {link.number}: {link.fault}"
            return
        try:
            self._event(link.value["event"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.fault = self.fault or f"line {link.number}: {type(error).__name__}: {error}"

    def changes(self) -> dict[str, list[tuple[float, str]]]:
        """Return the changes that were sent to each host."""
        found: dict[str, list[tuple[float, str]]] = {}
        for change in self._changes.sent:
            found.setdefault(change.host, []).append(change.beginning)
        return found

    def _event(self, event: Mapping[str, Any]) -> None:
        match event["kind"]:
            case "change_started":
                host, step = event["host"], event["step"]
                self._changes.begin(host, step, (_seconds(event["at"]), written_id(step)))
            case "step_finished":
                host, result = event["host"], event["result"]
                if change := self._changes.end(host, result["id"]):
                    change.status = str(result["status"])
                    change.sent = may_have_been_sent(change.status, str(result.get("sent", "")))
            case "host_planned":
                self._seen(event["plan"]["host"], event["plan"]["looks"])
            case "host_finished":
                self.ends[event["result"]["host"]] = str(event["result"]["verdict"])
                self._seen(event["result"]["host"], event["result"]["steps"])

    def _seen(self, host: str, steps: Sequence[Mapping[str, Any]]) -> None:
        for step in steps:
            wanted = step["phase"] == "diagnose" and step["id"] in self._probes
            if wanted and step.get("state") and step["status"] in ("ok", "skipped"):
                self.answers[host, step["id"]] = step["state"]


def _seconds(at: str) -> float:
    """Return the time *at* (ISO 8601) in seconds since the epoch.  Raises ValueError."""
    moment = datetime.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


# ---- what a run goes on with and takes back -------------------------------------------------------------------------


def in_flight(events: Iterable[Event]) -> tuple[ChangeStarted, ...]:
    """Return the changes in *events* that were begun and have no end."""
    return tuple(change.beginning for change in _changes_in(events).in_flight)


def sent_changes(events: Iterable[Event]) -> tuple[ChangeStarted, ...]:
    """Return the changes in *events* that were sent, or may have been sent, in their order."""
    return tuple(change.beginning for change in _changes_in(events).sent)


def _changes_in(events: Iterable[Event]) -> BegunChanges[ChangeStarted]:
    changes = BegunChanges[ChangeStarted]()
    for event in events:
        match event:
            case ChangeStarted(host=host, step=step):
                changes.begin(host, step, event)
            case StepFinished(host=host, result=result):
                if change := changes.end(host, result.id):
                    change.status, change.sent = result.status, may_have_been_sent(result.status, result.sent)
    return changes


Changes = dict[str, dict[tuple[str, str], EarlierChange]]
"""Keyed by host, then by the step with its position in the list and the text of its item."""

IN_DOUBT = ("", Status.UNKNOWN, Status.CANCELLED, Status.UNREACHABLE)
"""The statuses of a change that was sent and whose outcome is unknown."""


class _Read(Protocol):
    """A run with its events."""

    @property
    def run(self) -> str: ...

    @property
    def events(self) -> Sequence[Event]: ...


def earlier_changes(runs: Sequence[_Read]) -> Mapping[str, tuple[EarlierChange, ...]]:
    """Return the changes that *runs* have sent, keyed by host; each run continues the run before it.

    Of several equal changes, the last one counts; a failed change does not.
    """
    found: Changes = {}
    for recorded in runs:
        plans = {event.plan.host: event.plan for event in recorded.events if isinstance(event, HostPlanned)}
        for change in _changes_in(recorded.events).sent:
            own, started = found.setdefault(change.host, {}), change.beginning
            key = (started.step, item_text(started.item))  # ``1`` is not ``true``
            _supersede(own, recorded.run, started, plans.get(change.host))
            if change.status == Status.CHANGED or change.status in IN_DOUBT:
                own[key] = _earlier_change(recorded.run, started, done=change.status == Status.CHANGED)
            else:
                own.pop(key, None)
    return {host: tuple(changes.values()) for host, changes in found.items()}


def _supersede(
    own: dict[tuple[str, str], EarlierChange], run: str, started: ChangeStarted, plan: HostPlan | None
) -> None:
    """Remove from *own* the earlier change that *started* sends again, if its item has another position now."""
    item = item_text(started.item)
    if plan is None or (started.step, item) in own:
        return
    step = written_id(started.step)
    same = {
        key: change
        for key, change in own.items()
        if change.run != run and change.step == step and item_text(change.item) == item
    }
    ready = ((planned.id, planned.item) for planned in plan.steps if planned.ready)
    equal = equal_items(started.step, started.item, ready)
    before = own_change([*same.values()], place_in_each(started.step), equal)
    for key in (key for key, change in same.items() if change is before):
        del own[key]


def _earlier_change(run: str, started: ChangeStarted, *, done: bool) -> EarlierChange:
    return EarlierChange(
        run=run,
        at=started.at,
        step=written_id(started.step),
        item=started.item,
        position=place_in_each(started.step),
        done=done,
        verifiable=started.verifiable,
        boot_id=started.boot_id,
    )
