"""Search the ends of log files on the host for known signatures, and see which of them stand still."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from engine.errors import ProbeError
from engine.facts.files.listing import age_of
from engine.facts.files.path_safety import unread
from engine.protocols import Probe
from engine.shell import VIEW
from engine.text.regexes import fault_in_regex, found_anywhere, reach
from engine.values.command import Completed, read_script
from engine.values.types import Duration, Json, Unknown

FILE_BYTES = 1 << 20
"""What is read of one file at most, from its end."""

ALL_BYTES = 16 << 20
"""What is read of all files together at most."""

LINE = 10_000
"""Characters of a line that are inspected."""

DIGITS = 15
"""Digits of a number in a line, such as that of a step."""

KEPT = 200
"""Matches that are kept; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where to search, and what for."""

    files: tuple[str, ...] = field(
        default=(), metadata={"about": "Paths on the host; * ? [] are globs, and ~/ is the home of the login user."}
    )
    signatures: Mapping[str, Json] = field(
        default_factory=dict,
        metadata={
            "about": "Name to Python regular expression, searched in each line; the digits in its group "
            "(?P<number>...), if any, become the `number` of a match."
        },
    )
    text: str = field(default="", metadata={"about": "Search this text instead of files."})
    lines: int = field(
        default=1000, metadata={"about": "How many of the last lines of each file to read.", "minimum": 1}
    )
    newest: int = field(default=0, metadata={"about": "Read only so many files, the newest; 0: all.", "minimum": 0})
    ignore_case: bool = field(default=False, metadata={"about": "Upper and lower case are the same."})
    rotated: bool = field(
        default=False, metadata={"about": "Also search FILE.1, the part of each log that was rotated away last."}
    )
    stalled_for: Duration = field(
        default=Duration(0),
        metadata={"about": "A log that nothing was written to for so long stands still; 0: none does."},
    )

    def __post_init__(self) -> None:
        if bool(self.files) == bool(self.text):
            raise ValueError("give exactly one of `files` and `text`")
        if not self.signatures and not self.stalled_for:
            raise ValueError("give `signatures` to search for, or `stalled_for`")
        if self.text and (self.stalled_for or self.rotated):
            raise ValueError("`stalled_for` and `rotated` are about files, and a text is none")
        for name, pattern in self.signatures.items():
            if not isinstance(pattern, str) or not pattern:
                raise ValueError(f"signature {name}: a regular expression is wanted")
            if fault := fault_in_regex(pattern, re.IGNORECASE if self.ignore_case else 0):
                raise ValueError(f"signature {name}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFileMatch:
    """A line with a signature in it."""

    signature: str
    file: str
    line: int
    """From the file's beginning where all of it was read; else negative, from its end: -1 is the last line."""
    text: str
    number: int | None = None
    """What the group ``(?P<number>...)`` of its regular expression has matched; null where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastLine:
    """Where a log stands."""

    file: str
    text: str
    age: float | Unknown
    """Seconds since the file was last written to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What was read, and what was in it."""

    files: tuple[str, ...] = field(metadata={"about": "The files that were read."})
    missing: tuple[str, ...] = field(default=(), metadata={"about": "Globs that match no file."})
    unreadable: tuple[str, ...] = field(
        default=(), metadata={"about": "Files that could not be read, or were too much."}
    )
    matches: tuple[LogFileMatch, ...] | Unknown = field(
        metadata={
            "about": "Lines with a signature (signature, file, line, text), the latest 200; unknown if none was read."
        }
    )
    counts: Mapping[str, int | Unknown] = field(metadata={"about": "How many lines have each signature."})
    found: tuple[str, ...] | Unknown = field(metadata={"about": "Names of the signatures that were found."})
    last: tuple[LastLine, ...] = field(default=(), metadata={"about": "Each file's last line (file, text, age)."})
    stalled: tuple[LastLine, ...] | Unknown = field(
        default=(), metadata={"about": "The last lines (file, text, age) of logs that stand still."}
    )


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files in one script; they are searched here."""
    if args.text:
        return _searched(args, (_File(path="text", whole=True, lines=tuple(args.text.split("\n"))),), (), ())
    limits = (str(args.lines), str(FILE_BYTES), str(ALL_BYTES), str(args.newest), "yes" if args.rotated else "")
    done: Completed = yield read_script(_READ, *limits, *args.files)
    if done.timed_out:
        raise ProbeError(f"the files could not be read in time: {', '.join(args.files)}")
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the files could not be read (exit code {done.exit_code})")
    return _searched(args, *_files(done.stdout))


