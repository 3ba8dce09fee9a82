"""The cancellation of a run: whether it was asked to end, by whom, and how urgently."""

from __future__ import annotations

import threading

from runbook.protocols import Clock
from runbook.values.types import seconds


class Cancellation:
    """The wish to end a run: of a person, each time more urgent, or of the deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._level = 0
        self._hosts: dict[str, HostCancellation] = {}
        self.why = ""
        self.over = False
        """The deadline has come."""
        self.asked = 0
        """The number of times that a person has asked."""
        self.signals = 0
        """The number of these by a signal."""
        self.spent = ""
        """The reason why no further host is started, while those already started finish."""

    def level(self) -> int:
        """0: go on; 1: end probes, let writes in flight finish; 2: end everything now."""
        return self._level

    def ask(self, why: str, *, level: int = 0, over: bool = False, signal: bool = False) -> None:
        """Ask to end: once more than before, or to *level*."""
        with self._lock:
            self.signals += signal
            self.asked, self.over = self.asked + (not over), self.over or over
            self._level = max(self._level, level or min(2, self.asked))
            self.why = self.why or why

    def of(self, host: str) -> HostCancellation:
        """The cancellation of the work on *host*: the run's, and the host's own deadline."""
        with self._lock:
            return self._hosts.setdefault(host, HostCancellation(self))


class HostCancellation:
    """The wish to end the work on one host: the run's, or that of the host's own deadline (``host_deadline``)."""

    def __init__(self, run: Cancellation) -> None:
        self._run = run
        self._clock: Clock | None = None
        self._began: float | None = None
        self._left = self._allowed = 0.0

    def allow(self, allowed: float, clock: Clock) -> None:
        """Allow *allowed* seconds of work in all; 0: as much as it takes."""
        if allowed and self._clock is None:
            self._allowed = self._left = allowed
            self._clock = clock

    def begin(self) -> None:
        """The work begins, or goes on: from now on its time is counted."""
        if self._clock:
            self._began = self._clock.now()

    def pause(self) -> None:
        """The host waits for its turn: that time is not counted."""
        if self._clock:
            self._left, self._began = self.left(), None

    def left(self) -> float:
        """Seconds until the deadline of the host; infinite: it has none."""
        if self._clock is None:
            return float("inf")
        return self._left - (0.0 if self._began is None else self._clock.now() - self._began)

    @property
    def passed(self) -> bool:
        """Whether the host's own deadline has passed."""
        return self.left() <= 0

    @property
    def is_why(self) -> bool:
        """Whether it is this deadline, and not the run's end, for which the work ends."""
        return self.passed and not self._run.level()

    @property
    def why(self) -> str:
        """Return the reason why the work is to end, where it is the host's own deadline."""
        return f"the host's deadline of {seconds(self._allowed)} has passed"

    def level(self) -> int:
        """As the run's; 1 at least once the host's own deadline has passed: its writes in flight finish."""
        return max(self._run.level(), 1 if self.passed else 0)
