"""Read how GPUs are divided by MIG, compare that with the layout in `layout`, and create the missing instances.

Instances are lost with every reset and reboot of a GPU; on Hopper and later, the MIG mode is lost, too.  This action
never switches the mode.  Other instances than those of `layout` are destroyed only with `rebuild`, compute instances
first, and only while no process holds the GPU.  The result is judged by a second probe, because nvidia-smi prints "All
done." even if it did nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.device_users import Users, ask_users, read_users
from runbook.library.gpu.facts.model import Gpu
from runbook.library.gpu.facts.smi_answer import SmiAnswer, SmiCondition
from runbook.library.gpu.facts.smi_answer import condition as smi_condition
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, SMI
from runbook.library.gpu.facts.smi_query import ask_presence, read_presence
from runbook.library.gpu.mig.reading import COLUMNS, PROFILE, MigGpu, counted, misfit, read_mig, sort
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.shell import script
from runbook.values.command import Command, Completed, read, read_script, write_script
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Unknown, plural

TIMEOUT = 300.0
"""The seconds after which the division of a GPU is reported as late; it is never ended half-way."""

_WHY = {
    11: "the compute instances could not all be destroyed (in use?); what was there was made again",
    12: "the instances could not all be destroyed (in use?)",
    13: "the instances could not all be made; see what is there: nvidia-smi mig -lgi",
    14: "the wanted instances could not be made, and those that were there before were made again",
    15: "the wanted instances could not be made, nor those that were there before: nvidia-smi mig -lgi",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    layout: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each GPU (index, UUID, bus id, or all), the profiles of its instances: {'0': [3g.40gb, 3g.40gb]}."""
    rebuild: bool = False
    """Destroy instances that are not in `layout`, if no process holds their GPU."""

    def __post_init__(self) -> None:
        for name, profiles in self.layout.items():
            if not profiles:
                raise ValueError(f"`layout`: GPU {name} has no profile; leave it out, or name at least one")
            if wrong := [profile for profile in profiles if not PROFILE.fullmatch(profile)]:
                raise ValueError(f"`layout`: {wrong[0]!r} is not a profile such as 3g.40gb (nvidia-smi mig -lgip)")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The present division of the GPUs; lines give GPUs by index and bus id."""

    smi: str = "answers"
    """The kind of nvidia-smi's answer: answers, hung, mismatch ..."""
    smi_said: str = ""
    """The reason why nvidia-smi gave no answer; empty if it answered."""
    gpus: tuple[MigGpu, ...] | Unknown = ()
    """Each GPU: index, uuid, bus_id, name, mode, pending, instances, devices."""
    wanted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The profiles that `layout` requires, by the UUID of the GPU."""
    missing: tuple[str, ...] = ()
    """Names in `layout` that match no GPU."""
    unlisted: tuple[str, ...] = ()
    """Bus ids of GPUs that are on the bus but not in nvidia-smi's list; nothing else is known about them."""
    lines: tuple[str, ...] = ()
    """A line for each GPU in MIG mode."""
    waiting: tuple[str, ...] | Unknown = ()
    """GPUs whose MIG mode will change at their next reset."""
    to_reset: tuple[str, ...] = ()
    """Bus ids of the GPUs in `waiting`."""
    switched_off: tuple[str, ...] | Unknown = ()
    """GPUs in `layout` that are not in MIG mode."""
    empty: tuple[str, ...] | Unknown = ()
    """GPUs in MIG mode without any instance, so that no program can use them."""
    unusable: tuple[str, ...] | Unknown = ()
    """Instances without a compute instance, so that no program can use them."""
    lost: tuple[str, ...] | Unknown = ()
    """GPUs in `layout` that are in MIG mode and have no instance at all."""
    other: tuple[str, ...] | Unknown = ()
    """GPUs in `layout` that have other instances than `layout` requires."""
    impossible: tuple[str, ...] = ()
    """GPUs in `layout` that cannot be divided in this way, each with the reason."""
    in_use: tuple[str, ...] = ()
    """GPUs in `other` that a process holds, or may hold."""
    held: Mapping[str, bool | Unknown] = field(default_factory=dict)
    """For each UUID, whether a process holds the GPU."""
    root: bool = False
    """Whether the step runs as root."""


