"""Reset wedged GPUs one by one, only if no process holds them and nothing else would be affected.

The settings that a reset removes are restored however the step ends: persistence mode, compute mode, power limit,
application clocks.  MIG instances and locked clocks (`nvidia-smi -lgc`) are not restored.  Afterwards the driver must
report all values of the GPU again; then a line in the logs says that the GPU was reset, so that `kernel_log` ignores
the faults before this line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.fabric.facts.nvlink import Links, ask_links, obstacle, read_links, together
from runbook.library.gpu.facts.device_users import Users, ask_users, read_users
from runbook.library.gpu.facts.driver_services import (
    SERVICE_NAME,
    Service,
    ask_services,
    read_services,
    start_again,
    stop,
)
from runbook.library.gpu.facts.driver_services import TIMEOUT as STOP_TIMEOUT
from runbook.library.gpu.facts.reset import TIMEOUT as RESET_TIMEOUT
from runbook.library.gpu.facts.reset import (
    GpuSettings,
    answers,
    ask_settings,
    mark,
    read_settings,
    refusal,
    reset,
    set_again,
    set_persistence,
)
from runbook.library.gpu.facts.smi_markers import is_share
from runbook.library.gpu.facts.smi_query import (
    Gpu,
    SmiReading,
    ask_gpus,
    ask_presence,
    bus_id,
    read_gpus,
    read_presence,
)
from runbook.library.gpu.facts.utilisation import chosen, listed_on, wedged
from runbook.protocols import Absent, Probe
from runbook.values.command import Command, Completed, read
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Unknown, plural

BUSY_ABOVE = 5.0
"""A utilization in percent; a GPU that is busier on two probes although no process holds it is wedged."""

SPARE = 180.0
"""The seconds for everything else between the stop and the start of services."""

APART = 2.0
"""The seconds between the two probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    gpus: tuple[str, ...] = ()
    """UUIDs, PCI bus ids or indexes, as text; `all`: every GPU. Empty: nothing is reset."""
    only: Literal["wedged", "any"] = "wedged"
    """wedged: only the wedged GPUs in `gpus`; any: all of `gpus`."""
    force: bool = False
    """Also reset a GPU in MIG mode (its instances are destroyed), a GPU without its NVLink peers, and a vGPU."""
    stop: tuple[str, ...] = ()
    """systemd services that may be stopped for the reset if they hold a GPU; exactly those are started again, also if
    the reset fails.
    """

    def __post_init__(self) -> None:
        if wrong := [word for word in self.stop if not SERVICE_NAME.fullmatch(word)]:
            raise ValueError(f"`stop`: {wrong[0]!r} is not a valid name of a service")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs that the step may reset, and the obstacles."""

    gpus: tuple[Gpu, ...] = ()
    """The GPUs in `gpus` that exist on this host."""
    there: int = 0
    """The number of GPUs of the host."""
    missing: tuple[str, ...] = ()
    """Names in `gpus` that match no GPU of this host."""
    lost: tuple[str, ...] = ()
    """Bus ids of GPUs that have fallen off the bus."""
    wedged: Mapping[str, bool | Unknown] = field(default_factory=dict)
    """For each UUID, whether the GPU requires a reset, or is busy although no process holds it."""
    holders: Mapping[str, tuple[str, ...] | Unknown] = field(default_factory=dict)
    """For each UUID, the processes that have the GPU's device node open."""
    stops: tuple[str, ...] = ()
    """Services that hold a GPU; they would be stopped, and started again."""
    running: tuple[str, ...] = ()
    """The services in `stop` that are running."""
    pulled: tuple[str, ...] = ()
    """Other running units that systemd would stop together with `stops`."""
    root: bool = False
    """Whether the step runs as root."""
    joined: str = ""
    """The reason why NVLink does not allow a reset of only these GPUs; empty if it does."""
    settings: Mapping[str, GpuSettings] = field(default_factory=dict)
    """For each UUID, the settings that a reset removes and that are restored after it: compute_mode, power_limit,
    clocks.
    """
    groups: tuple[tuple[str, ...], ...] = ()
    """UUIDs of GPUs that must be reset together, with one command."""


def probe(args: Args) -> Probe[State]:
    """Read the GPUs and the processes that hold them; read the NVLink connections only if a reset may follow."""
    if not args.gpus:
        return State()
    questions = (ask_presence(), ask_gpus(APART, apps=True), ask_users(), read("id", "-u"))
    present, smi, users, whoami, *more = yield (*questions, *([ask_services(args.stop)] if args.stop else []))
    presence = read_presence(present)
    if presence.absent:
        return Absent(why="no NVIDIA GPU", state=State(missing=args.gpus))
    services = read_services(more[0]) if more else ()
    state = _state(args, read_gpus(smi, samples=2), read_users(users, presence), whoami, services)
    if not _wanted(args, state):
        return state
    wanted = _wanted(args, state)
    linked, settings = yield (ask_links(), ask_settings(wanted))
    try:
        links = read_links(linked)
    except ProbeError as error:
        links = Links(linked=Unknown(why=str(error)), capability={}, switches=True, fabric_manager=False)
    return replace(_with_links(args, state, links), settings=read_settings(settings, wanted))


