"""Stop, start or restart one container, or change its restart policy or memory limit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.errors import ProbeError
from engine.facts.docker.containers import FORMAT, Container, container
from engine.facts.docker.engine import PRELUDE, amount, ask_docker, read_docker
from engine.protocols import Absent, Probe
from engine.values.command import Command, Completed, write_script
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration, Size, seconds

_POLICY = re.compile(r"no|always|unless-stopped|on-failure(:\d+)?")
_LOOK = r"""
ask container inspect --format "$2" -- "$1" || vanished || fail
"""
_DO = (
    PRELUDE
    + r"""
id=$1 seen=$2; shift 2
now=$(docker container inspect --format '{{.State.StartedAt}} {{.State.Status}}' -- "$id" 2>&1 </dev/null) || {
    said=$now; fail
}
[ "$now" = "$seen" ] || {
    printf 'left alone: it has been started, or has ended, since it was inspected (%s)\n' "$now" >&2; exit 3
}
ask container "$@" -- "$id" || fail
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which container, and what becomes of it."""

    name: str = field(metadata={"about": "Its name, or its id.", "min_length": 1})
    do: Literal["stop", "start", "restart", "update"] = field(
        metadata={"about": "update changes what is given of restart_policy, memory and memory_swap, while it runs."}
    )
    grace: Duration = field(
        default=Duration(10),
        metadata={"about": "How long its program may take to end before it is killed.", "maximum": 3600},
    )
    restart_policy: str = field(
        default="", metadata={"about": "no, always, unless-stopped, on-failure or on-failure:N; empty: as it is."}
    )
    memory: Size = field(
        default=Size(0), metadata={"about": "The most memory it may have; 0: as it is. Docker has no way back to none."}
    )
    memory_swap: Size = field(
        default=Size(0), metadata={"about": "Memory and swap together; 0: the same as memory, which means no swap."}
    )

    def __post_init__(self) -> None:
        given = bool(self.restart_policy or self.memory or self.memory_swap)
        if given != (self.do == "update"):
            raise ValueError("restart_policy, memory, memory_swap belong to `do: update`, which needs one of them")
        if self.restart_policy and not _POLICY.fullmatch(self.restart_policy):
            raise ValueError(f"no restart policy: {self.restart_policy!r} (no, always, unless-stopped, on-failure[:N])")
        if self.memory_swap and not self.memory_swap >= self.memory > 0:
            raise ValueError("memory_swap is memory and swap together: give memory too, and not more of it")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The container, if there is one."""

    found: tuple[Container, ...] = field(
        default=(), metadata={"about": "The container (name, status, memory, ...), if any."}
    )


def probe(args: Args) -> Probe[State]:
    """Ask for it by name."""
    answer = read_docker((yield ask_docker(_LOOK, args.name, FORMAT)))
    if answer.absent:
        return Absent(why=answer.absent, state=State())
    found = tuple(it for it in map(container, answer.all("container")) if _is_called(it, args.name))
    if len(found) > 1:
        raise ProbeError(f"several containers are called {args.name}")
    return State(found=found)


def _is_called(it: Container, name: str) -> bool:
    """Whether that is its name, or enough of its id; docker takes the first letters of an id for it, too."""
    return it.name == name.removeprefix("/") or (len(name) >= 12 and it.id.startswith(name))


def decide(args: Args, state: State) -> Decision:
    """Send what is still to be done, to this life of it."""
    if not state.found:
        if args.do == "stop":
            return NoChange(why=f"there is no container {args.name}")
        return Blocked(why=f"there is no container {args.name}: `docker ps -a` lists those that there are")
    (it,) = state.found
    if it.name.startswith("k8s_"):
        return Blocked(why=f"{it} belongs to Kubernetes, which would undo this: use kubectl")
    if it.status == "removing":
        return Blocked(why=f"{it} is being removed")
    if it.status == "paused" and args.do in ("start", "restart"):
        return Blocked(why=f"{it} is paused: `docker unpause {it.name}` lets it go on")
    words = tuple(_words(args, it))
    if not words:
        return NoChange(why=f"{it} {_stands(args, it)}")
    return Change(
        summary=_summary(args, it),
        commands=(_command(args, it, words),),
        risk=Risk.RESTARTS_SERVICES,
        targets=(Target(kind="container", key=it.identity, say=f"{it}, {it.status}", pid=it.pid),),
    )


