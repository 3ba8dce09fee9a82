"""Find processes by their command lines, and tell leftovers from jobs at work.

Patterns are Python regular expressions, searched on this side in the arguments joined by spaces: no pattern ever
appears on a command line of the host. The GPUs are probed only if a process matches.
"""

from __future__ import annotations

import shlex
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.by_command_line import CommandLineMatch, probe_by_command_line
from runbook.library.processes.facts.victims import absence
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import ProcessPattern

State = CommandLineMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(JobArguments):
    patterns: tuple[ProcessPattern, ...] = field(metadata={"min_items": 1})
    """Patterns to search in command lines; a pattern that matches everything is refused."""
    users: tuple[str, ...] = ()
    """Users whose processes count, beside root's; empty: all users, although any user can choose any command line."""


def probe(args: Args) -> Probe[State]:
    """Read /proc; probe the GPUs, and /proc again, only if a process matches."""
    found = probe_by_command_line(args.patterns, (), args, classified=True, users=args.users)
    return (yield from found)


def holds(args: Args, state: State) -> Holds | Fails:
    """None matches."""
    return absence(state.matches, f"no process matches {' or '.join(args.patterns)}", "matches", "match")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return tuple(f"pgrep -af -- {shlex.quote(pattern)}" for pattern in args.patterns)
