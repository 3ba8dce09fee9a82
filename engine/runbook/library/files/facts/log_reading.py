"""Read the ends of log files on a host, within bounds: its script, and what the script found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from runbook.errors import ProbeError
from runbook.library.files.facts.listing import age_of
from runbook.onhost.path_safety import unread
from runbook.shell import VIEW, script
from runbook.text.shortened import first_few
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

FILE_BYTES = 1 << 20
"""The bytes that are read of one file at most, from its end."""

ALL_BYTES = 16 << 20
"""The bytes that are read of all files together at most."""

SHARE = 300
"""Files of one user that are read, the newest; those of root and of our own user are all read."""

_READ = VIEW + script(__package__, "log_reading")
"""Content is indented by one space, so that no line of a log can pass for one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """The end of a file."""

    path: str
    whole: bool
    """Whether all of the file is there."""
    lines: tuple[str, ...]
    age: float | Unknown = field(default_factory=lambda: Unknown(why="not a file"))
    """Seconds since it was written to."""
    rotated: bool = False

    def numbered(self, most: int) -> Iterator[tuple[int, str]]:
        """The last *most* lines with their numbers: from the beginning where all is there, else from the end (-1)."""
        lines = self.lines[-most:]
        whole = self.whole and len(lines) == len(self.lines)
        for at, line in enumerate(lines):
            yield (at + 1 if whole else at - len(lines)), line


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """A file that is there and could not be read."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """The files that some globs match."""

    files: tuple[LogFile, ...] = ()
    missing: tuple[str, ...] = ()
    """Globs without a match."""
    unreadable: tuple[UnreadFile, ...] = ()
    clock: str = ""
    """The host's: seconds since the epoch, and its zone as ``+0100``."""


def ask_logs(
    globs: Sequence[str],
    lines: int,
    *,
    newest: int = 0,
    rotated: bool = False,
    within: float = 0,
    together: int = ALL_BYTES,
) -> Command:
    """Reads the last *lines* of the files of *globs*: the *newest* so many, and those *within* seconds of the first.

    What is read of all of them is at most *together* bytes.
    """
    limits = (lines, FILE_BYTES, together, newest, "yes" if rotated else "", f"{within:.0f}", SHARE)
    return read_script(_READ, *map(str, limits), *globs)


def read_logs(done: Completed, globs: Sequence[str]) -> LogReading:
    """Parse the answer to ``ask_logs``.  Raises ProbeError where nothing could be read."""
    if done.timed_out:
        raise ProbeError(f"the files could not be read in time: {', '.join(globs)}")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the files could not be read"))
    heads: list[tuple[str, list[str]]] = []
    for line in done.stdout.split("\n"):
        if line.startswith(" ") and heads:
            heads[-1][1].append(line[1:].removesuffix("\r"))
        elif line:
            heads.append((line, []))
    reported = [(head.partition(" "), lines) for head, lines in heads]
    return LogReading(
        files=tuple(_file(kind, rest, lines) for (kind, _, rest), lines in reported if kind in ("file", "rotated")),
        missing=tuple(rest for (kind, _, rest), _ in reported if kind == "missing"),
        unreadable=tuple(_unread(rest, lines) for (kind, _, rest), lines in reported if kind == "unreadable"),
        clock=next((rest for (kind, _, rest), _ in reported if kind == "clock"), ""),
    )


def blind(reading: LogReading, globs: Sequence[str]) -> Unknown | None:
    """Return the reason why finding nothing would not mean that there is nothing; None: it would."""
    if reading.unreadable:
        return Unknown(why=f"could not be read: {first_few((file.why for file in reading.unreadable), 3, '; ')}")
    if not reading.files:
        return Unknown(why=f"no file matches {', '.join(globs)}")
    return None


def _unread(path: str, lines: list[str]) -> UnreadFile:
    """*lines*: why, and the user to become for it; either may be missing."""
    return UnreadFile(path=path, why=unread(path, *lines[:2]))


def _file(kind: str, head: str, lines: list[str]) -> LogFile:
    cut, age, path = (*head.split(" ", 2), "", "")[:3]
    known = age.lstrip("-").isdigit()
    return LogFile(
        path=path,
        rotated=kind == "rotated",
        whole=cut == "0",
        lines=tuple(lines),
        age=age_of(int(age), path)
        if known
        else Unknown(why="this host's stat does not report when the file was written"),
    )
