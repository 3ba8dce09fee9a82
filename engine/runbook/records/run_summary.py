"""Summarise one journal for the index: each value has a type that SQLite takes; a value with another type is a
fault.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from runbook.records.reading import BegunChanges, may_have_been_sent
from runbook.values.plan import Risk
from runbook.values.run_origin import ProcessIdentity

SQLITE_INTEGERS = 2**63
"""The integers of SQLite are smaller than this."""


class RunSummary:
    """The fields of the run *run* for the index; a malformed value does not affect the other values."""

    def __init__(self, run: str) -> None:
        self.row: dict[str, str | int | float] = {
            "started": time_in_id(run), "playbook": "", "mode": "", "ended": 0, "hosts": 0, "seconds": 0.0,
        }  # fmt: skip
        self.totals: dict[str, int] = {}
        self.hosts: list[tuple[str, str, float, str, int, int]] = []
        self.findings: list[tuple[str, str, str, str]] = []
        self.unfinished: dict[str, None] = {}
        """The hosts that began and have no result, in their order."""
        self.begun, self.fault = False, ""
        self._changes = BegunChanges[None]()

    def take(self, number: int, value: object) -> None:
        """Add line *number*, parsed as the JSON *value*, to the summary."""
        if not isinstance(value, dict) or not isinstance(event := value.get("event"), dict):
            return
        fields = _Fields(event)
        match event.get("kind"):
            case "run_started":
                self._start(fields)
            case "change_started" if fields.text("risk") != Risk.READS:
                self._changes.begin(fields.text("host"), fields.text("step"), None)
            case "step_finished":
                self._step(fields.text("host"), fields.part("result"))
            case "host_finished":
                self._host(fields.part("result"))
            case "run_finished":
                result = fields.part("result")
                self.row |= {"exit_code": result.whole("exit_code"), "seconds": result.number("seconds"), "ended": 1}
        if fields.odd:
            self.note(f"line {number}: {', '.join(map(repr, fields.odd))} is missing, or not of its type")

    @property
    def sent(self) -> int:
        """Return the number of changes that were sent, or may have been sent."""
        return len(self._changes.sent)

    def note(self, fault: str) -> None:
        """Store a fault; only the first fault is kept."""
        self.fault = self.fault or stored_text(fault)[:300]

    def _start(self, event: _Fields) -> None:
        origin = event.part("origin", optional=True)
        self.begun = True
        self.unfinished = {
            host: None for host in event.parts("hosts") if isinstance(host, str) and stored_text(host) == host
        }
        self.row |= {
            "started": event.text("at", str(self.row["started"])),
            "playbook": event.text("playbook"),
            "mode": event.text("mode"),
            "hosts": len(event.parts("hosts")),
        }
        if origin is not None:
            process = process_of(origin.value)
            if process is None:
                origin.odd.append("process")
            kept = (
                {field: getattr(process, field) for field in ProcessIdentity.__dataclass_fields__} if process else None
            )
            self.row |= {
                "command": origin.text("command"),
                "person": origin.text("by"),
                "reason": origin.text("reason", optional=True),
                "inventory": json.dumps(
                    [part for part in origin.parts("inventory", optional=True) if isinstance(part, str)]
                ),
                "resumes": origin.text("resumes", optional=True),
                "undoes": origin.text("undoes", optional=True),
                "process": json.dumps(kept),
            }

    def _step(self, host: str, result: _Fields) -> None:
        name, status, sent = result.text("id"), result.text("status"), result.text("sent", optional=True)
        if change := self._changes.end(host, name):
            change.status, change.sent = status, may_have_been_sent(status, sent)

    def _host(self, result: _Fields) -> None:
        host, verdict = result.text("host"), result.text("verdict")
        steps = [result.within(part) for part in result.parts("steps")]
        self.unfinished.pop(host, None)
        changes = sum(step.text("status") == "changed" for step in steps)
        self.totals[verdict] = self.totals.get(verdict, 0) + 1
        error = result.text("error", optional=True)
        files = sum(len(step.parts("kept", optional=True)) for step in steps)
        self.hosts.append((host, verdict, result.number("seconds"), error, changes, files))
        for found in [result.within(part) for part in result.parts("findings")]:
            self.findings.append((host, found.text("id"), found.text("severity"), found.text("status")))


class _Fields:
    """The values of a JSON object with their types checked; *odd*: the names of values with a wrong type."""

    def __init__(self, value: object, odd: list[str] | None = None) -> None:
        self.value: Mapping[str, Any] = value if isinstance(value, dict) else {}
        self.odd: list[str] = [] if odd is None else odd

    def within(self, value: object) -> _Fields:
        """Return the fields of *value*, an object inside this one."""
        if not isinstance(value, dict):
            self.odd.append("an element of a list")
        return _Fields(value, self.odd)

    def part(self, name: str, *, optional: bool = False) -> Any:
        """Return the object *name*; None if it is *optional* and missing."""
        value = self.value.get(name)
        if value is None and optional:
            return None
        if not isinstance(value, dict):
            self.odd.append(name)
        return _Fields(value, self.odd)

    def parts(self, name: str, *, optional: bool = False) -> list[Any]:
        """Return the list *name*; empty if it is missing."""
        value = self.value.get(name)
        if isinstance(value, list):
            return value
        if value is not None or not optional:
            self.odd.append(name)
        return []

    def text(self, name: str, otherwise: str = "", *, optional: bool = False) -> str:
        """Return the text *name*; *otherwise* if it is missing."""
        value = self.value.get(name)
        if value is None and optional:
            return otherwise
        if isinstance(value, str) and (kept := stored_text(value)) == value:
            return kept
        self.odd.append(name)
        return stored_text(value) if isinstance(value, str) else otherwise

    def number(self, name: str) -> float:
        """Return the finite number *name*; 0 if it is missing."""
        value = self.value.get(name)
        if _is_whole(value) or (isinstance(value, float) and math.isfinite(value)):
            return float(value)
        self.odd.append(name)
        return 0.0

    def whole(self, name: str) -> int:
        """Return the integer *name*, which must fit in 64 bits; 1 if it is missing."""
        value = self.value.get(name)
        if _is_whole(value):
            return value
        self.odd.append(name)
        return 1


def time_in_id(run: str) -> str:
    """Return the time when *run* began, from its id: ISO 8601, UTC, to the second."""
    return f"{run[:4]}-{run[4:6]}-{run[6:8]}T{run[9:11]}:{run[11:13]}:{run[13:15]}.000Z"


def stored_text(text: str) -> str:
    """Return *text* with each invalid character (half a surrogate pair) written as ``\\ud800``."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def process_of(origin: object) -> ProcessIdentity | None:
    """Return the process of a run from *origin* in its first event; None if *origin* does not have it."""
    value = origin.get("process") if isinstance(origin, Mapping) else None
    if not isinstance(value, dict):
        return None
    machine, boot, pid, start = (value.get(word) for word in ("machine", "boot", "pid", "start"))
    if not (isinstance(machine, str) and isinstance(boot, str) and _is_whole(pid) and _is_whole(start)):
        return None
    return ProcessIdentity(machine=machine, boot=boot, pid=pid, start=start)


def _is_whole(value: object) -> TypeGuard[int]:
    """Whether *value* is an integer that fits in 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < SQLITE_INTEGERS
