"""Record the clean-up that a run owes a host before its first change; remove it when the ``always`` steps have
succeeded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import replace

from runbook.errors import Cancelled, ConfigError, TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.language.arguments import build
from runbook.onhost.owed_note import make_note, remove_note, why_not
from runbook.protocols import OwedRecords
from runbook.values.earlier_change import item_text
from runbook.values.owed import NotePlace, NotRecorded, OwedCleanup, OwedStep
from runbook.values.plan import Change, PlannedStep, Skip
from runbook.values.playbook import Step, written_step
from runbook.values.result import HostPlan, Status, StepResult

DONE = (Status.OK, Status.CHANGED, Status.SKIPPED)
"""The statuses of an `always` step that leave nothing owed: the step was done, or was not needed."""


class OwedRecord:
    """The clean-up that one run owes one host, recorded on this machine and noted on the host."""

    def __init__(self, context: HostContext, plan: HostPlan) -> None:
        self._context, self._plan = context, plan
        earlier = context.run.owed.gone_on_with(context.host.name) if context.run.owed is not None else ()
        self._earlier = (
            OwedSettlement(context, context.run.owed, earlier) if context.run.owed is not None and earlier else None
        )
        self._kept: OwedCleanup | None = None
        self._noted: list[NotePlace] = []
        self._untold = ""

    def keep(self, step: str, ended: Collection[str]) -> str:
        """Record the clean-up that is owed once *step* has changed the host; return why that failed, or an empty text.

        *ended*: the steps that have already run.  Raises TransportError and Cancelled: then nothing was changed.
        """
        if self._kept or self._context.run.owed is None:
            return ""
        steps = owed_steps(self._context, self._plan, ended)
        if not steps:
            return ""
        facts = {name: str(value) for name, value in self._context.run.facts.items()}
        cleanup = OwedCleanup(
            run=facts.get("id", ""),
            playbook=self._context.playbook.name,
            host=self._context.host.name,
            by=facts.get("by", ""),
            since=facts.get("started_at", ""),
            steps=steps,
            notes=self._places(steps),
        )
        shown = self._context.run.owed.keep(cleanup)
        if isinstance(shown, NotRecorded):
            return f"not sent, because the clean-up that would be owed after it cannot be recorded: {shown.why}"
        self._kept = cleanup
        self._note(shown)
        return ""

    def untold(self) -> str:
        """Return the reason why the host has no note of its owed clean-up, as the end of a sentence; at most once."""
        why, self._untold = self._untold, ""
        return f"; the host could not note which clean-up is owed to it: {why}" if why else ""

    def note_again(self) -> None:
        """Write the notes of this host again after a reboot.  Raises TransportError and Cancelled."""
        if not self._kept or not self._kept.steps or self._context.run.owed is None:
            return
        shown = self._context.run.owed.keep(self._kept)
        self._noted = [place for place in self._noted if place.on]
        if not isinstance(shown, NotRecorded):
            self._note(replace(shown, notes=tuple(note for note in shown.notes if not note.on)))

    def ended(self, result: StepResult) -> None:
        """Remove the step of *result* from the record if it succeeded; after the last step, remove the record and
        the notes.
        """
        cleaned_up = result.status in (Status.OK, Status.CHANGED)  # not where it was skipped
        if self._earlier and cleaned_up and (taken := self._as_owed(result.id)):
            self._earlier.ended(result, taken)
        if not self._kept or self._context.run.owed is None or result.status not in DONE:
            return
        left = tuple(step for step in self._kept.steps if step.id != result.id)
        if len(left) == len(self._kept.steps):
            return
        self._kept = replace(self._kept, steps=left)
        if left:
            self._context.run.owed.keep(
                self._kept
            )  # where that fails, the record names one step too many, whose probe will say so
        else:
            self._drop(self._kept)

    def close(self, *, wrote: bool) -> None:
        """Record that no more steps run; if the host was not changed (*wrote*), nothing is owed."""
        if self._kept and self._kept.steps and not wrote:
            self._drop(self._kept)

    def _as_owed(self, step: str) -> OwedStep | None:
        """Return the ``always`` step with the id *step* of this run's plan, in the form of an owed step."""
        steps = owed_steps(self._context, self._plan, ())
        return next((owed_step for owed_step in steps if owed_step.id == step), None)

    def _note(self, cleanup: OwedCleanup) -> None:
        for place in cleanup.notes:
            try:
                (done,) = self._context.at(place.on).run(make_note(cleanup, place.become))
            except (TransportError, Cancelled) as error:
                if getattr(error, "sent", False):  # the note may have been made
                    self._noted.append(place)
                if not place.on or isinstance(error, Cancelled):
                    raise
                self._untold = str(error)
                continue
            if why := why_not(done):
                self._untold = why
            else:
                self._noted.append(place)

    def _drop(self, cleanup: OwedCleanup) -> None:
        """Remove the notes of *cleanup* from the hosts, and then its record.

        If a note cannot be removed, the record stays, too: `runbook settle` removes both.
        """
        assert self._context.run.owed is not None
        with suppress(TransportError, Cancelled):
            while self._noted:
                place = self._noted[0]
                (done,) = self._context.at(place.on).run(remove_note(cleanup, place.become))
                if why_not(done):
                    return
                self._noted.pop(0)
            self._context.run.owed.drop(cleanup)
            self._kept = None

    def _places(self, steps: tuple[OwedStep, ...]) -> tuple[NotePlace, ...]:
        """Return one place for a note on every host that is owed *steps*.

        The place is root's if anything is done as root on the host.
        """
        users: dict[str, set[str]] = {owed_step.on: {owed_step.become} for owed_step in steps}
        for planned in self._plan.steps:
            step = written_step(self._context.playbook.remediate, planned.id)
            if step.on in users and (step.always or isinstance(planned.decision, Change)):
                users[step.on].add(step.become)
        return tuple(
            NotePlace(on=on, become=max(them, key=lambda it: self._rank(on, it))) for on, them in users.items()
        )

    def _rank(self, on: str, user: str) -> tuple[bool, str]:
        name = user or ("" if on else self._context.host.user)
        return name == "root", name


