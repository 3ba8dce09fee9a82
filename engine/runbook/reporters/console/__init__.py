"""The console output: each host as it ends, then a recap grouped by result; with live progress on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO

from runbook.reporters.console.event_lines import lines_of
from runbook.reporters.console.recap import plans
from runbook.reporters.console.repeated_lines import MANY, RepeatedLines
from runbook.reporters.console.terminal import can_redraw
from runbook.text.printable import printable_line
from runbook.values.event import Event, Waiting
from runbook.values.result import HostPlan
from runbook.values.verbosity import Verbosity

ENDINGS = ("txt", "log")


class Reporter:
    """Writes lines to a stream; where that is a terminal, with a few below them that follow the run."""

    def __init__(self, stream: TextIO, verbosity: Verbosity = Verbosity.VERBOSE) -> None:
        self._screen = _screen(stream)
        self._verbosity = verbosity
        self._plain = plain = isinstance(self._screen, PlainDisplay)
        many = MANY if verbosity is Verbosity.VERBOSE else 1
        self._repeated = RepeatedLines(progress=plain and verbosity is not Verbosity.QUIET, many=many)

    def on(self, event: Event) -> None:
        """Say what is worth a line."""
        lines = lines_of(event, self._verbosity)
        if isinstance(event, Waiting) and self._verbosity is Verbosity.NORMAL and self._plain:
            lines = lines_of(event, Verbosity.VERBOSE)  # a terminal shows below its lines what is waited for
        self._screen.on(event, self._repeated.without(event, lines))

    def aside(self, line: str) -> bool:
        """Take care of *line*, which is for the terminal and none of the run's; False: write it yourself."""
        return self._screen.aside(line)


class Display(Protocol):
    """Something to write on."""

    def on(self, event: Event, lines: Sequence[str]) -> None:
        """Write *lines*, which are what *event* is worth."""
        ...

    def aside(self, line: str) -> bool:
        """See ``Reporter.aside``."""
        ...


class PlainDisplay:
    """A stream on which nothing can be taken back."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event, lines: Sequence[str]) -> None:
        """Write *lines* at once."""
        for line in lines:
            self._stream.write(printable_line(line) + "\n")
        if lines:
            self._stream.flush()

    def aside(self, line: str) -> bool:
        """Nothing here is in the way of others."""
        return False


def _screen(stream: TextIO) -> Display:
    if not can_redraw(stream):
        return PlainDisplay(stream)
    from runbook.reporters.console import live_display

    return live_display.LiveDisplay(stream)


def show_plans(hosts: Iterable[HostPlan], stream: TextIO) -> None:
    """Write the plans for the person who is asked."""
    for line in plans(hosts):
        stream.write(printable_line(line) + "\n")
    stream.flush()
