"""The console output: each host as it ends, then a recap grouped by result; with live progress on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Protocol, TextIO, assert_never

from runbook.reporting.reporters.console.recap import plans, recap
from runbook.reporting.reporters.console.terminal import can_redraw
from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.host_digest import SHOWN_CAUSE, host_digest
from runbook.reporting.wording.host_lines import owed_lines
from runbook.reporting.wording.step_lines import grouped, step_line
from runbook.text.name_ranges import fold
from runbook.text.printable import printable_line
from runbook.text.similar_texts import line_of
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
from runbook.values.playbook import Phase
from runbook.values.result import HostPlan, HostResult, Mode, Verdict
from runbook.values.types import plural, seconds
from runbook.values.verbosity import Verbosity

MANY = 40
"""The maximum number of hosts for which a verbose run shows every line: about one screen."""

PARTS = 5
"""The number of progress lines of a long run, if there is no live region."""


class RepeatedLines:
    """Drops a line if an equal line was shown for another host; the recap names all hosts."""

    def __init__(self, *, progress: bool, many: int = MANY) -> None:
        self._progress = progress
        self._many = many
        """Hosts up to which every line is shown."""
        self._name = ""
        self._all = 0
        self._ended: Counter[Verdict] = Counter()
        self._shown: set[tuple[str, ...]] = set()

    def without(self, event: Event, lines: Sequence[str]) -> Sequence[str]:
        """Return *lines*, the lines about *event*, without those that were already shown for another host."""
        match event:
            case RunStarted():
                return self._begun(event, lines)
            case HostFinished(result=result):
                self._ended[result.verdict] += 1
                return [*self._first(result.host, lines), *self._how_far()]
            case StepFinished(host=host) | Waiting(host=host):
                return self._first(host, lines)
            case HostStarted() | HostPlanned() | StepStarted() | ChangeStarted() | Asked() | Answered():
                return lines
            case BatchFinished() | RunFinished():
                return lines
            case _:
                assert_never(event)

    def _begun(self, event: RunStarted, lines: Sequence[str]) -> Sequence[str]:
        self._name, self._all = event.playbook, len(event.hosts)
        if self._all <= MANY or self._many < MANY:
            return lines
        return [*lines[:-1], "the first host with each result is shown here, and all of them in the recap", ""]

    def _first(self, host: str, lines: Sequence[str]) -> Sequence[str]:
        if self._all <= self._many:
            return lines
        key = tuple(line_of(line.removeprefix(f"{host}: "), host, strict=True).key for line in lines)
        if key in self._shown:
            return []
        self._shown.add(key)
        return lines

    def _how_far(self) -> list[str]:
        """Return a line about the progress of the run each time another fifth of the hosts has ended;
        otherwise none.
        """
        done = sum(self._ended.values())
        before, now = ((number * PARTS) // self._all if self._all else 0 for number in (done - 1, done))
        if not self._progress or self._all <= MANY or before == now or done == self._all:
            return []
        counts = ", ".join(f"{self._ended[verdict]} {verdict}" for verdict in reversed(Verdict) if self._ended[verdict])
        return [f"{self._name}: {done} of {plural(self._all, 'host')} done: {counts}"]


def lines_of(event: Event, verbosity: Verbosity) -> list[str]:
    """Return the lines about *event*; often none."""
    match event:
        case RunStarted():
            return [] if verbosity is Verbosity.QUIET else _beginning(event)
        case RunFinished(result=result):
            return recap(result, verbosity)
        case BatchFinished(number=number, hosts=hosts, pause=pause) if verbosity is not Verbosity.QUIET:
            rest = f"; the next one begins in {seconds(pause)}" if pause else ""
            return [f"batch {number} has ended: {plural(len(hosts), 'host')} ({fold(hosts)}){rest}"]
        case _:
            return _in_progress(event) if verbosity is Verbosity.VERBOSE else []


def _in_progress(event: Event) -> list[str]:
    """Return the lines about steps and hosts during the run."""
    match event:
        case StepFinished(host=host, result=result):
            quiet = result.status.is_idle or result.phase is Phase.DIAGNOSE
            return [] if quiet else [f"{host}: {step_line(result)}"]
        case Waiting(host=host, why=why):
            return [f"{host}: {why}"]
        case HostFinished(result=result):
            return _ended(result)
        case _:
            return []


def _ended(host: HostResult) -> list[str]:
    """Return the lines about the result of *host*: the cause and the next action, or the repaired faults."""
    digest, head = host_digest(host), f"{host.host}: {host.verdict} ({seconds(host.seconds)})"
    if reason := host.error or (digest.cause and short(digest.cause.text, SHOWN_CAUSE)):
        head += f": {reason}"
    return [head, *(f"  {line}" for line in [digest.next_line, *owed_lines(host)] if line)]


def _beginning(event: RunStarted) -> list[str]:
    what = "dry run, nothing is changed" if event.mode is Mode.PLAN else "run"
    origin = event.origin
    book = f" ({origin.playbook})" if origin and origin.playbook else ""
    inventory = f" of {', '.join(origin.inventory)}" if origin and origin.inventory else ""
    lines = [f"{event.playbook}{book}: {what}, on {plural(len(event.hosts), 'host')} ({fold(event.hosts)}){inventory}"]
    for why, hosts in grouped((left_out.why, left_out.host) for left_out in event.left_out).items():
        lines.append(f"left out: {fold(hosts)} ({why})")
    return [*lines, ""]


ENDINGS = ("txt", "log")


class Reporter:
    """Writes lines to a stream; on a terminal, it also shows a few lines below them with the progress of the run."""

    def __init__(self, stream: TextIO, verbosity: Verbosity = Verbosity.VERBOSE) -> None:
        self._screen = _screen(stream)
        self._verbosity = verbosity
        self._plain = plain = isinstance(self._screen, PlainDisplay)
        many = MANY if verbosity is Verbosity.VERBOSE else 1
        self._repeated = RepeatedLines(progress=plain and verbosity is not Verbosity.QUIET, many=many)

    def on(self, event: Event) -> None:
        """Write the lines about *event*."""
        lines = lines_of(event, self._verbosity)
        if isinstance(event, Waiting) and self._verbosity is Verbosity.NORMAL and self._plain:
            lines = lines_of(event, Verbosity.VERBOSE)  # a terminal shows below its lines what is waited for
        self._screen.on(event, self._repeated.without(event, lines))

    def aside(self, line: str) -> bool:
        """Show *line*, which is for the terminal and not from the run; return False if the caller must write it
        itself.
        """
        return self._screen.aside(line)


class Display(Protocol):
    """A device to which lines are written."""

    def on(self, event: Event, lines: Sequence[str]) -> None:
        """Write *lines*, the lines about *event*."""
        ...

    def aside(self, line: str) -> bool:
        """Do as ``Reporter.aside``."""
        ...


class PlainDisplay:
    """A stream on which written lines cannot be removed again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event, lines: Sequence[str]) -> None:
        """Write *lines* at once."""
        for line in lines:
            self._stream.write(printable_line(line) + "\n")
        if lines:
            self._stream.flush()

    def aside(self, line: str) -> bool:
        """Return False: this stream has no display that another line could disturb."""
        return False


def _screen(stream: TextIO) -> Display:
    if not can_redraw(stream):
        return PlainDisplay(stream)
    from runbook.reporting.reporters.console import live_display

    return live_display.LiveDisplay(stream)


def show_plans(hosts: Iterable[HostPlan], stream: TextIO) -> None:
    """Write the plans to *stream*, for the person who must confirm them."""
    for line in plans(hosts):
        stream.write(printable_line(line) + "\n")
    stream.flush()