class OwedSettlement:
    """The clean-up that earlier runs owe one host and that this run does; its records are removed while the host is
    locked.
    """

    def __init__(self, context: HostContext, records: OwedRecords, cleanups: Iterable[OwedCleanup]) -> None:
        self._context, self._records = context, records
        self._open = list(cleanups)

    def keep(self, step: str, ended: Collection[str]) -> str:
        """Return the reason why *step* must not run after all; empty if it is still owed."""
        for cleanup in self._open:
            if any(owed_step.id == step for owed_step in cleanup.steps) and not self._records.is_open(cleanup):
                return f"run {cleanup.run} owes it no more: another `runbook settle` has ended meanwhile"
        return ""

    def untold(self) -> str:
        """Return an empty text: the notes belong to the earlier runs."""
        return ""

    def note_again(self) -> None:
        """Do nothing: the earlier runs are over, and their notes do not outlast a reboot."""

    def ended(self, result: StepResult, taken: OwedStep | None = None) -> None:
        """Remove the step of *result* from the records if it succeeded.

        After the last step that a run owes, remove the notes and the record of the run.
        *taken*: the work of this step in a new plan.  An owed step that would do other work stays owed.
        """
        if result.status not in DONE:
            return
        for number, cleanup in enumerate(self._open):
            left = tuple(step for step in cleanup.steps if step.id != result.id or (taken and not _same(step, taken)))
            if len(left) < len(cleanup.steps):
                self._open[number] = replace(cleanup, steps=left)
                if left:
                    self._records.keep(self._open[number])
                else:
                    self._drop(cleanup)

    def close(self, *, wrote: bool) -> None:
        """Do nothing: each step that did not run stays owed."""

    def _drop(self, cleanup: OwedCleanup) -> None:
        """Remove the notes of *cleanup* from the hosts, and its record; if a host cannot be asked, the record stays."""
        with suppress(TransportError, Cancelled):
            for place in cleanup.notes:
                self._context.at(place.on).run(remove_note(cleanup, place.become))
            self._records.drop(cleanup)


def owed_in(context: HostContext, plan: HostPlan) -> OwedRecord | OwedSettlement:
    """Return the earlier runs' clean-up that this run does on its host; or a record for clean-up that this run will
    owe.
    """
    if context.run.owed is not None and (settled := context.run.owed.settled_here(context.host.name)):
        return OwedSettlement(context, context.run.owed, settled)
    return OwedRecord(context, plan)


def _same(owed: OwedStep, taken: OwedStep) -> bool:
    """Whether *taken* does the same work as *owed*; False if the record does not have all arguments of *owed*."""
    where = (owed.action, owed.on, owed.become) == (taken.action, taken.on, taken.become)
    return where and not owed.withheld and item_text(owed.args) == item_text(taken.args)


def owed_steps(context: HostContext, plan: HostPlan, ended: Collection[str]) -> tuple[OwedStep, ...]:
    """Return the ``always`` steps of *plan* that may have work to do when they run, without the steps in *ended*."""
    found = []
    for planned in plan.steps:
        step = written_step(context.playbook.remediate, planned.id)
        comes = planned.ready and (planned.condition is not None or not isinstance(planned.decision, Skip))
        if step.always and comes and context.action(step).decide is not None and planned.id not in ended:
            found.append(_owed_step(context, step, planned))
    return tuple(found)


def _owed_step(context: HostContext, step: Step, planned: PlannedStep) -> OwedStep:
    change = planned.decision if isinstance(planned.decision, Change) else planned.would
    return OwedStep(
        id=planned.id,
        action=step.action,
        say=change.summary if change else step.name,
        on=step.on,
        become=step.become,
        args=planned.args,
        by_hand=_by_hand(context, step, planned)
        or tuple(str(command) for command in (change.commands if change else ())),
    )


def _by_hand(context: HostContext, step: Step, planned: PlannedStep) -> tuple[str, ...]:
    """Return the shell lines with which a person can do *step* by hand; empty if the action has none."""
    action = context.action(step)
    if action.by_hand is None:
        return ()
    try:
        return action.by_hand(build(action.Args, planned.args))
    except ConfigError:
        return ()
