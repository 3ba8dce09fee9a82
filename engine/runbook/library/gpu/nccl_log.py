"""Read from the logs of a job which ranks waited for others until NCCL's watchdog ended them, and how far each was.

A rank that reports a timeout, its own or by the dump signal another's, has waited: it is a victim. Suspect is who
reports nothing, or had reached fewer collectives of the same process group. PyTorch writes these lines on stderr, so
the files are those in which the launcher keeps the output of each rank, or of all (torchrun --log-dir, slurm-JOB.out).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.files.facts.log_reading import LogFile, LogReading, ask_logs, blind, read_logs
from runbook.protocols import Probe
from runbook.text.regexes import SearchMatch
from runbook.text.signatures import SignatureSearch, check_signatures
from runbook.values.types import Json, Unknown

LINE = 4_000
"""Characters of a line that are searched."""
KEPT = 50
"""Errors that are kept, the first."""
DIGITS = 15
MAX_ROW = 1024  # ranks of one host
DEFAULT_TIMEOUT = 600.0
"""Seconds after which PyTorch ends a collective of NCCL; a dump signal does not say how long anybody waited."""
EARLIER, LATER = 300.0, 30.0
"""Seconds by which the cause may have written its last line before the others began to wait, or after they gave up."""

_WAITED = (
    r"\[[Rr]ank ?(?P<rank>\d+)\].{0,200}?Watchdog caught collective operation timeout: "
    r"WorkNCCL\((?:SeqNum=(?P<seq>\d+), ?)?(?:OpType=(?P<op>\w+))?.*?\) ran for (?P<ran>\d+) milliseconds"
)
_COUNTS = r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
LINES: Mapping[str, str] = {
    "waited": _WAITED,
    "signalled": (
        r"\[[Rr]ank ?(?P<rank>\d+)\].{0,300}?(?:Received a (?:global |collective )?timeout (?:signal )?from"
        r"|Received a dump signal (?:due to a (?:collective |global )?timeout|from (?:another|this local) rank)"
        r"|Observed flight recorder dump signal from another rank)"
    ),
    "group": rf"\[PG (?P<group>[^\]]{{1,100}}?) ?Rank (?P<rank>\d+)\].{{0,600}}?{_COUNTS}",
    "plain": rf"\[[Rr]ank ?(?P<rank>\d+)\].{{0,600}}?{_COUNTS}",
}
"""Lines of ProcessGroupNCCL (PyTorch 1.13 to 2.8).

