"""Select processes by patterns in their command lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable
from dataclasses import replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.jobs.facts.arguments import JobArguments, wanted
from runbook.library.jobs.facts.classification import (
    NOT_ASKED,
    JobMatch,
    classify_into,
    described,
    observe_gpu_use,
)
from runbook.library.processes.facts.owners.owners import without_owned
from runbook.library.processes.facts.protected import Protected, as_process, spared, split_by_protection
from runbook.library.processes.facts.table import Process, Row, Table, ask_processes, read_processes
from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout, compile_regex
from runbook.values.command import Command
from runbook.values.types import Unknown

NOTHING: tuple[Process, ...] = ()

STRIKES = 3
"""The number of command lines of one user that may be too slow to search; after that, the user's other command lines
are not searched.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLineMatch(JobMatch):
    """The processes whose command line matches."""

    matches: tuple[Process, ...] | Unknown = ()
    """Every process that matches and is not protected: pid, user, command ..."""
    zombies: tuple[Process, ...] = ()
    """Defunct processes that match, or whose parent matches: they hold only a pid."""
    unkillable: tuple[Process, ...] = ()
    """Matching processes that are in state D in every sample: they hang in the kernel."""
    shortened: tuple[str, ...] = ()
    """Users whose processes could not all be read, because there are too many, or their command lines are too long."""
    unsearched: tuple[Protected, ...] = ()
    """Processes left alone because the search of their command lines takes too long."""


def probe_by_command_line(
    patterns: Iterable[str],
    allow: Collection[str],
    job: JobArguments,
    *,
    classified: bool,
    users: Collection[str] = (),
) -> Generator[Command | tuple[Command, ...], Any, CommandLineMatch]:
    """Find the matching processes, of root and of *users* (none: of everybody); if *classified*, also
    those left over.
    """
    tests = [compile_regex(pattern) for pattern in patterns]
    table = read_processes((yield ask_processes()))
    plain = chosen(tests, table, allow, users, job)
    found = plain.matches
    if isinstance(found, Unknown) or not found:
        return plain
    if not classified:
        asked = replace(plain, leftover=NOT_ASKED, at_work=NOT_ASKED)
        free, match = yield from without_owned(asked, found, table, spare=job.spare_owned)
        return replace(match, matches=free)
    closer = yield from observe_gpu_use(job, table, [match.pid for match in found])
    before = {match.key for match in found}
    if isinstance(closer.walk, Unknown):
        return replace(plain, leftover=closer.walk, at_work=closer.walk)
    walk = closer.walk
    again = chosen(tests, walk.table, allow, users, job)
    stuck = {process.key for process in plain.unkillable}
    again = replace(again, unkillable=tuple(process for process in again.unkillable if process.key in stuck))
    if isinstance(again.matches, Unknown):
        return again
    blind = next((Unknown(why=str(protected)) for protected in again.unsearched), None)
    matches = tuple(described(process.pid, walk, closer) for process in again.matches)
    return classify_into(replace(again, matches=matches), matches, before, closer, blind)


def chosen(
    tests: list[SearchPattern], table: Table, allow: Collection[str], users: Collection[str], job: JobArguments
) -> CommandLineMatch:
    """Return the processes in *table* that match, protected or not; nothing is known about the GPUs yet."""
    rows = wanted(table.rows.values(), job)
    counted = [each for each in rows if not users or each.uid == "0" or each.process.user in users]
    found, unsearched = _search(tests, counted)
    split = split_by_protection(found, table, allow)
    matches = tuple(as_process(row) for row in split.free if not row.defunct)
    blind = None if matches else _blind(table, split.doubt, unsearched)
    return CommandLineMatch(
        matches=blind or matches,
        leftover=blind or NOTHING,
        at_work=blind or NOTHING,
        protected=split.protected,
        zombies=_zombies(table, found, matches),
        unkillable=tuple(match for match in matches if match.state == "D"),
        shortened=table.shortened(),
        unsearched=unsearched,
    )


def _blind(table: Table, doubt: Unknown | None, unsearched: tuple[Protected, ...]) -> Unknown | None:
    """Return the reason why the search may miss a process; None if it misses none."""
    if blind := table.blind() or doubt:
        return blind
    if unsearched:
        return Unknown(why=f"pid {unsearched[0].pid} ({unsearched[0].user}): {unsearched[0].why}")
    return None


def _zombies(table: Table, found: list[Row], matches: Iterable[Process]) -> tuple[Process, ...]:
    """Return the defunct processes that match, or that are children of *matches*."""
    parents = {match.pid for match in matches}
    defunct = (row for row in table.rows.values() if row.defunct)
    return tuple(row.process for row in defunct if row in found or row.process.ppid in parents)


def _search(tests: list[SearchPattern], rows: Iterable[Row]) -> tuple[list[Row], tuple[Protected, ...]]:
    """Return the processes that match, and those for which this is not known; each user has a share of the time."""
    budget, strikes = SearchBudget(), Counter[str]()
    found: list[Row] = []
    unsearched: list[Protected] = []
    for row in rows:
        user = row.process.user
        if strikes[user] >= STRIKES:
            why = f"its command line was not searched: the searches of {STRIKES} others of {user} took too long"
            unsearched.append(spared(row.process, why))
            continue
        try:
            if _matches(row, tests, budget):
                found.append(row)
        except SearchTimeout as error:
            strikes[user] += 1
            unsearched.append(spared(row.process, f"its command line {error}"))
    return found, tuple(unsearched)


def _matches(row: Row, tests: list[SearchPattern], budget: SearchBudget) -> bool:
    """Whether one of *tests* matches the arguments of *row*, or its name if it is dying and has no arguments any more.

    Raises SearchTimeout if none matches, and the search was not complete.
    """
    line = row.line or (row.name if row.process.state in "ZXx" else "")
    return bool(line) and budget.any_found(tests, line)
