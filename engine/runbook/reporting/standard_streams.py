"""Streams for stdout and stderr that report a failed write once, in one line."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
from typing import NoReturn, TextIO

from runbook.errors import Cancelled, RunbookError


class OutputLost(RunbookError):
    """Output could not be written: the disk is full, the reader is gone, or the stream was closed from the start."""

    def __init__(self, name: str, error: OSError) -> None:
        self.reader_gone = isinstance(error, BrokenPipeError)
        words = {errno.EPIPE: "its reader has closed it", errno.EBADF: "it is closed"}
        why = words.get(error.errno or 0) or error.strerror or str(error)
        super().__init__(f"cannot write to {name}: {why}")


class OutputGivenUp(Cancelled):
    """The reader did not read the rest of the output, and the run was interrupted; a thread still waits in a write."""

    def leave(self) -> NoReturn:
        """End the program without waiting for the thread."""
        sys.stderr.flush()
        os._exit(self.exit_code)


def end_as_by_sigpipe() -> NoReturn:
    """End the program as SIGPIPE would (141), without a message, because the reader of the output is gone."""
    sys.stderr.flush()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)  # where it is blocked


class _Raw(io.FileIO):
    """A file that raises OutputLost at its first fault, and ignores everything that is written after it."""

    def __init__(self, number: int, name: str, *, silent: bool = False, ours: bool = False) -> None:
        super().__init__(number, "w", closefd=ours)
        self._name, self._silent, self._lost = name, silent, False

    def write(self, data: object, /) -> int:
        """Write some of *data*; wait if another program has made the file non-blocking."""
        view = memoryview(data)  # type: ignore[arg-type]  # whatever buffer BufferedWriter hands over
        if self._lost:
            return view.nbytes
        try:
            while (written := super().write(view)) is None:
                select.select([], [self], [])
        except OSError as error:
            self._lost = True
            if self._silent:
                return view.nbytes
            raise OutputLost(self._name, error) from error
        return written


def opened(path: str) -> TextIO:
    """The report *path*, emptied, to be written as UTF-8.

    Raises ConfigError if a report must not be written to *path*, and OSError if it cannot be opened.  Writing to the
    stream raises OutputLost.
    """
    from runbook.reporting.report_file import create  # it takes a fifth of the time of `--help`

    raw = _Raw(create(path), path, ours=True)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def take_over_standard_streams() -> None:
    """Replace stdout and stderr by our own streams, also if the program was started without them.

    A failed write to stdout raises OutputLost; stderr never raises.  Characters that the encoding lacks are escaped
    (``\\u6f22``).
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: taken, so that no file of ours is ever opened under its number
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_WRONLY)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - lives as long as the program
    sys.stdout = _standard(1, sys.stdout, silent=False)
    sys.stderr = _standard(2, sys.stderr, silent=True)


def _standard(number: int, before: TextIO | None, *, silent: bool) -> TextIO:
    if before is not None:
        before.flush()
    encoding = before.encoding if before is not None else "utf-8"
    raw = _Raw(number, "stdout" if number == 1 else "stderr", silent=silent)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=raw.isatty() or silent
    )
