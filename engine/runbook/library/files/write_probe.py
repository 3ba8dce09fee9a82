"""Test whether a directory is writable: create, write, read back and delete a temporary file in it.

The temporary file is always removed again, also when the time is up or the connection is lost.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import field, replace

from runbook.dataclass import dataclass
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
    user: str = ""
    """The user who made the test, where that was not the user of the step: the owner of the directory."""
    left_behind: str = ""
    """The path of the test's directory if it could not be deleted; empty: deleted."""
    took: float | Unknown
    """Seconds from the first operation to the last."""


def probe(args: Args) -> Probe[State]:
    """One script; a directory that is missing, full or read-only is an answer.

    Root does not write in a directory that another user can exchange: there the test is made as that user.
    """
    command = Command(script=_TRY, argv=(args.path, str(args.size)), effect=Effect.SCRATCH, timeout=args.at_most)
    done: Completed = yield command
    reported = _reported(args, done)
    owner = reported.get("become", "") if "refused" in reported else ""
    if _NAME.fullmatch(owner):
        done = yield replace(command, become=owner)
        reported = _reported(args, done)
    must_not_be_refused(reported)
    said = reported["said"]
    errno, words = errno_of(said)
    return State(
        writable="failed" not in reported,
        step=reported.get("failed", ""),
        errno=errno,
        why=words or said,
        user=owner,
        left_behind=reported.get("left", ""),
        took=_took(reported),
    )


def _reported(args: Args, done: Completed) -> dict[str, str]:
    """Return the answer of the script by its words; `said` is the output of a program."""
    if done.timed_out:
        raise ProbeError(f"{args.path}: no answer within {args.at_most:g} s; a network mount may hang")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the write test failed"))
    lines = done.stdout.split("\n")
    said = " ".join(line.strip() for line in lines if line.startswith(" "))
    reported = dict(line.partition(" ")[::2] for line in lines if line and not line.startswith(" "))
    return {**reported, "said": said} | ({"refused": said} if "refused" in reported else {})


_NAME = re.compile(r"[a-zA-Z_][\w.-]*\$?")
"""The name of a user; a number has none on the host, and cannot be become."""

_TRY = SCRATCH_HEAD + script(__package__, "write_probe_try")


def _took(reported: dict[str, str]) -> float | Unknown:
    try:
        return round(finite(reported["ended"]) - finite(reported["began"]), 2)
    except (KeyError, ValueError):
        return Unknown(why="the write test did not complete, or this host has no /proc/uptime")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return a command that a person would run by hand."""
    place = shlex.quote(f"{args.path.rstrip('/')}/write-probe")
    return (f"echo probe >{place} && cat {place}; rm -f {place}",)
