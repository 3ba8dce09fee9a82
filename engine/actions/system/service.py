"""Start, stop, restart or reload a service of systemd, and have it start at boot or not.

A restart is done when the service is up under a new invocation, start time or process. Where systemd does not run the
host (most containers) the step is skipped. What the way into the host hangs on is not stopped unless `allow` names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from engine.facts.system.systemd_units import (
    Unit,
    ask_unit,
    came_anew,
    condition,
    full_name,
    is_up,
    objection_to_name,
    protected,
    read_unit,
    steer,
    wait,
)
from engine.protocols import Absent, Fails, Holds, Probe
from engine.values.command import Command, Completed
from engine.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from engine.values.types import Duration, Unknown

NO_SYSTEMD = "systemd does not run this host (no /run/systemd/system)"

_DONE = {"started": "started", "stopped": "stopped", "restarted": "restarted", "reloaded": "reloaded", "": "done"}
_VERBS = {"started": "start", "stopped": "stop", "restarted": "restart", "reloaded": "reload"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which unit, and how it shall be."""

    name: str = field(metadata={"about": "A service, or with its ending a .socket, .timer or .path."})
    state: Literal["", "started", "stopped", "restarted", "reloaded"] = field(
        default="", metadata={"about": "What it shall be; restarted and reloaded are done anew every time."}
    )
    enabled: bool | None = field(default=None, metadata={"about": "Whether it starts at boot; null: as it is."})
    steady: Duration = field(
        default=Duration(1.0),
        metadata={"about": "How long a service must run before it is probed again.", "minimum": 0, "maximum": 300},
    )
    daemon_reload: bool = field(
        default=False, metadata={"about": "Have systemd read its files anew first, if this unit's has changed."}
    )
    allow: tuple[str, ...] = field(
        default=(), metadata={"about": "Protected units that may be stopped after all, by name."}
    )

    def __post_init__(self) -> None:
        if why := objection_to_name(self.name):
            raise ValueError(why)
        if not self.state and self.enabled is None:
            raise ValueError("give `state` (started, stopped, restarted, reloaded) or `enabled`")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """How the unit stands."""

    unit: Unit | Unknown = field(
        metadata={"about": "What systemd says of it (id, active, sub, pid, enabled, result, restarts, since ...)."}
    )
    active: bool | Unknown = field(metadata={"about": "Whether it runs."})
    enabled: str | Unknown = field(metadata={"about": "enabled, disabled, static, masked ..."})
    root: bool = field(default=False, metadata={"about": "Whether we may steer it: the step runs as root."})


def probe(args: Args) -> Probe[State]:
    """One look."""
    look = read_unit(args.name, (yield ask_unit(args.name)))
    if look.unit is None:
        unknown = Unknown(why=NO_SYSTEMD)
        return Absent(why=NO_SYSTEMD, state=State(unit=unknown, active=unknown, enabled=unknown))
    return State(unit=look.unit, active=is_up(look.unit), enabled=look.unit.enabled, root=look.root)


def decide(args: Args, state: State) -> Decision:
    """Do what it takes, if nothing forbids it."""
    unit = state.unit
    if isinstance(unit, Unknown):
        return Blocked(why=unit.why)
    verbs = tuple(_verbs(args, unit))
    obstacles = list(_obstacles(args, unit, verbs))
    if obstacles:
        return Blocked(why="; ".join(obstacles))
    if not verbs:
        return NoChange(why=condition(unit) + (f", {unit.enabled}" if args.enabled is not None else ""))
    if not state.root:
        return Blocked(why=f"{unit.id}: to {' and '.join(verbs)} it needs root: give the step `become: true`")
    return Change(
        summary=_summary(args, unit, verbs),
        commands=tuple(_commands(args, unit, verbs)),
        targets=(Target(kind="service", key=unit.id, say=unit.id),),
        risk=Risk.RESTARTS_SERVICES if _VERBS.get(args.state) in verbs else Risk.EDITS_FILES,
    )


def _verbs(args: Args, unit: Unit) -> Iterator[str]:
    """What systemctl is to do."""
    if args.enabled is True and unit.enabled not in ("enabled", "static", "indirect", "alias", "generated"):
        yield "enable"
    if args.enabled is False and unit.enabled in ("enabled", "enabled-runtime", "linked", "linked-runtime"):
        yield "disable"
    match args.state:
        case "started" if not is_up(unit):
            yield "start"
        case "stopped" if unit.active not in ("inactive", "failed"):
            yield "stop"
        case "restarted" | "reloaded":
            yield _VERBS[args.state]


