"""Start an ordered set of long-running processes, name the first that dies, and end the others.

Each component runs in its own session, with its own environment, directory and log, and outlives the connection. What
was started, and how it ended, is recorded in a directory on the host: a second run starts nothing that runs, and a
probe reports which components run, which died first, with which exit code, and the last lines of each log. After the
start the components are watched for a while: if one dies, the step fails, and the others are ended. `state: absent`
ends them, the last one first: TERM to every process that a component has started, then KILL. Records are kept by host
name: a renamed host has none.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.processes.components.component import Component, objection_to_path
from runbook.library.processes.components.discovery import with_found
from runbook.library.processes.components.supervision import (
    ComponentStatus,
    Remains,
    ask_components,
    end_components,
    read_components,
    start_components,
)
from runbook.library.processes.facts.table import ask_processes, read_processes
from runbook.protocols import Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Unknown, plural, seconds


def first_dead(parts: Iterable[ComponentStatus]) -> tuple[ComponentStatus, ...]:
    """Return the components that have died, the first to die first, those with an unknown end last."""
    return tuple(sorted((part for part in parts if part.dead), key=lambda part: (not part.died, part.died)))


def end_of(part: ComponentStatus) -> str:
    """Describe the end of *part*, for people."""
    if isinstance(part.exit_code, Unknown):
        return f"{part.name} has ended, and its exit code is not known ({part.exit_code.why})"
    lived = "" if isinstance(part.seconds, Unknown) else f" after {seconds(part.seconds)}"
    return f"{part.name} ended{lived} with exit code {part.exit_code} ({part.meaning})"


def last_words(part: ComponentStatus) -> str:
    """Return the end of the component's log, for people."""
    lines = " | ".join(word for word in part.last if word.strip())
    return f"; its log {part.log} ends with: {lines}" if lines else f"; its log {part.log} is empty"


def in_order(down: Sequence[Component]) -> str:
    """Describe the order and the delays in which *down* are started."""
    later = [
        f"{component.name} {seconds(component.delay)} later" if component.delay else component.name
        for component in down[1:]
    ]
    return ", then ".join([down[0].name, *later])


def how_started(component: Component) -> Iterator[str]:
    """Describe the start of *component*, for people; of its environment, only the names."""
    yield f"{component.name}: {shlex.join(component.argv)}"
    names = f"; environment: {', '.join(component.env)}" if component.env else ""
    yield f"  in {component.cwd}; log: {component.log}{names}"


def name_and_pid(status: ComponentStatus) -> str:
    """Describe *status* for people: name, pid, and processes that belong to it."""
    return f"pid {status.pid} ({status.user}), the component {status.name}, with all processes that it has started"


def left_behind(left: tuple[Remains, ...]) -> str:
    """Return the first processes of *left*, and the number of the others."""
    said = [f"pid {remains.pid} ({remains.command}) of {remains.component}" for remains in left[:5]]
    more = f" and {plural(len(left) - 5, 'other')}" if len(left) > 5 else ""
    return f"left behind: {', '.join(said)}{more}"


def not_ended(strays: tuple[Remains, ...]) -> str:
    """Describe *strays*, for people."""
    which = left_behind(strays).removeprefix("left behind: ")
    return (
        f"left behind in a component's session, but without its mark: {which}; find out what it is, and end it by hand"
    )


def what_remains(left: tuple[Remains, ...] | Unknown, strays: tuple[Remains, ...]) -> list[str]:
    """Return the processes that live on of dead components, for people."""
    said = [left.why] if isinstance(left, Unknown) else [left_behind(left)] if left else []
    return [*said, not_ended(strays)] if strays else said


def with_pids(parts: Iterable[ComponentStatus]) -> str:
    """Name the components of *parts* that run, and their pids."""
    return ", ".join(f"{part.name} (pid {part.pid})" for part in parts if part.runs)