def probe(args: Args) -> Probe[State]:
    """Query nvidia-smi with one script, and read from /proc which processes hold a GPU."""
    present, users, whoami, done = yield ask_presence(), ask_users(), read("id", "-u"), ask_mig()
    presence = read_presence(present)
    if presence.absent:
        return Absent(why="no NVIDIA GPU", state=State(missing=tuple(args.layout)))
    try:
        gpus = read_mig(done)
    except ProbeError as error:
        return _blind(smi_condition(done, str(error)))
    state = _state(args, gpus, read_users(users, presence))
    return replace(
        state,
        unlisted=presence.unlisted(gpu.bus_id for gpu in gpus),
        root=whoami.exit_code == 0 and whoami.stdout.strip() == "0",
    )


def ask_mig() -> Command:
    """Return the command that asks for modes, instances, free room, and devices, in one script."""
    return replace(read_script(_ASK, ",".join(COLUMNS)), hangs=SMI)


_ASK = SCRIPT_HEAD + script(__package__, "mig_probe")
_BUILD = script(__package__, "mig_build")


def _blind(smi: SmiAnswer) -> State:
    no = Unknown(why=smi.why)
    return State(
        smi=str(smi.condition), smi_said=smi.why, gpus=no, waiting=no, switched_off=no, empty=no, unusable=no,
        lost=no, other=no,
    )  # fmt: skip


def _state(args: Args, gpus: tuple[MigGpu, ...], users: Users) -> State:
    wanted, missing = _chosen(args.layout, gpus)
    blind = _unanswered(gpus)
    divided = _divided(gpus)
    asked = [gpu for gpu in divided if gpu.uuid in wanted and _profiles(gpu) != wanted[gpu.uuid]]
    waits = [gpu for gpu in gpus if _waits(gpu)]
    held = {gpu.uuid: users.held(_plain(gpu)) for gpu in gpus}

    def lines(several: Iterable[MigGpu], said: Callable[[MigGpu], str]) -> tuple[str, ...] | Unknown:
        return tuple(map(said, several)) or blind or ()

    others = [gpu for gpu in asked if gpu.instances]
    return State(
        gpus=gpus,
        wanted=wanted,
        missing=missing,
        lines=tuple(f"{gpu}: {counted(_profiles(gpu))}" for gpu in divided),
        waiting=lines(waits, lambda gpu: f"{gpu}: {gpu.mode} now, {gpu.pending} after a reset"),
        to_reset=tuple(gpu.bus_id for gpu in waits),
        switched_off=lines(_switched_off(gpus, wanted), lambda gpu: f"{gpu}: {_mode(gpu)}"),
        empty=lines((gpu for gpu in divided if not gpu.instances), str),
        unusable=tuple(_unusable(divided)) or blind or (),
        lost=lines(
            (gpu for gpu in asked if not gpu.instances), lambda gpu: f"{gpu}: wanted {counted(wanted[gpu.uuid])}"
        ),
        other=lines(others, lambda gpu: f"{gpu}: has {counted(_profiles(gpu))}, wanted {counted(wanted[gpu.uuid])}"),
        impossible=_impossible(asked, wanted),
        in_use=tuple(str(gpu) for gpu in others if held[gpu.uuid] is not False),
        held=held,
    )


def _unanswered(gpus: Iterable[MigGpu]) -> Unknown | None:
    return next((answer for gpu in gpus for answer in (gpu.mode, gpu.instances) if isinstance(answer, Unknown)), None)


def _divided(gpus: Iterable[MigGpu]) -> list[MigGpu]:
    return [gpu for gpu in gpus if gpu.mode == "Enabled" and not isinstance(gpu.instances, Unknown)]


