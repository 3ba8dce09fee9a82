"""End processes by their command lines: a signal, a grace period, then a second signal.

Patterns are Python regular expressions, searched on this side in the arguments joined by spaces: no pattern ever
appears on a command line of the host. A process is ended by pid and start time, read again right before each signal.
PID 1, the processes of our own connection, and protected daemons are left alone.
"""

from __future__ import annotations

import shlex
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.arguments import EndJobArguments
from runbook.library.jobs.facts.by_command_line import CommandLineMatch, probe_by_command_line
from runbook.library.jobs.facts.termination import AT_WORK_BY_HAND, explanation, is_settled, termination_of
from runbook.library.processes.facts.terminate import with_second_signal
from runbook.library.processes.facts.victims import without_processes
from runbook.protocols import Probe
from runbook.values.plan import Decision
from runbook.values.types import ProcessPattern

State = CommandLineMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(EndJobArguments):
    patterns: tuple[ProcessPattern, ...] = field(metadata={"min_items": 1})
    """Patterns to search in command lines; a pattern that matches everything is refused."""


def probe(args: Args) -> Probe[State]:
    """Read /proc; probe the GPUs only if a process matches and it matters."""
    return (yield from probe_by_command_line(args.patterns, args.allow, args, classified=args.only == "leftover"))


def decide(args: Args, state: State) -> Decision:
    """End who matches."""
    unsearched = [f"pid {protected.pid} ({protected.user}): {protected.why}" for protected in state.unsearched]
    return termination_of(args, state, f"matches {' or '.join(args.patterns)}", unsearched)


settled, explain = is_settled, explanation
without, outcome = without_processes, with_second_signal


def by_hand(args: Args) -> tuple[str, ...]:
    """Check first; then signal the pids that were inspected, not the pattern."""
    lines = [f"pgrep -af -- {shlex.quote(pattern)}" for pattern in args.patterns]
    return (*lines, *((AT_WORK_BY_HAND,) if args.only == "leftover" else ()), *args.by_hand())
