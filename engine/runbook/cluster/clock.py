"""PostgreSQL's clock: the only one that machines of several sites share."""

from __future__ import annotations


class FixedClock:
    """A clock that stands at the time that PostgreSQL said last, in seconds since the epoch."""

    def __init__(self, time: float = 0.0) -> None:
        self.time = time

    def now(self) -> float:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Not called: a rollout only asks for the time."""
        raise NotImplementedError
