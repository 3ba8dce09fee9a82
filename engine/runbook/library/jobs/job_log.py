"""Read how a training's log ends: by itself or not, the first error of each rank, and the last checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.files.facts.log_reading import FILE_BYTES, LogFile, LogReading, ask_logs, blind, read_logs
from runbook.library.jobs.facts.job_log import (
    Checkpoint,
    LogSign,
    LogStory,
    RootFailure,
    after_older,
    explains,
    failure_after,
    first_errors,
    is_consequence,
    job_search,
    read_story,
    strongest,
    unsaved,
)
from runbook.library.jobs.facts.job_log_signs import ENDS, RAISED, SIGNS, Role, of_a_job
from runbook.protocols import Probe
from runbook.text.signatures import SignatureSearch, check_signatures
from runbook.values.command import Completed
from runbook.values.playbook import Symptom, SymptomKind
from runbook.values.types import Duration, Unknown

BACK = 16
"""So many MiB of a log are read at most, from its end, where only consequences stand there."""

KEPT = 200
"""Signs that are kept, the last; all are counted."""

FIRST = 10
"""Signs of each name that are kept as well, the first: a cause stands before hundreds of its consequences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The logs to read."""

    files: tuple[str, ...] = ()
    """Paths on the host; * ? [] are globs, and ~/ is the home of the login user."""
    text: str = ""
    """Read this text instead of files."""
    lines: int = field(default=500, metadata={"minimum": 1})
    """The number of last lines of each file to read first. Where they have only consequences of a failure elsewhere, up
    to 16 MiB before them are read as well, until there is a cause.
    """
    newest: int = field(default=0, metadata={"minimum": 0})
    """Read only this many of the newest files; 0: all."""
    within: Duration = Duration(0)
    """With `newest`: only those last written to within this time of the newest; 0: all."""
    done: str = ""
    """A regular expression for one more way in which the training says that it has ended by itself."""

    def __post_init__(self) -> None:
        if bool(self.files) == bool(self.text):
            raise ValueError("give exactly one of `files` and `text`")
        if self.within and not self.newest:
            raise ValueError("`within` needs `newest`")
        check_signatures({"done": self.done} if self.done else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    files: tuple[str, ...]
    """The files that were read."""
    missing: tuple[str, ...] = ()
    """Globs that match no file."""
    unreadable: tuple[str, ...] = ()
    """Files that could not be read, or exceeded the size limit."""
    found: tuple[str, ...] | Unknown
    """Names of the signs, the most explanatory first; `done` is the first if the training ended by itself."""
    matches: tuple[LogSign, ...] | Unknown
    """The lines with a sign (signature, file, line, text, rank): the first 10 of each, and the last 200; unknown if no
    file was read.
    """
    counts: Mapping[str, int]
    """The number of lines with each sign that was found."""
    certain: bool = True
    """Whether the log says that the training ended; false: only its progress at 100 %, or an exit code 0, does."""
    unsaved: bool = False
    """Whether something was not written after the training had ended."""
    failed_after: str = ""
    """The error with which the program failed after the training had ended; empty: none, but for its shutdown."""
    ranks: tuple[LogSign, ...] = ()
    """The first error of each rank or actor, without those that only follow from another's."""
    followers: int = 0
    """Ranks and actors whose first error only follows from another's."""
    root: RootFailure | None = None
    """The process that torchrun says failed first (rank, host, exit_code); null: nothing."""
    checkpoint: Checkpoint | None = None
    """The last checkpoint in the log (path, step, text, before_end); null: the log names none."""
    usual_pause: float | None = None
    """The second longest pause between two lines with a time, in seconds; null: too few lines have one."""
    next_job: str = ""
    """The number of the next job, by the log; empty: the log names none."""
    unread: int = 0
    """Unread bytes before the part that was read, where a cause may be; 0: none, or a cause was found."""


def signs(_: Mapping[str, Any]) -> Mapping[str, Symptom]:
    """The rows of the table; `end` for the ends of a training, `raised` for its error without a traceback."""
    found = {"end": Symptom(written=f"(?i){'|'.join(ENDS)}", kind=SymptomKind.END)}
    found["raised"] = Symptom(written=RAISED, kind=SymptomKind.TRACE)
    for sign in SIGNS:
        pattern = "|".join(sign.patterns)
        if sign.role is Role.TRACE:  # programs of all kinds end with an exit code or a traceback
            found[sign.name] = Symptom(written=of_a_job(pattern), kind=SymptomKind.TRACE)
        else:
            found[sign.name] = Symptom(written=f"(?i){pattern}", kind=SymptomKind.SIGN)
    return found


