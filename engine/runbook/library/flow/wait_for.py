"""Wait until a path exists (or is gone), or until a local TCP port accepts connections (or no longer does)."""

from __future__ import annotations

import shlex
from dataclasses import field, replace
from math import ceil

from runbook.dataclass import dataclass
from runbook.errors import NotInTime, ProbeError
from runbook.protocols import Probe
from runbook.shell import script
from runbook.values.command import Completed, read_script
from runbook.values.types import Duration, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The file or port to wait for, and the time limit; exactly one of path and port."""

    path: str = ""
    """An absolute path on the host."""
    port: int = field(default=0, metadata={"minimum": 0, "maximum": 65535})
    """A TCP port on the host's own localhost."""
    gone: bool = False
    """Wait until the path no longer exists, or the port no longer listens."""
    at_most: Duration = field(default=Duration(60), metadata={"maximum": 86400})
    """Longest wait, after which the step fails; or the step's `within` or `timeout`, if less."""
    every: Duration = field(default=Duration(1), metadata={"minimum": 0.1})
    """Interval between two probes."""

    def __post_init__(self) -> None:
        if bool(self.path) == bool(self.port):
            raise ValueError("give exactly one of `path` and `port`")
        if self.path and not self.path.startswith("/"):
            raise ValueError(f"`path` must be absolute: {self.path}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    waited: float
    """The seconds that the wait took."""


def probe(args: Args) -> Probe[State]:
    """One script that checks until the condition holds, or the time is up."""
    wanted = "gone" if args.gone else "there"
    kind, what = ("path", args.path) if args.path else ("port", f"{args.port:04X}")
    script = read_script(_WAIT, kind, what, wanted, str(ceil(args.at_most)), f"{args.every:g}", accepts=(0, 1))
    done: Completed = yield replace(script, timeout=args.at_most + args.every + 10)
    if done.timed_out:
        raise ProbeError(f"{_what(args)}: not observed when the command was ended after {seconds(round(done.seconds))}")
    if done.exit_code == 1:
        raise NotInTime(f"{_what(args)}: not the case after {seconds(args.at_most)}")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the wait failed"))
    return State(waited=round(done.seconds, 3))


_WAIT = script(__package__, "wait_for")


def waits(args: Args) -> str:
    """Return the description of the change for a plan."""
    return f"wait until {_what(args)}, at most {seconds(args.at_most)}"


def _what(args: Args) -> str:
    if args.path:
        return f"{args.path} {'is gone' if args.gone else 'exists'}"
    return f"{'nothing listens' if args.gone else 'something listens'} on localhost:{args.port}"


def by_hand(args: Args) -> tuple[str, ...]:
    """Return a command that a person would run by hand."""
    negation = "" if args.gone else "! "
    test = f"test -e {shlex.quote(args.path)}" if args.path else f"ss -ltn | grep -q ':{args.port} '"
    return (f"while {negation}{test}; do sleep {args.every:g}; done",)
