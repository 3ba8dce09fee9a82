"""Find processes in state D, which no signal ends, and what they wait for: the GPU driver, NFS, a disk.

The states are read twice, so that an ordinary wait for a disk does not count. Neither nvidia-smi nor the arguments of
a process are read, because both may hang on the same cause as these processes.
"""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.processes.facts.blocked import BlockedTask, ask_blocked, read_blocked
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import Duration, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    apart: Duration = field(default=Duration(5), metadata={"minimum": 0.1, "maximum": 120})
    """The time between the two readings; only tasks that are in state D in both readings count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The tasks in state D."""

    tasks: tuple[BlockedTask, ...]
    """Each: pid, tid, name, user, parent, wchan, waits_for (GPU driver, disk ...), devices, stack."""
    in_driver: tuple[BlockedTask, ...]
    """The tasks of `tasks` that wait for the GPU driver."""
    others: tuple[BlockedTask, ...]
    """The other tasks in `tasks`."""
    pids: tuple[int, ...]
    """The pids of `tasks`, each once."""
    waits_for: tuple[str, ...]
    """The causes for which `tasks` wait, each once."""


def probe(args: Args) -> Probe[State]:
    """Read the states of all tasks twice."""
    tasks = read_blocked((yield ask_blocked(args.apart)))
    return State(
        tasks=tasks,
        in_driver=tuple(task for task in tasks if task.in_driver),
        others=tuple(task for task in tasks if not task.in_driver),
        pids=tuple(dict.fromkeys(task.pid for task in tasks)),
        waits_for=tuple(dict.fromkeys(task.waits_for for task in tasks)),
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that no task is in state D in both readings."""
    if not state.tasks:
        return Holds(why="no process is in state D")
    words = ", ".join(f"pid {task.pid} ({task.name}): {task.waits_for}" for task in state.tasks[:5])
    return Fails(why=f"{plural(len(state.tasks), 'task')} in state D: {words}")


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste, twice; without the arguments of processes, which may hang."""
    return ("ps -eLo pid,tid,ppid,user,stat,wchan:40,etimes,comm | awk '$5 ~ /^D/'", "cat /proc/PID/stack   # as root")