def probe(args: Args) -> Probe[State]:
    """Read the ends of the files; further back where they only say that something else failed."""
    search = job_search(args.done)
    if args.text:
        whole = LogFile(path="text", whole=True, lines=tuple(args.text.split("\n")))
        return _state(args, LogReading(files=(whole,)), [(whole, _story(whole, args.lines, search))], search)
    done: Completed = yield ask_logs(args.files, args.lines, newest=args.newest, within=args.within)
    reading = read_logs(done, args.files)
    read = [(file, _story(file, args.lines, search)) for file in reading.files]
    if _followed(read):
        for at, (file, _) in enumerate(read):
            grown = yield from _read_back(file, search)
            assert isinstance(grown, tuple)  # a probe may be absent, this one is not
            read[at] = grown
            if explains(read[at][1].signs):
                break
    return _state(args, reading, read, search)


def _story(file: LogFile, lines: int, search: SignatureSearch) -> LogStory:
    return read_story(tuple(file.numbered(lines)), file.path, search)


def _followed(read: list[tuple[LogFile, LogStory]]) -> bool:
    """Whether the logs only say that something failed, and not what."""
    signs = [sign for _, story in read for sign in story.signs]
    return bool(signs) and not explains(signs)


def _read_back(file: LogFile, search: SignatureSearch) -> Probe[tuple[LogFile, LogStory]]:
    """Read the file backwards, piece by piece, until a piece has a cause, or lines of a training that goes well."""
    story = LogStory()
    cut: tuple[str, ...] = ()  # the first line that was read: its beginning is in the piece before it
    for piece in range(BACK):
        done: Completed = yield ask_logs((file.path,), FILE_BYTES, skipped=piece * FILE_BYTES)
        older = next(iter(read_logs(done, (file.path,)).files), None)
        if older is None:
            break
        lines = (*older.lines[:-1], "".join((*older.lines[-1:], *cut)))
        cut = lines[:1] if not older.whole else ()
        file = replace(older, lines=lines[len(cut) :])
        story = after_older(_story(file, FILE_BYTES, search), story)
        if older.whole or story.went_on or explains(story.signs) or search.unknown(()):
            break
    return file, story


def _state(args: Args, reading: LogReading, read: list[tuple[LogFile, LogStory]], search: SignatureSearch) -> State:
    stories = [story for _, story in read]
    signs = [sign for story in stories for sign in story.signs]
    ends = [story for story in stories if story.end]
    well = bool(ends) and not explains(signs)
    counted = [*_ends(ends)] if well else signs
    names = strongest(sign for sign in counted if sign.signature != "done")
    slow = next(iter(search.unknown(names).values()), None)
    doubt = (
        Unknown(why=slow)
        if slow and not well and not explains(signs)
        else None
        if counted
        else blind(reading, args.files)
    )
    first = first_errors(signs)
    return State(
        files=tuple(file.path for file in reading.files),
        missing=reading.missing,
        unreadable=tuple(file.path for file in reading.unreadable),
        found=doubt or (("done", *names) if well else names),
        matches=doubt or _kept(counted),
        counts=Counter(sign.signature for sign in counted),
        certain=all(story.certain for story in ends),
        unsaved=well and unsaved(sign for story in ends for sign in story.after),
        failed_after=failure_after(sign for story in ends for sign in story.after) if well else "",
        ranks=() if well else tuple(sign for sign in first if not is_consequence(sign))[:KEPT],
        followers=0 if well else sum(map(is_consequence, first)),
        root=next((story.root for story in stories if story.root), None),
        checkpoint=next((story.checkpoint for story in stories if story.checkpoint), None),
        usual_pause=max((story.pause for story in stories if story.pause is not None), default=None),
        next_job=next((story.next_job for story in stories if story.next_job), ""),
        unread=sum(file.older for file, story in read if not story.went_on) if signs and not explains(signs) else 0,
    )


def _kept(signs: list[LogSign]) -> tuple[LogSign, ...]:
    seen: Counter[str] = Counter()
    kept = []
    for place, sign in enumerate(signs):
        seen[sign.signature] += 1
        if seen[sign.signature] <= FIRST or place >= len(signs) - KEPT:
            kept.append(sign)
    return tuple(kept)


def _ends(stories: list[LogStory]) -> Iterator[LogSign]:
    for story in stories:
        if story.end:
            yield story.end
        yield from story.after


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    files = " ".join(args.files) or "FILE"
    return (f"tail -n {args.lines} {files}", f"grep -niE 'error|killed|exit ?code|signal' {files} | head")
