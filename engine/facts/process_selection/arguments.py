"""Arguments that several actions on processes have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.values.types import Duration


@dataclass(frozen=True, kw_only=True)
class JobArguments:
    """What makes a process a leftover of a job, or a part of one that is at work."""

    busy_above: float = field(
        default=5,
        metadata={
            "about": "A job is at work if its GPU was busier than this (percent) on one of two probes, 2 s apart.",
            "minimum": 0,
            "maximum": 100,
        },
    )
    lost: tuple[str, ...] = field(
        default=(),
        metadata={
            "about": "Bus ids of GPUs that only a reboot brings back (`kernel_log`: lost_gpus); a process with only "
            "these open is not a leftover."
        },
    )


@dataclass(frozen=True, kw_only=True)
class EndArguments:
    """How processes are ended."""

    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"] = field(
        default="TERM", metadata={"about": "The first signal."}
    )
    grace: Duration = field(
        default=Duration(10.0),
        metadata={
            "about": "How long to wait after the first signal; the wait ends as soon as all are gone.",
            "minimum": 0,
        },
    )
    then: Literal["KILL", "nothing"] = field(
        default="KILL", metadata={"about": "The signal for the processes that remain."}
    )
    max_victims: int = field(
        default=0,
        metadata={"about": "If more processes than this would be ended, none is; 0: any number.", "minimum": 0},
    )


@dataclass(frozen=True, kw_only=True)
class EndJobArguments(EndArguments, JobArguments):
    """Which of the processes that match are ended, and how."""

    only: Literal["leftover", "all"] = field(
        default="all", metadata={"about": "leftover: spare every process whose job keeps a GPU busy."}
    )
    allow: tuple[str, ...] = field(
        default=(), metadata={"about": "Protected programs, by name, that may be ended all the same."}
    )
