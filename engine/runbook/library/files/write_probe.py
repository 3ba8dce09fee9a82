"""Test whether a directory is writable: create, write, read back and delete a temporary file in it.

The temporary file is always removed again, also when the time is up or the connection is lost.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from runbook.errors import ProbeError
from runbook.library.files.facts.scratch_script import SCRATCH_HEAD, errno_of, must_not_be_refused
from runbook.protocols import Probe
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Duration, Size, Unknown

SCRATCH = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where, and how much."""

    path: str
    """A directory: absolute, or ~/ for the home of the login user."""
    size: Size = field(default=Size(4096), metadata={"minimum": 1, "maximum": 1 << 30})
    """The size of the file that is written."""
    at_most: Duration = field(default=Duration(20), metadata={"minimum": 1, "maximum": 600})
    """Stop the test after this time."""

    def __post_init__(self) -> None:
        if not (self.path.startswith(("/", "~/")) or self.path == "~"):
            raise ValueError(f"`path`: {self.path!r} is not an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The outcome of the try."""

    writable: bool
    """Whether all data was written, and read back unchanged."""
    step: str = ""
    """The operation that failed: mkdir, write, read, compare or delete."""
    errno: str = ""
    """The error's name: ENOSPC, EACCES, EROFS ...; empty: not known."""
    why: str = ""
    """The error in words."""
    left_behind: str = ""
    """The path of the test's directory if it could not be deleted; empty: deleted."""
    took: float | Unknown
    """Seconds from the first operation to the last."""


def probe(args: Args) -> Probe[State]:
    """One script; a directory that is missing, full or read-only is an answer."""
    command = Command(script=_TRY, argv=(args.path, str(args.size)), effect=Effect.SCRATCH)
    done: Completed = yield replace(command, timeout=args.at_most)
    if done.timed_out:
        raise ProbeError(f"{args.path}: no answer within {args.at_most:g} s; a network mount may hang")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the write test failed"))
    heads = [line for line in done.stdout.split("\n") if line and not line.startswith(" ")]
    said = " ".join(line.strip() for line in done.stdout.split("\n") if line.startswith(" "))
    reported = dict(head.partition(" ")[::2] for head in heads)
    must_not_be_refused({**reported, "refused": said} if "refused" in reported else reported)
    errno, words = errno_of(said)
    return State(
        writable="failed" not in reported,
        step=reported.get("failed", ""),
        errno=errno,
        why=words or said,
        left_behind=reported.get("left", ""),
        took=_took(reported),
    )


_TRY = SCRATCH_HEAD + script(__package__, "write_probe_try")


def _took(reported: dict[str, str]) -> float | Unknown:
    try:
        return round(finite(reported["ended"]) - finite(reported["began"]), 2)
    except (KeyError, ValueError):
        return Unknown(why="the write test did not complete, or this host has no /proc/uptime")


def by_hand(args: Args) -> tuple[str, ...]:
    """A line that a person would paste."""
    place = shlex.quote(f"{args.path.rstrip('/')}/write-probe")
    return (f"echo probe >{place} && cat {place}; rm -f {place}",)
