"""Components that something else has started, found by their command lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from engine.actions.processes.components.component import Component
from engine.actions.processes.components.supervision import ComponentSet, ComponentStatus
from engine.errors import ProbeError
from engine.facts.processes.protected import protection
from engine.facts.processes.table import Process, Table
from engine.text.regexes import found_anywhere
from engine.values.types import Unknown


def with_found(seen: ComponentSet, components: Sequence[Component], table: Table) -> ComponentSet:
    """*seen*, where what does not run from here may be one of the processes in *table*.

    Raises ProbeError where it is not known whether one runs.
    """
    left = () if isinstance(seen.left, Unknown) else seen.left
    ours = {it.key for it in seen.parts} | {it.key for it in (*left, *seen.strays)}
    patterns = {it.name: re.compile(it.pattern) for it in components if it.pattern}
    found: dict[str, Process] = {}
    for part in seen.parts:
        if not part.ours and part.name in patterns:
            matches = _matches(patterns[part.name], table, ours)
            if not matches and (blind := table.blind()):
                raise ProbeError(f"whether {part.name} runs is not known: {blind.why}")
            if matches:
                found[part.name] = matches[0]
    parts = tuple(_found(it, found[it.name]) if it.name in found else it for it in seen.parts)
    barred = tuple(it for it in seen.obstacles if it[0] not in found)
    return replace(seen, parts=parts, obstacles=barred)


def _matches(pattern: re.Pattern[str], table: Table, ours: set[str]) -> list[Process]:
    """The processes that match, the oldest first."""
    rows = [it for it in table.rows.values() if not it.defunct and it.process.key not in ours]
    chosen = [it.process for it in rows if found_anywhere(pattern, it.line) and protection(it, table) == ""]
    return sorted(chosen, key=lambda it: (it.start, it.pid))


def _found(part: ComponentStatus, process: Process) -> ComponentStatus:
    """*part* as the process that something else has started."""
    unseen = Unknown(why=f"something else has started {part.name}")
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
