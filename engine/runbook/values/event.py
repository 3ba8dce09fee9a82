"""The events of a run, which reporters receive as they happen."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
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
    """The time of the event: ISO 8601, UTC, to the millisecond.  It is set when the event is reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Timed):
    """A run begins; it has not connected to a host yet."""

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
    """The connection to a host begins."""

    host: str
    kind: Literal["host_started"] = "host_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlanned(Timed):
    """A host has been probed; *plan* is what would be done on it."""

    plan: HostPlan
    kind: Literal["host_planned"] = "host_planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Timed):
    """A person is shown the plans of these hosts and asked whether to carry out the plans."""

    hosts: tuple[str, ...]
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Timed):
    """The person has answered."""

    answer: Literal["yes", "no"]
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(Timed):
    """A remediate step begins."""

    host: str
    step: str
    action: str
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStarted(Timed):
    """A change is about to be sent; if the run is recorded, the event is on the disk before the change is sent."""

    host: str
    step: str
    action: str
    item: Json = None
    """The item of the step's ``each``, if the step has ``each``."""
    summary: str
    risk: Risk
    targets: tuple[str, ...] = ()
    """The things that the change touches, in words for people."""
    verifiable: bool
    """Whether a probe can tell afterwards if the change was done."""
    on: str = ""
    """The host to which the change is sent, if the step names another host."""
    become: str = ""
    """The user as whom the change is made; empty for the login user."""
    boot_id: str = ""
    """For a reboot: the id of the boot that it should end, so that a later run can check whether the host was
    rebooted.
    """
    because_of: tuple[str, ...] = ()
    """The steps of which at least one had to change something before (`if_changed`)."""
    undo: Undo | None = None
    """The way to undo the change; None if it was not recorded."""
    diff: str = field(default="", repr=False, metadata={"private": True})
    """The change in a file, as a plan shows it; it is not recorded."""
    kind: Literal["change_started"] = "change_started"

    @classmethod
    def of(cls, host: str, step: Step, item: Json, change: Change) -> ChangeStarted:
        """Return the event for *change*, which *step* is about to make on *host*."""
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
    """The run waits for something; *why* says for what."""

    host: str
    why: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFinished(Timed):
    """Every host of a batch has its verdict, and another batch follows."""

    number: int
    """The number of the batch, from 1."""
    hosts: tuple[str, ...]
    pause: float = 0.0
    """The seconds until the next batch begins."""
    kind: Literal["batch_finished"] = "batch_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinished(Timed):
    """A host has its verdict; there is one such event for every host of a run."""

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
