"""End processes by their command lines: a signal, a grace period, then a second signal.

Patterns are Python regular expressions, searched on this side in the arguments joined by spaces: no pattern ever
appears on a command line of the host. A process is ended by pid and start time, read again right before each signal.
PID 1, the processes of our own connection, and protected daemons are left alone.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from engine.facts.process_selection import by_command_line
from engine.facts.process_selection.arguments import EndJobArguments
from engine.facts.process_selection.by_command_line import CommandLineMatch, probe_by_command_line
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
from engine.values.types import ProcessPattern, Unknown

State = CommandLineMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(EndJobArguments):
    """Who is ended, and how."""

    patterns: tuple[ProcessPattern, ...] = field(
        metadata={
            "about": "Patterns to search in command lines; a pattern that matches everything is refused.",
            "min_items": 1,
        }
    )


def probe(args: Args) -> Probe[State]:
    """Read /proc; probe the GPUs only if a process matches and it matters."""
    return (yield from probe_by_command_line(args.patterns, args.allow, args, classified=args.only == "leftover"))


def decide(args: Args, state: State) -> Decision:
    """End who matches."""
    spared = [] if isinstance(state.at_work, Unknown) else [f"{said(process)} is at work" for process in state.at_work]
    spared += [f"pid {protected.pid}: {protected.why}" for protected in (*state.beyond_help, *state.protected)]
    what = f"{'that is left over ' if args.only == 'leftover' else ''}matches {' or '.join(args.patterns)}"
    unsearched = [f"pid {protected.pid} ({protected.user}): {protected.why}" for protected in state.unsearched]
    return decision(_victims(args, state), args.manner, what, spared, unsearched)


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
    return by_command_line.without(state, keys)


def by_hand(args: Args) -> tuple[str, ...]:
    """Check first; then signal the pids that were inspected, not the pattern."""
    lines = [f"pgrep -af -- {shlex.quote(pattern)}" for pattern in args.patterns]
    if args.only == "leftover":
        lines.append(AT_WORK_BY_HAND)
    lines.append(f"kill -s {args.signal} PID...")
    return (*lines, f"sleep {args.grace:g}; kill -s KILL PID...") if args.then == "KILL" else tuple(lines)


def _victims(args: Args, state: State) -> Processes:
    return state.matches if args.only == "all" else state.leftover


def _seen(args: Args, state: State) -> ProcessSnapshot:
    return ProcessSnapshot(found=state.matches, victims=_victims(args, state))
