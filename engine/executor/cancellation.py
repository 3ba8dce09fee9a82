"""What everybody watches to know whether the run was asked to end, and why."""

from __future__ import annotations

import threading


class Cancellation:
    """The wish to end a run: of a person, each time more urgent, or of the deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._level = 0
        self.why = ""
        self.over = False
        """The deadline has come."""
        self.asked = 0
        """How often a person has asked."""
        self.signals = 0
        """How often of these by a signal."""
        self.spent = ""
        """Why no further host is begun, although those that were begun go on to their end."""

    def level(self) -> int:
        """0: go on; 1: end looks, let writes in flight finish; 2: end everything now."""
        return self._level

    def ask(self, why: str, *, level: int = 0, over: bool = False, signal: bool = False) -> None:
        """Ask to end: once more than before, or to *level*."""
        with self._lock:
            self.signals += signal
            self.asked, self.over = self.asked + (not over), self.over or over
            self._level = max(self._level, level or min(2, self.asked))
            self.why = self.why or why
