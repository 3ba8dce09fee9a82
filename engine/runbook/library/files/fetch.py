"""Fetch a file, or what a command prints, from the host into the record of the run.

Nothing is changed on the host. The file lies below the directory of the records, mode 600, without the secrets of the
run and without what looks like one; `runbook history show RUN HOST` names it. A dry run fetches nothing, and says what
would be. What is not there (a file, a program) is skipped, and said; how a command ended is no failure, and said.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.fetched_output import ask_file, ask_programs, fetch_command, fetch_file
from runbook.onhost.path_safety import unread
from runbook.programs.mutating_programs import mutating_command
from runbook.programs.reading_programs import is_to_be_confined
from runbook.protocols import Probe
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed, Effect
from runbook.values.kept_file import Keep
from runbook.values.plan import Blocked, Change, Decision, Risk, Skip
from runbook.values.types import Duration, Size, Unknown, plural, seconds
from runbook.values.undo import Undo

MAX_FETCHED_BYTES = 8 * 1024 * 1024
"""The maximum number of bytes that one step may fetch."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    file: str = ""
    """The absolute path of a regular file on the host."""
    argv: tuple[str, ...] = ()
    """A program that only reads, and its arguments; its stdout and stderr are fetched."""
    needs: tuple[str, ...] = ()
    """Programs that `argv` calls; if one of them, or the program itself, is missing, the step is skipped."""
    save_as: str = ""
    """The name of the file in the record; empty: the name of `file` or of the program."""
    most: Size = field(default=Size(1024 * 1024), metadata={"minimum": 1, "maximum": MAX_FETCHED_BYTES})
    """The maximum size that is kept; a larger file is cut, and the result says so."""
    part: Literal["beginning", "end"] = "end"
    """The part that is kept if there is more than `most`."""
    at_most_for: Duration = field(default=Duration(60.0), metadata={"minimum": 1})
    """The maximum time for the program; after this time the program is ended."""
    own_directory: bool = False
    """Start the program in a new directory below /var/tmp, which is removed afterwards; for a program that writes
    files.
    """

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.argv):
            raise ValueError("give one of `file` and `argv`")
        if self.file and not self.file.startswith("/"):
            raise ValueError(f"`file`: {self.file!r} is not an absolute path")
        if self.argv and not self.argv[0]:
            raise ValueError("`argv`: the program's name is empty")
        if self.file and (self.own_directory or self.needs):
            raise ValueError("`own_directory` and `needs` are for a program (`argv`), not for a file")
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"`save_as`: {self.name!r} is no name for a file: letters, digits, `.`, `_` and `-`, beginning with "
                "a letter or a digit"
            )

    @property
    def name(self) -> str:
        """Return the name of the file in the record."""
        return self.save_as or (self.file or self.argv[0]).rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether there is anything to fetch."""

    there: bool | Unknown = False
    """Whether the file or the program is there."""
    size: int | Unknown = 0
    """The size of the file in bytes; unknown for a program's output."""
    missing: tuple[str, ...] = ()
    """The programs that are missing on the host."""
    why: str = ""
    """The reason why the file must not be read; empty if it may be read."""


def probe(args: Args) -> Probe[State]:
    """Check whether the file, or the programs, exist."""
    if args.argv:
        return (yield from _programs((args.argv[0], *args.needs)))
    command = ask_file(args.file)
    answer = yield command
    word, _, rest = answer.stdout.partition("\n")
    if not answer.answers(command) or not word:
        raise ProbeError(f"{args.file} cannot be inspected: {answer.why_not()}")
    if word == "absent":
        return State()
    if word == "refused":
        why, _, owner = rest.partition("\n")
        return State(there=True, size=Unknown(why="it may not be read"), why=unread(args.file, why, owner.strip()))
    size = word.removeprefix("there").strip()
    known = size.isascii() and size.isdigit()
    return State(there=True, size=int(size) if known else Unknown(why="the host does not say how large it is"))


def _programs(names: tuple[str, ...]) -> Probe[State]:
    command = ask_programs(names)
    answer = yield command
    lines = answer.stdout.splitlines()
    if not answer.answers(command) or len(lines) != len(names):
        raise ProbeError(f"{names[0]} cannot be searched for: {answer.why_not()}")
    missing = tuple(name for name, line in zip(names, lines, strict=True) if line != "there")
    return State(there=not missing, size=Unknown(why="what a program prints is known when it has run"), missing=missing)


def decide(args: Args, state: State) -> Decision:
    """Fetch the file or the output, if it exists and may be read."""
    if state.there is False:
        absent = " and ".join(state.missing)
        return Skip(why=f"{absent} is not installed here" if absent else f"this host has no {args.file}")
    if state.why:
        return Blocked(why=state.why)
    more = isinstance(state.size, int) and state.size > args.most
    much = f"the {'last' if args.part == 'end' else 'first'}" if more else "at most"
    what = args.file or f"the output of {_shown_command(args)} (ended after {seconds(args.at_most_for)})"
    return Change(
        summary=f"fetch {what} into {args.name}, {much} {bytes_of(args.most)}",
        commands=(_command(args),),
        risk=Risk.READS,
    )


def _command(args: Args) -> Command:
    keep = Keep(name=args.name, most=args.most, end=args.part == "end")
    if args.file:
        return fetch_file(args.file, keep)
    confined = is_to_be_confined(args.argv)
    return fetch_command(args.argv, keep, limit=args.at_most_for, own_directory=args.own_directory, confined=confined)


def refused(command: Command, completed: Completed) -> str:
    """Return the reason why the file must not be read any more; empty for other failures."""
    why = completed.stderr.strip()
    return f"nothing is kept: {why}" if why and not completed.timed_out and completed.exit_code else ""


def undo(args: Args, state: State, change: Change) -> Undo:
    """Return an empty undo, because nothing was changed on the host."""
    return Undo()


def objection(args: Args) -> str:
    """Return why `argv` is not allowed: it is known to change things (with a directory of its own, a program may write
    there).
    """
    found = None if args.own_directory or not args.argv else mutating_command(args.argv)
    return f"`fetch` changes nothing on a host, and `{found.words}` does ({found.risk}): use `command`" if found else ""


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    line = f"cat {args.file}" if args.file else _line(args)
    return (f"ssh HOST {line!r} >{args.name}",)


def _shown_command(args: Args) -> str:
    """Return the program as text for people; for a shell text, only its length and the programs that it calls."""
    text = next((word for word in args.argv if "\n" in word), "")
    if not text:
        return f"`{_line(args)}`"
    calls = f" that calls {', '.join(args.needs)}" if args.needs else ""
    return f"a script of {plural(len(text.strip().splitlines()), 'line')}{calls}"


def _line(args: Args) -> str:
    return str(Command(argv=args.argv, effect=Effect.READ))
