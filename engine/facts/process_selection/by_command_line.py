"""Processes chosen by what stands on their command lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from engine.facts.gpu_jobs.classification import NOT_ASKED, classify, described, observe_gpu_use
from engine.facts.processes.protected import Protected, protection, shown
from engine.facts.processes.table import Process, Row, Table, ask_processes, read_processes
from engine.text.regexes import found_anywhere
from engine.values.command import Command
from engine.values.types import Unknown

NOTHING: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLineMatch:
    """The processes that match."""

    matches: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Every process that matches and is not protected: pid, user, command ..."}
    )
    leftover: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose jobs keep no GPU busy; unknown if the GPUs cannot be asked."}
    )
    at_work: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose jobs keep a GPU busy: workers, launchers and their helpers."}
    )
    protected: tuple[Protected, ...] = field(
        default=(), metadata={"about": "Matching processes that are never ended, each with its why."}
    )
    beyond_help: tuple[Protected, ...] = field(
        default=(),
        metadata={"about": "Those that hold only GPUs which are lost: left alone, as ending them brings none back."},
    )
    zombies: tuple[Process, ...] = field(
        default=(), metadata={"about": "Defunct ones, by name or parent: they hold only a pid, until it is collected."}
    )
    unkillable: tuple[Process, ...] = field(
        default=(), metadata={"about": "Matching ones in state D on every look: they hang in the kernel."}
    )
    shortened: tuple[str, ...] = field(
        default=(),
        metadata={"about": "Whose processes could not be read whole, and why: too many, or too long command lines."},
    )


def probe_by_command_line(
    patterns: Iterable[str], allow: Collection[str], above: float, *, classified: bool, lost: Iterable[str] = ()
) -> Generator[Command | tuple[Command, ...], Any, CommandLineMatch]:
    """Who matches; if somebody does and they are to be *classified*, who of them is left over."""
    tests = [re.compile(it) for it in patterns]
    table = read_processes((yield ask_processes()))
    plain = _chosen(tests, table, allow)
    if isinstance(plain.matches, Unknown) or not plain.matches:
        return plain
    if not classified:
        return replace(plain, leftover=NOT_ASKED, at_work=NOT_ASKED)
    closer = yield from observe_gpu_use(above=above, lost=lost)
    before = {it.key for it in plain.matches}
    if isinstance(closer.walk, Unknown):
        return replace(plain, leftover=closer.walk, at_work=closer.walk)
    walk = closer.walk
    again = _chosen(tests, walk.table, allow)
    now = () if isinstance(again.matches, Unknown) else again.matches
    matches = tuple(described(it.pid, walk, closer.load) for it in now)
    sides = classify(matches, before, closer)
    stuck = {it.key for it in plain.unkillable}
    return replace(
        again,
        matches=again.matches if isinstance(again.matches, Unknown) else matches,
        leftover=sides.leftover,
        at_work=sides.at_work,
        beyond_help=sides.beyond_help,
        unkillable=tuple(it for it in again.unkillable if it.key in stuck),
    )


def _chosen(tests: list[re.Pattern[str]], table: Table, allow: Collection[str]) -> CommandLineMatch:
    found = [it for it in table.rows.values() if _matches(it, tests)]
    why = {it.process.pid: protection(it, table, allow) for it in found}
    open_ = tuple(shown(it) for it in found if why[it.process.pid] == "" and not it.defunct)
    doubts = (it for it in why.values() if isinstance(it, Unknown))
    parents = {it.pid for it in open_}
    defunct = (it for it in table.rows.values() if it.defunct)
    blind = table.blind() or next(doubts, None)
    return CommandLineMatch(
        matches=blind if blind and not open_ else open_,
        leftover=blind if blind and not open_ else NOTHING,
        at_work=blind if blind and not open_ else NOTHING,
        protected=tuple(spared(it, said) for it in found if (said := why[it.process.pid]) and isinstance(said, str)),
        zombies=tuple(it.process for it in defunct if it in found or it.process.ppid in parents),
        unkillable=tuple(it for it in open_ if it.state == "D"),
        shortened=table.shortened(),
    )


def _matches(row: Row, tests: list[re.Pattern[str]]) -> bool:
    """Whether one of *tests* is in its arguments, or in its name where it is dying and has no arguments any more."""
    line = row.line or (row.name if row.process.state in "ZXx" else "")
    return bool(line) and any(found_anywhere(it, line) for it in tests)


def spared(row: Row, why: str) -> Protected:
    """A process that is spared, with the reason."""
    one = row.process
    return Protected(pid=one.pid, user=one.user, command=one.command, process=one, why=why)


def without(state: CommandLineMatch, keys: frozenset[str]) -> CommandLineMatch:
    """*state* without the processes of *keys*."""

    def less(processes: tuple[Process, ...] | Unknown) -> tuple[Process, ...] | Unknown:
        if isinstance(processes, Unknown):
            return processes
        return tuple(it for it in processes if it.key not in keys)

    return replace(state, matches=less(state.matches), leftover=less(state.leftover), at_work=less(state.at_work))