def _obstacles(args: Args, unit: Unit, verbs: tuple[str, ...]) -> Iterator[str]:
    if unit.load == "not-found":
        near = f" (did you mean {' or '.join(unit.similar)}?)" if unit.similar else ""
        yield f"there is no unit {full_name(args.name)} on this host{near}"
        return
    if unit.load == "masked" and {"start", "restart", "enable"} & set(verbs):
        yield f"{unit.id} is masked: somebody has forbidden it to start (systemctl unmask {unit.id})"
    elif unit.load not in ("loaded", "masked"):
        yield f"systemd cannot use {unit.file or unit.id}: it is {unit.load} (systemctl status {unit.id} says why)"
    why = protected(unit, args.allow)
    careful = {"stop", "restart", "disable"} | ({"start"} if "systemd" in why else set())
    if why and careful & set(verbs):
        yield f"{unit.id} is left alone: {why} (`allow: [{unit.id}]` does it all the same)"
    if args.enabled is True and unit.enabled in ("static", "generated"):
        yield f"{unit.id} is {unit.enabled}: it cannot be enabled, other units start it"
    if "reload" in verbs and not is_up(unit):
        yield f"{condition(unit)}: there is nothing to reload"
    elif "reload" in verbs and not unit.can_reload:
        yield f"{unit.id} cannot reload its settings: use `state: restarted`"


def _summary(args: Args, unit: Unit, verbs: tuple[str, ...]) -> str:
    words = f"{' and '.join(verbs)} {unit.id}"
    if "stop" in verbs and unit.triggered_by:
        words += f" ({', '.join(unit.triggered_by)} may start it again)"
    if unit.stale and not args.daemon_reload and {"start", "restart"} & set(verbs):
        words += " (its file has changed, and systemd has not read it since: `daemon_reload: true` has it read)"
    return words


def _commands(args: Args, unit: Unit, verbs: tuple[str, ...]) -> Iterator[Command]:
    if args.daemon_reload and unit.stale:
        yield steer("daemon-reload")
    for verb in verbs:
        yield steer(verb, unit.id)
    if {"start", "restart"} & set(verbs) and args.steady and unit.id.endswith(".service") and unit.kind != "oneshot":
        yield wait(args.steady)


def settled(args: Args, before: State, after: State) -> bool:
    """It is as it shall be, and where that is done anew every time, it has been."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """What a second look still sees."""
    return f"{_DONE[args.state]}, but {'; '.join(_unsettled(args, before, after))}"


def _unsettled(args: Args, before: State, after: State) -> list[str]:
    old, new = before.unit, after.unit
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return ["systemd does not say how it stands"]
    found = []
    ran = new.kind == "oneshot" and not new.remains and new.active == "inactive" and new.result in ("", "success")
    left = [it for it in _verbs(args, new) if it not in ("restart", "reload") and not (it == "start" and ran)]
    if left or (args.state in ("restarted", "reloaded") and not is_up(new) and not ran):
        found.append(condition(new) + (f", and {new.enabled}" if {"enable", "disable"} & set(left) else ""))
    elif args.state in ("started", "restarted") and _falls_over(old, new):
        found.append(f"it does not stay up: {condition(new)}")
    elif args.state == "restarted" and not ran and not came_anew(old, new):
        found.append(f"{new.id} is the same as before: neither invocation, start time nor process is new")
    elif args.state == "reloaded" and (new.moved == old.moved or isinstance(new.moved, Unknown)):
        found.append(f"systemd has no record that {new.id} was reloaded")
    return found


def _falls_over(old: Unit, new: Unit) -> bool:
    """Whether systemd had to start it anew since we did."""
    return came_anew(old, new) and isinstance(new.restarts, int) and new.restarts > 0


def refused(command: Command, completed: Completed) -> str:
    """systemctl's own words, without its advice."""
    if completed.timed_out or completed.exit_code is None or command.argv[:1] != ("systemctl",):
        return ""
    lines = [" ".join(it.split()) for it in completed.stderr.split("\n") if it.strip()]
    said = [it for it in lines if not it.startswith(("See ", "Warning: "))][:2]
    return (
        f"{'; '.join(said)} (exit code {completed.exit_code}; journalctl -u {command.argv[-1]} says why)"
        if said
        else ""
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """It runs, or does not, and is enabled or not, as the step says."""
    unit = state.unit
    if isinstance(unit, Unknown):
        return Fails(why=unit.why)
    wanted = [it for it in _verbs(args, unit) if it not in ("restart", "reload")]
    down = args.state in ("restarted", "reloaded") and not is_up(unit)
    words = condition(unit) + (f", {unit.enabled}" if args.enabled is not None else "")
    return Fails(why=words) if wanted or down or unit.load == "not-found" else Holds(why=words)


def by_hand(args: Args) -> tuple[str, ...]:
    """The lines that a person would paste."""
    verbs = ([] if args.enabled is None else ["enable" if args.enabled else "disable"]) + (
        [_VERBS[args.state]] if args.state else []
    )
    return tuple(f"systemctl {it} {full_name(args.name)}" for it in verbs)
