"""What pkill and fuser have in common: choose, sort, decide, and say what survived."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.facts.ending import end_processes, survival, targets
from engine.facts.leftover import look_at_load, told_apart
from engine.facts.processes import Process, Table
from engine.facts.protected import protection
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk
from engine.values.text import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """A process that is not ended, and why."""

    pid: int
    user: str
    command: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Victims:
    """Who would be ended, and who would not."""

    victims: tuple[Process, ...] | Unknown = field(default=(), metadata={"about": "Processes that would be ended."})
    at_work: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Processes spared because they work."}
    )
    protected: tuple[Spared, ...] = field(default=(), metadata={"about": "Processes never ended: each with its why."})
    states: Mapping[str, str] = field(default_factory=dict, metadata={"about": "State letter of each process seen."})
    unseen: int = field(default=0, metadata={"about": "Processes that could not be looked into."})


def choose(
    found: tuple[Process, ...], table: Table, allow: tuple[str, ...], only: str, above: float
) -> Generator[tuple[Any, ...], Any, Victims]:
    """Of the processes *found*, those to be ended; the GPUs are looked at only if it matters."""
    why = {it.key: protection(it, table, allow) for it in found}
    open_ = tuple(it for it in found if not why[it.key])
    plain = Victims(
        protected=spared(found, why),
        states={it.key: it.state for it in table.processes if it.command or it in found},
        unseen=table.unseen,
    )
    if only == "all" or not open_:
        return replace(plain, victims=open_)
    load = yield from look_at_load()
    apart = told_apart(open_, table, load, above)
    return replace(plain, victims=apart.leftover, at_work=apart.at_work)


def spared(found: tuple[Process, ...], why: Mapping[str, str]) -> tuple[Spared, ...]:
    """Those of *found* that are protected; our own shell and PID 1 only where they matched."""
    return tuple(Spared(pid=it.pid, user=it.user, command=it.command, why=why[it.key]) for it in found if why[it.key])


def decision(state: Victims, what: str, *, signal: str, grace: float, then: str) -> Decision:
    """End the victims, or say why nobody is ended."""
    if isinstance(state.victims, Unknown):
        return Blocked(why=f"who is left over is not known: {state.victims.why}")
    if not state.victims:
        notes = []
        if not isinstance(state.at_work, Unknown) and state.at_work:
            notes.append(f"{plural(len(state.at_work), 'process')} at work spared")
        notes += [f"{len(state.protected)} protected"] if state.protected else []
        return NoChange(why=f"nobody to end: {what}" + (f" ({', '.join(notes)})" if notes else ""))
    second = "" if then == "nothing" or then == signal else f", then {then} after {grace:g} s"
    return Change(
        summary=f"end {plural(len(state.victims), 'process')} {what}: {signal}{second}",
        commands=(end_processes(state.victims, signal, grace, then),),
        risk=Risk.KILLS_PROCESSES,
        targets=targets(state.victims),
    )


def without(state: Victims, keys: frozenset[str]) -> Victims:
    """*state* without the victims that have one of *keys*."""
    if isinstance(state.victims, Unknown):
        return state
    return replace(state, victims=tuple(it for it in state.victims if it.key not in keys))


def explain(before: Victims, after: Victims) -> str:
    """Why a second look still sees victims."""
    if isinstance(before.victims, Unknown) or isinstance(after.victims, Unknown):
        return ""
    return survival(before.victims, after.victims, after.states)
