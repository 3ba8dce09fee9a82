"""Read a training's log: whether it ended by itself, what failed first on each rank, and the last checkpoint."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.job_log_signs import (
    AFTER_ALL,
    ENDS,
    SERVER_ENDS,
    SIGNS,
    SOFT_ENDS,
    UNSAVED,
    Role,
)
from runbook.text.signatures import SignatureSearch
from runbook.text.timestamps import NO_YEAR, near, timed_line

LINE = 10_000
"""The maximum number of characters of a line that are searched, from its end."""

SURVIVED = 3
"""After this number of lines of progress following an error, the training has continued in spite of the error."""

PAUSES = 500
"""The number of last pauses between lines from which the usual pause is computed."""

LONGEST_PAUSE = 7 * 86400.0
"""A longer pause, in seconds, is one between two trainings, or between two clocks."""

ANY_YEAR = 1_719_800_000.0
"""A time in the middle of a leap year: the year of a log in which no line has one."""

SAVED_ABOVE = 40
"""The maximum number of lines in the traceback of an ignored exception."""

_TRACKERS = re.compile(r"[/\\](?:wandb|mlflow|comet_ml|neptune|clearml|aim|tensorboard\w*|swanlab|trackio)[/\\]")
"""Matches a frame of a library that records a run; if a thread of it fails, the training does not end."""

ROLES = {sign.name: sign.role for sign in SIGNS}
STRENGTH = {sign.name: place for place, sign in enumerate(SIGNS)}

_HINTS = (
    "err", "excep", "fail", "kill", "sig", "exit", "code", "memor", "oom", "abort", "fault", "time", "nan", "inf",
    "refus", "clos", "reset", "address", "busy", "interrupt", "evict", "preempt", "requeue", "cancel", "space",
    "quota", "enospc", "edquot", "too ", "limit", "ancdata", "thread", "nvlink", "ecc", "nccl", "gpu", "cuda",
    "driver", "duplicate", "peer", "index", "assert", "core dump", "complet", "gone", "died", "dead", "crash",
    "terminat", "lost", "route", "missing", "rendezvous", "socket", "barrier", "stuck", "hang", "disconnect",
    "repo", "mismatch", "archive", "loss", "bound", "launch", "step", "term", "budget", "restart", "stale",
    "read-only", "invalid", "unexpected", "opened", "connect", "system", "overflow", "hup", "traceback", "cache",
    "bind", "interface", "lock", "maintenance", "spot", "device", "ranks", "lagging", "stalled", "barrier", "finite",
    "explod", "diverged", "alive", "abrupt", "divisible", "multiple of", "argument", "command", "validation",
    "override", "identif", "truncat", "parquet", "corrupt", "panic", "alloc", "resol", "name or service",
    "nodename", "not found",
    "batch_size", "tensor", "mdb_",
)  # fmt: skip
"""Words that preselect lines: a line without any of them is not searched, because the table of signs is long."""

_OF_PROCESSES = frozenset({"bus", "killed", "segfault", "terminated", "exit"})
_PROCESS_HINTS = (
    "exit",
    "sig",
    "kill",
    "core dump",
    "bus error",
    "fault",
    "illegal",
    "code",
    "terminat",
    "abort",
    "status",
    "floating",
)
"""A line without one of these words tells nothing of the end of a process."""

_ANCHORED = frozenset({"killed", "segfault", "bus", "exit", "error", "traceback"})
"""Rows with an expression for the beginning of a line, which may have a prefix such as [rank0]:."""

FRAMES = 40
"""The number of last frames of a traceback that are kept."""
_FRAME = re.compile(r"file \"[^\"]{1,300}\", line \d+(?:, in \S{1,80})?")
_BY_FRAMES = tuple((sign.name, re.compile(error), re.compile(frame)) for sign in SIGNS for error, frame in sign.raised)
_PASSED_OVER = {sign.name: re.compile(sign.passed_over) for sign in SIGNS if sign.passed_over}

_SOURCE = re.compile(r"\s+raise \w")
"""A line of the program in a traceback: the error itself comes after it, with its whole message."""
_COLOUR = re.compile(r"\x1b?\[[0-9;]{1,8}m")
_PREFIX = re.compile(
    r"(?:[a-z]{3} [ \d]\d [\d:]{8} \S{1,80} [^\s:\[]{1,60}(?:\[\d+\])?: +"
    r"|[\w.-]{1,60} +\| +|[a-z][\w.]{0,40}-\d{1,4}: +)?"
    r"(?:\S{1,60} (?=\[default\d))?"
    r"(?:\[[^\]]{1,60}\]:? *|\([^)]{1,80}\) *|\d{1,5}: +|(?:error|warning|info) +(?=\[|\())*",
    re.IGNORECASE,
)
"""The beginning of a line by the journal, Compose, a launcher or a rank."""
_NEGATION = re.compile(
    r"(?:\b(?:not|no|never|without)|n't) +"
    r"(?:(?:any|an?|been|be|have|yet|further|single|killed|ended|terminated|exited|by|with|on) +)*$"
)
_PROGRESS = re.compile(r"\b(?:step|iter(?:ation)?|update|epoch)s?\b\W{0,12}\d+.{0,400}\b(?:loss|reward|grad[_ ]norm)\b")
_RANK = re.compile(
    r"\[rank ?(\d+)\]|\brank[ :=]+(\d+)\b|^(\d{1,5}): |^\[\d+,(\d+)\]<std|\((\w+ pid=\d+)|\b(tp\d+)\]|\bray::(\w+)"
)
_SAVING = re.compile(
    r"\b(?:sav(?:ed|ing)|wr(?:ote|iting|itten))\b.{0,80}?"
    r"(?:checkpoint|model|weights|state|\bto\b|\.pt\b|\.safetensors)|checkpoint (?:was )?(?:saved|written)"
)
_PATH = re.compile(r"(?<![\w./])(?:~?/|\.{1,2}/|[\w.-]+/)[\w./@=+:%~-]+|\b[\w.-]+\.(?:pt|pth|ckpt|safetensors|bin)\b")
"""Characters of a path that mean nothing to a shell: the line of advice with it is pasted."""
_STEP = re.compile(r"(?:global_?step|checkpoint-|iteration|iter_|step|epoch)[\W_]*(\d{1,12})", re.IGNORECASE)
_NEXT = re.compile(r"(?:requeued? job|submitted batch job|job requeued.{0,20}?|resubmitted as)\W*(\d+)", re.IGNORECASE)
_ROOT = re.compile(r"root cause \(first observed")
_FIELD = re.compile(r"^\W*(host|rank|exitcode)\s*:\s*(-?[\w.-]+)")


class _Continued(NamedTuple):
    """A line whose meaning is in those after it."""

    word: str
    """A word of the line; a line without it is not searched."""
    begins: re.Pattern[str]
    continues: re.Pattern[str]
    most: int
    """The maximum number of lines that are added to it."""


_CONTINUED = (
    _Continued(
        "terminate called",
        re.compile("terminate called after throwing an instance of"),
        re.compile(r"\bwhat\(\):.*"),
        1,
    ),
    _Continued(
        "panicked at",
        re.compile(r"\bpanicked at \S+:\d+:\d+:\s*$"),
        re.compile(r"^(?!note: |stack backtrace).*\S.*"),
        1,
    ),
    _Continued("Stalled ranks", re.compile(r"\bStalled ranks:\s*$"), re.compile(r"(?<![\d,])\d+!?: \[.*"), 8),
)

SHOWN = 160
"""A longer line is shown from a little before the words that decide, where they do not stand at its beginning."""
_BEFORE, _LEAD = 20, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSign:
    """A line that is a sign of a cause, a consequence or an end."""

    signature: str
    """The name of the sign: a cause such as gpu_memory, a consequence such as collective, or done."""
    file: str
    """The path of the log."""
    line: int
    """The number of the line, from the beginning if the whole file was read; otherwise negative, from the end: -1 is
    the last line.
    """
    text: str
    """The line, without white space around it; at most 10000 characters.  A message that stands on the next line (of a
    C++ exception, a Rust panic, a list of stalled ranks) is added.  Of a long line whose sign stands far from its
    beginning, an ellipsis is for what is between the two.
    """
    rank: str = ""
    """The rank, or the actor of Ray, in the line; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RootFailure:
    """The process that failed first, according to torchrun."""

    rank: str
    """The rank; empty if the log does not give it."""
    host: str
    """The host; empty if the log does not give it."""
    exit_code: str
    """The exit code as printed in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The last checkpoint that was saved, according to the log."""

    path: str
    """The path as printed in the log; empty if the line has none."""
    step: int | None
    """The step of the training; null if the line has none."""
    text: str
    """The line about the checkpoint."""
    before_end: float | None
    """The seconds from this line to the last line with a time; null if the lines have no times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStory:
    """The result of reading one log."""

    signs: tuple[LogSign, ...] = ()
    """The signs that count, in the order of the lines; signs after an end of the training are in `after`."""
    end: LogSign | None = None
    certain: bool = True
    """Whether the log says that the training ended; False if this is known only from its progress, or an exit
    code 0.
    """
    after: tuple[LogSign, ...] = ()
    root: RootFailure | None = None
    checkpoint: Checkpoint | None = None
    next_job: str = ""
    went_on: bool = False
    """Whether there are lines of progress before the signs, so that older lines explain nothing."""
    pause: float | None = None
    """See ``usual_pause``."""


@cache
def _sources() -> dict[str, str]:
    rows = {sign.name: "|".join(f"(?:{pattern})" for pattern in sign.patterns) for sign in SIGNS}
    return (
        rows
        | {"end": "|".join(f"(?:{pattern})" for pattern in ENDS), "server_end": "|".join(SERVER_ENDS)}
        | {f"soft{at}": soft for at, soft in enumerate(SOFT_ENDS)}
    )


def job_search(done: str = "") -> SignatureSearch:
    """Return the table of signs, ready to be searched; *done*: a further regular expression for the end of a
    training.
    """
    return SignatureSearch(_sources() | ({"done": f"(?i:{done})"} if done else {}))


def read_story(lines: Sequence[tuple[int, str]], file: str, search: SignatureSearch) -> LogStory:
    """Read the numbered *lines* of a log."""
    reading = _Reading(file, search, _first_time(lines))
    for number, line in _counting(_joined(_segments(lines))):
        reading.take(number, line)
    return reading.story()


def strongest(signs: Iterable[LogSign]) -> tuple[str, ...]:
    """The names of *signs*, what explains most first; of several consequences, the first.

    A generic error after the first consequence in its log only follows from that.
    """
    signs = tuple(signs)
    failed = {sign.file for sign in signs if ROLES[sign.signature] is Role.CONSEQUENCE}
    followed: set[str] = set()
    effective: dict[str, int] = {}
    place = {sign.signature: STRENGTH[sign.signature] for sign in signs}
    for number, sign in reversed([*enumerate(signs)]):
        if ROLES[sign.signature] is Role.CONSEQUENCE and sign.signature != "node_lost":  # that one explains the others
            place[sign.signature] = len(SIGNS) + number
    for sign in signs:
        worth = _WORTH[ROLES[sign.signature]]
        match ROLES[sign.signature]:
            case Role.CONSEQUENCE:
                followed.add(sign.file)
            case Role.GENERIC if sign.file in followed:
                worth = _FOLLOWS
            case Role.WEAK if sign.file in failed:
                worth = _FOLLOWS
        effective[sign.signature] = min(worth, effective.get(sign.signature, worth))
    return tuple(sorted(effective, key=lambda name: (effective[name], place[name])))


_WORTH = {Role.CAUSE: 0, Role.GENERIC: 1, Role.WEAK: 1, Role.CONSEQUENCE: 2, Role.TRACE: 4}
"""The rank of a sign among others; 0 explains most."""

_FOLLOWS = 3
"""Where an error stands that only follows from a consequence."""


def explains(signs: Iterable[LogSign]) -> bool:
    """Whether one of *signs* is a cause, not only a consequence."""
    signs = tuple(signs)
    found = strongest(signs)
    return bool(found) and ROLES[found[0]] not in (Role.CONSEQUENCE, Role.TRACE)


def after_older(older: LogStory, newer: LogStory) -> LogStory:
    """The story of two pieces of one log, of which the *newer* has no line of progress before its signs."""
    return replace(
        newer,
        signs=(*older.signs, *newer.signs),
        root=newer.root or older.root,
        checkpoint=newer.checkpoint or older.checkpoint,
        next_job=newer.next_job or older.next_job,
        went_on=older.went_on,
    )


def first_errors(signs: Iterable[LogSign]) -> tuple[LogSign, ...]:
    """Return the first sign of each rank or actor."""
    first: dict[str, LogSign] = {}
    for sign in signs:
        if sign.rank and ROLES[sign.signature] is not Role.TRACE:
            first.setdefault(sign.rank, sign)
    return tuple(first.values())


def is_consequence(sign: LogSign) -> bool:
    """Whether *sign* is only a consequence of another failure."""
    return ROLES[sign.signature] is Role.CONSEQUENCE


def _first_time(lines: Sequence[tuple[int, str]]) -> float:
    """The first time with a year in *lines*; where none has a year, any."""
    times = (timed_line(line, 0.0, 0.0) for _, line in lines)
    return next((time.at for time in times if time and time.kind != NO_YEAR), ANY_YEAR)


def _segments(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines, with a progress bar (its states follow each other behind carriage returns) in its last states."""
    for number, line in lines:
        states = [state for state in line.rsplit("\r", 12)[-12:] if state.strip()]
        for state in states or [""]:
            yield number, _COLOUR.sub("", state[-LINE:])


