"""Send events to every reporter; a slow or broken reporter never delays the run."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TextIO

from runbook.errors import ConfigError
from runbook.execution.fleet import Cancellation
from runbook.protocols import Reporter
from runbook.reporting.standard_streams import OutputGivenUp, OutputLost, opened
from runbook.reporting.whole_report import WholeReport, can_be_replaced
from runbook.values.event import Asked, Event, RunFinished
from runbook.values.types import plural
from runbook.values.verbosity import Verbosity

Complain = Callable[[str], None]
"""A function that prints one line for the person."""

PATIENCE = 2.0
"""After an interrupt, the seconds in which a reader must read at least something."""

POLL = 0.1
"""Seconds between two checks whether the run was interrupted."""


class Output:
    """A reporter in a thread of its own; after its first failure it is given up, with one line.

    A slow reader of the output delays that thread only, and no host.  Waiting events are never dropped, because the run
    itself keeps as many.  Only an interrupted run does not wait for such a reader, but gives it up.
    """

    def __init__(
        self,
        reporter: Reporter,
        stream: TextIO,
        name: str,
        complain: Complain,
        stop: Cancellation,
        whole: WholeReport | None = None,
    ) -> None:
        self._stream = stream
        self._reporter, self._name, self._complain, self._stop = reporter, name, complain, stop
        self._whole, self._ended = whole, False
        self._told = 0
        self._waiting: SimpleQueue[Event | threading.Event | None] = SimpleQueue()
        self._writer = threading.Thread(target=self._write, name=f"writer of {name}", daemon=True)
        self.lost = False
        """Part of the output was not written."""
        self.left = False
        """Because its reader had seen enough, and has gone."""
        self.given_up = False
        """Because its reader did not read it, and the run was interrupted."""

    def on(self, event: Event) -> None:
        """Pass *event* to the reporter soon.  Never raises, because the run must go on without a reporter, too."""
        if not self._writer.ident:
            self._writer.start()
        self._waiting.put(event)

    def drain(self) -> None:
        """Wait until everything is written, or the reporter is given up."""
        if self._writer.is_alive() and not self.given_up:
            written = threading.Event()
            self._waiting.put(written)
            self._wait(written.wait)

    def close(self) -> None:
        """Wait until everything is written, or the reporter is given up; accept no more events."""
        if self._writer.is_alive() and not self.given_up:
            self._waiting.put(None)
            self._wait(self._has_ended)
        if self._whole and self._ended and not self.lost:
            self._publish(self._whole)

    def _publish(self, whole: WholeReport) -> None:
        try:
            whole.publish()
        except (OSError, ConfigError) as error:
            self._give_up(f"cannot write {self._name}: {getattr(error, 'strerror', None) or error}")

    def _has_ended(self, seconds: float) -> bool:
        self._writer.join(seconds)
        return not self._writer.is_alive()

    def _wait(self, over: Callable[[float], bool]) -> None:
        """Wait until *over* returns true (it waits for the given seconds); after an interrupt, only while the reader
        still reads.

        A further interrupt during the wait ends the wait at once.
        """
        before = max(1, self._stop.signals)
        reported, since = self._told, time.monotonic()
        while not over(POLL):
            if not self._stop.signals or reported != self._told:
                reported, since = self._told, time.monotonic()
            if self._stop.signals > before or time.monotonic() - since > PATIENCE:
                self.lost = self.given_up = True
                self._complain(f"{self._name} is incomplete: nothing read it after the run was interrupted")
                return

    def _write(self) -> None:
        while (it := self._waiting.get()) is not None:
            if isinstance(it, threading.Event):
                it.set()
            elif not self.lost:
                self._tell(it)
            self._told += 1

    def _tell(self, event: Event) -> None:
        try:
            self._reporter.on(event)
            if isinstance(event, RunFinished):
                self._stream.flush()  # reporters of other packages may not
                self._ended = True
        except OutputLost as error:  # a full disk, or a reader that is gone
            self.left = error.reader_gone
            self._give_up(str(error))
        except Exception as error:  # a fault of ours
            self._give_up(f"internal error in {self._name}: {type(error).__name__}: {error}")

    def aside(self, line: str) -> bool:
        """Whether the reporter prints *line* itself, because a direct write would disturb its display."""
        takes = getattr(self._reporter, "aside", None)
        return bool(takes and not self.lost and takes(line))

    def _give_up(self, why: str) -> None:
        if not self.lost:
            self.lost = True
            self._complain(f"{why}; the run continues without this output")


class Outputs:
    """All reporters of a run, as a context manager; at its end all output is written."""

    def __init__(self, stdout: Output, reports: Sequence[Output]) -> None:
        self._all = (stdout, *reports)
        self._reports = tuple(reports)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, *_: object) -> None:
        for report in (*self._reports, self._all[0]):  # a file is not to wait for a reader
            report.close()
        if given_up := [output for output in self._all if output.given_up]:
            raise OutputGivenUp(f"incomplete: {plural(len(given_up), 'output')} could not be written in full")

    def on(self, event: Event) -> None:
        """Pass *event* to all reporters."""
        for reporter in self._all:
            reporter.on(event)
        if isinstance(event, Asked):  # what the question is about stands above it
            self._all[0].drain()

    def aside(self, line: str) -> bool:
        """Let the reporter on stdout show *line* if it must; return whether it does.  Safe in a signal handler."""
        return self._all[0].aside(line)

    def code(self, code: int) -> int:
        """Return the exit code of the run; *code* is the code for its hosts.  An incomplete output turns 0 into 1.

        A reader of stdout that closes it early, as ``head`` does, is no fault.
        """
        stdout = self._all[0]
        return code or int(any(report.lost for report in self._reports) or (stdout.lost and not stdout.left))


def outputs_for(
    output: str,
    stdout: TextIO,
    complain: Complain,
    stop: Cancellation,
    *,
    reports: Sequence[str] = (),
    verbosity: str | None = None,
) -> Outputs:
    """Return the reporter *output* on *stdout*, and a reporter for each report file.  Raises ConfigError."""
    from runbook.reporting import reporters

    shown = reporters.make(output, stdout, Verbosity(verbosity or Verbosity.NORMAL))
    first = Output(shown, stdout, "stdout", complain, stop)
    named = [(path, reporters.for_file(path)) for path in reports]  # before any of them is emptied
    made = [_report(path, name, complain, stop) for path, name in named]
    return Outputs(first, made)


def _report(path: str, name: str, complain: Complain, stop: Cancellation) -> Output:
    from runbook.reporting import reporters

    try:
        whole = WholeReport(path) if reporters.replaces(name) and can_be_replaced(path) else None
        stream = whole or opened(path)
    except OSError as error:
        raise ConfigError(f"--report {path}: {error.strerror}") from error
    return Output(reporters.make(name, stream), stream, f"--report {path}", complain, stop, whole)
