"""Count the starts of a program, from its log or from Docker, and detect a restart loop: many starts with short gaps.

The median gap counts, so that a single long pause does not hide a loop. A loop is over when the last start has
succeeded (see `expect` and `never`), when its log shows that it has run three times longer than any start before it
without a line of `never`, or when nothing has been started for a long time.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from itertools import pairwise
from statistics import median

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.docker.facts.engine import epoch
from runbook.library.docker.facts.events import ask_events, read_events
from runbook.library.docker.facts.logs import ask_log, read_log
from runbook.library.files.facts import log_reading
from runbook.library.system.facts.kernel_messages import HostClock, message
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.text.host_json import finite
from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex, fault_in_regex
from runbook.text.timestamps import line_time, offset, written
from runbook.values.command import Command, Completed
from runbook.values.types import Duration, Unknown, plural, seconds

ALL_BYTES = 3 << 20
"""The bytes that are read of all files together at most: more does not come back in one piece."""

JUST_BEFORE = 2.0
"""Seconds."""


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
    """The logs that were read."""

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
    """Parse *done*.  Raises ProbeError when the probe did not come to its end."""
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
    """Return the log of a container, with a line for each start, and the places of these lines.

    *stamped*: its lines, each with the time before it.  Docker records a start only after the program runs.  So lines
    since the death before it belong to a start; if no death is known, lines of the last moments do.
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
    """Return the time that *text* begins with; also that of an entry of the journal in JSON, and seconds since boot."""
    at = line_time(text, clock.zone, clock.now or 0.0)
    return message(text, clock).at if at is None else at


TAIL = 10_000
"""Lines of a container's log that are read."""

OUTLIVES = 3.0
"""A start that lives so many times longer than the longest gap of a loop is not a part of it: back-offs double."""

