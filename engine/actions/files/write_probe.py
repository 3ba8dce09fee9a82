"""Try whether a directory can be written to: make, write, read back and delete something of our own in it.

What is made is taken away again on every way out, also when time is up or the connection is lost.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace

from engine.errors import ProbeError
from engine.facts.files.scratch_script import SCRATCH_HEAD, errno_of, must_not_be_refused
from engine.protocols import Probe
from engine.text.host_json import finite
from engine.values.command import Command, Completed, Effect
from engine.values.types import Duration, Size, Unknown

SCRATCH = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where, and how much."""

    path: str = field(metadata={"about": "A directory: absolute, or ~/ for the home of the login user."})
    size: Size = field(default=Size(4096), metadata={"about": "How much to write.", "minimum": 1, "maximum": 1 << 30})
    at_most: Duration = field(
        default=Duration(20), metadata={"about": "After this long it is given up.", "minimum": 1, "maximum": 600}
    )

    def __post_init__(self) -> None:
        if not (self.path.startswith(("/", "~/")) or self.path == "~"):
            raise ValueError(f"`path`: {self.path!r} is no absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How the try went."""

    writable: bool = field(metadata={"about": "Whether everything was written, and read back as it was written."})
    step: str = field(default="", metadata={"about": "Where it failed: mkdir, write, read, compare or delete."})
    errno: str = field(
        default="", metadata={"about": "The error's name: ENOSPC, EACCES, EROFS ...; empty: none is known."}
    )
    why: str = field(default="", metadata={"about": "The error in words."})
    left_behind: str = field(default="", metadata={"about": "What of ours could not be deleted again; empty: nothing."})
    took: float | Unknown = field(metadata={"about": "Seconds from the first step to the last."})


def probe(args: Args) -> Probe[State]:
    """One script; a directory that is missing, full or read-only is an answer."""
    command = Command(script=_TRY, argv=(args.path, str(args.size)), effect=Effect.SCRATCH)
    done: Completed = yield replace(command, timeout=args.at_most)
    if done.timed_out:
        raise ProbeError(f"{args.path}: no answer within {args.at_most:g} s; a network mount may hang")
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the try ended with exit code {done.exit_code}")
    heads = [it for it in done.stdout.split("\n") if it and not it.startswith(" ")]
    said = " ".join(it.strip() for it in done.stdout.split("\n") if it.startswith(" "))
    reported = dict(it.partition(" ")[::2] for it in heads)
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


_TRY = (
    SCRATCH_HEAD
    + r"""
began=$(uptime)
settle
line="runbook write probe $$ $began"
words=$( { yes "$line" 2>/dev/null | head -c "$2" | dd of="./$made/file" bs=65536 conv=fsync; } 2>&1) || {
    echo 'failed write'; said "$(printf '%s\n' "$words" | grep -v records)"; exit 0
}
size=$(wc -c <"./$made/file" 2>&1) || { echo 'failed read'; said "$size"; exit 0; }
words=$( { yes "$line" 2>/dev/null | head -c "$2" | cmp - "./$made/file"; } 2>&1) || {
    echo 'failed compare'; said "${words:-what was read is not what was written}"; exit 0
}
words=$(rm -rf -- "./$made" 2>&1)
if [ -e "./$made" ]; then echo 'failed delete'; said "$words"; echo "left ${place%/}/$made"; exit 0; fi
work=
printf 'began %s\nended %s\n' "$began" "$(uptime)"
exit 0
"""
)


def _took(reported: dict[str, str]) -> float | Unknown:
    try:
        return round(finite(reported["ended"]) - finite(reported["began"]), 2)
    except (KeyError, ValueError):
        return Unknown(why="it did not come to its end, or this host has no /proc/uptime")


def by_hand(args: Args) -> tuple[str, ...]:
    """A line that a person would paste."""
    place = shlex.quote(f"{args.path.rstrip('/')}/write-probe")
    return (f"echo probe >{place} && cat {place}; rm -f {place}",)