waited: a rank that waited; signalled: a rank that was notified of another's wait; the others: a rank's counts, with its
group or without.
"""
_ANY_RANK = re.compile(r"\[[Rr]ank ?(\d{1,6})\]|\bglobal rank: (\d{1,6})\b")
_OWN_RANK = re.compile(r"\[(?:PG [^\]]{1,100}? ?)?[Rr]ank ?(\d{1,6})\]")
"""A rank in a line: the first is that of the whole job, a second one its number within its group."""
_DEFAULT = "default_pg"
_GLOBAL_NAME = re.compile(r"GUID (\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Where to search."""

    files: tuple[str, ...] = field(metadata={"min_items": 1})
    """Logs on the host; * ? [] are globs, and ~/ is the home of the login user."""
    errors: Mapping[str, Json] = field(default_factory=dict)
    """Name to Python regular expression: errors of a job that come before a timeout explain it."""
    lines: int = field(default=5000, metadata={"minimum": 1})
    """The number of last lines of each file to read."""
    newest: int = field(default=64, metadata={"minimum": 0})
    """Read only this many of the newest files; 0: all."""

    def __post_init__(self) -> None:
        check_signatures(self.errors, what="error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank, as its last lines have it."""

    rank: int
    """The number of the rank, as its lines have it."""
    group: str
    """The process group: default_pg, its global name, or a number that only this rank gives it; empty: not said.

    Where there are groups within the job, a rank that does not say its own has one to itself: `unnamed, of rank 4`.
    """
    timed_out: bool
    """Whether it waited until the watchdog ended it."""
    signalled: bool
    """Whether it was asked to dump what it knows, because a rank timed out."""
    op: str
    """The collective that it waited in; empty: it does not say."""
    waited: float
    """The seconds that it waited; 0 where it has not timed out."""
    completed: int | None
    """The last collective that it completed; null: it does not say."""
    reached: int | None
    """The collective in which it waited, else the last that it has called; null: it does not say."""
    file: str
    """The path of the log with `text`."""
    line: int
    """The number of `text`, from the beginning of the file where all of it was read, else from its end: -1 is the last
    line."""
    text: str
    """The line by which it says that it waited, else its first; at most 4000 characters."""

    @property
    def reports(self) -> bool:
        """Whether it reports a timeout, its own or another rank's."""
        return self.timed_out or self.signalled

    @property
    def waits_in(self) -> int | None:
        """The collective in which it waits for others; None: in none, or it does not say."""
        if self.timed_out or self.reached is None or self.completed is None:
            return self.reached if self.timed_out else None
        return self.completed + 1 if self.reached > self.completed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """A line with one of ``errors``."""

    name: str = field(metadata={"named_by": ("errors",)})
    """The name of the error that the line has: a key of `errors`."""
    file: str
    """The path of the log."""
    line: int
    """The number of the line, from the beginning of the file where all of it was read, else from its end: -1 is the
    last line."""
    text: str
    """The line, without white space around it; at most 4000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The part of a host in a comparison with the others of its job."""

    reports: int
    """The number of ranks that report a timeout, their own or another's."""
    errors: int
    """The number of errors before that."""
    group: str
    """The process group that timed out."""
    reached: int | None
    """The collective that the slowest rank of that group has reached."""
    waits_in: int | None
    """The collective in which ranks of that group wait, the first of several; null: in none."""
    ranks: tuple[int, ...]
    """Every rank that has a line of its own in the logs."""
    silent: tuple[int, ...]
    """Ranks that are missing from the sequence of reporting ranks."""
    age: float | Unknown
    """Seconds since a log was last written to."""
    since: float | Unknown
    """As many seconds ago the ranks began to wait, at most."""
    until: float | Unknown
    """As many seconds ago they gave up, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The content of the logs."""

    files: tuple[str, ...]
    """The files that were read."""
    missing: tuple[str, ...]
    """Globs that match no file."""
    unreadable: tuple[str, ...]
    """Files that could not be read."""
    there: bool
    """Whether any log was read."""
    ranks: tuple[Rank, ...] | Unknown
    """Ranks that say how far they are: rank, group, timed_out, op, waited (seconds), completed, reached, file, line,
    text.
    """
    timed_out: tuple[int, ...] | Unknown
    """The ranks that waited for others in vain."""
    reporting: tuple[int, ...] | Unknown
    """The ranks that report a timeout: `timed_out`, and those asked to dump because of one."""
    silent: tuple[int, ...] | Unknown
    """The few ranks that are missing from the sequence of reporting ranks: 0 beside 1 to 7."""
    behind: tuple[int, ...] | Unknown
    """Ranks that had reached fewer collectives than another rank of this host, of the same group."""
    op: str | Unknown
    """The collective that most ranks waited in, with its number."""
    differing: tuple[Rank, ...] | Unknown = ()
    """Ranks that wait in the same number for different collectives, such as 3 in ALLREDUCE and 7 in BROADCAST: one of
    each.
    """
    waited: float | Unknown
    """The longest wait, in seconds."""
    errors: tuple[JobError, ...] | Unknown
    """Lines with one of `errors` from before the first timeout: name, file, line, text."""
    standing: Standing | Unknown
    """For `across`: reports, errors, group, reached, and how long ago: age, since, until."""
    last: tuple[str, ...]
    """The last line of the log that was written to last."""


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files in one script; they are searched here."""
    return read_state(args, read_logs((yield ask_logs(args.files, args.lines, newest=args.newest)), args.files))


def read_state(args: Args, reading: LogReading) -> State:
    """Read *reading*; unknown where a file could not be read, or searched in time."""
    search = SignatureSearch({**{f"{name} error": it for name, it in args.errors.items()}, **LINES})
    ranks = tuple(sorted(_ranks(reading.files, search, args.lines).values(), key=lambda it: it.rank))
    errors = tuple(error for file in reading.files for error in _errors(file, search, args))[:KEPT]
    slow = next(iter(search.unknown(()).values()), "")
    doubt = blind(reading, args.files) or (Unknown(why=slow) if slow else None)
    reporting = [rank for rank in ranks if rank.reports]
    seen = {rank.rank for rank in ranks} | _any_ranks(reading.files, args.lines)
    silent = missing_ranks({rank.rank for rank in reporting}, seen)
    known: dict[str, Any] = {
        "ranks": ranks,
        "timed_out": tuple(rank.rank for rank in ranks if rank.timed_out),
        "reporting": tuple(rank.rank for rank in reporting),
        "silent": silent,
        "behind": tuple(rank.rank for rank in _behind(ranks)),
        "op": _operation(reporting),
        "differing": _differing(reporting),
        "waited": max((rank.waited for rank in reporting), default=0.0),
        "errors": errors,
        "standing": replace(
            _standing(ranks, reading.files), errors=len(errors), ranks=tuple(sorted(seen)), silent=silent
        ),
    }
    return State(
        files=tuple(file.path for file in reading.files),
        missing=reading.missing,
        unreadable=tuple(file.path for file in reading.unreadable),
        there=bool(reading.files or reading.unreadable),
        last=_last(reading.files),
        **(dict.fromkeys(known, doubt) if doubt else known),
    )


_PAIRED = ("SEND", "RECV", "COALESCED", "UNKNOWN", "")
"""Operations in which the ranks of a pair rightly differ."""


def _differing(ranks: Sequence[Rank]) -> tuple[Rank, ...]:
    """Return one rank of each collective that ranks of one group wait in at the same number; none: all agree."""
    by_number: dict[int | None, dict[str, Rank]] = {}
    groups = {rank.group for rank in ranks if rank.group}
    for rank in ranks if len(groups) <= 1 else ():
        op = rank.op.removeprefix("_").removesuffix("_BASE")
        if rank.timed_out and rank.waits_in is not None and op not in _PAIRED:
            by_number.setdefault(rank.waits_in, {}).setdefault(op, rank)
    return next((tuple(ops.values()) for ops in by_number.values() if len(ops) > 1), ())


def _ranks(files: Sequence[LogFile], search: SignatureSearch, most: int) -> dict[int, Rank]:
    """Every rank by its last lines: a rank has a line that says that it waited, and others with its counts."""
    found: dict[int, Rank] = {}
    has_subgroups = False
    waits: dict[str, set[str]] = {}
    for file in files:
        for number, line in file.numbered(most):
            text = line[:LINE].strip()
            if "ork" not in text and "signal" not in text and "timeout" not in text:
                continue  # of all these lines: work, Work, WorkNCCL
            own = [int(match[1]) for match in _OWN_RANK.finditer(text)][:2]
            has_subgroups = has_subgroups or len(set(own)) > 1
            if signalled := search.search("signalled", text):
                _note_signal(found, signalled, file.path, number, text)
            if waited := search.search("waited", text):
                named = waited.groupdict()
                waits.setdefault(named["rank"] or "", set()).add(named["seq"] or "")
                _note_wait(found, waited, file.path, number, text)
            elif counts := search.search("group", text) or search.search("plain", text):
                _note_counts(found, counts, file.path, number, text)
    if has_subgroups or any(
        len(numbers) > 1 for numbers in waits.values()
    ):  # then who does not say its group may be of any
        unnamed = {number: replace(rank, group=f"unnamed, of rank {number}") for number, rank in found.items()}
        found |= {number: unnamed[number] for number, rank in found.items() if not rank.group}
    return found


def _note_wait(found: dict[int, Rank], match: SearchMatch, path: str, number: int, text: str) -> None:
    named = match.groupdict()
    rank, sequence = _number(named["rank"]), _number(named["seq"])
    if rank is None:
        return
    known = found.get(rank) or _rank(rank, path, number, text)
    another = not known.timed_out and not _is_among(sequence, known.completed, known.reached)
    found[rank] = replace(
        known,
        group="" if another else known.group,
        timed_out=True,
        op=named["op"] or "",
        waited=(_number(named["ran"]) or 0) / 1000,
        reached=known.reached if sequence is None else sequence,
        file=path,
        line=number,
        text=text,
    )


def _note_signal(found: dict[int, Rank], match: SearchMatch, path: str, number: int, text: str) -> None:
    rank = _number(match.groupdict()["rank"])
    if rank is not None:
        found[rank] = replace(found.get(rank) or _rank(rank, path, number, text), signalled=True)


def _note_counts(found: dict[int, Rank], match: SearchMatch, path: str, number: int, text: str) -> None:
    named = match.groupdict()
    rank, completed, enqueued = (_number(named[word]) for word in ("rank", "completed", "enqueued"))
    if rank is None or completed is None or enqueued is None:
        return
    whole = int((_OWN_RANK.search(text) or match).groups()[0] or rank) if named.get("group") else rank
    rank, within = whole, rank
    known = found.get(rank) or _rank(rank, path, number, text)
    if known.timed_out and not _is_among(known.reached, completed, enqueued):
        return  # of another group than the one that it waited in
    waiting = completed + 1 if known.timed_out and known.reached is None else known.reached
    group = _group(named.get("group") or "")
    if group and within != whole and not _GLOBAL_NAME.search(text):  # then groups are numbered rank by rank
        group += f", of rank {whole}"
    found[rank] = replace(
        known,
        group=group or known.group,
        completed=completed,
        reached=waiting if known.timed_out else enqueued,
    )


def _is_among(sequence: int | None, completed: int | None, enqueued: int | None) -> bool:
    """Whether the collective *sequence* may be one of those that a group has called and not completed."""
    if sequence is None or completed is None or enqueued is None:
        return True
    return completed < sequence <= enqueued


def _rank(rank: int, path: str, number: int, text: str) -> Rank:
    """A rank of which nothing is known yet."""
    unknown: dict[str, Any] = {"waited": 0.0, "completed": None, "reached": None, "file": path, "line": number}
    return Rank(rank=rank, group="", op="", timed_out=False, signalled=False, text=text, **unknown)


def _group(written: str) -> str:
    """The name of a group that is the same for all its ranks, where there is one: of ``ID 2 PG GUID 3`` it is 3."""
    found = _GLOBAL_NAME.search(written)
    return _DEFAULT if _DEFAULT in written else found[1] if found else written.strip()


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"-?[0-9]+", text) and len(text) <= DIGITS else None


def _errors(file: LogFile, search: SignatureSearch, args: Args) -> Iterator[JobError]:
    """The errors in *file* before the first rank in it reports a timeout."""
    for number, line in file.numbered(args.lines):
        text = line[:LINE].strip()
        if search.search("waited", text) or search.search("signalled", text):
            return
        for name in args.errors:
            if search.search(f"{name} error", text):
                yield JobError(name=name, file=file.path, line=number, text=text)


def _any_ranks(files: Sequence[LogFile], most: int) -> set[int]:
    """The numbers of all ranks that have a line of their own in *files*."""
    lines = (line[:LINE] for file in files for _, line in file.numbered(most))
    return {int(match[1] or match[2]) for line in lines if (match := _ANY_RANK.search(line))}


def missing_ranks(reporting: Set[int], seen: Set[int]) -> tuple[int, ...]:
    """Return the ranks that did not report where nearly all others of this host did.

    Where many are missing, their launcher has ended them before they could report: then none is named.
    """
    if not reporting:
        return ()
    first, last = min(reporting), max(reporting)
    block = 1 << (last - first).bit_length()
    begin = first - first % block if last < first - first % block + block else first
    missing = (set(range(begin, last)[:MAX_ROW]) | seen) - reporting
    return tuple(sorted(missing)) if 3 * len(missing) <= len(reporting) else ()


def _behind(ranks: Sequence[Rank]) -> Iterator[Rank]:
    """Ranks that had not reached the collective in which another of their group waits."""
    for rank in ranks:
        others = [each.waits_in for each in ranks if _may_be_same(each.group, rank.group) and each.waits_in is not None]
        if rank.reached is not None and others and rank.reached < max(others):
            yield rank


def _may_be_same(one: str, other: str) -> bool:
    """Whether ranks of these groups may wait for each other; an empty group may be any group."""
    return one == other or not one or not other


def _operation(reporting: Sequence[Rank]) -> str:
    words = [
        f"{rank.op or 'a collective'} {'' if rank.waits_in is None else rank.waits_in}".strip() for rank in reporting
    ]
    return max(sorted(set(words)), key=words.count, default="")


def _standing(ranks: Sequence[Rank], files: Sequence[LogFile]) -> Standing:
    """Return the part of the ranks in the comparison: of the group that most of them have waited in."""
    reporting = [rank for rank in ranks if rank.reports]
    groups = [rank.group for rank in reporting or ranks if rank.group]
    group = max(sorted(set(groups)), key=groups.count, default="")
    same = [rank for rank in ranks if _may_be_same(rank.group, group)]
    waited = max((rank.waited or DEFAULT_TIMEOUT for rank in reporting), default=0.0)
    age = _age(files)
    return Standing(
        reports=len(reporting),
        errors=0,
        group=group,
        reached=min((rank.reached for rank in same if rank.reached is not None), default=None),
        waits_in=min((rank.waits_in for rank in same if rank.waits_in is not None), default=None),
        ranks=(),
        silent=(),
        age=age,
        since=age if isinstance(age, Unknown) else age + waited + EARLIER,
        until=age if isinstance(age, Unknown) else age - LATER,
    )


def _age(files: Sequence[LogFile]) -> float | Unknown:
    ages = [file.age for file in files if not isinstance(file.age, Unknown)]
    return min(ages) if ages else next((log_file.age for log_file in files), Unknown(why="no log was read"))


def _last(files: Sequence[LogFile]) -> tuple[str, ...]:
    """The last line of the file that was written to last."""
    known = [(file.age, file) for file in files if not isinstance(file.age, Unknown)]
    newest = min(known, key=lambda it: it[0])[1] if known else None
    lines = (line.strip() for line in reversed(newest.lines) if line.strip()) if newest else iter(())
    return tuple(line[:LINE] for line, _ in zip(lines, range(1), strict=False))


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    files = " ".join(args.files)
    return (
        f"grep -n 'Watchdog caught collective operation timeout' {files}",
        f"grep -n -i 'last enqueued.*last completed' {files}",
        f"ls -l --time-style=full-iso {files}; date",
    )
