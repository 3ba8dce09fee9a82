"""Start, stop, restart or reload a systemd service, and enable or disable it at boot.

A restart is done when the service is up with a new invocation, start time or process. If the host does not run systemd
(most containers), the step is skipped. Units that the connection to the host depends on are not stopped unless `allow`
names them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.system.facts.systemd_units import (
    Unit,
    ask_unit,
    condition,
    full_name,
    has_completed,
    is_up,
    keeps_restarting,
    objection_to_name,
    protected,
    read_unit,
    steer,
    wait,
    was_restarted,
)
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Json, Unknown
from runbook.values.undo import Undo, UndoStep

NO_SYSTEMD = "systemd does not run this host (no /run/systemd/system)"

_DONE = {"started": "started", "stopped": "stopped", "restarted": "restarted", "reloaded": "reloaded", "": "done"}
_REVERSE = {"stop": "start", "start": "stop", "disable": "enable", "enable": "disable"}
_RUNS_CONTAINERS = ("docker.service", "containerd.service", "crio.service", "kubelet.service")
"""Units whose restart with other settings may end the containers that they run."""
_VERBS = {"started": "start", "stopped": "stop", "restarted": "restart", "reloaded": "reload"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str
    """A service, or with its ending a .socket, .timer or .path."""
    state: Literal["", "started", "stopped", "restarted", "reloaded"] = ""
    """The wanted state; restarted and reloaded are done on every run."""
    enabled: bool | None = None
    """Whether the unit starts at boot; null: unchanged."""
    steady: Duration = field(default=Duration(1.0), metadata={"minimum": 0, "maximum": 300})
    """The pause after a start before the service is probed again."""
    daemon_reload: bool = False
    """Run systemctl daemon-reload first, if this unit's file has changed."""
    allow: tuple[str, ...] = ()
    """Protected units, by name, that may be stopped all the same."""

    def __post_init__(self) -> None:
        if why := objection_to_name(self.name):
            raise ValueError(why)
        if not self.state and self.enabled is None:
            raise ValueError("give `state` (started, stopped, restarted, reloaded) or `enabled`")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of the unit."""

    unit: Unit | Unknown
    """The unit as systemd reports it (id, active, sub, pid, enabled, result, restarts, since ...)."""
    active: bool | Unknown
    """Whether the unit runs."""
    enabled: str | Unknown
    """enabled, disabled, static, masked ..."""
    root: bool = False
    """Whether the step runs as root, and so may control units."""


def probe(args: Args) -> Probe[State]:
    """Read the unit's state."""
    found = read_unit(args.name, (yield ask_unit(args.name)))
    if found.unit is None:
        unknown = Unknown(why=NO_SYSTEMD)
        return Absent(why=NO_SYSTEMD, state=State(unit=unknown, active=unknown, enabled=unknown))
    return State(unit=found.unit, active=is_up(found.unit), enabled=found.unit.enabled, root=found.root)


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
        return Blocked(why=f"{unit.id}: {' and '.join(verbs)} needs root: give the step `become: true`")
    return Change(
        summary=_summary(args, unit, verbs),
        commands=tuple(_commands(args, unit, verbs)),
        targets=(Target(kind="service", key=unit.id, say=unit.id),),
        risk=Risk.RESTARTS_SERVICES if _VERBS.get(args.state) in verbs else Risk.EDITS_FILES,
    )


def _verbs(args: Args, unit: Unit) -> Iterator[str]:
    """Yield the verbs for systemctl."""
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
        yield f"{unit.id} is masked and cannot start: `systemctl unmask {unit.id}` allows it"
    elif unit.load not in ("loaded", "masked"):
        yield f"systemd cannot use {unit.file or unit.id}: it is {unit.load} (see: systemctl status {unit.id})"
    why = protected(unit, args.allow)
    careful = {"stop", "restart", "disable"} | ({"start"} if "systemd" in why else set())
    if why and careful & set(verbs):
        yield f"{unit.id} is left alone: {why} (`allow: [{unit.id}]` overrides this)"
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
        words += " (its file has changed since systemd read it: `daemon_reload: true` reads it)"
    return words


def _commands(args: Args, unit: Unit, verbs: tuple[str, ...]) -> Iterator[Command]:
    if args.daemon_reload and unit.stale:
        yield steer("daemon-reload")
    for verb in verbs:
        yield steer(verb, unit.id)
    if {"start", "restart"} & set(verbs) and args.steady and unit.id.endswith(".service") and unit.kind != "oneshot":
        yield wait(args.steady)


