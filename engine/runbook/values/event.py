"""The events of a run, which reporters receive as they happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runbook.values.inventory import LeftOut
from runbook.values.plan import Change, Risk
from runbook.values.playbook import Step
from runbook.values.result import HostPlan, HostResult, Mode, RunResult, StepResult
from runbook.values.run_origin import RunOrigin
from runbook.values.types import Json
from runbook.values.undo import Undo


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An event with its time."""

    at: str = ""
    """When it happened: ISO 8601, UTC, to the millisecond.  Set where it is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Timed):
    """Before the first connection."""

    run: str
    playbook: str
    mode: Mode
    hosts: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    origin: RunOrigin | None = None
    """The origin of the run: user, place, reason, and files."""
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStarted(Timed):
    """A connection to the host is being made."""

    host: str
    kind: Literal["host_started"] = "host_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlanned(Timed):
    """The host has been inspected, and this is what would be done."""

    plan: HostPlan
    kind: Literal["host_planned"] = "host_planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Timed):
    """A person is shown the plans of these hosts, and asked whether to carry them out."""

    hosts: tuple[str, ...]
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Timed):
    """The answer of the person."""

    answer: Literal["yes", "no"]
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Timed):
    """The turn of a remediate step has come."""

    host: str
    step: str
    action: str
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStarted(Timed):
    """A change is about to be sent; on the disk, where the run is recorded, before it is."""

    host: str
    step: str
    action: str
    item: Json = None
    """The item of the step's ``each``, where it has one."""
    summary: str
    risk: Risk
    targets: tuple[str, ...] = ()
    """The things that it touches, for people."""
    verifiable: bool
    """Whether a probe can tell afterwards if it was done."""
    on: str = ""
    """The host that it is sent to, where the step names another one."""
    become: str = ""
    """The user as whom it is sent; empty: who logged in."""
    boot_id: str = ""
    """Of a reboot: the boot that it is to end, so that a later run sees whether it has."""
    because_of: tuple[str, ...] = ()
    """The steps one of which had to change something before (`if_changed`)."""
    undo: Undo | None = None
    """The way to undo it; None: it was not recorded."""
    diff: str = field(default="", repr=False, metadata={"private": True})
    """The change in a file, as a plan shows it; it is not in the record."""
    kind: Literal["change_started"] = "change_started"

    @classmethod
    def of(cls, host: str, step: Step, item: Json, change: Change) -> ChangeStarted:
        """Return the event of *change*, which *step* calls for on *host* and which is about to be sent."""
        return cls(
            host=host,
            step=step.id,
            action=step.action,
            item=item,
            summary=change.summary,
            risk=change.risk,
            targets=tuple(target.say for target in change.targets),
            verifiable=change.verifiable,
            on=step.on,
            become=step.become,
            because_of=step.if_changed,
            boot_id=change.restart.boot_id if change.restart else "",
            diff=change.diff,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished(Timed):
    """A step of a run has its result."""

    host: str
    result: StepResult
    kind: Literal["step_finished"] = "step_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Timed):
    """Something takes its time, and this is what."""

    host: str
    why: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinished(Timed):
    """Every host of a batch has its verdict, and another batch follows."""

    number: int
    """From 1."""
    hosts: tuple[str, ...]
    pause: float = 0.0
    """Seconds until the next one begins."""
    kind: Literal["batch_finished"] = "batch_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinished(Timed):
    """The host has its verdict; said once of every host of a run."""

    result: HostResult
    kind: Literal["host_finished"] = "host_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Timed):
    """The last event of every run."""

    result: RunResult
    kind: Literal["run_finished"] = "run_finished"


Event = (
    RunStarted
    | HostStarted
    | HostPlanned
    | Asked
    | Answered
    | StepStarted
    | ChangeStarted
    | StepFinished
    | Waiting
    | BatchFinished
    | HostFinished
    | RunFinished
)
