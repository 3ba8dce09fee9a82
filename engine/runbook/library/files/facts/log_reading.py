"""Read the ends of log files on a host, with limits on their size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.files.facts.listing import age_of
from runbook.onhost.path_safety import unread
from runbook.shell import VIEW, script
from runbook.text.shortened import first_few
from runbook.text.timestamps import TimeReference, line_time, offset
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

FILE_BYTES = 1 << 20
"""The maximum number of bytes that are read of one file, from its end."""

ALL_BYTES = 16 << 20
"""The maximum number of bytes that are read of all files together."""

SHARE = 300
"""The maximum number of files of one other user, the newest first; files of root and of our own user are all read."""

_READ = VIEW + script(__package__, "log_reading")
"""The script; it indents content by one space, so that no line of a log can imitate a line of the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """The end of a log file."""

    path: str
    whole: bool
    """Whether the lines are the whole file."""
    lines: tuple[str, ...]
    age: float | Unknown = field(default_factory=lambda: Unknown(why="not a file"))
    """The seconds since the file was last written."""
    rotated: bool = False
    older: int = 0
    """The number of bytes of the file before these lines."""

    def since(self, low: float, now: float, zone: float) -> LogFile | Unknown:
        """Return the file with the lines since *low*; unknown if its lines have no times.

        A line without a time has the time of the line before it.  *now* and *zone* are those of the host's clock.  A
        file that was last written before *low* has no such lines, whatever times they have.
        """
        if not isinstance(self.age, Unknown) and now - self.age < low:
            return replace(self, lines=("",) * len(self.lines))
        times = [line_time(line, zone, now) for line in self.lines]
        at = next((time for time in times if time is not None), None)
        if at is None and any(line.strip() for line in self.lines):
            return Unknown(why=f"the lines of {self.path} have no times, and it was written to since")
        kept = []
        for line, time in zip(self.lines, times, strict=True):
            at = at if time is None else time
            kept.append(line if at is not None and at >= low else "")
        return replace(self, lines=tuple(kept))

    def numbered(self, most: int) -> Iterator[tuple[int, str]]:
        """Yield the last *most* lines with their numbers: from the beginning if the file is whole, otherwise from the
        end (-1).
        """
        lines = self.lines[-most:]
        whole = self.whole and len(lines) == len(self.lines)
        for at, line in enumerate(lines):
            yield (at + 1 if whole else at - len(lines)), line


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """An existing file that could not be read."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReading:
    """The log files that match some globs."""

    files: tuple[LogFile, ...] = ()
    missing: tuple[str, ...] = ()
    """The globs that match no file."""
    unreadable: tuple[UnreadFile, ...] = ()
    clock: str = ""
    """The clock of the host: seconds since the epoch, and its zone as ``+0100``."""

    def since(self, reference: TimeReference) -> tuple[tuple[LogFile, ...], tuple[tuple[LogFile, Unknown], ...]]:
        """Return the files with the lines from *reference* on, and those whose lines have no times, with the reason."""
        now, _, zone = self.clock.partition(" ")
        host_now = float(now) if now.isdigit() else 0.0
        low = reference.on(host_now)
        if low is None:
            return self.files, ()
        if not host_now:
            why = Unknown(why="the host does not say its time")
            return (), tuple((file, why) for file in self.files)
        found = [(file, file.since(low, host_now, offset(zone))) for file in self.files]
        return (
            tuple(new for _, new in found if isinstance(new, LogFile)),
            tuple((file, new) for file, new in found if isinstance(new, Unknown)),
        )


def ask_logs(
    globs: Sequence[str],
    lines: int,
    *,
    newest: int = 0,
    rotated: bool = False,
    within: float = 0,
    together: int = ALL_BYTES,
    skipped: int = 0,
) -> Command:
    """Return the command that reads the last *lines* of the files in *globs*: of the *newest* files, and of those at
    most *within* seconds older than the first.

    What is read of all of them is at most *together* bytes; the last *skipped* bytes of each are left out.
    """
    limits = (lines, FILE_BYTES, together, newest, "yes" if rotated else "", f"{within:.0f}", SHARE, skipped)
    return read_script(_READ, *map(str, limits), *globs)


def read_logs(done: Completed, globs: Sequence[str]) -> LogReading:
    """Return the files in *done*, the answer to ``ask_logs``.  Raises ProbeError if nothing could be read."""
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
    """Return the reason why a search may have missed something; None if it has missed nothing."""
    if reading.unreadable:
        return Unknown(why=f"could not be read: {first_few((file.why for file in reading.unreadable), 3, '; ')}")
    if not reading.files:
        return Unknown(why=f"no file matches {', '.join(globs)}")
    return None


def _unread(path: str, lines: list[str]) -> UnreadFile:
    """Return an unread file; *lines* are the reason and the user who can read the file (either may be missing)."""
    return UnreadFile(path=path, why=unread(path, *lines[:2]))


def _file(kind: str, head: str, lines: list[str]) -> LogFile:
    cut, age, path = (*head.split(" ", 2), "", "")[:3]
    known = age.lstrip("-").isdigit()
    return LogFile(
        path=path,
        rotated=kind == "rotated",
        whole=cut == "0",
        older=int(cut) if cut.isdigit() else 0,
        lines=tuple(lines),
        age=age_of(int(age), path)
        if known
        else Unknown(why="this host's stat does not report when the file was written"),
    )