def _state(args: Args, reading: SmiReading, users: Users, whoami: Completed, services: tuple[Service, ...]) -> State:
    holding = [service for service in services if service.pid in users.pids()]
    stopped = {each.pid for each in holding}
    names = {} if "all" in args.gpus else chosen(reading.gpus, args.gpus)
    asked = reading.gpus if "all" in args.gpus else tuple(dict.fromkeys(name for name in names.values() if name))
    return State(
        gpus=asked,
        there=len(reading.gpus),
        missing=tuple(name for name, gpu in names.items() if gpu is None),
        lost=reading.lost,
        wedged={
            each.key: wedged(
                each,
                BUSY_ABOVE,
                users.held(each),
                listed_on(each, reading.apps, all_processes=users.presence.all_processes),
            )
            for each in asked
        },
        holders={each.key: users.of(each, stopped) for each in asked},
        stops=tuple(each.unit for each in holding),
        running=tuple(service.unit for service in services),
        pulled=tuple(
            sorted({name for each in holding for name in each.pulls} - {service.unit for service in services})
        ),
        root=whoami.exit_code == 0 and whoami.stdout.strip() == "0",
    )


def _with_links(args: Args, state: State, links: Links) -> State:
    wanted = _wanted(args, state)
    groups = tuple(tuple(gpu.key for gpu in group) for group in together(wanted, links))
    return replace(state, joined=obstacle(wanted, links), groups=groups)


def _wanted(args: Args, state: State) -> tuple[Gpu, ...]:
    """Return the GPUs that would be reset if there were no obstacle."""
    return tuple(gpu for gpu in state.gpus if args.only == "any" or state.wedged[gpu.key] is True)


def decide(args: Args, state: State) -> Decision:
    """Reset the GPUs that `gpus` and `only` select; all obstacles are reported together."""
    if not args.gpus:
        return NoChange(why="`gpus` names no GPU")
    obstacles = [*_not_there(state), *_not_told(args, state)]
    wanted = _wanted(args, state)
    if wanted:
        obstacles += _obstacles(args, state, wanted)
    if obstacles:
        return Blocked(why="; ".join(obstacles))
    if not wanted:
        return NoChange(why=f"not wedged: {_in_words(state.gpus)}")
    groups = _grouped(wanted, state)
    targets = (*(_target(gpu) for gpu in wanted), *map(_service, state.stops))
    on = tuple(gpu for gpu in wanted if gpu.persistence is True)
    words = (
        f"; {', '.join(state.stops)} stopped for the reset, and started again even if it fails" if state.stops else ""
    )
    words += _set_again_words(wanted, state)
    return Change(
        summary=f"reset {plural(len(wanted), 'GPU')}: {_in_words(wanted)}{words}",
        commands=(
            *([stop(state.stops, state.running, _longest(state, len(groups)))] if state.stops else []),
            *(command for group in groups for command in _commands(group)),
        ),
        finally_=(
            *([start_again(state.running)] if state.stops else []),  # some of them may be stopped with others
            *(set_persistence(gpu, on=True) for gpu in on),
            *(command for gpu in wanted for command in set_again(gpu, state.settings.get(gpu.key, GpuSettings()))),
        ),
        targets=targets,
        risk=Risk.RESETS_HARDWARE,
    )


def _longest(state: State, resets: int) -> float:
    """Return the maximum number of seconds until the services would have been started again."""
    return RESET_TIMEOUT * resets + STOP_TIMEOUT * len(state.stops) + SPARE


def _grouped(wanted: tuple[Gpu, ...], state: State) -> tuple[tuple[Gpu, ...], ...]:
    by_key = {gpu.key: gpu for gpu in wanted}
    groups = [tuple(by_key[key] for key in group if key in by_key) for group in state.groups]
    return tuple(group for group in groups if group)


def _commands(group: tuple[Gpu, ...]) -> tuple[Command, ...]:
    off = tuple(set_persistence(gpu, on=False) for gpu in group if gpu.persistence is True)
    return (*off, reset(group), answers(group), mark(group))


def _set_again_words(wanted: tuple[Gpu, ...], state: State) -> str:
    """Describe which settings are restored and which are not."""
    kept = [f"GPU {gpu.index}: {said}" for gpu in wanted if (said := str(state.settings.get(gpu.key, "")))]
    lost = [str(gpu.index) for gpu in wanted if gpu.mig == "Enabled"]
    words = f"; set again: {'; '.join(kept)}" if kept else ""
    return words + (f"; the MIG instances of GPU {', '.join(lost)} are lost, and not made again" if lost else "")


def _not_there(state: State) -> list[str]:
    fallen = [word for word in state.missing if bus_id(word) and bus_id(word) in state.lost]
    found = [f"GPU {word} has fallen off the bus: only a reboot of the host brings it back" for word in fallen]
    others = [word for word in state.missing if word not in fallen]
    if others and state.lost:
        found.append(
            f"GPU {', '.join(others)} does not respond, and {', '.join(state.lost)} has fallen off the bus: "
            "only a reboot of the host brings it back"
        )
    elif others:
        found.append(f"this host has no GPU {', '.join(others)} (it has {plural(state.there, 'GPU')})")
    return found


