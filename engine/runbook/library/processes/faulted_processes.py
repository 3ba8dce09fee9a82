"""Find the processes that GPU faults (Xids) name and that still run.

A process is the named one only if it has the pid and the name in the kernel's message, and was running before the
message: a pid alone may be another's by now. The result is what `end` takes: `end: {processes: "{{ named.alive }}"}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.protected import Protected, as_process, split_by_protection
from runbook.library.processes.facts.table import Process, Row, Table, ask_processes, read_processes
from runbook.library.processes.facts.victims import absence, process_in_words
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Effect
from runbook.values.types import Json, Unknown

KERNEL_NAME = 15
"""Characters that the kernel keeps of a process's name."""

CLOCK = 2.0
"""Seconds by which the clock of the log may differ from the one that the start of a process is computed by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    xids: tuple[Mapping[str, Json], ...]
    """The faults: entries of `kernel_log`'s `xids`, of which pid, name, seconds and code are used."""
    pids: Literal["auto", "host"] = "auto"
    """The numbering of processes in the kernel's messages. auto: in a container the answer is unknown, because the
    numbers are those of the machine outside; host: the numbers are those of this host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The processes that the faults name."""

    alive: tuple[Process, ...] | Unknown
    """The processes that still run: pid, user, command, container, seconds (running) ..."""
    protected: tuple[Protected, ...] = ()
    """The processes that still run and are never ended, each with the reason."""
    faults: tuple[str, ...] = ()
    """In words, each process that still runs and the numbers of its faults."""


def probe(args: Args) -> Probe[State]:
    """Read /proc and the clock; nothing is read if no fault names a process."""
    if not any(isinstance(xid.get("pid"), int) for xid in args.xids):
        return State(alive=())
    clock, namespace, processes = yield (_CLOCK, _NAMESPACE, ask_processes())  # a late clock would hide them
    table = read_processes(processes)
    if args.pids == "auto" and namespace.stdout.strip() != INITIAL:
        why = "the numbers in the kernel's messages are those of the machine outside of this container"
        return State(alive=Unknown(why=why if namespace.stdout else "it is not known whether this is a container"))
    if not clock.stdout.strip().isdigit():
        raise ProbeError("the host does not say what time it is, so that a pid may be another process's by now")
    return _state(args, table, float(clock.stdout))


INITIAL = "pid:[4026531836]"
"""The first pid namespace of a kernel (PROC_PID_INIT_INO in Linux's proc_ns.h): its numbers are those of the log."""
_NAMESPACE = Command(argv=("readlink", "/proc/self/ns/pid"), effect=Effect.READ)
_CLOCK = Command(argv=("date", "+%s"), effect=Effect.READ)


def _state(args: Args, table: Table, now: float) -> State:
    codes: dict[int, list[int]] = {}
    rows: dict[int, Row] = {}
    for xid in args.xids:
        pid = xid.get("pid")
        row = table.rows.get(pid) if isinstance(pid, int) else None
        if row and not row.defunct and _is_named(row, xid, now):
            rows[row.process.pid] = row
            codes.setdefault(row.process.pid, []).append(int(str(xid.get("code", 0))))
    split = split_by_protection(rows.values(), table, ())
    alive = tuple(as_process(row) for row in split.free)
    blind = Unknown(why=table.hidden) if table.hidden else split.doubt
    return State(
        alive=alive if alive or not blind else blind,
        protected=split.protected,
        faults=tuple(_fault_in_words(process, codes[process.pid]) for process in alive),
    )


def _fault_in_words(process: Process, codes: Iterable[int]) -> str:
    where = f" in {process.container}" if process.container else ""
    return f"{process_in_words(process)}{where}: Xid {', '.join(map(str, dict.fromkeys(codes)))}"


def _is_named(row: Row, xid: Mapping[str, Json], now: float) -> bool:
    """Whether *row* is the process that *xid* names: by name, and by having run before the message.

    A fault whose time, or whose process's name, the log does not give is nobody's.
    """
    seconds, running, name = xid.get("seconds"), row.process.seconds, xid.get("name")
    if isinstance(running, Unknown) or not isinstance(seconds, int | float) or not isinstance(name, str):
        return False
    return name[:KERNEL_NAME] == row.name[:KERNEL_NAME] and now - running <= seconds + CLOCK


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether none of these processes runs any more."""
    none = "no process that a fault names still runs"
    return absence(state.alive, none, "with a fault still runs", "with a fault still run")


def by_hand(args: Args) -> tuple[str, ...]:
    """Check whether the pid of the message is still that process."""
    return ("ps -o pid,lstart,user,comm,args -p PID  # started before the Xid, and of the same name?",)
