"""Decide on, describe and verify the termination of processes, however they were selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeVar, cast

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.table import Process
from runbook.library.processes.facts.terminate import end_processes, survival
from runbook.protocols import Fails, Holds
from runbook.text.shortened import first_few
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Unknown, plural, seconds

Processes = tuple[Process, ...] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The way to end processes, and their number at most."""

    signal: str
    grace: float
    """Seconds that it may take."""
    then: str
    """The signal for the rest, or ``nothing``."""
    most: int = 0
    """More victims than that are refused; 0: any number is fine."""

    @property
    def last(self) -> str:
        """The last signal that a survivor gets."""
        return self.signal if self.then == "nothing" or self.signal == "KILL" else self.then

    def __str__(self) -> str:
        if self.last == self.signal:
            return self.signal
        return f"{self.signal}, {self.then} after {seconds(self.grace)}"


@dataclass(frozen=True, kw_only=True)
class EndArguments:
    """The way to end processes."""

    signal: Literal["TERM", "KILL", "INT", "HUP", "QUIT", "USR1", "USR2"] = "TERM"
    """The first signal."""
    grace: Duration = field(default=Duration(10.0), metadata={"minimum": 0})
    """The time after the first signal; the wait ends as soon as all are gone."""
    then: Literal["KILL", "nothing"] = "KILL"
    """The signal for the processes that remain."""
    max_victims: int = field(default=0, metadata={"minimum": 0})
    """If more processes than this would be ended, none is ended; 0: any number."""

    @property
    def manner(self) -> Manner:
        """Return the way to end them, for a change."""
        return Manner(signal=self.signal, grace=self.grace, then=self.then, most=self.max_victims)

    def by_hand(self) -> tuple[str, ...]:
        """The lines that a person would paste to do it, once the processes were inspected."""
        first, second = f"kill -s {self.signal} PID...", f"sleep {self.grace:g}; kill -s {self.then} PID..."
        return (first,) if self.manner.last == self.signal else (first, second)


def decision(
    victims: Processes,
    manner: Manner,
    what: str,
    spared: Sequence[str],
    doubts: Sequence[str] = (),
    *,
    names_spared: bool = False,
) -> Decision:
    """Return the decision to end *victims*.

    *what*: the criterion that they were chosen by.  *spared*: processes that are left alone, with the reasons.
    *doubts*: processes that may be victims; they are left alone and named.  *names_spared*: a change names *spared*,
    too, because somebody asked for their end.
    """
    if isinstance(victims, Unknown):
        return Blocked(why=victims.why)
    if not victims:
        left_alone = f"; left alone: {'; '.join(spared)}" if spared else ""
        return NoChange(why=f"no process {what}{left_alone}")
    if manner.most and len(victims) > manner.most:
        return Blocked(
            why=f"{plural(len(victims), 'process')} would be ended, but max_victims is {manner.most}: "
            + processes_in_words(victims)
        )
    return Change(
        summary=f"end {plural(len(victims), 'process')} ({manner})"
        + _spared_in_words(doubts)
        + (f"; left alone: {first_few(spared, 3)}" if names_spared and spared else ""),
        commands=(end_processes(victims, manner.signal, manner.grace, manner.then),),
        risk=Risk.KILLS_PROCESSES,
        targets=tuple(map(target, victims)),
    )


def _spared_in_words(doubts: Sequence[str]) -> str:
    if not doubts:
        return ""
    return f"; left alone, as it is not known whether they match: {first_few(doubts, 2)}"


def target(process: Process) -> Target:
    """*process* as a change names it."""
    return Target(
        kind="process",
        key=process.key,
        say=process_in_words(process),
        pid=process.pid,
        user=process.user,
        command=process.command,
        owner=process.owner,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSnapshot:
    """The processes in question, as one probe saw them."""

    found: Processes
    """All that were chosen by what the step names, at work or not."""
    victims: Processes


def gone(before: ProcessSnapshot, after: ProcessSnapshot) -> bool:
    """Whether every victim of *before* is gone, and no new one has come.

    A process that was at work before and is left over now is not new: this change was not about it.
    """
    if isinstance(before.victims, Unknown) or isinstance(after.found, Unknown):
        return False
    return not _survivors(before, after) and not _fresh(before, after)


def disagreement(before: ProcessSnapshot, after: ProcessSnapshot, manner: Manner) -> str:
    """Words for a second probe that still sees victims of *before*, or new ones."""
    for processes in (before.victims, after.found):
        if isinstance(processes, Unknown):
            return f"done, but the second probe could not verify it: {processes.why}"
    return survival(_survivors(before, after), _fresh(before, after), manner.last)


State = TypeVar("State")


def without_processes(state: State, keys: frozenset[str]) -> State:
    """*state*, of an action that ends processes, without those of *keys*."""
    fewer: dict[str, Any] = {
        name: tuple(process for process in found if process.key not in keys)
        for name in ("alive", "matches", "processes", "leftover", "at_work", "owned")
        if isinstance(found := getattr(state, name, None), tuple)
    }
    less: State = replace(cast(Any, state), **fewer)
    return less


def absence(found: Processes, none: str, one: str, more: str) -> Holds | Fails:
    """Whether *found* is empty, in words; *one* and *more* are the verbs for one and for several. Raises ProbeError."""
    if isinstance(found, Unknown):
        raise ProbeError(found.why)
    if not found:
        return Holds(why=none)
    return Fails(why=f"{plural(len(found), 'process')} {one if len(found) == 1 else more}: {processes_in_words(found)}")


def _survivors(before: ProcessSnapshot, after: ProcessSnapshot) -> tuple[Process, ...]:
    """The victims that are still there, as they are now."""
    keys = {process.key for process in _known(before.victims)}
    return tuple(process for process in _known(after.found) if process.key in keys)


def _fresh(before: ProcessSnapshot, after: ProcessSnapshot) -> tuple[Process, ...]:
    """Return the victims that were not there before; with unknown leftovers, every new process counts."""
    keys = {process.key for process in _known(before.found)}
    now = after.found if isinstance(after.victims, Unknown) else after.victims
    return tuple(process for process in _known(now) if process.key not in keys)


def _known(processes: Processes) -> tuple[Process, ...]:
    return () if isinstance(processes, Unknown) else processes


def process_in_words(process: Process) -> str:
    """*process* for people."""
    command = " ".join(process.command.split())
    short = command if len(command) <= 80 else f"{command[:79]}…"
    hides = f" [{process.disguise}]" if process.disguise else ""
    owner = f" [owner: {process.owner}]" if process.owner else ""
    return f"pid {process.pid} ({process.user}) {short}{hides}{owner}"


def processes_in_words(processes: Sequence[Process]) -> str:
    """The first of *processes* for people, and how many more there are."""
    return first_few(map(process_in_words, processes), 3)
