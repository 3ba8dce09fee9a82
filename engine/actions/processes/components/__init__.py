"""Start an ordered set of processes that go on by themselves, name the first that dies, and end the rest.

Each component runs in a session of its own, with its own environment, folder and log, and outlives the connection.
What was started, and how it ended, is written down in a folder on the host: a second run starts nothing that runs, and
a look tells who lives, who died first, with which exit code, and what each said last. After a start they are watched
for a while: one that dies in it is a failure, and the others are ended. `state: absent` ends them, the last one first:
TERM to all that a component has started, then KILL. Records belong to the name of a host: renamed, it knows of none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.actions.processes.components.component import Component, objection_to_path
from engine.actions.processes.components.discovery import with_found
from engine.actions.processes.components.supervision import (
    ComponentStatus,
    Remains,
    ask_components,
    end_components,
    read_components,
    start_components,
)
from engine.actions.processes.components.wording import (
    end_of,
    first_dead,
    how_started,
    in_order,
    last_words,
    left_behind,
    named,
    not_ended,
    of_others,
    what_remains,
    with_pids,
)
from engine.facts.processes.table import ask_processes, read_processes
from engine.protocols import Fails, Holds, Probe
from engine.values.command import Command, Completed
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration, Unknown, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which components, and how they shall be."""

    components: tuple[Component, ...] = field(
        metadata={
            "about": "What is started, in this order; each: name, argv, log, env, delay, cwd, pattern.",
            "min_items": 1,
        }
    )
    records: str = field(
        default="~/.local/state/runbook/components",
        metadata={
            "about": "The directory on the host that keeps what was started; another for each set of components."
        },
    )
    cwd: str = field(default="/", metadata={"about": "The directory in which those start that name none."})
    state: Literal["present", "absent"] = field(
        default="present", metadata={"about": "present: all of them run; absent: none does, nor anything they started."}
    )
    watch: Duration = field(
        default=Duration(5.0),
        metadata={"about": "How long all must live after the last was started.", "minimum": 0, "maximum": 3600},
    )
    end_others: bool = field(
        default=True, metadata={"about": "When one dies meanwhile, end the others, also those that ran before."}
    )
    grace: Duration = field(
        default=Duration(10.0), metadata={"about": "How long TERM may take before KILL.", "minimum": 0, "maximum": 600}
    )
    lines: int = field(
        default=5, metadata={"about": "How many of the last lines of each log to show.", "minimum": 0, "maximum": 200}
    )

    def __post_init__(self) -> None:
        for what, path in (("records", self.records), ("cwd", self.cwd)):
            if why := objection_to_path(path):
                raise ValueError(f"`{what}` {why}")
        names = [it.name for it in self.components]
        if twice := sorted({it for it in names if names.count(it) > 1}):
            raise ValueError(f"`components`: several are called {', '.join(twice)}")

    @property
    def placed(self) -> tuple[Component, ...]:
        """The components, each with the directory that it starts in."""
        return tuple(replace(it, cwd=it.cwd or self.cwd) for it in self.components)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How the components stand."""

    parts: tuple[ComponentStatus, ...] = field(
        metadata={
            "about": "Each in its order: name, status, pid, exit_code, meaning, started, ended, seconds, last ..."
        }
    )
    running: tuple[str, ...] = field(default=(), metadata={"about": "The names of those that run."})
    down: tuple[str, ...] = field(default=(), metadata={"about": "The names of those that do not run."})
    differing: tuple[str, ...] = field(
        default=(),
        metadata={"about": "Those that run with other arguments, environment, cwd or log than are asked for."},
    )
    died: tuple[ComponentStatus, ...] = field(
        default=(), metadata={"about": "Those that ended without being asked to, the first to die first."}
    )
    failed: tuple[ComponentStatus, ...] = field(
        default=(), metadata={"about": "Those of them whose exit code is known, and not 0; in the same order."}
    )
    first: str | Unknown = field(
        default="", metadata={"about": "The name of the first that died; empty where none did."}
    )
    ends: tuple[str, ...] = field(default=(), metadata={"about": "How each that died ended, in words."})
    said: tuple[str, ...] = field(default=(), metadata={"about": "The last lines of all logs, each after its [name]."})
    left: tuple[Remains, ...] | Unknown = field(
        default=(), metadata={"about": "Processes that live on although the component that started them is gone."}
    )
    strays: tuple[Remains, ...] = field(
        default=(), metadata={"about": "What is in the session of one that is gone, without its mark: never ended."}
    )
    obstacles: tuple[str, ...] = field(
        default=(), metadata={"about": "Why those that do not run could not be started."}
    )
    busy: int = field(default=0, metadata={"about": "The process that starts or ends some of them now; 0: none."})
    turn: int = field(default=0, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """One look, as the user whose components these are."""
    ask = ask_components(args.placed, args.records, args.lines)
    if any(it.pattern for it in args.components):
        done, processes = yield ask, ask_processes()
        seen = with_found(read_components(args.placed, done), args.components, read_processes(processes))
    else:
        seen = read_components(args.placed, (yield ask))
    obstacles = tuple(f"{name}: {why}" if name else why for name, why in seen.obstacles)
    state = State(
        parts=seen.parts, left=seen.left, strays=seen.strays, obstacles=obstacles, busy=seen.busy, turn=seen.turn
    )
    return _told(state)


def _told(state: State) -> State:
    """*state* with what follows from its parts."""
    died = first_dead(state.parts)
    unseen = [it for it in died if not it.died]
    first: str | Unknown = died[0].name if died else ""
    if unseen and len(died) > 1:
        first = Unknown(why=f"when {unseen[0].name} ended is not known")
    return replace(
        state,
        running=tuple(it.name for it in state.parts if it.runs),
        down=tuple(it.name for it in state.parts if not it.runs),
        differing=tuple(it.name for it in state.parts if it.differs),
        died=died,
        failed=tuple(it for it in died if it.exit_code != 0 and not isinstance(it.exit_code, Unknown)),
        first=first,
        ends=tuple(map(end_of, died)),
        said=tuple(line for it in state.parts for line in it.last),
    )


def decide(args: Args, state: State) -> Decision:
    """Start what does not run, or end what does."""
    if state.busy:
        return Blocked(why=f"somebody starts or ends components at this moment (pid {state.busy}): look again later")
    return _start(args, state) if args.state == "present" else _end(args, state)


def _start(args: Args, state: State) -> Decision:
    down = [it for it in args.placed if it.name in state.down]
    if not down:
        return NoChange(why=f"all run: {with_pids(state.parts)}{_otherwise(state)}")
    if isinstance(state.left, Unknown):
        return Blocked(why=state.left.why)
    if state.left:
        return Blocked(why=f"{left_behind(state.left)}: end that first (`state: absent`)")
    if state.strays:
        return Blocked(why=not_ended(state.strays))
    if state.obstacles:
        return Blocked(why="; ".join(state.obstacles))
    running = {it.name: it.key for it in state.parts if it.ours}
    concerned = tuple(it for it in args.placed if it.name in (*running, *state.down))
    ends = args.end_others and bool(running)
    targets = [
        Target(kind="service", key=f"component:{args.records}:{it.name}", say=f"the component {it.name}") for it in down
    ]
    targets += [Target(kind="service", key=it.key, say=named(it)) for it in state.parts if it.ours and ends]
    others = f" (also {', '.join(running)})" if ends else ""
    return Change(
        summary=f"start {in_order(down)}; watch them for {seconds(args.watch)}"
        + (f", and end all{others} if one dies" if args.end_others else ""),
        commands=(
            start_components(
                concerned,
                running,
                args.records,
                state.turn,
                watch=args.watch,
                grace=args.grace,
                end_others=args.end_others,
            ),
        ),
        targets=tuple(targets),
        risk=Risk.KILLS_PROCESSES if ends else Risk.EDITS_FILES,
        diff="".join(f"{line}\n" for it in down for line in how_started(it)),
    )


def _end(args: Args, state: State) -> Decision:
    if isinstance(state.left, Unknown):
        return Blocked(why=state.left.why)
    running = [it for it in state.parts if it.ours]
    if not running and not state.left:
        if others := of_others(state.parts):
            return Blocked(why=f"{others}: end that by what started it (or with `pkill`)")
        if state.strays:
            return Blocked(why=not_ended(state.strays))
        return NoChange(why="none of them runs")
    targets = [_victim(it, named(it)) for it in running]
    targets += [_victim(it, left_behind((it,))) for it in state.left]
    names = [
        *(it.name for it in reversed(running)),
        *dict.fromkeys(f"what is left of {it.component}" for it in state.left),
    ]
    return Change(
        summary=f"end {', then '.join(names)} (TERM, KILL after {seconds(args.grace)})",
        commands=(end_components(running, state.left, args.records, state.turn, grace=args.grace),),
        targets=tuple(targets),
        risk=Risk.KILLS_PROCESSES,
    )


def _victim(it: ComponentStatus | Remains, say: str) -> Target:
    return Target(kind="process", key=it.key, say=say, pid=it.pid, user=it.user, command=it.command)


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without the components and processes of *keys*."""
    names = {it.rpartition(":")[2] for it in keys if it.startswith("component:")}
    parts = tuple(it for it in state.parts if it.key not in keys and not (it.name in names and not it.ours))
    left = state.left if isinstance(state.left, Unknown) else tuple(it for it in state.left if it.key not in keys)
    return _told(replace(state, parts=parts, left=left))


