"""Check that GPUs are idle: utilization, and optionally memory in use, at or below a limit."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.amd import ask_amd, read_amd
from runbook.library.gpu.facts.smi_query import Gpu, ask_gpus, ask_presence, read_gpus, read_presence
from runbook.library.gpu.facts.utilisation import chosen, complaints, idle, unseen
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.values.types import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    below: float = field(default=5, metadata={"minimum": 0, "maximum": 100})
    """A GPU is idle at this utilization (percent) or less."""
    gpus: tuple[str, ...] = ()
    """UUIDs, PCI bus ids or indexes, as text; empty: every GPU of the host."""
    memory_below_mib: float = field(default=0, metadata={"minimum": 0})
    """Also require that at most this much memory (MiB) is in use; 0: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs that the step checks."""

    gpus: tuple[Gpu, ...] = ()
    """Each GPU, with the fields of `nvidia_smi`."""
    idle: tuple[str, ...] = ()
    """UUIDs of the idle GPUs."""
    busy: tuple[str, ...] = ()
    """UUIDs of the GPUs that are not idle."""
    missing: tuple[str, ...] = ()
    """Names in `gpus` that match no GPU of this host."""
    errors: tuple[str, ...] = ()
    """Errors that nvidia-smi, or amd-smi, reported."""
    tool: str = "nvidia-smi"
    """The vendor's program that lists the GPUs."""


def probe(args: Args) -> Probe[State]:
    """Read the GPUs once.  Raises ProbeError if the utilization of a GPU is unknown, because an unknown GPU never
    counts as idle.
    """
    present, smi = yield ask_presence(), ask_gpus()
    presence = read_presence(present)
    if amd := presence.amd:
        presence, reading = amd, read_amd((yield ask_amd(amd)), amd)
    elif presence.absent:
        return Absent(why="no NVIDIA GPU", state=State(missing=args.gpus))
    else:
        reading = read_gpus(smi)
    names = chosen(reading.gpus, args.gpus)
    asked = tuple(dict.fromkeys(name for name in names.values() if name)) if args.gpus else reading.gpus
    for gpu in asked:
        _must_be_known(gpu, args)
    resting = tuple(each.key for each in asked if _rests(each, args) is True)
    return State(
        gpus=asked,
        idle=resting,
        busy=tuple(each.key for each in asked if each.key not in resting),
        missing=tuple(name for name, gpu in names.items() if gpu is None),
        errors=(*complaints(reading), *unseen(reading, presence)),
        tool=reading.tool,
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
        raise ProbeError(f"GPU {gpu.index} ({gpu.key}): not known whether this GPU is idle ({answer.why})")


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that every GPU of `gpus` exists and is idle."""
    troubles = [f"GPU {gpu.index} ({gpu.key}) {_work(gpu)}" for gpu in state.gpus if gpu.key in state.busy]
    troubles += [f"no GPU {word} on this host" for word in state.missing]
    if not args.gpus:
        troubles += [f"{state.tool} reports: {error}" for error in state.errors]
    if troubles:
        return Fails(why="; ".join(troubles))
    return Holds(why=f"{plural(len(state.gpus), 'GPU')} at {args.below:g} % or less")


def _work(gpu: Gpu) -> str:
    percent = "" if isinstance(gpu.utilization, Unknown) else f"is {gpu.utilization:g} % busy"
    memory = "" if isinstance(gpu.memory_used, Unknown) else f"{gpu.memory_used:g} MiB in use"
    return ", ".join(word for word in (percent, memory) if word)
