"""Find components that were not started by runbook, by their command lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from runbook.errors import ProbeError
from runbook.library.processes.components.component import Component
from runbook.library.processes.components.supervision import ComponentSet, ComponentStatus
from runbook.library.processes.facts.protected import protection
from runbook.library.processes.facts.table import Process, Row, Table
from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout, compile_regex
from runbook.values.types import Unknown


def with_found(seen: ComponentSet, components: Sequence[Component], table: Table) -> ComponentSet:
    """Return *seen* with running processes of *table* (root's, or our user's) for components not started from here.

    Raises ProbeError if it is unknown whether a component runs.  That is so also if a process of another user may be
    it, because any user can choose any command line.
    """
    left = () if isinstance(seen.left, Unknown) else seen.left
    ours = {part.key for part in seen.parts} | {stray.key for stray in (*left, *seen.strays)}
    patterns = {component.name: compile_regex(component.pattern) for component in components if component.pattern}
    found: dict[str, Process] = {}
    budget = SearchBudget()
    for part in seen.parts:
        if not part.ours and part.name in patterns:
            try:
                matches = _matches(patterns[part.name], table, ours, budget)
            except SearchTimeout as error:
                raise ProbeError(f"not known whether {part.name} runs: the command line of {error}") from error
            if not matches and (blind := table.blind()):
                raise ProbeError(f"not known whether {part.name} runs: {blind.why}")
            if matches and table.rows[matches[0].pid].names is not None:
                raise ProbeError(
                    f"not known whether {part.name} runs: the command line of pid {matches[0].pid} fits, and it is "
                    f"{matches[0].user}'s: if that is the one, give the step `become: {matches[0].user}`"
                )
            if matches:
                found[part.name] = matches[0]
    parts = tuple(_discovered(part, found[part.name]) if part.name in found else part for part in seen.parts)
    barred = tuple(obstacle for obstacle in seen.obstacles if obstacle[0] not in found)
    return replace(seen, parts=parts, obstacles=barred)


def _matches(pattern: SearchPattern, table: Table, ours: set[str], budget: SearchBudget) -> list[Process]:
    """The processes that match, root's and our own before others', and the oldest first.

    Raises SearchTimeout, after the pid of which it is not known.
    """
    rows = [row for row in table.rows.values() if not row.defunct and row.process.key not in ours]
    chosen = [row.process for row in rows if _matches_row(pattern, row, budget) and protection(row, table) == ""]
    return sorted(chosen, key=lambda it: (table.rows[it.pid].names is not None, it.start, it.pid))


def _matches_row(pattern: SearchPattern, row: Row, budget: SearchBudget) -> bool:
    try:
        return budget.found(pattern, row.line)
    except SearchTimeout as error:
        raise SearchTimeout(f"pid {row.process.pid} ({row.process.user}) {error}") from error


def _discovered(part: ComponentStatus, process: Process) -> ComponentStatus:
    """Return *part* with the values of *process*, which something else has started."""
    unseen = Unknown(why=f"another program has started {part.name}")
    return replace(
        part,
        status="found",
        pid=process.pid,
        start=process.start,
        user=process.user,
        command=process.command,
        exit_code=unseen,
        meaning="",
        started=unseen,
        ended=unseen,
        seconds=process.seconds,
        died=0.0,
    )