def explain(args: Args, before: State, after: State) -> str:
    """Who died first, and how; or who is still there."""
    if args.state == "absent":
        return f"done, but not all is gone: {'; '.join(_still(after))}"
    keys = {it.key for it in before.parts if not it.runs}
    dead = [it for it in after.died if it.key not in keys]
    if not dead:
        return f"done, but not running: {', '.join(after.down)}"
    return "; ".join(_of_the_dead(dead, after))


def _still(state: State) -> list[str]:
    """What is there although nothing shall be."""
    others = of_others(state.parts)
    ours = [named(it) for it in state.parts if it.ours]
    return [*ours, *([others] if others else []), *what_remains(state.left, state.strays)]


def _of_the_dead(dead: list[ComponentStatus], after: State) -> Iterator[str]:
    """The first to die, with its last lines; who else died; what became of the rest."""
    if all(it.died for it in dead) or len(dead) == 1:
        yield f"the first that died: {end_of(dead[0])}" + last_words(dead[0])
        if len(dead) > 1:
            yield f"then {', '.join(end_of(it) for it in dead[1:])}"
    else:
        yield f"which died first is not known: {', '.join(map(end_of, dead))}"
    if stopped := [it.name for it in after.parts if it.status == "stopped"]:
        yield f"ended for that: {', '.join(stopped)}"
    if never := [it.name for it in after.parts if it.status == "never"]:
        yield f"not started: {', '.join(never)}"
    if after.running:
        yield f"still running: {with_pids(after.parts)}"
    yield from what_remains(after.left, after.strays)