def _impossible(asked: Iterable[MigGpu], wanted: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(f"{gpu}: {why}" for gpu in asked if (why := misfit(wanted[gpu.uuid], gpu.offers)))


def _switched_off(gpus: Iterable[MigGpu], wanted: Collection[str]) -> list[MigGpu]:
    return [gpu for gpu in gpus if gpu.uuid in wanted and _is_off(gpu)]


def _chosen(
    layout: Mapping[str, tuple[str, ...]], gpus: tuple[MigGpu, ...]
) -> tuple[Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Return the required profiles by UUID, and the names that match no GPU; a GPU's own entry is used before
    ``all``.
    """
    named = {name: [mig_gpu for mig_gpu in gpus if _plain(mig_gpu).is_called(name)] for name in layout if name != "all"}
    wanted = {gpu.uuid: sort(layout["all"]) for gpu in gpus if "all" in layout}
    wanted |= {gpu.uuid: sort(layout[name]) for name, found in named.items() for gpu in found}
    return wanted, tuple(name for name, found in named.items() if not found)


def _plain(gpu: MigGpu) -> Gpu:
    return Gpu(index=gpu.index, uuid=gpu.uuid, bus_id=gpu.bus_id, name=gpu.name)


def _profiles(gpu: MigGpu) -> tuple[str, ...]:
    return () if isinstance(gpu.profiles, Unknown) else gpu.profiles


def _waits(gpu: MigGpu) -> bool:
    return isinstance(gpu.mode, str) and isinstance(gpu.pending, str) and gpu.mode != gpu.pending


def _is_off(gpu: MigGpu) -> bool:
    return isinstance(gpu.mode, str) and gpu.mode != "Enabled"


def _mode(gpu: MigGpu) -> str:
    return "its MIG mode is off" if gpu.mode else "it has no MIG mode"


def _unusable(gpus: list[MigGpu]) -> Iterator[str]:
    for gpu in gpus:
        for instance in () if isinstance(gpu.instances, Unknown) else gpu.instances:
            if not instance.compute:
                yield f"{gpu}: instance {instance.id} ({instance.profile})"


def decide(args: Args, state: State) -> Decision:
    """Create the missing instances; destroy others only with `rebuild`, and only on a GPU without holders."""
    if not args.layout:
        return NoChange(why="`layout` names no GPU")
    if isinstance(state.gpus, Unknown):
        return Blocked(why=state.gpus.why)
    unlike = [gpu for gpu in state.gpus if gpu.uuid in state.wanted and not _is_so(gpu, state)]
    obstacles = [f"this host has no GPU {word}" for word in state.missing]
    obstacles += [why for gpu in unlike for why in _obstacles(args, state, gpu)]
    if unlike and not state.root:
        obstacles.append("dividing a GPU needs root: give the step `become: true`")
    if obstacles:
        return Blocked(why="; ".join(obstacles))
    if not unlike:
        return NoChange(why="; ".join(state.lines))
    return Change(
        summary="; ".join(_summary(gpu, state) for gpu in unlike),
        commands=tuple(_build(gpu, state) for gpu in unlike),
        targets=tuple(target for gpu in unlike for target in _targets(gpu, state)),
        risk=Risk.RESETS_HARDWARE,
    )


def _is_so(gpu: MigGpu, state: State) -> bool:
    """Whether *gpu* has the required instances, all of them usable, and `nvidia-smi -L` lists as many devices."""
    wanted = state.wanted[gpu.uuid]
    if gpu.mode != "Enabled" or isinstance(gpu.instances, Unknown):
        return False
    usable = all(instance.compute for instance in gpu.instances) and len(gpu.devices) >= len(wanted)
    return gpu.profiles == wanted and usable


def _obstacles(args: Args, state: State, gpu: MigGpu) -> Iterator[str]:
    if isinstance(gpu.mode, Unknown):
        yield f"{gpu}: not known whether it is in MIG mode ({gpu.mode.why})"
    elif gpu.mode != "Enabled":
        yield f"{gpu}: {_mode(gpu)}" + (f" (nvidia-smi -i {gpu.uuid} -mig 1)" if gpu.mode else "")
    elif isinstance(gpu.instances, Unknown):
        yield f"{gpu}: its instances are not known ({gpu.instances.why})"
    else:
        if _waits(gpu):
            yield f"{gpu}: its MIG mode changes with the next reset, by which instances are lost"
        if why := misfit(state.wanted[gpu.uuid], gpu.offers):
            yield f"{gpu}: {why}"
        if gpu.instances and not args.rebuild:
            yield f"{gpu} has {counted(_profiles(gpu))}, which would be destroyed: `rebuild: true` allows it"
        match state.held[gpu.uuid] if gpu.instances else False:
            case Unknown(why=why):
                yield f"{gpu}: not known whether a process holds it ({why})"
            case True:
                yield f"{gpu} is held by a process: its instances are not destroyed"


def _summary(gpu: MigGpu, state: State) -> str:
    there = f"destroy {counted(_profiles(gpu))}, then " if gpu.instances else ""
    return f"{gpu}: {there}make {counted(state.wanted[gpu.uuid])}"


def _build(gpu: MigGpu, state: State) -> Command:
    there, new = ",".join(_profiles(gpu)), ",".join(state.wanted[gpu.uuid])
    used = (
        "yes" if not isinstance(gpu.instances, Unknown) and any(instance.compute for instance in gpu.instances) else ""
    )
    shown = ("divide-gpu", gpu.uuid, new, *((f"instead-of={there}",) if there else ()))
    made = write_script(_BUILD, gpu.uuid, new, there, used, called=shown)
    return replace(made, timeout=TIMEOUT, unkillable=True)


def _targets(gpu: MigGpu, state: State) -> Iterator[Target]:
    yield Target(kind="gpu", key=gpu.uuid, say=f"{gpu}: {counted(state.wanted[gpu.uuid])}")
    for instance in () if isinstance(gpu.instances, Unknown) else gpu.instances:
        yield Target(
            kind="gpu",
            key=f"{gpu.uuid}/{instance.id}/{instance.profile}",
            say=f"{gpu}: instance {instance.id} ({instance.profile})",
        )


def refused(command: Command, completed: Completed) -> str:
    """Return the reason why the GPU was not divided, in words."""
    why = _WHY.get(completed.exit_code or 0, "")
    said = " ".join(f"{completed.stdout} {completed.stderr}".split())[-300:]
    return f"{why}: {said}" if why else ""


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that every GPU in `layout` is divided as required, and that no GPU in MIG mode lacks a usable instance."""
    if state.smi != SmiCondition.ANSWERS or isinstance(state.gpus, Unknown):
        raise ProbeError(state.smi_said)
    for gpu in state.gpus:
        if isinstance(gpu.instances, Unknown):
            raise ProbeError(gpu.instances.why)
    wrong = [f"no GPU {word}" for word in state.missing]
    wrong += [
        f"{gpu}: {counted(_profiles(gpu))}" for gpu in state.gpus if gpu.uuid in state.wanted and not _is_so(gpu, state)
    ]
    if wrong:
        return Fails(why=f"not divided as wanted: {'; '.join(wrong)}")
    return Holds(why="; ".join(state.lines) or f"{plural(len(state.gpus), 'GPU')}, none in MIG mode")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    lines = ["nvidia-smi --query-gpu=index,uuid,mig.mode.current,mig.mode.pending --format=csv", "nvidia-smi -L"]
    lines += ["nvidia-smi mig -lgi; nvidia-smi mig -lci; nvidia-smi mig -lgip"]
    for name, profiles in args.layout.items():
        which = "" if name == "all" else f" -i {name}"
        if args.rebuild:
            lines.append(f"nvidia-smi mig{which} -dci; nvidia-smi mig{which} -dgi      # destroys every instance")
        lines.append(f"nvidia-smi mig{which} -cgi {','.join(sort(profiles))} -C")
    return tuple(lines)
