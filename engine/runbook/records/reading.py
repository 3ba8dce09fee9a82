"""Read from one journal what later runs ask for: the changes that were sent, and what probes saw."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from runbook.records.chain import Link, links
from runbook.records.journal import ENDING
from runbook.records.ledger import PRUNED, unlike_ledger
from runbook.records.ledger import Entry as Noted
from runbook.records.private_folder import PrivateFolder
from runbook.values.earlier_change import EarlierChange, equal_items, item_text, own_change
from runbook.values.event import ChangeStarted, Event, HostPlanned, StepFinished
from runbook.values.playbook import place_in_each, written_id
from runbook.values.result import HostPlan, Sent, Status, StepResult
from runbook.values.types import Json

if TYPE_CHECKING:
    from runbook.records.recorded_run import RecordedRun

_NOTHING_SENT = ("ok", "skipped", "blocked")
"""Statuses of steps whose commands were sent only where they have an exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The first line of a journal: what its run was about."""

    playbook: str = ""
    inventory: frozenset[str] = frozenset()
    """The files of its inventory, without symbolic links."""
    hosts: frozenset[str] = frozenset()
    resumes: str = ""
    """The run that it goes on with."""
    begun: bool = True
    """Whether the run got so far that it may have sent anything."""
    fault: str = ""
    """Why that cannot be believed: the run may have been about anything."""


@dataclass(slots=True, kw_only=True)
class Content:
    """What a journal says of hosts."""

    changes: dict[str, list[tuple[float, str]]] = field(default_factory=dict)
    """Of each host the changes that were sent: when each was begun (seconds since the epoch), and its step."""
    ends: dict[str, str] = field(default_factory=dict)
    """The verdict of each host that has one."""
    answers: dict[tuple[str, str], Mapping[str, Json]] = field(default_factory=dict)
    """The last state that a probe saw, by host and probe."""
    fault: str = ""
    """Why that cannot be believed."""


def head_of(folder: PrivateFolder, run: str, noted: Sequence[Noted]) -> Head:
    """The head of the journal of *run*; *noted*: what the ledger has of it, among that the digest of the first line."""
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
    """What the journal of *run* says of hosts, and of what *probes* saw there."""
    reading, seen = _Reading(probes), []
    try:
        with folder.opened(run + ENDING) as file:
            for link in links(file):
                seen.append(Link(number=link.number, value=None, sha=link.sha))
                reading.take(link)
    except OSError as error:
        return Content(fault=error.strerror or str(error))
    unlike = next(unlike_ledger(seen, [entry for entry in noted if entry.what != PRUNED]), "")
    return Content(changes=reading.sent(), ends=reading.ends, answers=reading.answers, fault=reading.fault or unlike)


class _Reading:
    """Takes note of the lines of one journal."""

    def __init__(self, probes: Collection[str]) -> None:
        self._probes = frozenset(probes)
        self._begun: dict[tuple[str, str], float] = {}
        """When the changes were begun that have no end yet, by host and step."""
        self._sent: list[tuple[str, float, str]] = []
        self.ends: dict[str, str] = {}
        self.answers: dict[tuple[str, str], Mapping[str, Json]] = {}
        self.fault = ""

    def take(self, link: Link) -> None:
        """Take note of a line."""
        if link.fault:
            self.fault = self.fault or f"line {link.number}: {link.fault}"
            return
        try:
            self._event(link.value["event"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self.fault = self.fault or f"line {link.number}: {type(error).__name__}: {error}"

    def sent(self) -> dict[str, list[tuple[float, str]]]:
        """The changes that were sent to each host; one without an end may have been."""
        open_ = [(host, at, step) for (host, step), at in self._begun.items()]
        found: dict[str, list[tuple[float, str]]] = {}
        for host, at, step in (*self._sent, *open_):
            found.setdefault(host, []).append((at, written_id(step)))
        return found

    def _event(self, event: Mapping[str, Any]) -> None:
        match event["kind"]:
            case "change_started":
                self._begun[event["host"], event["step"]] = _seconds(event["at"])
            case "step_finished":
                host, result = event["host"], event["result"]
                at = self._begun.pop((host, result["id"]), None)
                if at is not None and _was_sent(result):
                    self._sent.append((host, at, result["id"]))
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


def _was_sent(result: Mapping[str, Any]) -> bool:
    """Whether a step, as JSON has its result, sent a change; see ``runbook.diagnosis.verdicts.sent``."""
    still = result["status"] in _NOTHING_SENT
    return any(
        each["effect"] == "write" and (each.get("exit_code") is not None or each.get("timed_out") or not still)
        for each in result["commands"]
    )


def _seconds(at: str) -> float:
    """Seconds since the epoch.  Raises ValueError."""
    moment = datetime.fromisoformat(at)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


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
