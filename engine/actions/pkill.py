"""End processes by what their command lines say: a signal, some time, then another.

Patterns are Python regular expressions, searched in the argv joined by spaces, on this side: no pattern ever stands on
the host's command line.  A process is ended as (pid, start time), looked at again right before each signal.  Our own
shell and what is above it, PID 1, sshd and protected daemons are never ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from engine.facts import victims
from engine.facts.leftover import look_at_processes
from engine.facts.processes import Process, Table
from engine.facts.victims import Victims as State
from engine.ports import Probe
from engine.values.plan import Decision
from engine.values.text import Duration, ProcessPattern, plural

Signal = Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Who is ended, and how."""

    patterns: tuple[ProcessPattern, ...] = field(
        metadata={"about": "Searched in command lines; one that matches everything is refused.", "min_items": 1}
    )
    only: Literal["all", "leftover"] = field(
        default="all", metadata={"about": "leftover spares every process whose job keeps a GPU busy."}
    )
    busy_above: float = field(
        default=5,
        metadata={"about": "At work is above this (percent, two looks 2 s apart).", "minimum": 0, "maximum": 100},
    )
    signal: Signal = field(default="TERM", metadata={"about": "The first signal."})
    grace: Duration = field(
        default=Duration(10.0), metadata={"about": "How long the first signal may take.", "minimum": 0, "maximum": 500}
    )
    then: Literal["KILL", "TERM", "nothing"] = field(default="KILL", metadata={"about": "What the rest gets."})
    allow: tuple[str, ...] = field(
        default=(), metadata={"about": "Names of protected daemons that may be ended after all."}
    )


def matching(patterns: tuple[ProcessPattern, ...], table: Table) -> tuple[Process, ...]:
    """The processes whose command line contains one of *patterns*; our own are not even looked at."""
    compiled = [re.compile(it) for it in patterns]
    return tuple(
        it
        for it in table.processes
        if it.command and it.pid not in table.own and any(one.search(it.command) for one in compiled)
    )


def probe(args: Args) -> Probe[State]:
    """Walk /proc; ask about the GPUs only if somebody matches and *only* is leftover."""
    table = yield from look_at_processes(("/dev/nvidia*",) if args.only == "leftover" else ())
    found = matching(args.patterns, table)
    return (yield from victims.choose(found, table, args.allow, args.only, args.busy_above))


def decide(args: Args, state: State) -> Decision:
    """End whoever matches."""
    what = (
        f"matching {' or '.join(args.patterns)}"
        if len(args.patterns) < 3
        else f"matching {plural(len(args.patterns), 'pattern')}"
    )
    return victims.decision(state, what, signal=args.signal, grace=args.grace, then=args.then)


def without(state: State, keys: frozenset[str]) -> State:
    """Leave out victims by their keys."""
    return victims.without(state, keys)


def explain(args: Args, before: State, after: State) -> str:
    """Who survived, and who came anew."""
    return victims.explain(before, after)


def by_hand(args: Args) -> tuple[str, ...]:
    """Look first; then signal the pids that you have looked at, not the pattern."""
    lines = [f"pgrep -af -- '{it}'      # look who that is; your own shell may match too" for it in args.patterns]
    lines += [f"kill -s {args.signal} PID ...   # the pids that are left over, not the pattern"]
    return (*lines, *((f"sleep {args.grace:g}; kill -s {args.then} PID ...",) if args.then != "nothing" else ()))
