"""Count the rows of a table in an SQLite database, and check whether the number grows.

The database is opened read-only, and no file is created beside it.
"""

from __future__ import annotations

import shlex
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.system.facts.sqlite import ask_rows, read_rows
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Completed
from runbook.values.types import Duration, Unknown, plural

Problem = Literal["", "no database", "no table", "locked", "not a database", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    database: str
    """The file: absolute, or ~/ for the home of the login user."""
    table: str = field(metadata={"min_length": 1})
    """The name of the table."""
    apart: Duration = field(default=Duration(0), metadata={"maximum": 600})
    """Count twice with this interval to see growth."""
    at_least: int = field(default=0, metadata={"minimum": 0})
    """Require at least this many rows."""
    growing: bool = False
    """Require more rows on the second count; needs `apart`."""

    def __post_init__(self) -> None:
        if not self.database.startswith(("/", "~/")):
            raise ValueError(f"`database`: {self.database!r} is not an absolute path")
        if "\n" in self.table or "\0" in self.table:
            raise ValueError("`table` must be a name on one line")
        if self.growing and not self.apart:
            raise ValueError("`growing` needs two counts: give `apart`, such as 10s")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The rows that were counted."""

    rows: int | Unknown
    """The number of rows at the last count."""
    problem: Problem = ""
    """The reason why the number is unknown: no database, no table, locked, not a database, other."""
    why: str = ""
    """The reason as sqlite3 reports it."""
    size: int | Unknown
    """Size of the file, in bytes."""
    grown: int | Unknown
    """The increase in rows from the first count to the last."""
    growing: bool | Unknown
    """Whether the number of rows grew."""


def probe(args: Args) -> Probe[State]:
    """One script, with sqlite3."""
    asked = ask_rows(args.database, args.table, args.apart)
    done: Completed = yield replace(asked, timeout=args.apart + 30) if args.apart else asked
    rows, sizes, problem = read_rows(done)
    why = Unknown(why=f"{args.database}: {problem}") if problem else None
    once = why or Unknown(why="counted only once: give `apart`")
    grown = rows[-1] - rows[0] if len(rows) > 1 else once
    return State(
        rows=rows[-1] if rows and not why else why or once,
        problem=_problem(problem),
        why=problem,
        size=sizes[-1] if sizes else once,
        grown=grown,
        growing=grown if isinstance(grown, Unknown) else grown > 0,
    )


def _problem(words: str) -> Problem:
    if not words:
        return ""
    known: dict[str, Problem] = {
        "no database": "no database",
        "no such table": "no table",
        "is locked": "locked",
        "is not a database": "not a database",
        "malformed": "not a database",
    }
    return next((value for text, value in known.items() if text in words), "other")


def holds(args: Args, state: State) -> Holds | Fails:
    """There are enough rows, and more of them if that is asked."""
    what = f"{args.table} in {args.database}"
    if state.problem in ("no database", "no table"):
        return Fails(why=f"{what}: {state.why}")
    if isinstance(state.rows, Unknown):
        raise ProbeError(state.rows.why)
    if state.rows < args.at_least:
        return Fails(why=f"{what} has {plural(state.rows, 'row')}, wanted {args.at_least}")
    if args.growing and state.growing is not True:
        return Fails(why=f"{what} has {plural(state.rows, 'row')}, and no more after {args.apart:g} s")
    return Holds(why=f"{what} has {plural(state.rows, 'row')}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return a command that a person would run by hand."""
    name = '"' + args.table.replace('"', '""') + '"'
    question = f"SELECT COUNT(*) FROM {name}"  # noqa: S608 - shown to a person, and quoted as a name
    return (shlex.join(("sqlite3", "-readonly", args.database, question)),)
