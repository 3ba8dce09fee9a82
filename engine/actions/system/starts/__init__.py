"""See how often something was started, from its log or by Docker, and whether it goes in a loop: N starts, small gaps.

The gap that counts is the median one, so that a single long pause does not hide a loop. A loop is over as soon as the
last start has come through (see `expect` and `never`), when by its log it works on for three times longer than any
before it without a line of `never`, or when nothing has been started for a long time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import median

from engine.actions.system.starts.start_times import LogLine, Logs, ask_logs, of_container, read_logs, timed
from engine.errors import ProbeError
from engine.facts.docker.engine import epoch
from engine.facts.docker.events import ask_events, read_events
from engine.facts.docker.logs import ask_log, read_log
from engine.protocols import Absent, Fails, Holds, Probe
from engine.text.regexes import fault_in_regex, reach
from engine.text.timestamps import written
from engine.values.types import Duration, Unknown, plural, seconds

TAIL = 10_000
"""Lines of a container's log that are read."""

OUTLIVES = 3.0
"""A start that lives so many times longer than the longest gap of a loop is no part of it: back-offs double."""

KEPT = 50
"""Lines since the last start, and moments, that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where to look, what a start is, and what a loop is."""

    files: tuple[str, ...] = field(
        default=(), metadata={"about": "Paths on the host; * ? [] are globs, and ~/ is the home of the login user."}
    )
    text: str = field(default="", metadata={"about": "Search this text instead of files."})
    container: str = field(
        default="", metadata={"about": "Name or id of a container: Docker knows its starts, and has its log."}
    )
    started: str = field(
        default="",
        metadata={"about": "A regular expression: a line with it, and a time, is a start; `container` needs none."},
    )
    window: Duration = field(
        default=Duration(3600), metadata={"about": "Starts longer ago than this do not count.", "minimum": 1}
    )
    at_least: int = field(default=3, metadata={"about": "A loop has so many starts.", "minimum": 3})
    gap_below: Duration = field(
        default=Duration(60), metadata={"about": "In a loop the median gap between two starts is no more than this."}
    )
    over_after: Duration = field(
        default=Duration(900), metadata={"about": "A loop is over when nothing was started for so long.", "minimum": 1}
    )
    expect: tuple[str, ...] = field(
        default=(), metadata={"about": "Regular expressions: a start that came through has lines with all of them."}
    )
    never: tuple[str, ...] = field(
        default=(), metadata={"about": "Regular expressions: a start that came through has no line with one of them."}
    )

    def __post_init__(self) -> None:
        if sum(map(bool, (self.files, self.text, self.container))) != 1:
            raise ValueError("give exactly one of `files`, `text` and `container`")
        for it in (*(() if self.container else (self.started,)), *self.expect, *self.never):
            if not it:
                raise ValueError("a regular expression that is empty matches every line")
            if fault := fault_in_regex(it):
                raise ValueError(f"{it!r}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the log tells; times in seconds."""

    files: tuple[str, ...] = field(metadata={"about": "The files that were read, or the container."})
    missing: tuple[str, ...] = field(default=(), metadata={"about": "Globs that match no file."})
    unreadable: tuple[str, ...] = field(default=(), metadata={"about": "Files that could not be read."})
    count: int | Unknown = field(metadata={"about": "How many starts there were within the window."})
    starts: tuple[str, ...] | Unknown = field(metadata={"about": "Their times (UTC), the latest 50."})
    gap: float | Unknown = field(metadata={"about": "The median gap between two of them."})
    shortest: float | Unknown = field(metadata={"about": "The shortest gap."})
    longest: float | Unknown = field(metadata={"about": "The longest gap."})
    age: float | Unknown = field(metadata={"about": "Seconds since the last start."})
    since: tuple[str, ...] | Unknown = field(metadata={"about": "The last 50 lines since the last start, and its own."})
    failed: tuple[str, ...] | Unknown = field(metadata={"about": "Those of them with one of `never`."})
    failed_before: tuple[str, ...] | Unknown = field(
        metadata={
            "about": "Lines with one of `never` between the start before and the last one, which may say nothing yet."
        }
    )
    lacking: tuple[str, ...] | Unknown = field(metadata={"about": "What of `expect` was not seen since then."})
    through: bool | Unknown = field(
        metadata={"about": "Whether the last start came through: all of `expect`, none of `never`."}
    )
    lived: float | Unknown = field(
        metadata={"about": "Seconds from the last start to the last line that has a time of its own."}
    )
    outlived: bool | Unknown = field(
        metadata={"about": "Whether it worked on, by its log, three times longer than any start before it."}
    )
    loop: bool | Unknown = field(metadata={"about": "Whether it goes in a loop."})


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files in one script, or ask Docker; what comes back is searched here."""
    if args.container:
        return (yield from _container(args))
    logs = timed(args.text) if args.text else read_logs((yield ask_logs(args.files)))
    if logs.unreadable:
        return _unknown(logs, Unknown(why=f"could not be read: {'; '.join(logs.reasons[:3])}"))
    if not logs.files:
        return _unknown(logs, Unknown(why=f"no file matches {', '.join(args.files)}"))
    started = re.compile(args.started)
    at = [number for number, it in enumerate(logs.lines) if _has(started, it.text)]
    if any(logs.lines[it].at is None for it in at):
        return _unknown(logs, Unknown(why="the lines that tell of starts carry no time"))
    return _state(args, logs, at)


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
    state = _state(args, logs, at)
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


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text[: reach(pattern)]) is not None


def _state(args: Args, logs: Logs, at: Sequence[int]) -> State:
    moments = sorted(it for number in at if (it := logs.lines[number].at) is not None)
    recent = [it for it in moments if it > logs.now - args.window]
    gaps = [later - before for before, later in pairwise(recent)]
    none = Unknown(why="there were not two starts within the window")
    age = max(0.0, logs.now - moments[-1]) if moments else Unknown(why="no start was seen")
    lines = _since(logs, at)
    since = tuple(line.text for line in lines)
    said = (*since, *(line.text for line in _elsewhere(logs, at)))
    failed, failed_before = (_failures(args, it) for it in (lines, _life_before(logs, at)))
    lacking = tuple(p for p in args.expect if not any(_has(re.compile(p), it) for it in said))
    through = bool(moments and args.expect) and not failed and not lacking
    enough = max(OUTLIVES * max(gaps, default=0.0), args.gap_below)
    lived = max((line.at for line in lines if line.own and line.at is not None), default=None)
    lasted = Unknown(why="no start was seen") if not moments or lived is None else max(0.0, lived - moments[-1])
    outlived = not failed and not isinstance(lasted, Unknown) and lasted > enough
    often = len(recent) >= args.at_least and median(gaps) <= args.gap_below
    return State(
        files=logs.files,
        missing=logs.missing,
        count=len(recent),
        starts=tuple(map(written, recent[-KEPT:])),
        gap=round(median(gaps), 1) if gaps else none,
        shortest=round(min(gaps), 1) if gaps else none,
        longest=round(max(gaps), 1) if gaps else none,
        age=age,
        since=since[-KEPT:],
        failed=failed[-KEPT:],
        failed_before=failed_before[-KEPT:],
        lacking=lacking,
        through=through,
        lived=lasted,
        outlived=outlived,
        loop=often and not isinstance(age, Unknown) and age < args.over_after and not through and not outlived,
    )


def _since(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """The lines from the latest start on, in its own file."""
    if not at:
        return ()
    last = _latest(logs, at)
    return tuple(it for it in logs.lines[last:] if it.file == logs.lines[last].file and it.text.strip())


def _life_before(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """The lines from the start before the latest one up to that, in the file of both."""
    if not at:
        return ()
    last = _latest(logs, at)
    file = logs.lines[last].file
    before = max((number for number in at if number < last and logs.lines[number].file == file), default=last)
    return tuple(it for it in logs.lines[before:last] if it.file == file)


def _failures(args: Args, lines: Sequence[LogLine]) -> tuple[str, ...]:
    return tuple(it.text for it in lines if any(_has(re.compile(p), it.text) for p in args.never))


def _elsewhere(logs: Logs, at: Sequence[int]) -> tuple[LogLine, ...]:
    """What was said in the other files since the latest start: the trainer may have a log of its own."""
    if not at:
        return ()
    start = logs.lines[_latest(logs, at)]
    began = start.at
    if began is None:
        return ()
    return tuple(it for it in logs.lines if it.file != start.file and it.at is not None and it.at >= began)


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
        return Holds(why=f"the last start works on for {lived} now; not seen: {', '.join(state.lacking)}")
    if not isinstance(state.lacking, Unknown) and state.lacking:
        return Fails(why=f"not seen since the last start: {', '.join(state.lacking)}")
    return Holds(why="the last start came through" if args.expect else "no loop")


def _known(value: float | Unknown) -> float:
    assert not isinstance(value, Unknown)
    return value


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste."""
    if args.container:
        return (f"docker logs --timestamps --tail 50 {shlex.quote(args.container)}",)
    files = " ".join(args.files) or "FILE"
    return (f"grep -nE {shlex.quote(args.started)} {files} | tail -n 20", f"tail -n 30 {files}")
