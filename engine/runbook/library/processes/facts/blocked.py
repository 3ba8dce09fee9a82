"""Find processes in state D and what they wait for, from their place in the kernel, without the GPU driver."""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.kernel_waits import Awaited, AwaitedPart, awaited_part
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import seconds

WaitsFor = Literal[AwaitedPart, "unknown"]

_FRAME = re.compile(r"^(?:\[<\w*>\] )?(?P<function>\w[\w.]*)(?:\+\S+)?(?: \[(?P<module>\w+)\])?")
"""A line of /proc/PID/stack, or the name of a function alone, as in /proc/PID/wchan."""
_LOCK = re.compile(r"rwsem_|__?mutex|down_|schedule_timeout")
_ASK = script(__package__, "blocked_processes")
MAX_SECOND_READING = 60.0
"""The maximum number of seconds for the second reading of a busy host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedTask:
    """A task (a process or a thread) that is in state D in both readings, and did not run in between.

    A task that waits for the GPU driver may have run: the driver sleeps in state D and wakes to ask a dead GPU again.
    """

    pid: int
    """The pid of the task's process."""
    tid: int
    """The number of the thread; equal to `pid` for the first thread of the process."""
    start: int
    """The start time in clock ticks since boot."""
    parent: int
    """The pid of the parent of the task's process."""
    user: str
    """The user name, or the user number if /etc/passwd has no name."""
    name: str
    """The name of the task in the kernel (15 characters)."""
    wchan: str
    """The kernel function in which the task sleeps; empty if it is not known."""
    waits_for: WaitsFor
    """The part of the kernel that the task waits in."""
    waits_in: str
    """The innermost function of that part, and whose it is: ``rpc_wait_bit_killable of NFS``; empty: not known."""
    devices: tuple[str, ...] = ()
    """The GPU device nodes that the task's process has open."""
    stack: tuple[str, ...] = field(default=(), repr=False)
    """The kernel functions on the stack of the task, as root sees them, the innermost first."""

    @property
    def in_driver(self) -> bool:
        """Whether the task waits for the GPU driver."""
        return self.waits_for == "GPU driver"


def ask_blocked(apart: float) -> Command:
    """Return the command that lists the tasks in state D in two readings, *apart* seconds apart; ``ran``: a task ran
    in between.
    """
    command = read_script(_ASK, f"{apart:g}")
    return Command(
        script=command.script, argv=command.argv, effect=command.effect, timeout=MAX_SECOND_READING, waits=apart
    )


def read_blocked(done: Completed) -> tuple[BlockedTask, ...]:
    """Return the tasks in *done*, the answer to ``ask_blocked``.  Raises ProbeError if there is no answer."""
    if done.timed_out:
        raise ProbeError(f"/proc could not be read within {seconds(done.seconds)}: a process may hold it up")
    if done.exit_code != 0 or "sampled" not in done.stdout.splitlines():
        raise ProbeError(f"the states of the processes cannot be read: {done.why_not()}")
    blocks: list[list[tuple[str, str]]] = []
    for line in done.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "task":
            blocks.append([])
        if blocks:
            blocks[-1].append((word, rest))
    read = ((_task(block), ("ran", "") in block) for block in blocks)
    return tuple(task for task, ran in read if task and (task.in_driver or not ran))


def _task(block: list[tuple[str, str]]) -> BlockedTask | None:
    numbers = block[0][1].split()
    if len(numbers) != 6 or not all(number.isascii() and number.isdigit() for number in numbers[:4]):
        return None
    pid, tid, start, parent = map(int, numbers[:4])
    fields = dict(block[1:])
    stack = tuple(rest for word, rest in block if word == "stack")
    devices = tuple(rest for word, rest in block if word == "gpu")
    wchan = fields.get("waits", "").strip()
    wchan = "" if wchan == "0" else wchan
    awaited = awaited_by(wchan, stack, devices)
    return BlockedTask(
        pid=pid,
        tid=tid,
        start=start,
        parent=parent,
        user=numbers[5] if numbers[5] != "-" else numbers[4],
        name=fields.get("name", "").strip(),
        wchan=wchan,
        waits_for=awaited.part if awaited else "unknown",
        waits_in=awaited.place if awaited else "",
        devices=devices,
        stack=stack,
    )


def awaited_by(wchan: str, stack: tuple[str, ...] = (), devices: tuple[str, ...] = ()) -> Awaited | None:
    """Return what a task waits for that sleeps in *wchan*, below *stack*, with the GPU *devices* open; None: unknown.

    A bare lock of the kernel (``rwsem_down_write_slowpath``) has no known owner.  If the task has a GPU open, the lock
    is taken for one of the GPU driver.
    """
    frames = [(one["function"], one["module"] or "") for line in (wchan, *stack) if (one := _FRAME.match(line))]
    if (awaited := awaited_part(frames)) or not devices or not _LOCK.match(wchan):
        return awaited
    return Awaited(part="GPU driver", owner="NVIDIA's driver", function=wchan)
