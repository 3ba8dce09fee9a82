"""When something was started, as the lines of its log tell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.errors import ProbeError
from engine.facts.docker.engine import epoch
from engine.facts.files.path_safety import unread
from engine.facts.kernel.messages import HostClock, message
from engine.shell import VIEW, script
from engine.text.host_json import finite
from engine.text.timestamps import iso, offset, written
from engine.values.command import Command, Completed, read_script

FILE_BYTES = 1 << 20
"""What is read of one file at most, from its end."""

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
    return read_script(_READ, str(FILE_BYTES), str(ALL_BYTES), *globs)


_READ = VIEW + script(__package__, "start_times")
"""Content is indented by one space, so that no line of a log can pass for one of ours."""


def read_logs(done: Completed) -> Logs:
    """What *done* says.  Raises ProbeError when the look did not come to its end."""
    if done.timed_out:
        raise ProbeError("the log could not be read in time")
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the log could not be read (exit code {done.exit_code})")
    clock, lines = HostClock(now=0.0), list[tuple[str, str]]()
    named: dict[str, dict[str, None]] = {"file": {}, "missing": {}, "unreadable": {}}
    reasons: dict[str, list[str]] = {}
    file = ""
    for line in done.stdout.split("\n"):
        word, _, rest = line.partition(" ")
        if line.startswith(" "):
            lines.append((file, line[1:].rstrip("\r")))
        elif word == "clock":
            now, _, zone = rest.partition(" ")
            clock = HostClock(now=finite(now), zone=offset(zone))
        elif word == "because":
            reasons.setdefault(file, []).append(rest)
        elif word in named:
            named[word][rest] = None
            file = rest
    return Logs(
        now=clock.now or 0.0,
        lines=_timed(lines, clock),
        files=tuple(named["file"]),
        missing=tuple(named["missing"]),
        unreadable=tuple(named["unreadable"]),
        reasons=tuple(unread(path, *why[:2]) for path, why in reasons.items()),
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
    split = [(epoch(stamp), text) for stamp, _, text in (it.partition(" ") for it in stamped)]
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
