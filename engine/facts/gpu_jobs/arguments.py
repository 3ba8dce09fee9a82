"""Arguments of actions that tell leftovers of jobs from jobs at work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.errors import ProbeError
from engine.facts.processes.table import Row
from engine.values.types import Duration, Unknown


@dataclass(frozen=True, kw_only=True)
class JobArguments:
    """What makes a process a leftover of a job, or a part of one that is at work."""

    busy_above: float = field(
        default=5,
        metadata={
            "about": "A job is at work if its GPU was busier than this (percent) in one of the samples of `idle_for`.",
            "minimum": 0,
            "maximum": 100,
        },
    )
    idle_for: Duration = field(
        default=Duration(2.0),
        metadata={
            "about": "A job is left over only if its GPUs were idle for so long: they are sampled every 5 s (or less) "
            "while the probe runs, which takes as long; the default is two samples.",
            "minimum": 1,
            "maximum": 3600,
        },
    )
    starting: Duration = field(
        default=Duration(60),
        metadata={
            "about": "A job of which no process holds a GPU is not left over until it has been running for so long: it "
            "may be about to use one.",
            "minimum": 0,
            "maximum": 86400,
        },
    )
    older_than: Duration = field(
        default=Duration(0),
        metadata={"about": "Only processes that have been running for longer.", "minimum": 0},
    )
    user: str = field(default="", metadata={"about": "Only processes of this user; none: everybody's."})
    lost: tuple[str, ...] = field(
        default=(),
        metadata={
            "about": "Bus ids of GPUs that only a reboot brings back (`kernel_log`: lost_gpus); a process with only "
            "these open is not a leftover."
        },
    )


def wanted(rows: Iterable[Row], job: JobArguments) -> list[Row]:
    """Those of *rows* that are of the user, and as old, as *job* says.

    Raises ProbeError where an age is asked for and the host does not tell how old its processes are.
    """
    found = [row for row in rows if job.user in ("", row.process.user)]
    if not job.older_than:
        return found
    return [row for row in found if _age(row) > job.older_than]


def _age(row: Row) -> float:
    if isinstance(row.process.seconds, Unknown):
        raise ProbeError(f"it is not known how old processes are: {row.process.seconds.why}")
    return row.process.seconds
