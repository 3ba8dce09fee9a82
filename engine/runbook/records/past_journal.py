"""Read from one journal what later runs ask for: the changes that were sent, and what probes saw."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from runbook.records.chain import Link, links
from runbook.records.journal import ENDING
from runbook.records.ledger import PRUNED, unlike_ledger
from runbook.records.ledger import Entry as Noted
from runbook.records.private_folder import PrivateFolder
from runbook.values.playbook import written_id
from runbook.values.types import Json

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
