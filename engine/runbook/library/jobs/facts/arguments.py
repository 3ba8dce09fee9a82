"""The arguments of actions that distinguish leftovers of jobs from jobs at work, and that end leftovers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.table import Row
from runbook.library.processes.facts.victims import EndArguments
from runbook.values.types import Duration, Unknown


@dataclass(frozen=True, kw_only=True)
class JobArguments:
    """The criteria that distinguish a leftover of a job from a process of a job at work."""

    busy_above: float = field(default=5, metadata={"minimum": 0, "maximum": 100})
    """A job is at work if its GPU was busier than this (percent) in one of the samples of `idle_for`."""
    idle_for: Duration = field(default=Duration(2.0), metadata={"minimum": 1, "maximum": 3600})
    """A job is left over only if its GPUs were idle for this time: they are sampled every 5 s (or less) during the
    probe, which takes this long; the default is two samples.
    """
    starting: Duration = field(default=Duration(300), metadata={"minimum": 0, "maximum": 86400})
    """A job that has been running for less than this time is starting, not left over: it may be loading weights, or
    may soon use a GPU. If the process that started it is gone, a minute is enough. 0: the age is not checked.
    """
    spare_owned: bool = True
    """Spare every process with a living owner (a job of the scheduler, a service, a container, a session) or an
    unknown owner. With false, these processes are treated as if they had no owner.
    """
    incident: bool = False
    """Whether a log shows that a GPU was found busy. If not, an idle job that listens on a port may be a server at
    rest: it is left over only if `idle_for` is 10 minutes or more.
    """
    older_than: Duration = field(default=Duration(0), metadata={"minimum": 0})
    """Only processes that have been running for longer than this."""
    user: str = ""
    """Only processes of this user; empty: processes of all users."""
    lost: tuple[str, ...] = ()
    """Bus ids of GPUs that only a reboot can restore (`lost_gpus` of `kernel_log`); a process that has only these GPUs
    open is not a leftover.
    """


@dataclass(frozen=True, kw_only=True)
class EndJobArguments(EndArguments, JobArguments):
    """The processes to end among those that match, and the way to end them."""

    only: Literal["leftover", "all"] = "leftover"
    """leftover: spare every process that is at work, has just started, or listens on a port; all: spare only processes
    with an owner (`spare_owned`).
    """
    allow: tuple[str, ...] = ()
    """Protected programs, by name, that may be ended nevertheless."""


def wanted(rows: Iterable[Row], job: JobArguments) -> list[Row]:
    """Return the rows whose user and age are as *job* says.

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