def _words(args: Args, it: Container) -> Iterable[str]:
    """The docker command that is needed, without the container; none where it is as it should be."""
    grace = f"--time={args.grace:.0f}"
    match args.do:
        case "stop":
            yield from () if it.dead else ("stop", grace)
        case "start":
            yield from () if it.status in ("running", "restarting") else ("start",)
        case "restart":
            yield from ("restart", grace)
        case "update":
            changes = tuple(_updates(args, it))
            yield from ("update", *changes) if changes else ()


def _updates(args: Args, it: Container) -> Iterable[str]:
    if args.restart_policy and args.restart_policy != _policy(it):
        yield f"--restart={args.restart_policy}"
    swap = args.memory_swap or args.memory
    if args.memory and (it.memory != args.memory or (args.memory_swap and it.memory_swap != swap)):
        yield from (f"--memory={args.memory}", f"--memory-swap={swap}")


def _policy(it: Container) -> str:
    return f"{it.restart_policy}:{it.max_retries}" if it.max_retries else it.restart_policy


def _command(args: Args, it: Container, words: tuple[str, ...]) -> Command:
    raw = it.seen.split(" ")
    made = write_script(_DO, it.id, f"{raw[1]} {raw[0]}", *words)
    return replace(made, timeout=args.grace + 120, stands_for=("docker", "container", *words, "--", it.id))


def _stands(args: Args, it: Container) -> str:
    if args.do == "update":
        limit = f", memory {amount(it.memory)}" if it.memory else ""
        return f"is as it should be (restart policy {_policy(it)}{limit})"
    return f"is {it.status} already"


def _summary(args: Args, it: Container) -> str:
    if args.do == "update":
        return f"update {it}: {' '.join(_updates(args, it))}"
    grace = f" (killed after {seconds(args.grace)})" if args.do in ("stop", "restart") and not it.dead else ""
    return f"{args.do} {it}, which is {it.status}{grace}"


def settled(args: Args, before: State, after: State) -> bool:
    """It runs, or is dead, or has the limits, as asked; after a restart in a new life."""
    if not after.found:
        return args.do == "stop"  # one that was to be removed when it ends
    (now,) = after.found
    if args.do == "restart":
        return now.status == "running" and now.identity != before.found[0].identity
    if args.do == "start":
        return now.status == "running"  # one that is restarting has come to no end yet, or to a bad one
    return not tuple(_words(args, now))


def explain(args: Args, before: State, after: State) -> str:
    """How it stands with it."""
    if not after.found:
        return f"{args.name} is not there any more"
    (now,) = after.found
    return (
        f"{now} is {now.status}"
        + (f", exit code {now.exit_code}" if now.dead else "")
        + (f": {now.error}" if now.error else "")
    )


def refused(command: Command, completed: Completed) -> str:
    """Docker's own words, or that it has changed since."""
    lines = completed.stderr.strip().splitlines()
    return lines[-1].removeprefix("Error response from daemon: ") if lines else ""


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without this life of it."""
    return State(found=tuple(it for it in state.found if it.identity not in keys))


def by_hand(args: Args) -> tuple[str, ...]:
    """The line that a person would paste."""
    words: list[str] = [args.do]
    if args.do in ("stop", "restart"):
        words.append(f"--time={args.grace:.0f}")
    if args.restart_policy:
        words.append(f"--restart={args.restart_policy}")
    if args.memory:
        words += [f"--memory={args.memory}", f"--memory-swap={args.memory_swap or args.memory}"]
    return (f"docker {shlex.join([*words, args.name])}",)
