"""
Everything that can go wrong, whose fault it is, and what the program exits with.

RunbookError (1)
├── ConfigError (2)          the user's file or command line is wrong; carries every problem with its place
├── PluginError (1)          a file in a plugin folder does not keep its protocol: our fault
├── TransportError (1)       the host could not be asked
│   ├── Unreachable (4)      we never got in: nothing was sent
│   └── ConnectionLost (1)   we were in: a write may or may not have happened
├── ProbeError (1)           the host answered, but not with an answer
│   └── NotInTime (1)        what was waited for did not come about in the time there was
├── RecordLost (1)           the run cannot be recorded any more, so that nothing further is changed
├── Cancelled (130)          somebody asked us to stop
└── ReadOnlyViolation (1)    a probe tried to write: a bug, never a condition
"""

from __future__ import annotations

from typing import ClassVar

from runbook.dataclass import dataclass

MOST_MISTAKES = 50
"""Mistakes that are listed one by one; of the others their number."""


class RunbookError(Exception):
    """Base of every error that this package raises on purpose."""

    exit_code: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One mistake in something a user wrote.  Lines and columns count from 1; 0 means the place is not known."""

    file: str = ""
    line: int = 0
    column: int = 0
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = ":".join(str(value) for value in (self.file, self.line, self.column) if value)
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}: {self.message}{hint}" if place else f"{self.message}{hint}"


class ConfigError(RunbookError):
    """A playbook, an inventory or a command line says something we cannot mean; nothing was connected to."""

    exit_code = 2

    def __init__(self, *problems: Problem | str) -> None:
        self.problems = tuple(
            problem if isinstance(problem, Problem) else Problem(message=problem) for problem in problems
        )
        reported = list(map(str, self.problems[:MOST_MISTAKES]))
        more = len(self.problems) - len(reported)
        super().__init__("\n".join([*reported, *([f"... and {more} more mistakes"] if more else [])]))


class PluginError(RunbookError):
    """A file in a plugin folder does not keep its protocol."""


class TransportError(RunbookError):
    """The host could not be asked."""


class Unreachable(TransportError):
    """No session could be opened; no command was sent."""

    exit_code = 4


class ConnectionLost(TransportError):
    """The session died while a command was in flight; the outcome of that command is unknown."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        self.sent = sent
        """Whether anything of the command had been sent, so that it may have been done."""
        super().__init__(message)


class ProbeError(RunbookError):
    """A probe was taken and produced nothing that can be believed."""


class NotInTime(ProbeError):
    """The time was up before the awaited state came about; the host was asked, and answered."""


class RecordLost(RunbookError):
    """The record of the run cannot be written, so that the change was not sent."""


class Cancelled(RunbookError):
    """The run was asked to stop; commands in flight were ended on the host, or are named in the message."""

    exit_code = 130

    def __init__(self, message: str, *, sent: bool = False) -> None:
        self.sent = sent
        """Whether the command that it ended had been sent."""
        super().__init__(message)


class ReadOnlyViolation(RunbookError):
    """A probe yielded a command that writes."""
