"""Record how a change can be undone before it is sent: the undo of its action, and copies of files on the host."""

from __future__ import annotations

from dataclasses import replace

from runbook.errors import TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.onhost.undo_copies import keep_copy, why_not_kept
from runbook.values.event import ChangeStarted
from runbook.values.plan import Change, Risk
from runbook.values.playbook import Step
from runbook.values.types import Json
from runbook.values.undo import Undo, UndoFile, UndoStep

WHY_NOT = {
    Risk.READS: "nothing was changed on the host",
    Risk.EDITS_FILES: "the action keeps nothing to go back by",
    Risk.KILLS_PROCESSES: "a process that was ended cannot be brought back",
    Risk.RESTARTS_SERVICES: "a restart cannot be taken back",
    Risk.RESETS_HARDWARE: "a reset cannot be taken back",
    Risk.DELETES_DATA: "what was deleted is gone",
    Risk.REBOOTS: "a reboot cannot be taken back",
    Risk.UNKNOWN: "nobody but its author knows what the command changes",
}
"""The reason why a change cannot be undone if its action has no undo, keyed by the risk of the change."""


def change_started(context: HostContext, step: Step, item: Json, fresh: ProbeAnswer, change: Change) -> ChangeStarted:
    """Return the event to record before *change* is sent; in a recorded run, first keep copies of the files on the
    host.

    Raises TransportError and Cancelled: then nothing was changed.
    """
    started = ChangeStarted.of(context.host.name, step, item, change)
    if not context.run.keeps_copies:
        return started
    action = context.action(step)
    if action.undo is None:
        return replace(started, undo=Undo(stays=(WHY_NOT[change.risk],)))
    return replace(started, undo=_with_copies(context, step, action.undo(fresh.args, fresh.state, change)))


def _with_copies(context: HostContext, step: Step, undo: Undo) -> Undo:
    """Return *undo* without the files of which the host could keep no copy; an undo cannot restore these files."""
    parts: list[UndoFile | UndoStep] = []
    stays = list(undo.stays)
    for part in undo.parts:
        why = _not_kept(context, step, part) if isinstance(part, UndoFile) else ""
        if why:
            stays.append(f"{part.path} was not copied before: {why}" if isinstance(part, UndoFile) else why)
        else:
            parts.append(part)
    return Undo(parts=tuple(parts), stays=tuple(stays))


def _not_kept(context: HostContext, step: Step, file: UndoFile) -> str:
    """Keep a copy of *file* on the host if one is needed; return the reason why that failed, or an empty text."""
    if not file.content or not file.before:
        return ""
    run = str(context.run.facts.get("id", ""))
    command = replace(keep_copy(run, file.path, file.before, step.become), owed=step.always)
    try:
        (done,) = context.at(step.on).run(command)
    except TransportError as error:
        if not step.on:
            raise
        return str(error)  # the change will say so, too, and the host itself can still be asked
    return why_not_kept(done)
