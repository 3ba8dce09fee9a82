"""The person of a command that nobody sits at: no question is asked, and messages are kept."""

from __future__ import annotations

from collections.abc import Callable

from runbook.errors import Cancelled
from runbook.execution.fleet import Cancellation
from runbook.values.result import HostPlan


class Nobody:
    """A person who is absent: no question is asked, and messages are kept."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def is_there(self) -> bool:
        return False

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        return False

    def confirms(self, question: str) -> bool:
        return False

    def secret(self, prompt: str) -> str:
        raise Cancelled(f"{prompt}: there is nobody to ask; give a file")

    def can_stop(self, stop: Cancellation) -> None:
        pass

    def say(self, line: str) -> None:
        self.said.append(line)

    def speak_through(self, aside: Callable[[str], bool]) -> None:
        pass
