"""The cancellation of a run: whether the run must end, why, and how urgently."""

from __future__ import annotations

import threading

from runbook.protocols import Clock
from runbook.values.types import seconds


class Cancellation:
    """The request to end a run, made by a person (each time more urgent) or by the deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._level = 0
        self._hosts: dict[str, HostCancellation] = {}
        self.why = ""
        self.over = False
        """Whether the deadline has passed."""
        self.asked = 0
        """The number of requests by a person."""
        self.signals = 0
        """The number of these requests that were made by a signal."""
        self.spent = ""
        """The reason why no further host is started, while hosts that were started finish."""

    def level(self) -> int:
        """0: continue; 1: end probes, let writes in flight finish; 2: end everything now."""
        return self._level

    def ask(self, why: str, *, level: int = 0, over: bool = False, signal: bool = False) -> None:
        """Request the end of the run because of *why*: one level more urgent than before, or at least *level*.

        *over*: a deadline or a limit makes the request.  *signal*: a signal makes it.
        """
        with self._lock:
            self.signals += signal
            self.asked, self.over = self.asked + (not over), self.over or over
            self._level = max(self._level, level or min(2, self.asked))
            self.why = self.why or why

    def of(self, host: str) -> HostCancellation:
        """Return the cancellation of the work on *host*: it follows the run's cancellation and the host's own
        deadline.
        """
        with self._lock:
            return self._hosts.setdefault(host, HostCancellation(self))


class HostCancellation:
    """The request to end the work on one host, made by the run or by the host's own deadline (``host_deadline``)."""

    def __init__(self, run: Cancellation) -> None:
        self._run = run
        self._clock: Clock | None = None
        self._began: float | None = None
        self._left = self._allowed = 0.0

    def allow(self, allowed: float, clock: Clock) -> None:
        """Set the deadline: *allowed* seconds of work in total; 0: no deadline."""
        if allowed and self._clock is None:
            self._allowed = self._left = allowed
            self._clock = clock

    def begin(self) -> None:
        """Begin to count the time, because the work on the host begins or continues."""
        if self._clock:
            self._began = self._clock.now()

    def pause(self) -> None:
        """Stop counting the time while the host waits for its turn."""
        if self._clock:
            self._left, self._began = self.left(), None

    def left(self) -> float:
        """Return the seconds until the deadline of the host; infinite if it has none."""
        if self._clock is None:
            return float("inf")
        return self._left - (0.0 if self._began is None else self._clock.now() - self._began)

    @property
    def passed(self) -> bool:
        """Whether the host's own deadline has passed."""
        return self.left() <= 0

    @property
    def is_why(self) -> bool:
        """Whether the work ends because of the host's own deadline, and not because the run ends."""
        return self.passed and not self._run.level()

    @property
    def why(self) -> str:
        """Return the message about the host's own deadline, which has passed."""
        return f"the host's deadline of {seconds(self._allowed)} has passed"

    def level(self) -> int:
        """Return the level of the run; at least 1 once the host's own deadline has passed, so that writes in flight
        finish.
        """
        return max(self._run.level(), 1 if self.passed else 0)
