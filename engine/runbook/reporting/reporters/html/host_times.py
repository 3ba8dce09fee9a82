"""Determine when the steps of a host began, in seconds since the work on it began, from the times of events."""

from __future__ import annotations

from datetime import datetime

from runbook.values.event import Event, HostStarted, StepFinished
from runbook.values.playbook import Phase
from runbook.values.result import StepResult


class HostTimes:
    """Records the events of a run; events without a time are ignored."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._ended: dict[tuple[str, Phase, str], float] = {}
        self._timed: set[str] = set()

    def on(self, event: Event) -> None:
        """Record *event*."""
        match event:
            case HostStarted(host=host, at=at) if at:
                self._began.setdefault(host, _moment(at))
            case StepFinished(host=host, result=result, at=at) if at and host in self._began:
                self._timed.add(host)
                self._ended[host, result.phase, result.id] = _moment(at) - self._began[host]

    def known(self, host: str) -> bool:
        """Whether the start of any step of *host* is known."""
        return host in self._timed

    def began(self, host: str, step: StepResult) -> float | None:
        """Return the start of *step*; None if there is no event for it, as for probes, many of which run at the same
        time.
        """
        end = self._ended.get((host, step.phase, step.id))
        return None if end is None else max(0.0, end - step.seconds)


def _moment(at: str) -> float:
    """Return the seconds since the epoch of *at* (ISO 8601)."""
    return datetime.fromisoformat(at).timestamp()
