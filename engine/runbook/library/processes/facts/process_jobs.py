"""Group processes into jobs: when one process of a job is at work, all of them are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from runbook.dataclass import dataclass
from runbook.library.processes.facts.protected import daemon, interactive, is_this_tool
from runbook.library.processes.facts.table import Row, Table
from runbook.values.types import Unknown


@dataclass(frozen=True, slots=True)
class ProcessJobs:
    """Every process with the family that it belongs to."""

    members: Mapping[int, frozenset[int]]

    def share(self, own: Mapping[int, bool | Unknown]) -> dict[int, bool | Unknown]:
        """Spread a fact about one process to all of its family: ignorance too."""
        return {pid: worst(own.get(number, False) for number in family) for pid, family in self.members.items()}


def process_jobs(table: Table) -> ProcessJobs:
    """Group the processes that belong together: parent and child, one process group, one container or batch job.

    A group ends where several jobs meet: at pid 1, at daemons (sshd, containerd-shim, slurmstepd, tmux ...), at
    interactive shells, at our own connection, and at a process that runs this tool.  A container counts only if we are
    outside of it.  Two jobs in one group are spared together, which is a safe mistake.
    """
    borders = frozenset(pid for pid, row in table.rows.items() if _is_border(row, table)) | _above_us(table)
    outside = table.rows[1].process.container if 1 in table.rows else ""
    joined: dict[object, list[int]] = {}
    for pid, row in table.rows.items():
        if pid in borders:
            continue
        for name in _names(row, table, borders, outside):
            joined.setdefault(name, []).append(pid)
    return ProcessJobs(_components(table, joined.values()))


def _is_border(row: Row, table: Table) -> bool:
    pid = row.process.pid
    return pid == 1 or pid in table.way_in or bool(daemon(row)) or interactive(row)


def _above_us(table: Table) -> frozenset[int]:
    """The ancestors of this tool, where it runs on the host itself."""
    found: set[int] = set()
    for row in table.rows.values():
        pid = row.process.ppid if is_this_tool(row) else 0
        while pid in table.rows and pid not in found:
            found.add(pid)
            pid = table.rows[pid].process.ppid
    return frozenset(found)


def _names(row: Row, table: Table, borders: frozenset[int], outside: str) -> Iterable[object]:
    """Yield the properties that the process shares with the rest of its family."""
    process = row.process
    yield ("process", process.pid)
    if process.ppid in table.rows and process.ppid not in borders:
        yield ("process", process.ppid)
    if row.group > 1 and row.group not in borders:
        yield ("group", row.group)
    if process.container and process.container != outside:
        yield ("container", process.container)


def _components(table: Table, joined: Iterable[list[int]]) -> dict[int, frozenset[int]]:
    """The families, given lists of processes that belong together."""
    above = {pid: pid for pid in table.rows}

    def top(pid: int) -> int:
        while above[pid] != pid:
            above[pid] = above[above[pid]]
            pid = above[pid]
        return pid

    for first, *others in joined:
        for other in others:
            above[top(other)] = top(first)
    gathered: dict[int, set[int]] = {}
    for pid in table.rows:
        gathered.setdefault(top(pid), set()).add(pid)
    frozen = {it: frozenset(family) for it, family in gathered.items()}
    return {pid: frozen[top(pid)] for pid in table.rows}


def worst(answers: Iterable[bool | Unknown]) -> bool | Unknown:
    """True where one is; else Unknown where one is; else False."""
    unknown: Unknown | None = None
    for answer in answers:
        if answer is True:
            return True
        if isinstance(answer, Unknown):
            unknown = unknown or answer
    return unknown or False
