"""The request to run a probe, and the outcome of the probe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.dataclass import dataclass
from runbook.values.playbook import Step
from runbook.values.result import SentCommand
from runbook.values.sampling import Series
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """A step to probe, with its rendered arguments."""

    step: Step
    args: Mapping[str, Json]
    left: float = 0.0
    """The seconds that are left of the step's ``within``, if the step is probed again; 0: the whole time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """The answer of a probe: the arguments, and the state of the host."""

    args: Any
    """The arguments, as the action's own ``Args``."""
    state: Any
    """The state, as the action's own ``State``."""
    absent: str = ""
    """The reason why the subject is proven to be absent; empty if it exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeFailure:
    """The reason why a probe gave no answer."""

    why: str
    malformed: bool = False
    """Whether the arguments are wrong, so that no command could be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The outcome of one step's probe, and the commands that were sent for it."""

    outcome: ProbeAnswer | ProbeFailure
    commands: tuple[SentCommand, ...]
    seconds: float
    series: Series | None = None
    """All samples, if the probe has ``samples``, even if none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialSamples:
    """The samples of a probe that was cut short: the run was asked to end, or the connection was lost."""

    step: str
    why: str
    """The number of samples that were taken, in words."""
    state: Mapping[str, Json]