KEPT = 50
"""Lines since the last start, and moments, that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    files: tuple[str, ...] = ()
    """Paths on the host; * ? [] are globs, and ~/ is the home of the login user."""
    text: str = ""
    """Search this text instead of files."""
    container: str = ""
    """Name or id of a container: its starts and log are read from Docker."""
    started: str = ""
    """A regular expression: a line that matches, with a time, is a start; not needed with `container`."""
    window: Duration = field(default=Duration(3600), metadata={"minimum": 1})
    """Starts longer ago than this are not counted."""
    at_least: int = field(default=3, metadata={"minimum": 3})
    """The number of starts that make a loop, at least."""
    gap_below: Duration = Duration(60)
    """In a loop the median gap between two starts is at most this."""
    over_after: Duration = field(default=Duration(900), metadata={"minimum": 1})
    """A loop is over if nothing was started for this long."""
    expect: tuple[str, ...] = ()
    """Regular expressions: a successful start has lines that match all of them."""
    never: tuple[str, ...] = ()
    """Regular expressions: a successful start has no line that matches one of them."""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.files, self.text, self.container))) != 1:
            raise ValueError("give exactly one of `files`, `text` and `container`")
        for pattern in (*(() if self.container else (self.started,)), *self.expect, *self.never):
            if not pattern:
                raise ValueError("an empty regular expression matches every line: give another one")
            if fault := fault_in_regex(pattern):
                raise ValueError(f"{pattern!r}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The starts that the log shows; times in seconds."""

    files: tuple[str, ...]
    """The files that were read, or the container."""
    missing: tuple[str, ...] = ()
    """Globs that match no file."""
    unreadable: tuple[str, ...] = ()
    """Files that could not be read."""
    count: int | Unknown
    """The number of starts in the window."""
    starts: tuple[str, ...] | Unknown
    """Times (UTC) of the last 50 starts."""
    gap: float | Unknown
    """The median gap between two starts, in seconds."""
    shortest: float | Unknown
    """The shortest gap, in seconds."""
    longest: float | Unknown
    """The longest gap, in seconds."""
    age: float | Unknown
    """Seconds since the last start."""
    since: tuple[str, ...] | Unknown
    """The last 50 lines since the last start, with its own line."""
    failed: tuple[str, ...] | Unknown
    """Lines of `since` that match one of `never`."""
    failed_before: tuple[str, ...] | Unknown
    """Lines between the last two starts that match one of `never`."""
    lacking: tuple[str, ...] | Unknown
    """Patterns of `expect` that no line since the last start matches."""
    through: bool | Unknown
    """Whether the last start succeeded: all of `expect`, none of `never`."""
    lived: float | Unknown
    """Seconds from the last start to the last line with its own time."""
    outlived: bool | Unknown
    """Whether by its log the last start has run three times longer than any start before it."""
    loop: bool | Unknown
    """Whether there is a restart loop."""


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files in one script, or ask Docker; what comes back is searched here."""
    if args.container:
        return (yield from _container(args))
    logs = timed(args.text) if args.text else read_logs((yield ask_logs(args.files)))
    if logs.unreadable:
        return _unknown(logs, Unknown(why=f"could not be read: {'; '.join(logs.reasons[:3])}"))
    if not logs.files:
        return _unknown(logs, Unknown(why=f"no file matches {', '.join(args.files)}"))
    budget = SearchBudget()
    try:
        at = [number for number, line in enumerate(logs.lines) if _has(args.started, line.text, budget)]
        if any(logs.lines[each].at is None for each in at):
            return _unknown(logs, Unknown(why="the lines of starts have no time"))
        return _state(args, logs, at, budget)
    except SearchTimeout as error:
        return _unknown(logs, Unknown(why=f"a line {error}"))


def _container(args: Args) -> Probe[State]:
    said, happened = yield (ask_log(args.container, TAIL), ask_events(args.window))
    log = read_log(said)
    none = Logs(now=log.now, lines=(), files=(), missing=(), unreadable=())
    if log.absent:
        return Absent(why=log.absent, state=_unknown(none, Unknown(why=log.absent)))
    if log.whose is None:
        return _unknown(none, Unknown(why=f"there is no container {args.container}"))
    events, it = read_events(happened), log.whose
    last = (began,) if (began := epoch(it.started_at)) else ()
    logs, at = of_container(it.name, log.lines, events.starts.get(it.id) or last, events.deaths.get(it.id, ()), log.now)
    try:
        state = _state(args, logs, at, SearchBudget())
    except SearchTimeout as error:
        return _unknown(logs, Unknown(why=f"a line {error}"))
    blind = Unknown(why=log.refused)
    unread = replace(state, since=blind, failed=blind, failed_before=blind, lacking=blind)
    unread = replace(unread, through=blind, lived=blind, outlived=blind)
    return unread if log.refused else state


def _unknown(logs: Logs, why: Unknown) -> State:
    return State(
        files=logs.files,
        missing=logs.missing,
        unreadable=logs.unreadable,
        count=why,
        starts=why,
        gap=why,
        shortest=why,
        longest=why,
        age=why,
        since=why,
        failed=why,
        failed_before=why,
        lacking=why,
        through=why,
        lived=why,
        outlived=why,
        loop=why,
    )


def _has(pattern: str, text: str, budget: SearchBudget) -> bool:
    return budget.found(compile_regex(pattern), text)


def _state(args: Args, logs: Logs, at: Sequence[int], budget: SearchBudget) -> State:
    """Raises SearchTimeout."""
    moments = sorted(moment for number in at if (moment := logs.lines[number].at) is not None)
    recent = [moment for moment in moments if moment > logs.now - args.window]
    gaps = [later - before for before, later in pairwise(recent)]
    age = max(0.0, logs.now - moments[-1]) if moments else Unknown(why="no start was found")
    lines = _since(logs, at)
    failed, failed_before = (_failures(args, part, budget) for part in (lines, _life_before(logs, at)))
    lacking = _lacking(args, (*lines, *_elsewhere(logs, at)), budget)
    through = bool(moments and args.expect) and not failed and not lacking
    lived = _lived(moments, lines)
    enough = max(OUTLIVES * max(gaps, default=0.0), args.gap_below)
    outlived = not failed and not isinstance(lived, Unknown) and lived > enough
    often = len(recent) >= args.at_least and median(gaps) <= args.gap_below
    return State(
        files=logs.files,
        missing=logs.missing,
        count=len(recent),
        starts=tuple(map(written, recent[-KEPT:])),
        gap=_gap_statistic(median, gaps),
        shortest=_gap_statistic(min, gaps),
        longest=_gap_statistic(max, gaps),
        age=age,
        since=tuple(line.text for line in lines[-KEPT:]),
        failed=failed[-KEPT:],
        failed_before=failed_before[-KEPT:],
        lacking=lacking,
        through=through,
        lived=lived,
        outlived=outlived,
        loop=often and not isinstance(age, Unknown) and age < args.over_after and not through and not outlived,
    )


def _gap_statistic(measure: Callable[[Sequence[float]], float], gaps: Sequence[float]) -> float | Unknown:
    """One number (seconds) for the gaps between starts; unknown where there are none."""
    return round(measure(gaps), 1) if gaps else Unknown(why="there are fewer than two starts in the window")


def _lived(moments: Sequence[float], lines: Iterable[LogLine]) -> float | Unknown:
    """Seconds from the last of *moments* to the last of *lines* that has a time of its own."""
    last = max((line.at for line in lines if line.own and line.at is not None), default=None)
    return Unknown(why="no start was found") if not moments or last is None else max(0.0, last - moments[-1])


def _lacking(args: Args, lines: Sequence[LogLine], budget: SearchBudget) -> tuple[str, ...]:
    """Return the patterns of `expect` that match none of *lines*."""
    return tuple(pattern for pattern in args.expect if not any(_has(pattern, line.text, budget) for line in lines))


def _since(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """The lines from the latest start on, in its own file."""
    if not at:
        return ()
    last = _latest(logs, at)
    return tuple(line for line in logs.lines[last:] if line.file == logs.lines[last].file and line.text.strip())


def _life_before(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """The lines from the start before the latest one up to that, in the file of both."""
    if not at:
        return ()
    last = _latest(logs, at)
    file = logs.lines[last].file
    before = max((number for number in at if number < last and logs.lines[number].file == file), default=last)
    return tuple(line for line in logs.lines[before:last] if line.file == file)


def _failures(args: Args, lines: Sequence[LogLine], budget: SearchBudget) -> tuple[str, ...]:
    return tuple(line.text for line in lines if any(_has(p, line.text, budget) for p in args.never))


def _elsewhere(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """Return the lines of the other files since the latest start: the trainer may have a log of its own."""
    if not at:
        return ()
    start = logs.lines[_latest(logs, at)]
    began = start.at
    if began is None:
        return ()
    return tuple(line for line in logs.lines if line.file != start.file and line.at is not None and line.at >= began)


def _latest(logs: Logs, at: Sequence[int]) -> int:
    def moment(number: int) -> tuple[float, int]:
        return logs.lines[number].at or 0.0, number

    return max(at, key=moment)


def holds(args: Args, state: State) -> Holds | Fails:
    """No loop, and what was started last came through where that is asked."""
    if isinstance(state.loop, Unknown):
        raise ProbeError(state.loop.why)
    if state.loop:
        assert not isinstance(state.gap, Unknown)
        return Fails(why=f"{plural(int(_known(state.count)), 'start')}, with a median interval of {seconds(state.gap)}")
    if not isinstance(state.failed, Unknown) and state.failed:
        return Fails(why=f"since the last start: {state.failed[-1].strip()}")
    if not isinstance(state.lacking, Unknown) and state.lacking and state.outlived is True:
        lived = seconds(_known(state.lived))
        return Holds(why=f"the last start has been running for {lived}; not found: {', '.join(state.lacking)}")
    if not isinstance(state.lacking, Unknown) and state.lacking:
        return Fails(why=f"not found since the last start: {', '.join(state.lacking)}")
    return Holds(why="the last start succeeded" if args.expect else "no loop")


def _known(value: float | Unknown) -> float:
    assert not isinstance(value, Unknown)
    return value


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    if args.container:
        return (f"docker logs --timestamps --tail 50 {shlex.quote(args.container)}",)
    files = " ".join(args.files) or "FILE"
    return (f"grep -nE {shlex.quote(args.started)} {files} | tail -n 20", f"tail -n 30 {files}")
