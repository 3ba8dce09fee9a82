"""From the record of a run to the steps that take its changes back, host by host, and what cannot be taken back."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.records.recorded_run import RecordedRun
from engine.secrets.names import MASK
from engine.values.event import ChangeStarted, StepFinished
from engine.values.plan import Risk
from engine.values.playbook import Phase, Step
from engine.values.result import Status
from engine.values.types import Json, Raw
from engine.values.undo import UndoFile, UndoStep

CONTROLLER = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """What of a change cannot be undone."""

    step: str
    action: str
    summary: str
    """Of the change."""
    why: str


@dataclass(slots=True)
class HostUndo:
    """What is done on one host, and what stays there."""

    steps: list[Step] = field(default_factory=list)
    stays: list[Stays] = field(default_factory=list)
    changed: bool = False
    """Whether the run may have changed it; what was only read, or said to a person, is listed among *stays*, too."""


@dataclass(slots=True)
class _Reversal:
    """What takes back one part of a change; of a file, all the changes that the run has made to it, one by one."""

    event: ChangeStarted
    part: UndoFile | UndoStep
    wrote: tuple[str, ...] = ()


def undo_steps(recorded: RecordedRun, hosts: Collection[str]) -> Mapping[str, HostUndo]:
    """What takes back the changes of *recorded*, the latest first, by host; *hosts*: those of the inventory."""
    found: dict[str, HostUndo] = {}
    origin = recorded.started.origin
    hides = origin is None or bool(origin.secret_inputs) or origin.lent_secrets  # which an undo does not know
    reversals: dict[str, list[list[_Reversal]]] = {}
    for event in sent(recorded):
        own = found.setdefault(event.host, HostUndo())
        own.changed |= event.risk is not Risk.READS
        if event.undo is None:
            own.stays.append(_stays(event, "the record does not say how"))
            continue
        own.stays += [_stays(event, why) for why in event.undo.stays]
        if why := _not_possible(event, hosts):
            own.stays.append(_stays(event, why))
            continue
        _add(reversals.setdefault(event.host, []), event, own)
    for host, changes in reversals.items():
        for parts in reversed(changes):
            _add_steps(found[host].steps, parts, recorded.run, hides=hides)
    return found


def sent(recorded: RecordedRun) -> tuple[ChangeStarted, ...]:
    """The changes that were sent, or may have been, in their order."""
    begun: dict[tuple[str, str], int] = {}
    changes: list[ChangeStarted | None] = []
    for event in recorded.events:
        if isinstance(event, ChangeStarted):
            begun[event.host, event.step] = len(changes)
            changes.append(event)
        elif isinstance(event, StepFinished):
            number = begun.pop((event.host, event.result.id), None)
            if number is not None and event.result.status in (Status.BLOCKED, Status.SKIPPED):
                changes[number] = None
    return tuple(change for change in changes if change)


def _stays(event: ChangeStarted, why: str) -> Stays:
    return Stays(step=event.step, action=event.action, summary=event.summary, why=why)


def _not_possible(event: ChangeStarted, hosts: Collection[str]) -> str:
    assert event.undo is not None
    if event.undo.parts and event.on and event.on != CONTROLLER and event.on not in hosts:
        return f"it was made on {event.on}, and no host of this name is in the inventory any more"
    if MASK in repr(event.undo.parts) + event.become + event.on:
        return "the record of how to undo it holds something that is masked as a secret"
    return ""


def _add(changes: list[list[_Reversal]], event: ChangeStarted, own: HostUndo) -> None:
    """Add what takes *event* back; a file that the run has changed already is restored once, to what it was first."""
    assert event.undo is not None
    made: list[_Reversal] = []
    for part in event.undo.parts:
        if not isinstance(part, UndoFile):
            made.append(_Reversal(event=event, part=part))
            continue
        earlier = _taken_out(changes, event, part)
        if earlier and part.before not in (*earlier.wrote, _before(earlier)):
            own.stays.append(_stays(earlier.event, f"something else has changed {part.path} before {event.step} did"))
            earlier = None
        made.append(_Reversal(event=event, part=_merged(earlier, part), wrote=_wrote(earlier, part)))
    changes.append(made)


def _taken_out(changes: list[list[_Reversal]], event: ChangeStarted, file: UndoFile) -> _Reversal | None:
    """The earlier reversal of the same file, which is no longer among *changes*."""
    for parts in changes:
        for part in parts:
            same = (part.event.on, part.event.become) == (event.on, event.become)
            if same and isinstance(part.part, UndoFile) and part.part.path == file.path:
                parts.remove(part)
                return part
    return None


def _before(earlier: _Reversal) -> str:
    return earlier.part.before if isinstance(earlier.part, UndoFile) else ""


def _wrote(earlier: _Reversal | None, file: UndoFile) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(earlier.wrote if earlier else ()), file.after)))


def _merged(earlier: _Reversal | None, file: UndoFile) -> UndoFile:
    if earlier is None or not isinstance(earlier.part, UndoFile):
        return file
    first = earlier.part
    return replace(
        first,
        after=file.after,
        left=file.left,
        content=first.content or file.content,
        masked=first.masked or file.masked,
    )


def _add_steps(steps: list[Step], parts: list[_Reversal], run: str, *, hides: bool) -> None:
    restored = ""
    for reversal in parts:
        number = len(steps) + 1
        step_id = f"undo_{re.sub('[^0-9A-Za-z]+', '_', reversal.event.step).strip('_')}_{number}"
        part = reversal.part
        if isinstance(part, UndoFile):
            action, name = "restore_file", f"Restore {part.path}"
        else:
            action, name = part.action, part.say
        args: Mapping[str, Json] = (
            _arguments(reversal, part, run, hides=hides) if isinstance(part, UndoFile) else part.args
        )
        steps.append(
            Step(
                id=step_id,
                phase=Phase.REMEDIATE,
                action=action,
                name=name,
                args={key: _raw(value) for key, value in args.items()},
                on=reversal.event.on,
                become=reversal.event.become,
                if_changed=(restored,) if isinstance(part, UndoStep) and part.if_restored and restored else (),
            )
        )
        restored = step_id if isinstance(part, UndoFile) else restored


def _arguments(it: _Reversal, file: UndoFile, run: str, *, hides: bool) -> dict[str, Json]:
    return {
        "path": file.path,
        "run": run,
        "before": file.before,
        "wrote": list(it.wrote),
        "content": file.content,
        "mode": file.was.mode,
        "owner": file.was.owner,
        "group": file.was.group,
        "left_mode": file.left.mode,
        "left_owner": file.left.owner,
        "left_group": file.left.group,
        "masked": file.masked or hides,
    }


def _raw(value: Json) -> Any:
    """*value* as it is: what stands in a record is no template."""
    return Raw(value)
