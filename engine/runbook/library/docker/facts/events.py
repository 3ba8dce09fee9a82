"""Recent events of the Docker engine: containers that were started, ended or sent a signal."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from statistics import median

from runbook.dataclass import dataclass
from runbook.library.docker.facts.engine import ask_docker, read_docker
from runbook.text.host_json import finite
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown

REMEMBERED = 256
"""Events that an engine remembers, of all kinds: health checks push out the rest."""

_EVENT = (
    'event {"type":{{json .Type}},"what":{{json .Action}},"id":{{json .Actor.ID}},"at":{{json .TimeNano}},'
    '"signal":{{json (index .Actor.Attributes "signal")}}}'
)
_ASK = r"""
until=$(($(date +%s) + 1))  # whole seconds only: this one's events, too
ask events --since "$((until - $1))" --until "$until" --format "$2" || fail
echo 'listed ""'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """Of one window of time; seconds since 1970."""

    starts: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Id of a container to when it was started, oldest first."""
    deaths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Id to when it ended, oldest first."""
    signals: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Id to the signals that Docker was asked to send."""
    out_of_memory: frozenset[str] = frozenset()
    """Ids of containers in which something was killed for lack of memory."""
    cut: bool = False
    """Older events of the window may have been forgotten."""

    def gap(self, key: str) -> float | Unknown:
        """The median of the seconds between two starts: one long pause in between says nothing."""
        times = self.starts.get(key, ())
        gaps = [later - earlier for earlier, later in pairwise(times)]
        return round(median(gaps), 3) if gaps else Unknown(why="the container was not started twice in this time")


def ask_events(window: float) -> Command:
    """Ask for the events of the last *window* seconds."""
    return ask_docker(_ASK, f"{window:.0f}", _EVENT)


def read_events(done: Completed) -> Events:
    """Parse the answer to ``ask_events``.  Raises ProbeError."""
    answer = read_docker(done)
    answer.one("listed")
    rows = answer.all("event")
    own = sorted((row for row in rows if row["type"] == "container"), key=lambda row: finite(str(row["at"])))
    times: dict[str, dict[str, tuple[float, ...]]] = {"start": {}, "die": {}}
    signals: dict[str, tuple[str, ...]] = {}
    for event in own:
        if (known := times.get(event["what"])) is not None:
            known[event["id"]] = (*known.get(event["id"], ()), event["at"] / 1e9)
        elif event["what"] == "kill":
            signals[event["id"]] = (*signals.get(event["id"], ()), str(event["signal"] or ""))
    return Events(
        starts=times["start"],
        deaths=times["die"],
        signals=signals,
        out_of_memory=frozenset(each["id"] for each in own if each["what"] == "oom"),
        cut=len(rows) >= REMEMBERED,
    )
