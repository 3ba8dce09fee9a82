"""Make the steps that undo the changes of a recorded run, host by host, and list the changes that cannot be undone."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from runbook.codec import to_json
from runbook.commands.rests_on import digest_of
from runbook.dataclass import dataclass
from runbook.execution.fleet import Assignment
from runbook.records.reading import sent_changes
from runbook.records.recorded_run import RecordedRun
from runbook.secrets.names import MASK
from runbook.values.event import ChangeStarted
from runbook.values.plan import Risk
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.types import Json, Raw
from runbook.values.undo import UndoFile, UndoStep

CONTROLLER = "controller"
COMMAND = "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stays:
    """A part of a change that cannot be undone."""

    step: str
    action: str
    summary: str
    """The summary of the change."""
    why: str


@dataclass(slots=True)
class HostUndo:
    """The undo steps for one host, and the parts of changes that cannot be undone there."""

    steps: list[Step] = field(default_factory=list)
    stays: list[Stays] = field(default_factory=list)
    changed: bool = False
    """Whether the run may have changed the host; False if it has only read there, or said something to a person."""


@dataclass(slots=True)
class _Reversal:
    """The reversal of one part of a change; for a file, of all the changes that the run has made to the file."""

    event: ChangeStarted
    part: UndoFile | UndoStep
    wrote: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """The earlier steps that have changed the same file."""


def undo_steps(recorded: RecordedRun, hosts: Collection[str]) -> Mapping[str, HostUndo]:
    """Return the steps that undo the changes of *recorded*, keyed by host, the latest change first.

    *hosts*: the hosts of the inventory.
    """
    found: dict[str, HostUndo] = {}
    origin = recorded.started.origin
    hides = origin is None or bool(origin.secret_inputs) or origin.lent_secrets  # which an undo does not know
    reversals: dict[str, list[list[_Reversal]]] = {}
    for event in sent_changes(recorded.events):
        own = found.setdefault(event.host, HostUndo())
        own.changed |= event.risk is not Risk.READS
        if event.undo is None:
            own.stays.append(_stays(event, "the record does not say how"))
            continue
        own.stays += [_stays(event, why) for why in event.undo.stays]
        if why := _not_possible(event, hosts):
            own.stays.append(_stays(event, why))
            continue
        own.stays += [_stays(event, _NOTHING_IS_BACK) for part in _later_parts(event) if not event.because_of]
        _add(reversals.setdefault(event.host, []), event, own)
    for host, changes in reversals.items():
        own, restored = found[host], dict[str, list[str]]()
        for parts in reversed(changes):
            _add_steps(own.steps, parts, recorded.run, restored, hides=hides)
        for parts in changes:
            for reversal in parts:
                _add_later(own, reversal, restored)
    return found


_NOTHING_IS_BACK = "a restart or a reload is not taken back, and no file is restored that it was for"


def _later_parts(event: ChangeStarted) -> list[UndoStep]:
    """Return the parts of *event* that are done again after the files of earlier steps are restored."""
    parts = event.undo.parts if event.undo else ()
    files = any(isinstance(part, UndoFile) for part in parts)
    return [part for part in parts if isinstance(part, UndoStep) and part.if_restored and not files]


def _add_later(own: HostUndo, reversal: _Reversal, restored: Mapping[str, list[str]]) -> None:
    """Add a step that repeats *reversal* after its file is restored, so that the service runs with the old file."""
    event, part = reversal.event, reversal.part
    if not event.because_of or part not in _later_parts(event) or not isinstance(part, UndoStep):
        return
    for_files = tuple(dict.fromkeys(step for each in event.because_of for step in restored.get(each, ())))
    if for_files:
        step = _step(own.steps, reversal, part.action, part.say, part.args)
        own.steps.append(replace(step, if_changed=for_files))
    else:
        own.stays.append(_stays(event, _NOTHING_IS_BACK))


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
    """Add the reversal of *event* to *changes*; a file that was changed several times is restored once, to its
    first content.
    """
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
        also = (earlier.event.step, *earlier.also) if earlier else ()
        made.append(_Reversal(event=event, part=_merged(earlier, part), wrote=_wrote(earlier, part), also=also))
    changes.append(made)


def _taken_out(changes: list[list[_Reversal]], event: ChangeStarted, file: UndoFile) -> _Reversal | None:
    """Remove the earlier reversal of the same file from *changes*, and return it; None if there is none."""
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


def _add_steps(
    steps: list[Step], parts: list[_Reversal], run: str, restored: dict[str, list[str]], *, hides: bool
) -> None:
    """Append the undo steps of *parts* to *steps*; in *restored*, map each changing step to the steps that restore
    its file.

    *run*: the run to undo.  *hides*: the run used secrets that an undo does not know.
    """
    before = ""
    for reversal in parts:
        part = reversal.part
        if isinstance(part, UndoFile):
            args = _arguments(reversal, part, run, hides=hides)
            step = _step(steps, reversal, "restore_file", f"Restore {part.path}", args)
            for changed in (reversal.event.step, *reversal.also):
                restored.setdefault(changed, []).append(step.id)
            before = step.id
        elif part in _later_parts(reversal.event):
            continue
        else:
            step = _step(steps, reversal, part.action, part.say, part.args)
            step = replace(step, if_changed=(before,) if part.if_restored and before else ())
        steps.append(step)


def _step(steps: list[Step], reversal: _Reversal, action: str, name: str, args: Mapping[str, Json]) -> Step:
    """Return the undo step for *reversal*, which will be appended to *steps*."""
    event = reversal.event
    return Step(
        id=f"undo_{re.sub('[^0-9A-Za-z]+', '_', event.step).strip('_')}_{len(steps) + 1}",
        phase=Phase.REMEDIATE,
        action=action,
        name=name,
        args=_raw(args),
        on=event.on,
        become=event.become,
    )


def as_written(step: Step) -> Step:
    """Return *step* of an undo as it was before JSON: nothing in it is a template."""
    return replace(step, args=_raw(step.args))


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


def playbook_of_undo(run: str, steps: Mapping[str, Sequence[Step]]) -> Playbook:
    """Return the playbook that undoes the changes of *run* with *steps*, by host."""
    own = {host: [to_json(step) for step in its] for host, its in steps.items()}
    every = tuple(step for its in steps.values() for step in its)
    return Playbook(name=COMMAND, remediate=every, digest=digest_of({"run": run, "steps": own}))


def assignments_of_undo(playbook: Playbook, steps: Mapping[str, Sequence[Step]]) -> Mapping[str, Assignment]:
    """Return the playbook of each host, with the steps of its own."""
    return {
        name: Assignment(playbook=replace(playbook, remediate=tuple(its)), parts={}, secrets={})
        for name, its in steps.items()
    }


def _raw(args: Mapping[str, Any]) -> Any:
    """Return *args* marked so that nothing in them is read as a template."""
    return {key: Raw(value) for key, value in args.items()}
