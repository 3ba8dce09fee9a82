"""End the processes that have a device, or a file, open.

Holders are read from /proc: neither fuser nor lsof is needed. A process is ended by pid and start time, read again
right before each signal. PID 1, the processes of our own connection, and protected daemons are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from engine.facts.process_selection import by_open_files
from engine.facts.process_selection.arguments import EndJobArguments
from engine.facts.process_selection.by_open_files import OpenFileMatch, probe_by_open_files
from engine.facts.process_selection.path_rules import objection_to_paths
from engine.facts.processes.terminate import with_second_signal
from engine.facts.processes.victims import (
    AT_WORK_BY_HAND,
    Processes,
    ProcessSnapshot,
    decision,
    disagreement,
    gone,
    said,
)
from engine.protocols import Probe
from engine.values.plan import Decision
from engine.values.types import Unknown

State = OpenFileMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(EndJobArguments):
    """Whose holders are ended, and how."""

    paths: tuple[str, ...] = field(
        metadata={"about": "Devices or files, as globs of absolute paths; directories are left out.", "min_items": 1}
    )
    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"] = field(
        default="KILL", metadata={"about": "The first signal."}
    )


def objection(args: Args) -> str:
    """Why the holders of these paths must not be ended; empty: they may."""
    return objection_to_paths(args.paths)


def probe(args: Args) -> Probe[State]:
    """Walk /proc; probe the GPUs only if a process holds a path and it matters."""
    return (yield from probe_by_open_files(args.paths, args.allow, args, classified=args.only == "leftover"))


def decide(args: Args, state: State) -> Decision:
    """End who holds them."""
    spared = [] if isinstance(state.at_work, Unknown) else [f"{said(process)} is at work" for process in state.at_work]
    spared += [f"pid {protected.pid}: {protected.why}" for protected in (*state.beyond_help, *state.protected)]
    what = f"{'that is left over ' if args.only == 'leftover' else ''}holds {' or '.join(args.paths)}"
    return decision(_victims(args, state), args.manner, what, spared)


def settled(args: Args, before: State, after: State) -> bool:
    """Every victim is gone, and none has come back."""
    return gone(_seen(args, before), _seen(args, after))


def explain(args: Args, before: State, after: State) -> str:
    """Who survived, and who came back."""
    return disagreement(_seen(args, before), _seen(args, after), args.manner)


def outcome(summary: str, outputs: tuple[str, ...]) -> str:
    """Who needed the second signal."""
    return with_second_signal(summary, outputs)


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without the processes of *keys*."""
    return by_open_files.without(state, keys)


def by_hand(args: Args) -> tuple[str, ...]:
    """Check first; `fuser -k` would end every holder, monitoring daemons too."""
    spared = (AT_WORK_BY_HAND,) if args.only == "leftover" else ()
    lines = (f"fuser -v {' '.join(args.paths)} 2>&1", *spared, f"kill -s {args.signal} PID...")
    return (
        lines
        if args.then == "nothing" or args.signal == "KILL"
        else (*lines, f"sleep {args.grace:g}; kill -s KILL PID...")
    )


def _victims(args: Args, state: State) -> Processes:
    return state.processes if args.only == "all" else state.leftover


def _seen(args: Args, state: State) -> ProcessSnapshot:
    return ProcessSnapshot(found=state.processes, victims=_victims(args, state))
