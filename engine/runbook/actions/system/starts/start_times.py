"""When something was started, as the lines of its log tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runbook.facts.docker.engine import epoch
from runbook.facts.files import log_reading
from runbook.facts.kernel.messages import HostClock, message
from runbook.text.host_json import finite
from runbook.text.timestamps import iso, offset, written
from runbook.values.command import Command, Completed

ALL_BYTES = 3 << 20
"""What is read of all files together at most: more does not come back in one piece."""

JUST_BEFORE = 2.0
"""Seconds."""

_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)-(\d\d:\d\d:\d\d(?:[.,]\d+)?)\s")
_BRACKET = re.compile(r"[\[(<]")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLine:
    """One line of a log."""

    file: str
    text: str
    at: float | None
    """Seconds since the epoch: its own time, or that of the last line before it that has one."""
    own: bool
    """Whether the time is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logs:
    """What was read."""

    now: float
    lines: tuple[LogLine, ...]
    files: tuple[str, ...]
    missing: tuple[str, ...]
    unreadable: tuple[str, ...]
    reasons: tuple[str, ...] = ()
    """The unreadable ones again, each with why it is not read."""


def ask_logs(globs: tuple[str, ...]) -> Command:
    """One script that reads the ends of what matches *globs*, and the clock."""
    return log_reading.ask_logs(globs, log_reading.FILE_BYTES, together=ALL_BYTES)


def read_logs(done: Completed, globs: Sequence[str] = ()) -> Logs:
    """What *done* says.  Raises ProbeError when the probe did not come to its end."""
    reading = log_reading.read_logs(done, globs)
    now, _, zone = reading.clock.partition(" ")
    clock = HostClock(now=finite(now), zone=offset(zone))
    return Logs(
        now=clock.now or 0.0,
        lines=_timed(((file.path, line) for file in reading.files for line in file.lines), clock),
        files=tuple(file.path for file in reading.files),
        missing=reading.missing,
        unreadable=tuple(file.path for file in reading.unreadable),
        reasons=tuple(file.why for file in reading.unreadable),
    )


def timed(text: str) -> Logs:
    """A text that was handed to us; it is as old as its last time."""
    lines = _timed((("text", line) for line in text.split("\n")), HostClock(now=4e9))
    return Logs(
        now=max((line.at for line in lines if line.at is not None), default=0.0),
        lines=lines,
        files=("text",),
        missing=(),
        unreadable=(),
    )


def of_container(
    name: str, stamped: Iterable[str], starts: Sequence[float], deaths: Sequence[float], now: float
) -> tuple[Logs, tuple[int, ...]]:
    """The log of a container, each line with its time before it, and in it a line for each start: at which places.

    Docker notes a start only when the program runs already: what was written since the death before belongs to it, or
    in the last moments, where Docker remembers none.
    """
    split = [(epoch(stamp), text) for stamp, _, text in (word.partition(" ") for word in stamped)]
    begins = [max((death for death in deaths if death < at), default=at - JUST_BEFORE) for at in starts]
    noted = [(before, 0, f"{written(at)} Docker starts {name}", at) for before, at in zip(begins, starts, strict=True)]
    merged = sorted([*noted, *((at, 1, text, at) for at, text in split)], key=lambda it: it[:2])
    lines = tuple(LogLine(file=name, text=text, at=at, own=True) for _, _, text, at in merged)
    logs = Logs(now=now, lines=lines, files=(name,), missing=(), unreadable=())
    return logs, tuple(number for number, it in enumerate(merged) if it[1] == 0)


def _timed(lines: Iterable[tuple[str, str]], clock: HostClock) -> tuple[LogLine, ...]:
    made: list[LogLine] = []
    for file, text in lines:
        at = _moment(text, clock)
        before = made[-1].at if made and made[-1].file == file else None
        made.append(LogLine(file=file, text=text, at=before if at is None else at, own=at is not None))
    return tuple(made)


def _moment(text: str, clock: HostClock) -> float | None:
    """The time that *text* begins with, in a bracket or without: ISO 8601, ``YYYYmmdd-HH:MM:SS``, syslog's, seconds."""
    plain = (
        _BRACKET.sub("", text.lstrip()[:60], count=1) if text.lstrip()[:1] in ("[", "(", "<") else text.lstrip()[:60]
    )
    if found := _COMPACT.match(f"{plain} "):
        return iso(f"{found[1]}-{found[2]}-{found[3]} {found[4]}", clock.zone)
    return message(re.sub(r"[\])>]", " ", plain, count=1) + " ", clock).at
