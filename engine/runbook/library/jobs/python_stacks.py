"""Say where Python processes stand and what they wait for, from `py-spy dump`, where it is installed.

The processes are not stopped for it. Nothing is known without py-spy, of a process of another user without root, and
of one that is no Python program. A frame of C, such as the one in which a collective of NCCL waits, is not seen; the
frame of Python that called it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.python_stacks import MAX_PROCESSES, PythonStack, ask_stacks, read_stacks
from runbook.protocols import Probe
from runbook.values.command import Completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    pids: tuple[int, ...]
    """Pids, of which the first 16 are examined; empty: nothing is examined."""

    def __post_init__(self) -> None:
        if wrong := [pid for pid in self.pids if pid < 1]:
            raise ValueError(f"`pids`: {wrong[0]} is not the pid of a process")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    stacks: tuple[PythonStack, ...] = ()
    """Where each process stands (pid, waits_for, works, at, frames)."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Pid to the reason why py-spy does not know where it stands."""
    left_out: int = 0
    """The number of processes that were not asked."""


def probe(args: Args) -> Probe[State]:
    """One command for all processes."""
    if not args.pids:
        return State()
    done: Completed = yield ask_stacks(args.pids)
    stacks, failed = read_stacks(done)
    return State(
        stacks=stacks,
        failed={str(pid): why for pid, why in failed.items()},
        left_out=max(0, len(args.pids) - MAX_PROCESSES),
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """A line for each process."""
    return tuple(f"py-spy dump --nonblocking --pid {pid}" for pid in args.pids[:MAX_PROCESSES])
