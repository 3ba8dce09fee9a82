"""List the files that match globs: their sizes and ages, and whether they grow."""

from __future__ import annotations

import re

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, seconds

KEPT = 1000
"""The maximum number of files that are listed; all files are counted."""

SKEW = 60
"""The seconds that a file's time may be ahead of the host's clock, because a file server has its own clock."""

MAX_LIST_BYTES = 3_500_000
"""The maximum number of bytes of one list; a longer list is not trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file, directory or link."""

    path: str
    """The path that the glob matched; a ``~`` is expanded."""
    size: int
    """The size in bytes; for a symbolic link, the size of its target."""
    age: float | Unknown
    """The seconds since the file was last written, by the host's clock; unknown if that time is in the future."""
    written: int
    """The time of the last write in seconds since 1970, by the clock of the file system's host."""
    kind: str
    """The kind: file, directory or other."""
    number: int | Unknown
    """The last number in the name: 10 in ``step_10``, 3 in ``rank_3.pt``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """The files that one probe found."""

    files: tuple[File, ...]
    """The files, newest first."""
    count: int
    total: int
    """The bytes of all files together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFound:
    """All files that were found."""

    listings: tuple[FileListing, ...]
    """One listing, or two if the step probed twice."""
    missing: tuple[str, ...]
    """Globs that match nothing."""
    unreadable: tuple[str, ...]
    """Directories that could not be read."""


def ask_files(paths: tuple[str, ...], inside: str, interval: float, without: str = "") -> Command:
    """List the files that match *paths*, in one script.

    *inside*: names of files to list at any depth below a match; *without*: names of files to leave out.
    """
    return read_script(_ASK, inside, without, f"{interval:g}" if interval else "", str(MAX_LIST_BYTES), *paths)


_ASK = script(__package__, "listing_probe")
"""The script; each record ends with byte 1, a random word and a newline.

So a name with any characters is one record, and no file name can forge a record of another directory.
"""

_END = re.compile(r"\Anow \d+(\x01[0-9a-f-]*\n)")


def read_files(done: Completed) -> FilesFound:
    """Return the files in *done*.  Raises ProbeError if the probe did not finish."""
    if done.timed_out:
        raise ProbeError("the files could not be listed in time")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the files could not be listed"))
    now, missing, unreadable = 0, dict[str, None](), dict[str, None]()
    listings: list[dict[str, File]] = []
    first = _END.match(done.stdout)
    end = first[1] if first else "\x01\n"
    for record in done.stdout.split(end):
        while found := re.match(r"(?:find|stat): (.*)\n", record):
            if "Permission denied" in found[1]:
                unreadable[found[1].rpartition(": ")[0].strip("'`\u2018\u2019").replace("/./", "/")] = None
            record = record[found.end() :]
        word, _, rest = record.partition(" ")
        if word == "now":
            if not re.fullmatch(r"[0-9]{1,15}", rest):
                raise ProbeError(f"the host's time is not known: date printed {rest[:40]!r}")
            now = int(rest)
            listings.append({})
            missing.clear()
        elif word == "missing":
            missing[rest] = None
        elif word == "unreadable":
            unreadable[rest] = None
        elif listings and (file := _file(record, now)):
            listings[-1][file.path] = file
    if not listings:
        raise ProbeError("the host's list of the files has no beginning")
    if any(len(part.encode("utf-8", "replace")) >= MAX_LIST_BYTES - 100 for part in done.stdout.split(f"{end}now ")):
        raise ProbeError("there are more files than can be listed: narrow the patterns")
    return FilesFound(listings=tuple(map(_listing, listings)), missing=tuple(missing), unreadable=tuple(unreadable))


def _file(record: str, now: int) -> File | None:
    found = re.fullmatch(r"(\d+) (-?\d+) ([0-9a-f]+) (.+)", record, re.DOTALL)
    if not found:
        return None
    size, written, mode, path = found.groups()
    kind = {0o4: "directory", 0o10: "file"}.get(int(mode, 16) >> 12, "other")
    path = path.replace("/./", "/")
    return File(
        path=path,
        size=int(size),
        age=age_of(now - int(written), path),
        written=int(written),
        kind=kind,
        number=number_of(path),
    )


def age_of(seconds_ago: int, path: str) -> float | Unknown:
    """Return the age of *path*; unknown if the clock is wrong, or was set in the meantime."""
    if seconds_ago < -SKEW:
        ahead = seconds(-seconds_ago)
        return Unknown(why=f"{path} was last written {ahead} in the future: the clock of this host is wrong, or was")
    return float(max(0, seconds_ago))


def number_of(path: str) -> int | Unknown:
    """Return the last number in the last part of *path*."""
    name = path.rstrip("/").rpartition("/")[2]
    stem = re.sub(r"\.[A-Za-z]\w*$", "", name)
    found = re.findall(r"\d+", stem, re.ASCII) or re.findall(r"\d+", name, re.ASCII)
    return int(found[-1][:18]) if found else Unknown(why=f"there is no number in {name}")


def _listing(files: dict[str, File]) -> FileListing:
    newest = sorted(files.values(), key=lambda file: (-file.written, file.path))
    return FileListing(
        files=tuple(newest), count=len(newest), total=sum(each.size for each in newest if each.kind == "file")
    )
