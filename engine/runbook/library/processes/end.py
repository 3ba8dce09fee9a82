"""End exactly the processes that an expression gives: those that a finding names, and no others.

The expression is a list from `processes`, `device_holders` or another probe, or a part of such a list. Each process is
identified by its pid and start time, and is read again on the host right before each signal: a process that is gone is
left out, a process that was started since is left alone, and another process with the same pid is never touched. PID
1, the processes of our own connection, and protected daemons are left alone. So are processes with a living owner (a
job of the scheduler, an active service, a running container, a session) or an unknown owner. If a process is started
again, with the same command line by the same user, it is reported together with what started it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.processes.facts.owners.owners import without_owned
from runbook.library.processes.facts.protected import Protected, as_process, spared, split_by_protection
from runbook.library.processes.facts.table import Process, Row, Table, ask_processes, read_processes
from runbook.library.processes.facts.terminate import with_second_signal
from runbook.library.processes.facts.victims import (
    EndArguments,
    ProcessSnapshot,
    absence,
    decision,
    disagreement,
    gone,
    without_processes,
)
from runbook.protocols import NARROWS, Fails, Holds, Probe
from runbook.values.plan import Decision
from runbook.values.types import Json, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(EndArguments):
    processes: tuple[Mapping[str, Json], ...] = field(metadata={NARROWS: ("pid", "start")})
    """The processes, as probes give them, such as `jobs.leftover`, or a part of it. Only pid and start of each are
    used. Processes that the expression no longer gives at the step's turn are left alone.
    """
    allow: tuple[str, ...] = ()
    """Protected programs, by name, that may be ended nevertheless."""
    spare_owned: bool = True
    """Leave processes alone that have a living owner (a job of the scheduler, a service, a container, a session) or an
    unknown owner.
    """
    may_restart: bool = False
    """Whether a restarted process is no failure, for example if a supervisor restarts a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The present state of the given processes."""

    alive: tuple[Process, ...] | Unknown
    """The processes that still run: pid, user, command, container, seconds (running) ..."""
    protected: tuple[Protected, ...] = ()
    """The processes that still run and are never ended, each with the reason."""
    owned: tuple[Process, ...] = ()
    """The processes that still run and whose owner lives (`owner`, `ownership`)."""
    gone: int = 0
    """The number of given processes that have ended, or are zombies."""
    started: tuple[Process, ...] = ()
    """Processes that were started after a given process, by the same user and with the same command line."""


def objection(args: Args) -> str:
    """Return the reason why these processes cannot be identified for certain; empty if they can."""
    for number, one in enumerate(args.processes):
        if not all(type(one.get(key)) is int for key in ("pid", "start")):
            return (
                f"processes[{number}] has no pid and start time; give processes as a probe gives them: "
                "{{ jobs.leftover }}, not their numbers"
            )
    return ""


def probe(args: Args) -> Probe[State]:
    """Read /proc and find the owners of the processes; nothing is read if no process is given."""
    if not args.processes:
        return State(alive=())
    table = read_processes((yield ask_processes()))
    plain = _state(args, table)
    if isinstance(plain.alive, Unknown):
        return plain
    free, state = yield from without_owned(plain, plain.alive, table, spare=args.spare_owned)
    return replace(state, alive=free)


def _state(args: Args, table: Table) -> State:
    wanted = {f"{one['pid']}:{one['start']}" for one in args.processes}
    rows = [row for row in table.rows.values() if row.process.key in wanted and not row.defunct]
    split = split_by_protection(rows, table, args.allow)
    alive = tuple(as_process(row) for row in split.free)
    unseen = _unseen(args, table) if len(rows) < len(wanted) else None
    blind = unseen or split.doubt
    ours = tuple(_ours(one) for one in args.processes if one["pid"] in table.own)
    return State(
        alive=alive if alive or not blind else blind,
        protected=(*split.protected, *ours),
        gone=0 if unseen else len(wanted) - len(rows) - len(ours),
        started=tuple(
            as_process(row) for row in table.rows.values() if _is_later(row, args) and row.process.key not in wanted
        ),
    )


def _unseen(args: Args, table: Table) -> Unknown | None:
    """Return the reason why a process may be running although it is not in *table*."""
    if table.hidden:
        return Unknown(why=table.hidden)
    cut = [user for user in table.left_out if user in {one.get("user", user) for one in args.processes}]
    return Unknown(why=f"not all processes of {', '.join(cut)} could be listed: too many") if cut else None


def _ours(one: Mapping[str, Json]) -> Protected:
    """Return the entry for a process of our own connection, which is in no table."""
    pid, user, command = int(str(one["pid"])), str(one.get("user", "")), str(one.get("command", ""))
    start, ppid = int(str(one["start"])), int(str(one.get("ppid", 0)))
    seconds = Unknown(why="not read again")
    process = Process(pid=pid, start=start, ppid=ppid, user=user, state="S", command=command, seconds=seconds)
    return spared(process, "it is one of our own connection")


def _is_later(row: Row, args: Args) -> bool:
    """Whether *row* may be a given process that was started again."""
    one = row.process
    return not row.defunct and any(
        one.start > int(str(each["start"])) and (one.user, one.command) == (each.get("user"), each.get("command"))
        for each in args.processes
    )


def decide(args: Args, state: State) -> Decision:
    """End the given processes that still run."""
    spared_ones = [*map(str, state.protected), *(f"pid {one.pid} has an owner: {one.owner}" for one in state.owned)]
    rest = "that may be ended " if spared_ones else ""
    what = f"{rest}of the {plural(len(args.processes), 'process')} given still runs" if args.processes else "was given"
    return decision(state.alive, args.manner, what, spared_ones, names_spared=True)


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether none of these processes runs any more."""
    alive, none = state.alive, f"none of the {plural(len(args.processes), 'process')} given still runs"
    left = alive if isinstance(alive, Unknown) else (*alive, *state.owned, *(one.process for one in state.protected))
    return absence(left, none, "still runs", "still run")


def settled(args: Args, before: State, after: State) -> bool:
    """Whether every victim is gone, and none was started again, unless that is allowed."""
    return gone(_snapshot(args, before), _after(args, after))


def explain(args: Args, before: State, after: State) -> str:
    """Describe the processes that survived, and those that were started again, with their starters."""
    return disagreement(_snapshot(args, before), _after(args, after), args.manner)


without, outcome = without_processes, with_second_signal


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run: first check whether each pid is still that process."""
    return ("ps -o pid,lstart,user,args -p PID  # for each: still the process that the finding names?", *args.by_hand())


def _snapshot(args: Args, state: State) -> ProcessSnapshot:
    alive, started = state.alive, () if args.may_restart else state.started
    return ProcessSnapshot(found=alive if isinstance(alive, Unknown) else (*alive, *started), victims=alive)


def _after(args: Args, state: State) -> ProcessSnapshot:
    found = _snapshot(args, state).found
    return ProcessSnapshot(found=found, victims=found)