def refused(command: Command, completed: Completed) -> str:
    """The words of the host."""
    return "" if completed.timed_out else " ".join(completed.stderr.split())


def holds(args: Args, state: State) -> Holds | Fails:
    """All of them run; or, where they shall be absent, none."""
    if args.state == "absent":
        still = _still(state)
        return Fails(why=f"still there: {'; '.join(still)}") if still else Holds(why="none of them runs")
    if not state.down:
        return Holds(why=f"all run: {with_pids(state.parts)}{_otherwise(state)}")
    return Fails(why="; ".join(state.ends) or f"not running: {', '.join(state.down)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste, without the values of variables."""
    if args.state == "absent":
        return ("kill -TERM -PID_OF_EACH", f"sleep {args.grace:g}; kill -KILL -PID_OF_EACH")
    lines = []
    for it in (it for it in args.placed if it.argv):
        lines += [f"sleep {it.delay:g}"] if it.delay else []
        words = [*(f"{name}=..." for name in it.env), "setsid", shlex.join(it.argv)]
        lines.append(f"cd {shlex.quote(it.cwd)} && {' '.join(words)} >>{shlex.quote(it.log)} 2>&1 </dev/null &")
    return tuple(lines)


def _otherwise(state: State) -> str:
    """What a run that changes nothing must not keep to itself."""
    if not state.differing:
        return ""
    names = ", ".join(state.differing)
    return f"; started otherwise than is asked for now: {names} (end with `state: absent`, then start anew)"