def of_others(parts: Iterable[ComponentStatus]) -> str:
    """Name the running components of *parts* that were not started from here; empty: there are none."""
    found = with_pids(part for part in parts if not part.ours)
    return f"another program has started {found}" if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    components: tuple[Component, ...] = field(metadata={"min_items": 1})
    """The components, in the order of their start; each: name, argv, log, env, delay, cwd, pattern."""
    records: str = "~/.local/state/runbook/components"
    """The directory on the host for the records of started components; each set of components has its own."""
    cwd: str = "/"
    """The directory in which components without a `cwd` start."""
    state: Literal["present", "absent"] = "present"
    """present: all components run; absent: no component runs, and no process that was started by a component."""
    watch: Duration = field(default=Duration(5.0), metadata={"minimum": 0, "maximum": 3600})
    """The time that all components must keep running after the start of the last one."""
    end_others: bool = True
    """If one component dies while they are watched, end the others, also those that ran before."""
    grace: Duration = field(default=Duration(10.0), metadata={"minimum": 0, "maximum": 600})
    """The time between TERM and KILL."""
    lines: int = field(default=5, metadata={"minimum": 0, "maximum": 200})
    """The number of last lines of each log to show."""

    def __post_init__(self) -> None:
        for what, path in (("records", self.records), ("cwd", self.cwd)):
            if why := objection_to_path(path):
                raise ValueError(f"`{what}` {why}")
        names = [component.name for component in self.components]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"`components`: the same name is used twice: {', '.join(twice)}")

    @property
    def placed(self) -> tuple[Component, ...]:
        """Return the components, each with the directory in which it starts."""
        return tuple(replace(component, cwd=component.cwd or self.cwd) for component in self.components)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of the components."""

    parts: tuple[ComponentStatus, ...]
    """Each component in the given order: name, status, pid, exit_code, meaning, started, ended, seconds, last ..."""
    running: tuple[str, ...] = ()
    """Names of the components that run."""
    down: tuple[str, ...] = ()
    """Names of the components that do not run."""
    differing: tuple[str, ...] = ()
    """Names of components that run with other arguments, environment, cwd or log than given."""
    died: tuple[ComponentStatus, ...] = ()
    """Components that ended although nobody stopped them, the first to die first."""
    failed: tuple[ComponentStatus, ...] = ()
    """The components in `died` with a known exit code other than 0, in the same order."""
    first: str | Unknown = ""
    """Name of the first component that died; empty if none did."""
    ends: tuple[str, ...] = ()
    """The end of each component in `died`, in words."""
    said: tuple[str, ...] = ()
    """The last lines of all logs, each after its [name]."""
    left: tuple[Remains, ...] | Unknown = ()
    """Processes that still run although the component that started them has ended."""
    strays: tuple[Remains, ...] = ()
    """Processes without a mark, in the session of an ended component: this action never ends them."""
    obstacles: tuple[str, ...] = ()
    """The reasons why the missing components could not be started."""
    busy: int = 0
    """The pid of another process that is starting or ending components; 0: there is none."""
    turn: int = field(default=0, metadata={"private": True})


def probe(args: Args) -> Probe[State]:
    """Read the records and the processes, as the user to whom the components belong."""
    ask = ask_components(args.placed, args.records, args.lines)
    if any(component.pattern for component in args.components):
        done, processes = yield ask, ask_processes()
        seen = with_found(read_components(args.placed, done), args.components, read_processes(processes))
    else:
        seen = read_components(args.placed, (yield ask))
    obstacles = tuple(f"{name}: {why}" if name else why for name, why in seen.obstacles)
    state = State(
        parts=seen.parts, left=seen.left, strays=seen.strays, obstacles=obstacles, busy=seen.busy, turn=seen.turn
    )
    return _reported(state)


def _reported(state: State) -> State:
    """Return *state* with the fields that follow from its parts."""
    died = first_dead(state.parts)
    unseen = [status for status in died if not status.died]
    first: str | Unknown = died[0].name if died else ""
    if unseen and len(died) > 1:
        first = Unknown(why=f"the time when {unseen[0].name} ended is not known")
    return replace(
        state,
        running=tuple(part.name for part in state.parts if part.runs),
        down=tuple(part.name for part in state.parts if not part.runs),
        differing=tuple(part.name for part in state.parts if part.differs),
        died=died,
        failed=tuple(status for status in died if status.exit_code != 0 and not isinstance(status.exit_code, Unknown)),
        first=first,
        ends=tuple(map(end_of, died)),
        said=tuple(line for part in state.parts for line in part.last),
    )


def decide(args: Args, state: State) -> Decision:
    """Start the components that do not run; for `state: absent`, end those that run."""
    if state.busy:
        return Blocked(why=f"another process (pid {state.busy}) is starting or ending components: try again later")
    return _start(args, state) if args.state == "present" else _end(args, state)


def _start(args: Args, state: State) -> Decision:
    down = [component for component in args.placed if component.name in state.down]
    if not down:
        return NoChange(why=f"all components run: {with_pids(state.parts)}{_facts_to_report(state)}")
    if why := _obstacle(state):
        return Blocked(why=why)
    running = {part.name: part.key for part in state.parts if part.ours}
    concerned = tuple(component for component in args.placed if component.name in (*running, *state.down))
    ends = args.end_others and bool(running)
    others = f" (also {', '.join(running)})" if ends else ""
    summary = f"start {in_order(down)}; watch them for {seconds(args.watch)}"
    if args.end_others:
        summary += f", and end all{others} if one dies"
    return Change(
        summary=summary,
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
        targets=(
            *(_to_start(component, args.records) for component in down),
            *(_to_end(part) for part in state.parts if part.ours and ends),
        ),
        risk=Risk.KILLS_PROCESSES if ends else Risk.EDITS_FILES,
        diff="".join(f"{line}\n" for component in down for line in how_started(component)),
    )


def _obstacle(state: State) -> str:
    """Return the reason why the missing components must not be started now; empty if they may."""
    if isinstance(state.left, Unknown):
        return state.left.why
    if state.left:
        return f"{left_behind(state.left)}: end those processes first (`state: absent`)"
    return not_ended(state.strays) if state.strays else "; ".join(state.obstacles)


def _to_start(component: Component, records: str) -> Target:
    key = f"component:{records}:{component.name}"
    return Target(kind="service", key=key, say=f"the component {component.name}")


def _to_end(part: ComponentStatus) -> Target:
    """Return the target for a running component, which is ended if another one dies."""
    return Target(kind="service", key=part.key, say=name_and_pid(part))


def _end(args: Args, state: State) -> Decision:
    if isinstance(state.left, Unknown):
        return Blocked(why=state.left.why)
    running = [part for part in state.parts if part.ours]
    if not running and not state.left:
        if others := of_others(state.parts):
            return Blocked(why=f"{others}: end it with the program that started it (or with `pkill`)")
        if state.strays:
            return Blocked(why=not_ended(state.strays))
        return NoChange(why="no component runs")
    targets = [_victim(status, name_and_pid(status)) for status in running]
    targets += [_victim(remains, left_behind((remains,))) for remains in state.left]
    names = [
        *(status.name for status in reversed(running)),
        *dict.fromkeys(f"what is left of {remains.component}" for remains in state.left),
    ]
    return Change(
        summary=f"end {', then '.join(names)} (TERM, KILL after {seconds(args.grace)})",
        commands=(end_components(running, state.left, args.records, state.turn, grace=args.grace),),
        targets=tuple(targets),
        risk=Risk.KILLS_PROCESSES,
    )


def _victim(victim: ComponentStatus | Remains, say: str) -> Target:
    return Target(kind="process", key=victim.key, say=say, pid=victim.pid, user=victim.user, command=victim.command)


def without(state: State, keys: frozenset[str]) -> State:
    """Return *state* without the components and processes in *keys*."""
    names = {key.rpartition(":")[2] for key in keys if key.startswith("component:")}
    parts = tuple(part for part in state.parts if part.key not in keys and not (part.name in names and not part.ours))
    left = (
        state.left
        if isinstance(state.left, Unknown)
        else tuple(remains for remains in state.left if remains.key not in keys)
    )
    return _reported(replace(state, parts=parts, left=left))


def explain(args: Args, before: State, after: State) -> str:
    """Name the component that died first, and its end; for `state: absent`, the components that still run."""
    if args.state == "absent":
        return f"done, but still running: {'; '.join(_still(after))}"
    keys = {part.key for part in before.parts if not part.runs}
    dead = [status for status in after.died if status.key not in keys]
    if not dead:
        return f"done, but not running: {', '.join(after.down)}"
    return "; ".join(_lines_of_dead(dead, after))


def _still(state: State) -> list[str]:
    """Return the components that exist although none should."""
    others = of_others(state.parts)
    ours = [name_and_pid(part) for part in state.parts if part.ours]
    return [*ours, *([others] if others else []), *what_remains(state.left, state.strays)]


def _lines_of_dead(dead: list[ComponentStatus], after: State) -> Iterator[str]:
    """Yield the component that died first, with its last lines.

    Then the others that died; then the state of the rest.
    """
    if all(status.died for status in dead) or len(dead) == 1:
        yield f"died first: {end_of(dead[0])}" + last_words(dead[0])
        if len(dead) > 1:
            yield f"then {', '.join(end_of(status) for status in dead[1:])}"
    else:
        yield f"it is not known which of these died first: {', '.join(map(end_of, dead))}"
    if stopped := [part.name for part in after.parts if part.status == "stopped"]:
        yield f"ended because of that: {', '.join(stopped)}"
    if never := [part.name for part in after.parts if part.status == "never"]:
        yield f"not started: {', '.join(never)}"
    if after.running:
        yield f"still running: {with_pids(after.parts)}"
    yield from what_remains(after.left, after.strays)


def refused(command: Command, completed: Completed) -> str:
    """Return the error message of the host."""
    return "" if completed.timed_out else " ".join(completed.stderr.split())


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether all components run; for `state: absent`, whether none runs."""
    if args.state == "absent":
        still = _still(state)
        return Fails(why=f"still running: {'; '.join(still)}") if still else Holds(why="no component runs")
    if not state.down:
        return Holds(why=f"all components run: {with_pids(state.parts)}{_facts_to_report(state)}")
    return Fails(why="; ".join(state.ends) or f"not running: {', '.join(state.down)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste, without the values of variables."""
    if args.state == "absent":
        return ("kill -TERM -PID_OF_EACH", f"sleep {args.grace:g}; kill -KILL -PID_OF_EACH")
    lines = []
    for component in (component for component in args.placed if component.argv):
        lines += [f"sleep {component.delay:g}"] if component.delay else []
        words = [*(f"{name}=..." for name in component.env), "setsid", shlex.join(component.argv)]
        lines.append(
            f"cd {shlex.quote(component.cwd)} && {' '.join(words)} >>{shlex.quote(component.log)} 2>&1 </dev/null &"
        )
    return tuple(lines)


def _facts_to_report(state: State) -> str:
    """Return the facts that a run must report although it changes nothing."""
    if not state.differing:
        return ""
    names = ", ".join(state.differing)
    return f"; started with other settings than given now: {names} (end with `state: absent`, then start again)"