def _not_told(args: Args, state: State) -> list[str]:
    if args.only == "any":
        return []
    answers = [(gpu, state.wedged[gpu.key]) for gpu in state.gpus]
    words = "not known whether this GPU is wedged"
    return [f"{_in_words((it,))}: {words} ({answer.why})" for it, answer in answers if isinstance(answer, Unknown)]


def _obstacles(args: Args, state: State, wanted: tuple[Gpu, ...]) -> list[str]:
    found = [] if state.root else ["a reset needs root: give the step `become: true`"]
    for gpu in wanted:
        if not gpu.uuid and not gpu.bus_id:
            found.append(
                f"{_in_words((gpu,))} shows neither UUID nor bus id, and by the reset its index may mean another GPU"
            )
        if gpu.bus_id in state.lost:
            found.append(f"{_in_words((gpu,))} has fallen off the bus: only a reboot of the host brings it back")
        if gpu.recovery_action == "Reboot":
            found.append(f"{_in_words((gpu,))}: the driver asks for a reboot of the host; a reset does not help")
        match state.holders[gpu.key]:
            case Unknown(why=why):
                found.append(f"{_in_words((gpu,))}: not known whether a process holds this GPU ({why})")
            case held if held:
                found.append(f"{_in_words((gpu,))} is held by {', '.join(held)}: end those processes first")
        if is_share(gpu.name) and not args.force:
            found.append(
                f"{_in_words((gpu,))} is a share of a GPU (vGPU), which is reset on its host: `force: true` tries it"
            )
        if gpu.mig == "Enabled" and not args.force:
            found.append(
                f"{_in_words((gpu,))} is in MIG mode, and a reset destroys its instances: `force: true` allows it"
            )
    if state.pulled:
        found.append(f"stopping {', '.join(state.stops)} would also stop {', '.join(state.pulled)}: stop that first")
    if state.joined and not args.force:
        found.append(f"{state.joined}: name them too, or give `force: true`")
    return found


def settled(args: Args, before: State, after: State) -> bool:
    """Whether the GPUs that were reset exist, need no reset, have no hidden user, and kept their persistence mode."""
    return not _unsettled(args, before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Describe what the second probe still finds."""
    return f"reset, but {'; '.join(_unsettled(args, before, after))}"


def _unsettled(args: Args, before: State, after: State) -> list[str]:
    now = {gpu.key: gpu for gpu in after.gpus}
    fewer = f"the host has {plural(after.there, 'GPU')}, and had {before.there}" if after.there < before.there else ""
    found = [fewer] if fewer else []
    found += [
        f"{word} ran before the reset, and does not run now" for word in before.running if word not in after.running
    ]
    for gpu in _wanted(args, before):
        again = now.get(gpu.key)
        if again is None:
            found.append(f"{_in_words((gpu,))} is no longer listed")
        elif again.requires_reset is True:
            found.append(f"{_in_words((gpu,))} still requires a reset")
        elif after.wedged[gpu.key] is not False:
            found.append(f"{_in_words((gpu,))} is still busy although no process holds it, or its state is not known")
        elif again.persistence != gpu.persistence and not isinstance(gpu.persistence, Unknown):
            found.append(
                f"{_in_words((gpu,))}: persistence mode was {'on' if gpu.persistence else 'off'} before, and is not now"
            )
        elif again.compute_mode != gpu.compute_mode and not isinstance(gpu.compute_mode, Unknown):
            found.append(
                f"{_in_words((gpu,))}: compute mode was {gpu.compute_mode} before, and is {again.compute_mode} now"
            )
    return found


def reach(args: Args, state: State) -> tuple[Target, ...]:
    """Return what the action affects: the existing GPUs in `gpus`, and the services that may be stopped for them."""
    return (*map(_target, state.gpus), *map(_service, state.running))


def without(state: State, keys: frozenset[str]) -> State:
    """Return *state* without the GPUs in *keys*; a service in *keys* is not stopped, and so prevents the reset."""
    kept = tuple(word for word in state.stops if _service(word).key in keys)
    held = {
        key: value if isinstance(value, Unknown) or not kept else (*value, *kept)
        for key, value in state.holders.items()
    }
    gpus = tuple(gpu for gpu in state.gpus if gpu.key not in keys)
    return replace(state, gpus=gpus, holders=held, stops=tuple(word for word in state.stops if word not in kept))


def refused(command: Command, completed: Completed) -> str:
    """Return the reason why nvidia-smi refused the reset."""
    return refusal(command, completed)


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return tuple(f"nvidia-smi --gpu-reset -i {gpu}" for gpu in args.gpus if gpu != "all")


def _service(unit: str) -> Target:
    return Target(kind="service", key=f"service:{unit}", say=unit)


def _target(gpu: Gpu) -> Target:
    return Target(kind="gpu", key=gpu.key, say=_in_words((gpu,)))


def _in_words(gpus: tuple[Gpu, ...]) -> str:
    return ", ".join(f"GPU {gpu.index} ({gpu.key})" for gpu in gpus)
