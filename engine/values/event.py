"""Everything worth telling somebody, as it happens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from engine.values.inventory import LeftOut
from engine.values.result import HostPlan, HostResult, Mode, RunResult, StepResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """Before the first connection."""

    run: str
    playbook: str
    mode: Mode
    hosts: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStarted:
    """A connection to the host is being made."""

    host: str
    kind: Literal["host_started"] = "host_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlanned:
    """The host has been inspected, and this is what would be done."""

    plan: HostPlan
    kind: Literal["host_planned"] = "host_planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A person is shown the plans of these hosts, and asked whether to carry them out."""

    hosts: tuple[str, ...]
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the person said."""

    answer: Literal["yes", "no"]
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """The turn of a remediate step has come."""

    host: str
    step: str
    action: str
    kind: Literal["step_started"] = "step_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """A step of a run has its result."""

    host: str
    result: StepResult
    kind: Literal["step_finished"] = "step_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Something takes its time, and this is what."""

    host: str
    why: str
    kind: Literal["waiting"] = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFinished:
    """The host has its verdict; said once of every host of a run."""

    result: HostResult
    kind: Literal["host_finished"] = "host_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
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
    | StepFinished
    | Waiting
    | HostFinished
    | RunFinished
)
