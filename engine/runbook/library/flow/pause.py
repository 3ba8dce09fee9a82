"""Wait for a fixed time; prefer a probe with `within`, which ends as soon as its condition holds."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.protocols import Probe
from runbook.values.command import Command, Effect
from runbook.values.types import Duration
from runbook.values.types import seconds as words


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    seconds: Duration = field(metadata={"minimum": 0, "maximum": 86400})
    """The time to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    seconds: float
    """The seconds that the step waited."""


def probe(args: Args) -> Probe[State]:
    """Sleep on the host, so that a lost line and an interrupt are noticed meanwhile."""
    done = yield Command(argv=("sleep", f"{args.seconds:g}"), effect=Effect.READ, timeout=args.seconds + 10)
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(f"sleep failed (exit code {done.exit_code}) {done.stderr.strip()}".rstrip())
    return State(seconds=args.seconds)


def waits(args: Args) -> str:
    """Return the description of the change for a plan."""
    return f"wait {words(args.seconds)}"


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    return (f"sleep {args.seconds:g}",)
