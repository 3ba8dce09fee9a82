"""Find processes by what their command lines say, and tell the left-over ones from those at work."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from engine.facts.leftover import look_at_load, look_at_processes, told_apart
from engine.facts.processes import Process
from engine.facts.protected import protection
from engine.facts.victims import Spared, spared
from engine.ports import Fails, Holds, Probe
from engine.values.text import ProcessPattern, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Who is looked for."""

    patterns: tuple[ProcessPattern, ...] = field(
        metadata={"about": "Searched in command lines; one that matches everything is refused.", "min_items": 1}
    )
    busy_above: float = field(
        default=5,
        metadata={"about": "At work is above this (percent, two looks 2 s apart).", "minimum": 0, "maximum": 100},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Who was found."""

    matches: tuple[Process, ...] = field(default=(), metadata={"about": "Every process that matches and may be ended."})
    leftover: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose job keeps no GPU busy; unknown if the GPUs cannot be asked."}
    )
    at_work: tuple[Process, ...] | Unknown = field(default=(), metadata={"about": "Those whose job keeps a GPU busy."})
    protected: tuple[Spared, ...] = field(default=(), metadata={"about": "Those that are never ended, with why."})
    stuck: tuple[Process, ...] = field(
        default=(), metadata={"about": "Those in state D: waiting inside the kernel, they cannot be killed."}
    )


def probe(args: Args) -> Probe[State]:
    """Walk /proc; ask about the GPUs only if somebody matches."""
    table = yield from look_at_processes(("/dev/nvidia*",))
    compiled = [re.compile(it) for it in args.patterns]
    found = tuple(
        it
        for it in table.processes
        if it.command and it.pid not in table.own and any(one.search(it.command) for one in compiled)
    )
    why = {it.key: protection(it, table) for it in found}
    matches = tuple(it for it in found if not why[it.key])
    plain = State(
        matches=matches,
        leftover=matches,
        protected=spared(found, why),
        stuck=tuple(it for it in matches if it.state == "D"),
    )
    if not matches:
        return plain
    load = yield from look_at_load()
    apart = told_apart(matches, table, load, args.busy_above)
    return replace(plain, leftover=apart.leftover, at_work=apart.at_work)


def holds(args: Args, state: State) -> Holds | Fails:
    """None of them is there."""
    if not state.matches:
        return Holds(why="no process matches")
    return Fails(why=f"{plural(len(state.matches), 'process')} there: {', '.join(map(str, state.matches[:5]))}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Look at the whole command lines."""
    return tuple(f"pgrep -af -- '{it}'" for it in args.patterns)
