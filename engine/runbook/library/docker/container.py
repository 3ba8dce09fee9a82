"""Stop, start or restart one container, or change its restart policy or memory limit."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.docker.facts.containers import FORMAT, Container, container
from runbook.library.docker.facts.engine import PRELUDE, amount, ask_docker, read_docker
from runbook.protocols import Absent, Probe
from runbook.shell import script
from runbook.values.command import Command, Completed, write_script
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Json, Size, seconds
from runbook.values.undo import Undo, UndoStep

_POLICY = re.compile(r"no|always|unless-stopped|on-failure(:\d+)?")
_LOOK = r"""
ask container inspect --format "$2" -- "$1" || vanished || fail
"""
_DO = PRELUDE + script(__package__, "container_command")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str = field(metadata={"min_length": 1})
    """The container's name or id."""
    do: Literal["stop", "start", "restart", "update"]
    """update changes the given ones of restart_policy, memory and memory_swap, without a restart."""
    grace: Duration = field(default=Duration(10), metadata={"maximum": 3600})
    """The time that the container's program may take to end before it is killed."""
    restart_policy: str = ""
    """no, always, unless-stopped, on-failure or on-failure:N; empty: unchanged."""
    memory: Size = Size(0)
    """Memory limit; 0: unchanged. Docker cannot remove a limit once set."""
    memory_swap: Size = Size(0)
    """Memory and swap together; 0: the same as memory, which means no swap."""

    def __post_init__(self) -> None:
        given = bool(self.restart_policy or self.memory or self.memory_swap)
        if given != (self.do == "update"):
            raise ValueError("restart_policy, memory and memory_swap belong to `do: update`, which needs at least one")
        if self.restart_policy and not _POLICY.fullmatch(self.restart_policy):
            raise ValueError(
                f"no such restart policy: {self.restart_policy!r} (no, always, unless-stopped, on-failure[:N])"
            )
        if self.memory_swap and not self.memory_swap >= self.memory > 0:
            raise ValueError("memory_swap is memory plus swap: give memory too, not larger than memory_swap")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The container, if there is one."""

    found: tuple[Container, ...] = ()
    """The container (name, status, memory, ...), if any."""


def probe(args: Args) -> Probe[State]:
    """Ask for it by name."""
    answer = read_docker((yield ask_docker(_LOOK, args.name, FORMAT)))
    if answer.absent:
        return Absent(why=answer.absent, state=State())
    found = tuple(each for each in map(container, answer.all("container")) if _is_called(each, args.name))
    if len(found) > 1:
        raise ProbeError(f"several containers are called {args.name}")
    return State(found=found)


def _is_called(container: Container, name: str) -> bool:
    """Whether that is its name, or enough of its id; docker takes the first letters of an id for it, too."""
    return container.name == name.removeprefix("/") or (len(name) >= 12 and container.id.startswith(name))


def decide(args: Args, state: State) -> Decision:
    """Send what is still to be done, to this life of it."""
    if not state.found:
        if args.do == "stop":
            return NoChange(why=f"there is no container {args.name}")
        return Blocked(why=f"there is no container {args.name}: `docker ps -a` lists all containers")
    (it,) = state.found
    if it.name.startswith("k8s_"):
        return Blocked(why=f"{it} is managed by Kubernetes, which would undo this change: use kubectl")
    if it.status == "removing":
        return Blocked(why=f"{it} is being removed")
    if it.status == "paused" and args.do in ("start", "restart"):
        return Blocked(why=f"{it} is paused: run `docker unpause {it.name}` first")
    words = tuple(_docker_arguments(args, it))
    if not words:
        return NoChange(why=f"{it} {_stands(args, it)}")
    return Change(
        summary=_summary(args, it),
        commands=(_command(args, it, words),),
        risk=Risk.RESTARTS_SERVICES,
        targets=(Target(kind="container", key=it.identity, say=f"{it}, {it.status}", pid=it.pid),),
    )


def _docker_arguments(args: Args, container: Container) -> Iterable[str]:
    """The docker command that is needed, without the container; none where it is as it should be."""
    grace = f"--time={args.grace:.0f}"
    match args.do:
        case "stop":
            yield from () if container.dead else ("stop", grace)
        case "start":
            yield from () if container.status in ("running", "restarting") else ("start",)
        case "restart":
            yield from ("restart", grace)
        case "update":
            changes = tuple(_updates(args, container))
            yield from ("update", *changes) if changes else ()


def _updates(args: Args, container: Container) -> Iterable[str]:
    if args.restart_policy and args.restart_policy != _policy(container):
        yield f"--restart={args.restart_policy}"
    swap = args.memory_swap or args.memory
    if args.memory and (container.memory != args.memory or (args.memory_swap and container.memory_swap != swap)):
        yield from (f"--memory={args.memory}", f"--memory-swap={swap}")


def _policy(container: Container) -> str:
    return f"{container.restart_policy}:{container.max_retries}" if container.max_retries else container.restart_policy


def _command(args: Args, container: Container, words: tuple[str, ...]) -> Command:
    raw = container.seen.split(" ")
    made = write_script(_DO, container.id, f"{raw[1]} {raw[0]}", *words)
    return replace(made, timeout=args.grace + 120, stands_for=("docker", "container", *words, "--", container.id))


def _stands(args: Args, container: Container) -> str:
    if args.do == "update":
        limit = f", memory {amount(container.memory)}" if container.memory else ""
        return f"has these settings already (restart policy {_policy(container)}{limit})"
    return f"is {container.status} already"


def _summary(args: Args, container: Container) -> str:
    if args.do == "update":
        return f"update {container}: {' '.join(_updates(args, container))}"
    grace = f" (killed after {seconds(args.grace)})" if args.do in ("stop", "restart") and not container.dead else ""
    return f"{args.do} {container}, which is {container.status}{grace}"


def settled(args: Args, before: State, after: State) -> bool:
    """It runs, or is dead, or has the limits, as asked; after a restart in a new life."""
    if not after.found:
        return args.do == "stop"  # one that was to be removed when it ends
    (now,) = after.found
    if args.do == "restart":
        return now.status == "running" and now.identity != before.found[0].identity
    if args.do == "start":
        return now.status == "running"  # one that is restarting has come to no end yet, or to a bad one
    return not tuple(_docker_arguments(args, now))


def explain(args: Args, before: State, after: State) -> str:
    """Describe the container's state."""
    if not after.found:
        return f"the container {args.name} no longer exists"
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
    return State(found=tuple(each for each in state.found if each.identity not in keys))