def _joined(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines, with what the next ones add to some of them: the message of an abort, and the ranks of a list."""
    head, number, begun, left = "", 0, None, 0
    for at, line in lines:
        if begun and (more := begun.continues.search(line)):
            head, left = f"{head.rstrip()} {more[0].strip()}", left - 1
        else:
            if begun:
                yield number, head
            head, number = line, at
            begun = next((each for each in _CONTINUED if each.word in line and each.begins.search(line)), None)
            left = begun.most if begun else 0
        if not begun or not left:
            yield number, head
            begun = None
    if begun:
        yield number, head


def _counting(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines without what an ignored exception prints, or one in a thread that only records: it ends nothing."""
    ignored, thread = 0, list[tuple[int, str]]()
    for number, line in lines:
        plain = _PREFIX.sub("", line, count=1) if ignored or thread else line
        ends = bool(re.match(r"\S*(?:Error|Exception|Interrupt|Exit|Timeout)\b(?!.*Traceback)", plain))
        if "Exception ignored in" in line:
            ignored = SAVED_ABOVE
        elif ignored:
            ignored = 0 if ends else ignored - 1
        elif thread or "Exception in thread " in line:
            thread.append((number, line))
            if len(thread) > 1 and (ends or len(thread) > SAVED_ABOVE):
                yield from () if any(_TRACKERS.search(each) for _, each in thread) else thread
                thread = []
        else:
            yield number, line
    yield from () if any(_TRACKERS.search(each) for _, each in thread) else thread


class _Reading:
    """Collects the information in the lines of one log."""

    def __init__(self, file: str, search: SignatureSearch, around: float) -> None:
        self.file, self.search, self.around = file, search, around
        self.signs: list[LogSign] = []
        self.end: LogSign | None = None
        self.after: list[LogSign] = []
        self.soft: LogSign | None = None
        self.bars: dict[str, bool] = {}
        self.progress = self.progress_after = 0
        self.went_on = False
        self.root: dict[str, str] | None = None
        self.saved: tuple[str, float | None] | None = None
        self.next_job = ""
        self.frames = deque[str](maxlen=FRAMES)
        self.time: float | None = None
        self.times: dict[str, float] = {}
        self.pauses = deque[float](maxlen=PAUSES)

    def take(self, number: int, line: str) -> None:
        low = line.lower()
        self._time(line)
        self._note(line, low)
        if self._is_end(low):
            self.end, self.after, self.progress_after = self._sign("done", number, line, low), [], 0
            return
        if _PROGRESS.search(low):
            self._progress()
        self._take_soft_end(number, line, low)
        self._note_frame(low)
        name, at = self._classify(low)
        if name:
            sign = self._sign(name, number, line, low, at)
            (self.after if self.end else self.signs).append(sign)
            self.progress, self.soft = 0, None

    def _time(self, line: str) -> None:
        """Note the time of *line*, and the pause before it.

        Lines of two programs may have two clocks (a zone that only one of them says): a pause is one between two times
        of one kind, or shorter, where a line with another kind of time stands between them.
        """
        found = timed_line(line, 0.0, near(self.around if self.time is None else self.time))
        if not found:
            return
        if found.kind in self.times and self.time is not None:
            apart = [pause for since in (self.times[found.kind], self.time) if (pause := found.at - since) > 0]
            if apart and min(apart) <= LONGEST_PAUSE:
                self.pauses.append(min(apart))
        self.time = self.times[found.kind] = found.at

    def _note(self, line: str, low: str) -> None:
        if _ROOT.search(low):
            self.root = {}
        elif self.root is not None and (found := _FIELD.match(low)):
            self.root.setdefault(found[1], found[2])
        if (found := _SAVING.search(low)) and not _negated(low, found.start()) and "fail" not in low:
            self.saved = (line, self.time)
        if found := _NEXT.search(line):
            self.next_job = found[1]

    def _is_end(self, low: str) -> bool:
        names = [name for name in ("done", "end", "server_end") if name in self.search.patterns]
        if self.signs:
            names.remove("server_end")
        return any((found := self.search.search(name, low)) and not _negated(low, found.start()) for name in names)

    def _progress(self) -> None:
        """Count a line of progress; after three of them, an earlier error or end no longer counts."""
        self.progress += 1
        self.progress_after += 1
        if self.progress >= SURVIVED:
            self.signs, self.went_on = [], True
        if self.end and self.progress_after >= SURVIVED:
            self.end, self.after = None, []

    def _take_soft_end(self, number: int, line: str, low: str) -> None:
        plain = _PREFIX.sub("", low, count=1)
        for at in range(len(SOFT_ENDS)):
            found = self.search.search(f"soft{at}", plain)
            if not found or _negated(plain, found.start()):
                continue
            groups = found.groupdict()
            if groups.get("all"):
                complete = int(groups["now"] or 0) >= int(groups["all"] or 0) > 0
                if complete and re.search(
                    r"load|download|map|eval|valid|rollout|generat|shard|fetch|token|test", groups.get("label") or ""
                ):
                    continue
                self.bars[groups["all"] or ""] = complete
                if not complete:
                    self.soft = None
                    continue
            self.soft = self._sign("done", number, line, low)
            return
        if running := re.search(r"\b(?:[0-9]|[1-9][0-9])%\|.{0,200}?\| *\d+/(\d+)", plain):
            self.bars[running[1]] = False

    def _classify(self, low: str) -> tuple[str, int]:
        """The name of the sign in the line *low*, and where it stands; an empty name: none."""
        if low.startswith("frame #") or "to enable traceback see" in low or not any(hint in low for hint in _HINTS):
            return "", 0
        plain = _PREFIX.sub("", low, count=1)
        if _SOURCE.match(plain):
            return "", 0
        process = any(hint in low for hint in _PROCESS_HINTS)
        if name := self._by_frames(plain):
            return name, 0
        for sign in SIGNS:
            if sign.name in _OF_PROCESSES and not process:
                continue
            if sign.name in _PASSED_OVER and _PASSED_OVER[sign.name].search(low):
                continue
            for text in (low, plain) if plain != low and sign.name in _ANCHORED else (low,):
                found = self.search.search(sign.name, text)
                if found and not _negated(text, found.start()):
                    return sign.name, found.start() + len(low) - len(text)
        return "", 0

    def _by_frames(self, plain: str) -> str:
        """The sign of an error that means nothing by itself, from the frames of its traceback."""
        return next(
            (
                name
                for name, error, frames in _BY_FRAMES
                if error.search(plain) and any(frames.search(frame) for frame in self.frames)
            ),
            "",
        )

    def _note_frame(self, low: str) -> None:
        """Keep the last frames of the traceback that is being read."""
        if "traceback (most recent call last)" in low:
            self.frames.clear()
        elif found := _FRAME.search(low):
            self.frames.append(found[0])

    def _sign(self, name: str, number: int, line: str, low: str, at: int = 0) -> LogSign:
        found = _RANK.search(low)
        rank = next((group for group in found.groups() if group), "") if found else ""
        return LogSign(signature=name, file=self.file, line=number, text=_around(line, at), rank=rank)

    def story(self) -> LogStory:
        story = LogStory(
            signs=tuple(self.signs),
            root=RootFailure(
                rank=self.root.get("rank", ""), host=self.root.get("host", ""), exit_code=self.root.get("exitcode", "")
            )
            if self.root
            else None,
            checkpoint=self._checkpoint(),
            next_job=self.next_job,
            went_on=self.went_on,
            pause=usual_pause(self.pauses),
        )
        failed = any(ROLES[sign.signature] is Role.CAUSE for sign in self.signs)
        if self.end and not failed:
            return replace(story, end=self.end, after=tuple(self.after), signs=())
        if self.soft and not self.signs and not self.after and all(self.bars.values()):
            return replace(story, end=self.soft, certain=False)
        return replace(story, signs=(*self.signs, *self.after))

    def _checkpoint(self) -> Checkpoint | None:
        if not self.saved:
            return None
        line, at = self.saved
        path = _PATH.search(line[_SAVING.search(line.lower()).start() :])  # type: ignore[union-attr] # it matched before
        step = _STEP.search(path[0] if path and _STEP.search(path[0]) else line)
        return Checkpoint(
            path=path[0].rstrip(".") if path else "",
            step=int(step[1]) if step else None,
            text=line.strip(),
            before_end=max(0.0, self.time - at) if self.time is not None and at is not None else None,
        )


def _around(line: str, at: int) -> str:
    """The *line* as it is shown: where it is long, its beginning, and the words around the place *at*."""
    since = line.rfind(" ", 0, max(0, at - _BEFORE)) + 1
    if len(line) <= SHOWN or since <= _LEAD + _BEFORE:
        return line.strip()
    return f"{line[:_LEAD].strip()} … {line[since:].strip()}"


def usual_pause(pauses: Iterable[float]) -> float | None:
    """Return the longest pause between two lines of a log that is usual: the second longest, in seconds.

    None: too few lines have a time.  The longest may be an incident of its own, such as a night between two starts.
    """
    longest = sorted(pauses)[-2:]
    return longest[0] if len(longest) == 2 else None


def _negated(text: str, at: int) -> bool:
    """Whether a word such as "not" stands right before *at*, and takes the meaning of what is there."""
    return _NEGATION.search(text[max(0, at - 60) : at]) is not None


def unsaved(after: Iterable[LogSign]) -> bool:
    """Whether something could not be written after the end of the training."""
    return any(sign.signature in UNSAVED for sign in after)


_AFTER_ALL = re.compile("|".join(AFTER_ALL), re.IGNORECASE)


def failure_after(after: Iterable[LogSign]) -> str:
    """Return the error with which the program failed after the end of the training; empty: none, but for its shutdown.

    It is one with a traceback: an evaluation, saving or an upload comes after the training.
    """
    traced = False
    for sign in after:
        traced = traced or sign.signature == "traceback"
        error = ROLES[sign.signature] in (Role.CAUSE, Role.GENERIC)
        if traced and error and not _AFTER_ALL.search(sign.text):
            return sign.text
    return ""