def settled(args: Args, before: State, after: State) -> bool:
    """It is as it shall be, and where that is done again every time, it has been."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds."""
    return f"{_DONE[args.state]}, but {'; '.join(_unsettled(args, before, after))}"


def _unsettled(args: Args, before: State, after: State) -> list[str]:
    """Return the reasons why the unit is not in the wanted state, or was not restarted or reloaded; empty: it is."""
    old, new = before.unit, after.unit
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        return ["systemd does not report the unit's state"]
    completed = has_completed(new)
    left = {verb for verb in _verbs(args, new) if verb not in ("restart", "reload")} - (
        {"start"} if completed else set()
    )
    if left or (args.state in ("restarted", "reloaded") and not is_up(new) and not completed):
        return [condition(new) + (f", and {new.enabled}" if {"enable", "disable"} & left else "")]
    if args.state in ("started", "restarted") and keeps_restarting(old, new):
        return [f"the service does not stay up: {condition(new)}"]
    return list(_not_done_anew(args, old, new))


def _not_done_anew(args: Args, old: Unit, new: Unit) -> Iterator[str]:
    """Yield a reason if a restart or a reload, which has no state of its own, left no trace."""
    if args.state == "restarted" and not has_completed(new) and not was_restarted(old, new):
        yield f"{new.id} was not restarted: invocation, start time and process are the same as before"
    if args.state == "reloaded" and (new.moved == old.moved or isinstance(new.moved, Unknown)):
        yield f"systemd has no record that {new.id} was reloaded"


def refused(command: Command, completed: Completed) -> str:
    """systemctl's own words, without its advice."""
    if completed.timed_out or completed.exit_code is None or command.argv[:1] != ("systemctl",):
        return ""
    lines = [" ".join(line.split()) for line in completed.stderr.split("\n") if line.strip()]
    said = [line for line in lines if not line.startswith(("See ", "Warning: "))][:2]
    return f"{'; '.join(said)} (exit code {completed.exit_code}; see: journalctl -u {command.argv[-1]})" if said else ""


def undo(args: Args, state: State, change: Change) -> Undo:
    """A start by a stop, an enable by a disable, and the other way round; a restart by another with the old file."""
    unit = state.unit
    if isinstance(unit, Unknown):
        return Undo(stays=(unit.why,))
    verbs = set(_verbs(args, unit))
    back: dict[str, Json] = {"name": unit.id, "allow": list(args.allow)}
    again, stays = _again(unit, back, args.state if verbs & {"restart", "reload"} else "")
    if {"start", "stop"} & verbs:
        back["state"] = "stopped" if "start" in verbs else "started"
    if ("enable" in verbs and unit.enabled in ("disabled", "")) or ("disable" in verbs and unit.enabled == "enabled"):
        back["enabled"] = "disable" in verbs
    elif {"enable", "disable"} & verbs:
        stays.append(f"{unit.id} was {unit.enabled} at boot")
    if not {"state", "enabled"} & back.keys():
        return Undo(parts=again, stays=tuple(stays))
    words = " and ".join(word for word in ("stop", "start", "disable", "enable") if _REVERSE[word] in verbs)
    return Undo(parts=(UndoStep(action="service", args=back, say=f"{words} {unit.id}"), *again), stays=tuple(stays))


def _again(unit: Unit, name: Mapping[str, Json], state: str) -> tuple[tuple[UndoStep, ...], list[str]]:
    """Do once more what gives *unit* its earlier files, or why that is left to a person."""
    if not state:
        return (), []
    verb = _VERBS[state]
    if unit.id in _RUNS_CONTAINERS:
        words = f"{unit.id} stays as its {verb} has left it: what is restored counts after its next one"
        return (), [f"{words}, which may end containers"]
    step = UndoStep(action="service", args={**name, "state": state}, say=f"{verb} {unit.id} again", if_restored=True)
    return (step,), []


def holds(args: Args, state: State) -> Holds | Fails:
    """It runs, or does not, and is enabled or not, as the step says."""
    unit = state.unit
    if isinstance(unit, Unknown):
        return Fails(why=unit.why)
    wanted = [verb for verb in _verbs(args, unit) if verb not in ("restart", "reload")]
    down = args.state in ("restarted", "reloaded") and not is_up(unit)
    words = condition(unit) + (f", {unit.enabled}" if args.enabled is not None else "")
    return Fails(why=words) if wanted or down or unit.load == "not-found" else Holds(why=words)


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    verbs = ([] if args.enabled is None else ["enable" if args.enabled else "disable"]) + (
        [_VERBS[args.state]] if args.state else []
    )
    return tuple(f"systemctl {verb} {full_name(args.name)}" for verb in verbs)