def undo(args: Args, state: State, change: Change) -> Undo:
    """A stop by a start, an update by the earlier settings, a restart by another; a limit that there was not stays."""
    (it,) = state.found
    if args.do == "restart":
        again = UndoStep(
            action="container", args={"name": it.id, "do": "restart"}, say=f"restart {it} again", if_restored=True
        )
        return Undo(parts=(again,))
    if args.do == "stop" and it.auto_remove:
        return Undo(stays=(f"{it} is removed once it has stopped (--rm)",))
    if args.do in ("stop", "start"):
        back = {"stop": "start", "start": "stop"}[args.do]
        return Undo(parts=(UndoStep(action="container", args={"name": it.id, "do": back}, say=f"{back} {it}"),))
    changed, stays = " ".join(_updates(args, it)), []
    settings: dict[str, Json] = {}
    if "--restart" in changed:
        settings["restart_policy"] = _policy(it)
    if "--memory" in changed and not it.memory:
        stays.append(f"{it} had no memory limit, and Docker cannot remove one")
    elif "--memory" in changed:
        if it.memory_swap < it.memory:
            stays.append(f"the swap of {it} was not limited, and is limited with its memory")
        swap = {"memory_swap": it.memory_swap} if it.memory_swap and it.memory_swap >= it.memory else {}
        settings |= {"memory": it.memory, **swap}
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    step = UndoStep(action="container", args={"name": it.id, "do": "update", **settings}, say=f"update {it}: {words}")
    return Undo(parts=(step,) if settings else (), stays=tuple(stays))


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    words: list[str] = [args.do]
    if args.do in ("stop", "restart"):
        words.append(f"--time={args.grace:.0f}")
    if args.restart_policy:
        words.append(f"--restart={args.restart_policy}")
    if args.memory:
        words += [f"--memory={args.memory}", f"--memory-swap={args.memory_swap or args.memory}"]
    return (f"docker {shlex.join([*words, args.name])}",)
