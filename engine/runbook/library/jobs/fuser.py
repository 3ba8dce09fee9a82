"""End the processes that have a device, or a file, open.

Holders are read from /proc: neither fuser nor lsof is needed. A process is ended by pid and start time, read again
right before each signal. PID 1, the processes of our own connection, and protected daemons are left alone.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.arguments import EndJobArguments
from runbook.library.jobs.facts.by_open_files import OpenFileMatch, probe_by_open_files
from runbook.library.jobs.facts.path_rules import objection_to_paths
from runbook.library.jobs.facts.termination import AT_WORK_BY_HAND, explanation, is_settled, termination_of
from runbook.library.processes.facts.terminate import with_second_signal
from runbook.library.processes.facts.victims import without_processes
from runbook.protocols import Probe
from runbook.values.plan import Decision

State = OpenFileMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(EndJobArguments):
    paths: tuple[str, ...] = field(metadata={"min_items": 1})
    """Devices or files, as globs of absolute paths; directories are left out."""
    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"] = "KILL"
    """The first signal."""


def objection(args: Args) -> str:
    """Return the reason why the holders of these paths must not be ended; empty if they may be."""
    return objection_to_paths(args.paths)


def probe(args: Args) -> Probe[State]:
    """Read /proc; sample the GPUs only if a process holds a path and the GPUs matter for the decision."""
    return (yield from probe_by_open_files(args.paths, args.allow, args, classified=args.only == "leftover"))


def decide(args: Args, state: State) -> Decision:
    """End the holders of the paths."""
    return termination_of(args, state, f"holds {' or '.join(args.paths)}")


settled, explain = is_settled, explanation
without, outcome = without_processes, with_second_signal


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run: check first, because `fuser -k` would end every holder, also
    monitoring daemons.
    """
    spared = (AT_WORK_BY_HAND,) if args.only == "leftover" else ()
    return (f"fuser -v {' '.join(args.paths)} 2>&1", *spared, *args.by_hand())