_READ = (
    VIEW
    + r"""
LC_ALL=C; export LC_ALL
start=$(pwd)
lines=$1 most=$2 left=$3 newest=$4 rotated=$5; shift 5
now=$(date +%s)
IFS='
'
names=
for glob in "$@"; do
    case $glob in '~/'*) glob=$HOME/${glob#??} ;; esac
    any=
    for file in $glob; do
        [ -f "$file" ] || continue
        any=yes
        case $file in
            *"$IFS"*)
                printf 'unreadable %s\n its name has a line break\n' "$(printf %s "$file" | tr '\n' '?')"
                continue
                ;;
            /*) ;;
            *) file=$start/$file ;;
        esac
        case "$IFS$names" in *"$IFS$file$IFS"*) ;; *) names=$names$file$IFS ;; esac
    done
    [ -n "$any" ] || printf 'missing %s\n' "$glob"
done
set -f
[ -n "$names" ] || exit 0
if [ "$newest" -gt 0 ]; then names=$(ls -1td -- $names | head -n "$newest"); fi
show() {  # file or rotated, and its path
    if ! view_find "$2"; then printf 'unreadable %s\n' "$2"; view_reason | sed 's/^/ /'; return; fi
    if [ ! -r "./$name" ] || ! size=$(view_size); then printf 'unreadable %s\n it may not be read\n' "$2"; return; fi
    written=$(stat -c %Y -- "./$name" 2>/dev/null)
    part=$((size < most ? size : most))
    left=$((left - part))
    if [ $left -lt 0 ]; then printf 'unreadable %s\n too much together with the files before it\n' "$2"; return; fi
    printf '%s %s %s %s\n' "$1" $((size > most)) "${written:+$((now - written))}" "$2"
    view_end "$part" "$size" | tail -n "$((lines + 1))" | sed 's/^/ /'
    echo
}
for file in $names; do
    if [ -n "$rotated" ] && [ -f "$file.1" ]; then show rotated "$file.1"; fi
    show file "$file"
done
exit 0
"""
)
"""Content is indented by one space, so that no line of a log can pass for one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    path: str
    whole: bool
    lines: tuple[str, ...]
    age: float | Unknown = field(default_factory=lambda: Unknown(why="not a file"))
    rotated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    path: str
    why: str


def _files(output: str) -> tuple[tuple[_File, ...], tuple[str, ...], tuple[_Unread, ...]]:
    """The files, the globs without a match, and what could not be read."""
    heads: list[tuple[str, list[str]]] = []
    for line in output.split("\n"):
        if line.startswith(" ") and heads:
            heads[-1][1].append(line[1:].removesuffix("\r"))
        elif line:
            heads.append((line, []))
    reported = [(head.partition(" "), lines) for head, lines in heads]
    missing = tuple(rest for (kind, _, rest), _ in reported if kind == "missing")
    unreadable = tuple(_unread(rest, lines) for (kind, _, rest), lines in reported if kind == "unreadable")
    files = tuple(_file(kind, rest, lines) for (kind, _, rest), lines in reported if kind in ("file", "rotated"))
    return files, missing, unreadable


def _unread(path: str, lines: list[str]) -> _Unread:
    """*lines*: why, and the user to become for it; either may be missing."""
    return _Unread(path=path, why=unread(path, *lines[:2]))


def _file(kind: str, head: str, lines: list[str]) -> _File:
    cut, age, path = (*head.split(" ", 2), "", "")[:3]
    known = age.lstrip("-").isdigit()
    return _File(
        path=path,
        rotated=kind == "rotated",
        whole=cut == "0",
        lines=tuple(lines),
        age=age_of(int(age), path) if known else Unknown(why="this host's stat does not say when it was written"),
    )


def _searched(args: Args, files: tuple[_File, ...], missing: tuple[str, ...], unreadable: tuple[_Unread, ...]) -> State:
    flags = re.IGNORECASE if args.ignore_case else 0
    patterns = {name: re.compile(str(it), flags) for name, it in args.signatures.items()}
    hits = [it for file in files for it in _hits(file, patterns, args)]
    counts: dict[str, int | Unknown] = {name: sum(it.signature == name for it in hits) for name in patterns}
    blind = _blind(args, files, unreadable)
    if blind:
        counts = {name: count or blind for name, count in counts.items()}
    return State(
        files=tuple(it.path for it in files),
        missing=missing,
        unreadable=tuple(it.path for it in unreadable),
        matches=blind if blind and not hits else tuple(hits[-KEPT:]),
        counts=counts,
        found=blind
        if blind and not hits
        else tuple(name for name in patterns if any(it.signature == name for it in hits)),
        last=tuple(it for it in map(_last, files) if it),
        stalled=_stalled(args, files, blind),
    )


def _stalled(args: Args, files: tuple[_File, ...], blind: Unknown | None) -> tuple[LastLine, ...] | Unknown:
    """The logs that nothing was written to for too long; a rotated part never is, and says nothing."""
    if not args.stalled_for:
        return ()
    ages = [(it.age, it) for it in files if not it.rotated]
    untold = next((age for age, _ in ages if isinstance(age, Unknown)), None)
    still = tuple(
        _last(it) or LastLine(file=it.path, text="", age=age)
        for age, it in ages
        if not isinstance(age, Unknown) and age >= args.stalled_for
    )
    return still or untold or blind or ()


def _blind(args: Args, files: tuple[_File, ...], unreadable: tuple[_Unread, ...]) -> Unknown | None:
    """Why finding nothing would not mean that there is nothing."""
    if unreadable:
        shown = "; ".join(it.why for it in unreadable[:3])
        more = f"; and {len(unreadable) - 3} more" if len(unreadable) > 3 else ""
        return Unknown(why=f"could not be read: {shown}{more}")
    if not files:
        return Unknown(why=f"no file matches {', '.join(args.files)}")
    return None


def _hits(file: _File, patterns: Mapping[str, re.Pattern[str]], args: Args) -> Iterator[LogFileMatch]:
    lines = file.lines[-args.lines :]
    whole = file.whole and len(lines) == len(file.lines)
    for at, line in enumerate(lines):
        for name, pattern in patterns.items():
            if found_anywhere(pattern, line[:LINE]):
                number = at + 1 if whole else at - len(lines)
                text = line[:LINE].strip()
                yield LogFileMatch(
                    signature=name, file=file.path, line=number, text=text, number=_number(pattern, line)
                )


def _number(pattern: re.Pattern[str], line: str) -> int | None:
    """What the group ``number`` of *pattern* matches near the beginning of *line*."""
    if "number" not in pattern.groupindex:
        return None
    found = pattern.search(line[: reach(pattern)])
    text = found["number"] if found else None
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= DIGITS else None


def _last(file: _File) -> LastLine | None:
    text = next((it.strip() for it in reversed(file.lines) if it.strip()), None)
    if file.rotated:
        return None
    return LastLine(file=file.path, text=text[-LINE:], age=file.age) if text is not None else None


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste."""
    flags = "-niE" if args.ignore_case else "-nE"
    files = " ".join(args.files) or "FILE"
    still = (f"ls -l --time-style=full-iso {files}; date",) if args.stalled_for else ()
    return (*(f"grep {flags} {shlex.quote(str(it))} {files}" for it in args.signatures.values()), *still)
