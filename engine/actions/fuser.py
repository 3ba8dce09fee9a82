"""End the processes that have a device, or a file, open.

Who that is, is read from /proc: no fuser and no lsof is needed.  A process is ended as (pid, start time), looked at
again right before each signal.  Our own shell and what is above it, PID 1, sshd and protected daemons are never ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.errors import ProbeError
from engine.facts import victims
from engine.facts.leftover import look_at_processes
from engine.facts.victims import Victims as State
from engine.ports import Absent, Probe
from engine.values.plan import Decision
from engine.values.text import Duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Whose holders are ended, and how."""

    paths: tuple[str, ...] = field(metadata={"about": "Devices or files, as globs of absolute paths.", "min_items": 1})
    only: Literal["all", "leftover"] = field(
        default="all", metadata={"about": "leftover spares every process whose job keeps a GPU busy."}
    )
    busy_above: float = field(
        default=5,
        metadata={"about": "At work is above this (percent, two looks 2 s apart).", "minimum": 0, "maximum": 100},
    )
    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT"] = field(
        default="KILL", metadata={"about": "The first signal."}
    )
    grace: Duration = field(
        default=Duration(10.0), metadata={"about": "How long the first signal may take.", "minimum": 0, "maximum": 500}
    )
    then: Literal["KILL", "nothing"] = field(default="KILL", metadata={"about": "What the rest gets."})
    allow: tuple[str, ...] = field(
        default=(), metadata={"about": "Names of protected daemons that may be ended after all."}
    )

    def __post_init__(self) -> None:
        """Refuse what could mean every process: a path that is not absolute, or a whole file system."""
        for it in self.paths:
            if not it.startswith("/") or it.strip("/*?") == "":
                raise ValueError(f"paths: {it!r} is no absolute path of a device or a file")


def probe(args: Args) -> Probe[State]:
    """Walk /proc; ask about the GPUs only if somebody holds a path and *only* is leftover."""
    paths = (*args.paths, "/dev/nvidia*") if args.only == "leftover" else args.paths
    table = yield from look_at_processes(paths)
    wanted = [it for it in table.nodes if any(_matches(it, glob) for glob in args.paths)]
    if not wanted:
        return Absent(why=f"there is no {' or '.join(args.paths)}", state=State())
    found = tuple(it for it in table.processes if set(it.devices) & set(wanted))
    if not found and table.unseen:
        raise ProbeError(f"who holds them is not known: {table.unseen} processes cannot be looked into without root")
    return (yield from victims.choose(found, table, args.allow, args.only, args.busy_above))


def _matches(path: str, glob: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(path, glob) and path.count("/") == glob.count("/")


def decide(args: Args, state: State) -> Decision:
    """End whoever holds them."""
    what = f"holding {' or '.join(args.paths)}"
    return victims.decision(state, what, signal=args.signal, grace=args.grace, then=args.then)


def without(state: State, keys: frozenset[str]) -> State:
    """Leave out victims by their keys."""
    return victims.without(state, keys)


def explain(args: Args, before: State, after: State) -> str:
    """Who survived, and who came anew."""
    return victims.explain(before, after)


def by_hand(args: Args) -> tuple[str, ...]:
    """Look first; fuser -k would end every holder, monitoring daemons included."""
    return (
        f"fuser -v {' '.join(args.paths)} 2>&1      # who holds them (as root)",
        f"kill -s {args.signal} PID ...   # those that are left over; not `fuser -k`, which ends every holder",
    )
