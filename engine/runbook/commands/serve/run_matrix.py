"""Read the journal of a run as a table of hosts and steps, and follow it while the run goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from runbook.commands.serve.site import Refused
from runbook.dataclass import dataclass
from runbook.records.chain import links
from runbook.records.journal import ENDING
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RUN, RunState, lives_on
from runbook.records.run_summary import process_of
from runbook.values.playbook import written_id

MOST_STEPS = 60
"""The columns of a table."""
WHOLE = ""
"""Stands for the step in a cell about the whole host."""
RUNNING, CHANGING = "running", "changing"
_WORST_FIRST = (
    "failed", "timeout", "unknown", "unreachable", "drifted", "owed", "blocked", "cancelled", CHANGING, RUNNING,
    "changed", "would_change", "skipped", "ok",
)  # fmt: skip
_RANK = {status: rank for rank, status in enumerate(_WORST_FIRST)}
_NEEDED = re.compile(rb'\[[0-9]+\]"|"run_finished"')
"""Found in the lines that say something about later ones: those with the id of an item, and the last one."""

Cell = tuple[str, str, str]
"""A host, the id of a step (or ``WHOLE``), and its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of a journal: the cells that it changes."""

    number: int
    cells: tuple[Cell, ...]
    """Named by the column, with the status that the table shows there."""
    is_last: bool = False
    """Whether the run has ended with it."""


@dataclass(slots=True, kw_only=True)
class Matrix:
    """A run as a table."""

    run: str
    playbook: str = ""
    mode: str = ""
    started: str = ""
    by: str = ""
    reason: str = ""
    hosts: dict[str, dict[str, str]] = field(default_factory=dict)
    """The status of each step, by host and by the id of the step with its number within an `each`."""
    steps: dict[str, None] = field(default_factory=dict)
    """The columns: ids of steps as in the playbook, in their order."""
    verdicts: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """The lines that are damaged."""
    last: int = 0
    """The number of the last line."""
    state: RunState = RunState.RUNNING

    def take(self, cell: Cell) -> None:
        """Take in a cell."""
        host, step, status = cell
        row = self.hosts.setdefault(host, {})
        if step == WHOLE:
            self.verdicts[host] = status
            return
        _put(row, step, status)
        self.steps.setdefault(written_id(step))

    def columns(self) -> list[str]:
        """Return the ids of the steps that are shown."""
        return [*self.steps][:MOST_STEPS]

    def rows(self) -> Iterator[tuple[str, str, list[str]]]:
        """Yield each host with its verdict (or what it is at) and the status of each column; empty: not begun."""
        columns = self.columns()
        for host, row in self.hosts.items():
            worst: dict[str, str] = {}
            for step, status in row.items():
                name = written_id(step)
                worst[name] = _worst(worst.get(name, status), status)
            yield host, self.verdicts.get(host, ""), [worst.get(step, "") for step in columns]

    def totals(self) -> dict[str, int]:
        """Return the number of hosts with each verdict; those without one are ``waiting``."""
        found: dict[str, int] = {}
        for host in self.hosts:
            word = self.verdicts.get(host) or "waiting"
            found[word] = found.get(word, 0) + 1
        return found


def _put(row: dict[str, str], step: str, status: str) -> None:
    """Set the status of *step* in *row*; an item replaces what was said of its step as a whole."""
    if (name := written_id(step)) != step:
        row.pop(name, None)
    row[step] = status


def _worst(*statuses: str) -> str:
    return min(statuses, key=lambda status: _RANK.get(status, 0))


def read_matrix(folder: PrivateFolder, run: str) -> Matrix:
    """Return the run with the id *run* as a table.  Raises Refused if there is none."""
    made = Matrix(run=_checked(run))
    process: object = None
    try:
        with folder.opened(run + ENDING) as file:
            for link in links(file):
                made.last = link.number
                if link.fault:
                    made.faults.append(f"line {link.number}: {link.fault}")
                event = _event(link.value)
                if event.get("kind") == "run_started":
                    process = event.get("origin")
                    _begin(made, event)
                for cell in cells(event):
                    made.take(cell)
                if event.get("kind") == "run_finished":
                    made.state = RunState.FINISHED
    except OSError as error:
        raise Refused(404, f"no run {run} is on record here") from error
    if made.state is not RunState.FINISHED and not lives_on(folder, run, process_of(process)):
        made.state = RunState.INTERRUPTED
    return made


def _begin(made: Matrix, event: Mapping[str, Any]) -> None:
    origin = event.get("origin")
    origin = origin if isinstance(origin, dict) else {}
    made.playbook, made.mode, made.started = (_text(event.get(key)) for key in ("playbook", "mode", "at"))
    made.by, made.reason = _text(origin.get("by")), _text(origin.get("reason"))
    hosts = event.get("hosts")
    for host in hosts if isinstance(hosts, list) else ():
        made.hosts.setdefault(_text(host), {})


class JournalTail:
    """Follows a journal; it keeps its place, and of the cells only those of steps with items."""

    def __init__(self, folder: PrivateFolder, run: str) -> None:
        """Prepare to follow the run with the id *run*.  Raises Refused if it has no journal."""
        self._folder, self._run, self._name = folder, _checked(run), run + ENDING
        self._number, self._offset = 0, 0
        self._items: dict[tuple[str, str], dict[str, str]] = {}
        """The status of each item, by host and column: the table shows the worst."""
        self._process: object = None
        self._is_finished = False
        try:
            with folder.opened(self._name):
                pass
        except OSError as error:
            raise Refused(404, f"no run {run} is on record here") from error

    def lines(self, after: int, most: int) -> list[Line]:
        """Return the first *most* whole lines after the one with the number *after*; empty if there are none yet."""
        if after < self._number:
            self._number, self._offset = 0, 0
            self._items.clear()
        found: list[Line] = []
        try:
            with self._folder.opened(self._name) as file:
                file.seek(self._offset)
                while len(found) < most and (raw := file.readline()).endswith(b"\n"):
                    self._number, self._offset = self._number + 1, self._offset + len(raw)
                    if self._number > after:
                        found.append(self._line(raw))
                    elif self._number == 1 or self._items or _NEEDED.search(raw):  # the client has the others
                        self._line(raw)
        except OSError:  # it was pruned meanwhile
            return found
        return found

    def is_interrupted(self) -> bool:
        """Whether the process of the run is gone, and no line that was read is its end."""
        return not self._is_finished and not lives_on(self._folder, self._run, process_of(self._process))

    def _line(self, raw: bytes) -> Line:
        try:
            event = _event(json.loads(raw))
        except (ValueError, RecursionError):
            event = {}
        if event.get("kind") == "run_started":
            self._process = event.get("origin")
        is_last = event.get("kind") == "run_finished"
        self._is_finished = self._is_finished or is_last
        return Line(number=self._number, cells=tuple(self._folded(cell) for cell in cells(event)), is_last=is_last)

    def _folded(self, cell: Cell) -> Cell:
        host, step, status = cell
        column = written_id(step)
        if column == step and (host, column) not in self._items:
            return cell
        items = self._items.setdefault((host, column), {})
        _put(items, step, status)
        return host, column, _worst(*items.values())


def cells(event: Mapping[str, Any]) -> Iterator[Cell]:
    """Yield the cells that *event* of a journal changes."""
    host, step = _text(event.get("host")), _text(event.get("step"))
    match event.get("kind"):
        case "host_started":
            yield host, WHOLE, "started"
        case "waiting":
            yield host, WHOLE, "waits"
        case "step_started":
            yield host, step, RUNNING
        case "change_started":
            yield host, step, CHANGING
        case "step_finished":
            yield from _steps(host, [event.get("result")])
        case "host_planned":
            plan = _mapping(event.get("plan"))
            host = _text(plan.get("host"))
            yield host, WHOLE, "probed"
            yield from _steps(host, plan.get("looks"))
            yield from _steps(host, plan.get("results"))
        case "host_finished":
            result = _mapping(event.get("result"))
            host = _text(result.get("host"))
            yield host, WHOLE, _text(result.get("verdict"))
            yield from _steps(host, result.get("steps"))


def _steps(host: str, results: Any) -> Iterator[Cell]:
    for result in results if isinstance(results, list) else ():
        tree = _mapping(result)
        if step := _text(tree.get("id")):
            yield host, step, _text(tree.get("status"))


def _event(tree: Any) -> Mapping[str, Any]:
    return _mapping(_mapping(tree).get("event"))


def _mapping(tree: Any) -> Mapping[str, Any]:
    return tree if isinstance(tree, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _checked(run: str) -> str:
    if not RUN.fullmatch(run):
        raise Refused(404, f"{run!r} is not the id of a run")
    return run
