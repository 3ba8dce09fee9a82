"""The short form of a watcher's events: one line of words for each, with its time relative to a moment."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping

from runbook.values.plan import Presence, Risk
from runbook.values.units import duration
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Asked,
    Began,
    BreakerReset,
    Ended,
    Faulted,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Reading,
    Rejected,
    Released,
    Started,
    Tripped,
    WatchEvent,
)

RULE, HOST = "rule", "gpu-01"
"""The rule and the host of an event whose line names no other."""
DIGEST = "{:0<64}"
"""A plan is called ``p1`` in the lines, and its digest is this name with zeros behind it."""


def events(line: str, now: float) -> Iterator[WatchEvent]:
    """Yield the events of *line*; ``-10m..-1m/60s present`` is one for each minute, from the first to the last."""
    times, _, rest = line.partition(" ")
    if ".." not in times:
        yield event(line, now)
        return
    (first, last), step = times.partition("/")[0].split(".."), duration(times.partition("/")[2])
    at, end = moment(first, now) - now, moment(last, now) - now
    while at <= end:
        yield event(f"{at:+g}s {rest}", now)
        at += step


def event(line: str, now: float) -> WatchEvent:
    """Return the event in *line*: a time before or after *now*, a word, at most one name, and options.

    ``-90s present work=b`` or ``-1h ended p1 how=cured``.  Raises ValueError, KeyError or ConfigError.
    """
    time, word, *rest = shlex.split(line)
    names = [each for each in rest if "=" not in each]
    options = dict(each.split("=", 1) for each in rest if "=" in each)
    read = _Line(at=moment(time, now), name=" ".join(names), options=options, now=now)
    made = KINDS[word](read)
    if read.options:
        raise ValueError(f"{line!r}: {', '.join(read.options)} is no option of {word}")
    return made


def moment(text: str, now: float) -> float:
    """Return the time *text*, ``-90s``, ``+2h`` or ``0``, as seconds since the epoch."""
    length = duration(text.lstrip("+-"))
    return now - length if text.startswith("-") else now + length


def digest(name: str) -> str:
    """Return the digest of the plan *name*."""
    return DIGEST.format(name)


class _Line:
    """The words of a line; an option is taken out when it is read, so that what is left over is a mistake."""

    def __init__(self, at: float, name: str, options: dict[str, str], now: float) -> None:
        self.at, self.name, self.options, self.now = at, name, options, now

    def text(self, key: str, default: str = "") -> str:
        return self.options.pop(key, default)

    def time(self, key: str, default: float) -> float:
        return moment(self.options.pop(key), self.now) if key in self.options else default

    @property
    def rule(self) -> str:
        return self.text("rule", RULE)

    @property
    def host(self) -> str:
        return self.text("host", HOST)


def _alert(line: _Line, *, firing: bool) -> Alerted:
    since = line.time("since", line.at)
    return Alerted(at=line.at, rule=line.rule, host=line.host, episode=line.name, since=since, firing=firing)


def _reading(line: _Line, presence: Presence) -> Probed:
    is_present = presence is Presence.PRESENT
    reading = Reading(
        host=line.host,
        presence=presence,
        say=line.text("say"),
        changes=int(line.text("changes", "1" if is_present else "0")),
        risk=Risk(line.text("risk", "kills-processes" if is_present else "reads")),
        signature=line.text("work", "a" if is_present else ""),
    )
    return Probed(at=line.at, rule=line.rule, readings=(reading,), whole=False)


def _well(line: _Line) -> Probed:
    """Return a probe of all hosts: HOST has the fault; with ``absent=NAME`` it is that one which is well."""
    absent = line.text("absent")
    faulty = Reading(host=HOST, presence=Presence.PRESENT, changes=1, risk=Risk.KILLS_PROCESSES, signature="a")
    readings = (Reading(host=absent, presence=Presence.ABSENT),) if absent else (faulty,)
    return Probed(at=line.at, rule=line.rule, readings=readings, well=int(line.name))


def _proposed(line: _Line) -> Proposed:
    return Proposed(
        at=line.at, rule=line.rule, host=line.host, episode=line.text("for", "a1"), digest=digest(line.name),
        file=f"/plans/{line.name}", until=line.time("until", line.at + 4 * 3600),
        risk=Risk(line.text("risk", "kills-processes")), signature=line.text("work", "a"),
        say="it would end 1 process", requester=line.text("requester"),
    )  # fmt: skip


def _ended(line: _Line) -> Ended:
    how = line.text("how", "cured")
    verdict = {"cured": "resolved", "uncured": "unresolved", "unchanged": "blocked", "locked": "locked"}[how]
    return Ended(
        at=line.at, rule=line.rule, host=line.host, digest=digest(line.name), run=line.text("run", f"run-{line.name}"),
        verdict=verdict, cured=how == "cured", changed=how in ("cured", "uncured"), locked=how == "locked",
    )  # fmt: skip


KINDS: Mapping[str, Callable[[_Line], WatchEvent]] = {
    "started": lambda line: Started(at=line.at),
    "alert": lambda line: _alert(line, firing=True),
    "resolved": lambda line: _alert(line, firing=False),
    "asked": lambda line: Asked(at=line.at, rule=line.rule, host=line.host, by=line.text("by", "ann")),
    "present": lambda line: _reading(line, Presence.PRESENT),
    "absent": lambda line: _reading(line, Presence.ABSENT),
    "gone": lambda line: _reading(line, Presence.GONE),
    "unknown": lambda line: _reading(line, Presence.UNKNOWN),
    "well": _well,
    "plan": _proposed,
    "no-plan": lambda line: NotProposed(
        at=line.at, rule=line.rule, host=line.host, episode=line.text("for", "a1"), why=line.name
    ),
    "approved": lambda line: Approved(
        at=line.at, rule=line.rule, host=line.host, digest=digest(line.name), by=line.text("by", "ann")
    ),
    "rejected": lambda line: Rejected(
        at=line.at, rule=line.rule, host=line.host, episode=line.text("for", "a1"), digest=digest(line.name),
        by=line.text("by", "ann"),
    ),
    "began": lambda line: Began(
        at=line.at, rule=line.rule, host=line.host, episode=line.text("for", "a1"), digest=digest(line.name)
    ),
    "ended": _ended,
    "held": lambda line: Held(
        at=line.at, host=line.host, until=line.time("until", line.at), by=line.text("by", "ann"), why=line.name
    ),
    "released": lambda line: Released(at=line.at, host=line.host, by=line.text("by", "ann")),
    "tripped": lambda line: Tripped(at=line.at, rule=line.rule, why=line.name),
    "reset": lambda line: BreakerReset(at=line.at, rule=line.rule, by=line.text("by", "ann")),
    "answered": lambda line: Answered(
        at=line.at, rule=line.rule, host=line.host, episode=line.text("for", "a1"), question=line.text("question"),
        decision=line.name, why="",
    ),
    "faulted": lambda line: Faulted(at=line.at, rule=line.rule, why=line.name),
}  # fmt: skip
"""The words of the lines, each with the maker of its event."""
