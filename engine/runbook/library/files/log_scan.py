"""Search the ends of log files on the host for known signatures, and find logs to which nothing is written any more."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.files.facts.log_reading import LogFile, LogReading, ask_logs, blind, read_logs
from runbook.protocols import Probe
from runbook.text.regexes import SearchMatch
from runbook.text.signatures import SignatureSearch, check_signatures
from runbook.text.timestamps import time_reference
from runbook.values.command import Completed
from runbook.values.playbook import Symptom, SymptomKind
from runbook.values.types import Duration, Json, Raw, Unknown

LINE = 10_000
"""The maximum number of characters of a line that are searched."""

DIGITS = 15
"""The maximum number of digits of a number in a line, such as the number of a step."""

KEPT = 200
"""The maximum number of matches that are kept; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The files and the signatures."""

    files: tuple[str, ...] = ()
    """Paths on the host; * ? [] are globs, and ~/ is the home of the login user."""
    signatures: Mapping[str, Json] = field(default_factory=dict)
    """For each name, a Python regular expression that is searched in each line. If it has a group (?P<number>...), the
    digits in this group become the `number` of a match.
    """
    text: str = ""
    """Search this text instead of files."""
    lines: int = field(default=1000, metadata={"minimum": 1})
    """The number of last lines of each file to read."""
    newest: int = field(default=0, metadata={"minimum": 0})
    """Read only this many of the newest files; 0: all."""
    within: Duration = Duration(0)
    """With `newest`: only files that were written at most this time before the newest one; 0: all."""
    since: str = ""
    """Search only the lines since this time, such as 10m (ago) or 2026-01-31T12:00:00Z, by the times at the beginning
    of lines. A line without a time gets the time of the line before it. A log without any time is unknown if it was
    written since then.
    """
    ignore_case: bool = False
    """Ignore upper and lower case."""
    rotated: bool = False
    """Also search FILE.1, the most recently rotated part of each log."""
    stalled_for: Duration = Duration(0)
    """A log is stalled if nothing was written to it for this time; 0: stalled logs are not searched for."""

    def __post_init__(self) -> None:
        if bool(self.files) == bool(self.text):
            raise ValueError("give exactly one of `files` and `text`")
        if not self.signatures and not self.stalled_for:
            raise ValueError("give `signatures` to search for, or `stalled_for`")
        if self.within and not self.newest:
            raise ValueError("`within` needs `newest`")
        if self.text and (self.stalled_for or self.rotated or self.since):
            raise ValueError("`stalled_for`, `rotated` and `since` need `files`; they do not apply to `text`")
        time_reference(self.since)
        check_signatures(self.signatures, re.IGNORECASE if self.ignore_case else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileMatch:
    """A line that matches a signature."""

    signature: str = field(metadata={"named_by": ("signatures",)})
    """The name of the signature: a key of `signatures`."""
    file: str
    """The path of the log; ``text`` if `text` was searched."""
    line: int
    """The number of the line, from the beginning if the whole file was read; otherwise negative, from the end: -1 is
    the last line.
    """
    text: str
    """The line, without white space around it; at most 10000 characters."""
    number: int | None = None
    """The number in the group ``(?P<number>...)`` of the regular expression; null if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLine:
    """The last line of a log."""

    file: str
    """The path of the log."""
    text: str
    """The last line that is not blank, at most its last 10000 characters; empty if there is none."""
    age: float | Unknown
    """The seconds since the file was last written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    files: tuple[str, ...]
    """The files that were read."""
    missing: tuple[str, ...] = ()
    """Globs that match no file."""
    unreadable: tuple[str, ...] = ()
    """Files that could not be read, or exceeded the size limit."""
    matches: tuple[LogFileMatch, ...] | Unknown
    """Lines with a signature (signature, file, line, text), the last 200; unknown if no file was read."""
    counts: Mapping[str, int | Unknown] = field(metadata={"named_by": ("signatures",)})
    """The number of lines with each signature."""
    found: tuple[str, ...] | Unknown = field(metadata={"named_by": ("signatures",)})
    """Names of the signatures that were found."""
    last: tuple[LastLine, ...] = ()
    """Each file's last line (file, text, age)."""
    stalled: tuple[LastLine, ...] | Unknown = ()
    """The last lines (file, text, age) of stalled logs."""


