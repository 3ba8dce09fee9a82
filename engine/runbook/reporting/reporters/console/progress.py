"""The progress of every host of a run, in a few lines of text."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import assert_never

from runbook.dataclass import dataclass
from runbook.text.name_ranges import fold
from runbook.values.event import (
    Answered,
    Asked,
    BatchFinished,
    ChangeStarted,
    Event,
    HostFinished,
    HostPlanned,
    HostStarted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    Waiting,
)
from runbook.values.result import Verdict
from runbook.values.types import plural, seconds

NOT_BEGUN, PROBING, PROBED, PROBING_AGAIN = "waiting for their turn", "probing", "probed", "probing again"
RESTING = (PROBED, NOT_BEGUN)
"""The states of hosts on which nothing is being done now."""

folded = lru_cache(maxsize=256)(fold)


@dataclass(frozen=True, slots=True)
class Doing:
    """The present work on a host, and the time when it began."""

    what: str
    since: float


class Progress:
    """Follows the events of a run."""

    def __init__(self) -> None:
        self._name = ""
        self._began = 0.0
        self._all = 0
        self._pending: dict[str, Doing] = {}
        self._ended: Counter[Verdict] = Counter()
        self.shown = False
        """Whether progress is shown: the run is on, and no question is open."""

    def on(self, event: Event, now: float) -> None:
        """Record *event*, which happened at *now*."""
        match event:
            case RunStarted(playbook=name, hosts=hosts):
                self._name, self._began, self._all, self.shown = name, now, len(hosts), True
                self._pending = {host: Doing(NOT_BEGUN, now) for host in hosts}
            case HostStarted(host=host):
                self._at(host, PROBING, now)
            case HostPlanned(plan=plan):
                self._at(plan.host, PROBED, now)
            case StepStarted(host=host, step=step):
                self._at(host, f"at {step}", now)
            case Waiting(host=host, why=why):
                self._at(host, why, now)
            case StepFinished(host=host):
                self._at(host, PROBING_AGAIN, now)
            case HostFinished(result=result):
                if self._pending.pop(result.host, None):
                    self._ended[result.verdict] += 1
            case BatchFinished() | ChangeStarted():
                pass
            case Asked() | RunFinished():
                self.shown = False
            case Answered(answer=answer):
                self.shown = answer == "yes"
            case _:
                assert_never(event)

    def lines(self, most: int, width: int, now: float) -> list[str]:
        """Return at most *most* lines: the progress of the run, then the work of pending hosts, the longest first.

        A line has at most *width* letters; if it does not fit, host names and their work get a half each.
        """
        ended = sum(self._ended.values())
        counts = ", ".join(f"{self._ended[verdict]} {verdict}" for verdict in reversed(Verdict) if self._ended[verdict])
        head = f"{self._name}: {ended} of {plural(self._all, 'host')} done in {_rough(now - self._began)}"
        groups = self._groups()
        shown = groups if len(groups) < most else groups[: max(0, most - 2)]
        lines = [cut(f"{head}: {counts}" if counts else head, width)]
        lines += [_line(what, hosts, now - since, width) for what, since, hosts in shown]
        if len(shown) < len(groups):
            left = tuple(host for _, _, hosts in groups[len(shown) :] for host in hosts)
            lines.append(_fitted("the others" if shown else "pending", f" ({len(left)})", folded(left), width))
        return lines[:most]

    def _at(self, host: str, what: str, now: float) -> None:
        if host in self._pending and self._pending[host].what != what:
            self._pending[host] = Doing(what, now)

    def _groups(self) -> list[tuple[str, float, tuple[str, ...]]]:
        """Return groups of hosts with the same work: the work, its earliest beginning, and the hosts; waiting hosts
        come last.
        """
        hosts: dict[str, list[str]] = {}
        since: dict[str, float] = {}
        for host, doing in self._pending.items():
            hosts.setdefault(doing.what, []).append(host)
            since[doing.what] = min(doing.since, since.get(doing.what, doing.since))
        order = sorted(
            hosts, key=lambda host: (host in RESTING, RESTING.index(host) if host in RESTING else 0, since[host], host)
        )
        return [(word, since[word], tuple(hosts[word])) for word in order]


def _line(what: str, hosts: tuple[str, ...], spent: float, width: int) -> str:
    notes = [str(len(hosts))] if len(hosts) > 1 else []
    notes += [_rough(spent)] if what not in RESTING else []
    return _fitted(what, f" ({', '.join(notes)})" if notes else "", folded(hosts), width)


def _fitted(what: str, remark: str, names: str, width: int) -> str:
    room = max(2, width - len(f"  {remark}: "))
    named = min(len(names), max(room // 2, room - len(what)))
    return cut(f"  {cut(what, room - named)}{remark}: {cut(names, named)}", width)


def cut(text: str, most: int) -> str:
    """Return *text*, shortened to at most *most* letters."""
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"


def _rough(spent: float) -> str:
    return seconds(float(int(spent)))
