"""Hold that GPUs are idle: at most so busy, and with at most so much memory in use."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import ProbeError
from engine.facts.gpu.smi_query import Gpu, ask_gpus, ask_presence, read_gpus, read_presence
from engine.facts.gpu.utilisation import chosen, complaints, idle, unseen
from engine.protocols import Absent, Fails, Holds, Probe
from engine.values.types import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which GPUs, and what idle means."""

    below: float = field(
        default=5,
        metadata={"about": "Idle is at most this busy (percent).", "minimum": 0, "maximum": 100},
    )
    gpus: tuple[str, ...] = field(
        default=(), metadata={"about": "UUID, PCI bus id or index, as text; none: every GPU of the host."}
    )
    memory_below_mib: float = field(
        default=0, metadata={"about": "Also at most this much memory in use (MiB); 0 does not check.", "minimum": 0}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs that were asked for."""

    gpus: tuple[Gpu, ...] = field(default=(), metadata={"about": "Each GPU, as `nvidia_smi` shows it."})
    idle: tuple[str, ...] = field(default=(), metadata={"about": "UUIDs of those that are idle."})
    busy: tuple[str, ...] = field(default=(), metadata={"about": "UUIDs of those that are not."})
    missing: tuple[str, ...] = field(default=(), metadata={"about": "Names that no GPU of this host has."})
    errors: tuple[str, ...] = field(default=(), metadata={"about": "What nvidia-smi complained about."})


def probe(args: Args) -> Probe[State]:
    """Look once.  A GPU of which it is not known how busy it is makes the look fail: unknown is never idle."""
    present, smi = yield ask_presence(), ask_gpus()
    presence = read_presence(present)
    if presence.absent:
        return Absent(why="no NVIDIA GPU", state=State(missing=args.gpus))
    reading = read_gpus(smi)
    names = chosen(reading.gpus, args.gpus)
    asked = tuple(dict.fromkeys(it for it in names.values() if it)) if args.gpus else reading.gpus
    for gpu in asked:
        _must_be_known(gpu, args)
    resting = tuple(it.key for it in asked if _rests(it, args) is True)
    return State(
        gpus=asked,
        idle=resting,
        busy=tuple(it.key for it in asked if it.key not in resting),
        missing=tuple(name for name, gpu in names.items() if gpu is None),
        errors=(*complaints(reading), *unseen(reading, presence)),
    )


def _rests(gpu: Gpu, args: Args) -> bool | Unknown:
    quiet = idle(gpu, args.below)
    if not args.memory_below_mib or quiet is False:
        return quiet
    if isinstance(gpu.memory_used, Unknown):
        return gpu.memory_used
    return quiet if gpu.memory_used <= args.memory_below_mib else False


def _must_be_known(gpu: Gpu, args: Args) -> None:
    answer = _rests(gpu, args)
    if isinstance(answer, Unknown):
        raise ProbeError(f"GPU {gpu.index} ({gpu.key}): it is not known whether it is idle ({answer.why})")


def holds(args: Args, state: State) -> Holds | Fails:
    """Every GPU that was asked for is there, and idle."""
    troubles = [f"GPU {it.index} ({it.key}) {_work(it)}" for it in state.gpus if it.key in state.busy]
    troubles += [f"no GPU {it} on this host any more" for it in state.missing]
    if not args.gpus:
        troubles += [f"nvidia-smi reports: {it}" for it in state.errors]
    if troubles:
        return Fails(why="; ".join(troubles))
    return Holds(why=f"{plural(len(state.gpus), 'GPU')} at {args.below:g} % or less")


def _work(gpu: Gpu) -> str:
    percent = "" if isinstance(gpu.utilization, Unknown) else f"is {gpu.utilization:g} % busy"
    memory = "" if isinstance(gpu.memory_used, Unknown) else f"{gpu.memory_used:g} MiB in use"
    return ", ".join(it for it in (percent, memory) if it)
