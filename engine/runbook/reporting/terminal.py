"""The terminal of the person who runs the program: questions, messages on stderr, and interrupts."""

from __future__ import annotations

import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from getpass import getpass
from typing import TYPE_CHECKING

from runbook.errors import Cancelled
from runbook.text.printable import printable
from runbook.values.result import HostPlan
from runbook.values.types import plural

if TYPE_CHECKING:
    from runbook.execution.fleet import Cancellation

TAKEN_WITHIN = 1.0
"""The maximum number of seconds that stderr may take to accept a line."""


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing.  Unlike SIG_IGN, a handler is not inherited by started programs, so that they can still be ended."""


class Terminal:
    """The connection to the person: stdin, stderr and signals."""

    def __init__(self) -> None:
        self._asking = False
        self._aside: Callable[[str], bool] = lambda _: False
        self._unsaid: deque[str] = deque()
        self._saying = False

    def is_there(self) -> bool:
        """Whether stdin is a terminal."""
        return sys.stdin is not None and sys.stdin.isatty()

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        """Show *plans* on stderr, and return whether the person confirms them there."""
        from runbook.reporting.reporters.console import show_plans

        show_plans(plans, sys.stderr)
        return self.confirms(f"\nDo this on {plural(count, 'host')}?")

    def confirms(self, question: str) -> bool:
        """Ask *question* on stderr, and return whether the answer is yes."""
        self._asking = True
        try:
            print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
            return sys.stdin.readline().strip().lower() in ("y", "yes")
        except KeyboardInterrupt:
            print(file=sys.stderr)
            return False
        finally:
            self._asking = False

    def secret(self, prompt: str) -> str:
        """Return a secret that the person types on the terminal, without an echo.  Raises Cancelled."""
        try:
            return getpass(f"{prompt}: ", stream=sys.stderr)
        except (KeyboardInterrupt, EOFError) as error:
            raise Cancelled("no answer: no host was contacted") from error

    def say(self, line: str) -> None:
        """Print *line* on stderr; on the terminal that shows a run, it appears above the live region.

        If nobody reads stderr, the line is dropped, because it must not block the run or a signal.  If a signal arrives
        during a write, the write under way prints its line, too: a stream is not reentrant.
        """
        self._unsaid.append(f"runbook: {printable(line)}")
        while self._unsaid and not self._saying:
            self._saying = True
            try:
                self._write(self._unsaid.popleft())
            finally:
                self._saying = False

    def _write(self, said: str) -> None:
        if not (sys.stderr.isatty() and self._aside(said)) and select.select([], [sys.stderr], [], TAKEN_WITHIN)[1]:
            print(said, file=sys.stderr)

    def speak_through(self, aside: Callable[[str], bool]) -> None:
        """Show further messages with *aside*, if *aside* accepts them."""
        self._aside = aside

    def can_stop(self, stop: Cancellation) -> None:
        """Let SIGINT, SIGTERM and SIGHUP ask the run to end, each time more urgently.

        An ignored signal stays ignored, because `nohup` ignores SIGHUP, and a shell ignores SIGINT for background jobs
        (`&`).
        """

        def asked(number: int, _frame: object) -> None:
            if self._asking:
                raise KeyboardInterrupt
            name = signal.Signals(number).name
            stop.ask(f"interrupted by {name}", signal=True)
            last = stop.level() > 1
            words = (
                "ending running changes, too"
                if last
                else "ending probes; a change that is running may finish (again: end it now)"
            )
            self.say(f"{name}: {words}")

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            ignored = signal.getsignal(number) in (signal.SIG_IGN, _ignore)
            signal.signal(number, _ignore if ignored else asked)