def signs(written: Mapping[str, Any]) -> Mapping[str, Symptom]:
    """Return the signatures that are written in the playbook, without those that come from an input."""
    given = written.get("signatures")
    flags = "(?i)" if written.get("ignore_case") is True else ""
    texts = {
        name: pattern.value if isinstance(pattern, Raw) else pattern
        for name, pattern in (given if isinstance(given, Mapping) else {}).items()
    }
    return {
        name: Symptom(written=f"{flags}{text}", kind=SymptomKind.SIGN)
        for name, text in texts.items()
        if isinstance(text, str) and "{{" not in text
    }


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files with one script; the search is done on the controller."""
    if args.text:
        whole = LogFile(path="text", whole=True, lines=tuple(args.text.split("\n")))
        return _searched(args, LogReading(files=(whole,)))
    done: Completed = yield ask_logs(
        args.files, args.lines, newest=args.newest, rotated=args.rotated, within=args.within
    )
    return _searched(args, read_logs(done, args.files))


def _searched(args: Args, reading: LogReading) -> State:
    files = reading.files
    search = SignatureSearch(args.signatures, re.IGNORECASE if args.ignore_case else 0)
    recent, undated = reading.since(time_reference(args.since)) if args.since else (files, ())
    hits = [hit for file in recent for hit in _hits(file, search, args)]
    names = {hit.signature for hit in hits}
    blind_why = blind(reading, args.files)
    slow = {name: Unknown(why=why) for name, why in search.unknown(names).items()}
    for file, why in undated:  # it is not known of these lines whether they are older
        slow |= {hit.signature: why for hit in _hits(file, search, args) if hit.signature not in names}
    doubt = next(iter(slow.values()), None if hits else blind_why)
    counts = Counter(hit.signature for hit in hits)
    return State(
        files=tuple(file.path for file in files),
        missing=reading.missing,
        unreadable=tuple(file.path for file in reading.unreadable),
        matches=doubt or tuple(hits[-KEPT:]),
        counts={name: slow.get(name) or counts[name] or blind_why or 0 for name in args.signatures},
        found=doubt or tuple(name for name in args.signatures if name in names),
        last=tuple(line for line in map(_last, files) if line),
        stalled=_stalled(args, files, blind_why),
    )


def _stalled(args: Args, files: tuple[LogFile, ...], blind: Unknown | None) -> tuple[LastLine, ...] | Unknown:
    """Return the logs to which nothing was written for too long; rotated parts do not count."""
    if not args.stalled_for:
        return ()
    ages = [(file.age, file) for file in files if not file.rotated]
    untold = next((age for age, _ in ages if isinstance(age, Unknown)), None)
    still = tuple(
        _last(file) or LastLine(file=file.path, text="", age=age)
        for age, file in ages
        if not isinstance(age, Unknown) and age >= args.stalled_for
    )
    return still or untold or blind or ()


def _hits(file: LogFile, search: SignatureSearch, args: Args) -> Iterator[LogFileMatch]:
    for number, line in file.numbered(args.lines):
        for name in args.signatures:
            if found := search.search(name, line[:LINE]):
                text = line[:LINE].strip()
                yield LogFileMatch(signature=name, file=file.path, line=number, text=text, number=_number(found))


def _number(found: SearchMatch) -> int | None:
    """Return the number in the group ``number`` of the match."""
    text = found.groupdict().get("number")
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def _last(file: LogFile) -> LastLine | None:
    text = next((line.strip() for line in reversed(file.lines) if line.strip()), None)
    if file.rotated:
        return None
    return LastLine(file=file.path, text=text[-LINE:], age=file.age) if text is not None else None


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    flags = "-niE" if args.ignore_case else "-nE"
    files = " ".join(args.files) or "FILE"
    still = (f"ls -l --time-style=full-iso {files}; date",) if args.stalled_for else ()
    return (*(f"grep {flags} {shlex.quote(str(signature))} {files}" for signature in args.signatures.values()), *still)
