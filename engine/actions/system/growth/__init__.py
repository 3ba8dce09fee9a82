"""Take several samples of the memory, and name the processes and GPUs that need more and more of it.

Something grows on if it is there in every sample and takes more in each than in the one before. A sample that could not
be had never counts: with one missing, nothing is said of what it would have shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from engine.actions.system.growth.samples import Sample, ask_gpu_samples, ask_samples, read_gpu_samples, read_samples
from engine.errors import ProbeError
from engine.facts.gpu.smi_query import ask_presence, read_presence
from engine.protocols import Fails, Holds, Probe
from engine.text.sizes import bytes_of
from engine.values.command import Completed
from engine.values.types import Duration, Size, Unknown, plural, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """How often to look, and what counts as growing."""

    samples: int = field(default=5, metadata={"about": "How many samples.", "minimum": 3, "maximum": 1000})
    every: Duration = field(
        default=Duration(2), metadata={"about": "Time between two of them.", "minimum": 0.1, "maximum": 600}
    )
    at_least: Size = field(
        default=Size(64 << 20), metadata={"about": "Less growth than this over all samples is none.", "minimum": 1}
    )
    rises: int = field(
        default=0,
        metadata={
            "about": "In so many samples at least it must be more than in the one before, and in none less; 0: in all.",
            "minimum": 0,
        },
    )
    gpus: bool = field(default=True, metadata={"about": "Ask nvidia-smi too."})

    def __post_init__(self) -> None:
        if self.rises >= self.samples:
            raise ValueError(f"`rises`: {self.samples} samples have only {self.samples - 1} steps between them")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """Something that grew on."""

    name: str
    """The name of the process, or the UUID of the GPU."""
    pid: int = 0
    before: int
    """Bytes, in the first sample."""
    after: int
    grown: int
    per_minute: int


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the samples show, in bytes."""

    samples: int = field(metadata={"about": "How many were taken."})
    seconds: float = field(metadata={"about": "Between the first and the last of them."})
    used: tuple[int | Unknown, ...] = field(metadata={"about": "What of the host's memory was used, in each."})
    used_growing: bool | Unknown = field(metadata={"about": "Whether that grows on."})
    processes: tuple[Grown, ...] | Unknown = field(
        metadata={"about": "Processes that grow on: name, pid, before, after, grown, per_minute; the fastest first."}
    )
    gpus: tuple[Grown, ...] | Unknown = field(metadata={"about": "GPUs whose memory in use grows on, likewise."})
    gpu_used: Mapping[str, tuple[int | Unknown, ...]] = field(
        default_factory=dict, metadata={"about": "What of each GPU's memory was used in each sample, by UUID."}
    )


Series = Sequence[int | Unknown]


def probe(args: Args) -> Probe[State]:
    """All samples in one script of each kind, both at the same time of looking."""
    asked = replace(ask_samples(args.samples, args.every), timeout=_patience(args))
    if not args.gpus:
        return _state(args, read_samples((yield asked)), (), "nvidia-smi is not to be asked")
    smi = replace(ask_gpu_samples(args.samples, args.every), timeout=_patience(args))
    present, memory, reported = yield ask_presence(), asked, smi
    if read_presence(present).absent:
        return _state(args, read_samples(memory), (), "")
    gpu_samples, why = _gpu_samples(reported)
    return _state(args, read_samples(memory), gpu_samples, why)


def _patience(args: Args) -> float:
    """Seconds after which the samples are given up: their pauses, and time for nvidia-smi to answer each time."""
    return args.samples * (args.every + 2) + 10


def _gpu_samples(done: Completed) -> tuple[tuple[Mapping[str, int | Unknown], ...], str]:
    try:
        return read_gpu_samples(done), ""
    except ProbeError as error:
        return (), str(error)


def _state(args: Args, samples: Sequence[Sample], gpus: Sequence[Mapping[str, int | Unknown]], why: str) -> State:
    took = round(samples[-1].at - samples[0].at, 1)
    used = tuple(it.used for it in samples)
    table = {uuid: tuple(it.get(uuid, Unknown(why="not shown")) for it in gpus) for uuid in _keys(gpus)}
    return State(
        samples=len(samples),
        seconds=took,
        used=used,
        used_growing=_grows(args, used),
        processes=_processes(args, samples, took),
        gpus=Unknown(why=why) if why else _gpus(args, table, took),
        gpu_used=table,
    )


def _keys(samples: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for it in samples for key in it))


def _grows(args: Args, series: Series) -> bool | Unknown:
    """Whether *series* goes up as is asked; unknown where a value of it is missing."""
    if len(series) < args.samples:
        return Unknown(why=f"only {plural(len(series), 'sample')} of {args.samples} could be had")
    known = [it for it in series if not isinstance(it, Unknown)]
    if len(known) < len(series):
        return next(it for it in series if isinstance(it, Unknown))
    steps = [later - before for before, later in pairwise(known)]
    enough = sum(it > 0 for it in steps) >= (args.rises or len(steps))
    return enough and min(steps) >= 0 and known[-1] - known[0] >= args.at_least


def _processes(args: Args, samples: Sequence[Sample], took: float) -> tuple[Grown, ...] | Unknown:
    """Those that are in every sample: of one that is not, nothing is known, and nothing is said."""
    if len(samples) < args.samples:
        return Unknown(why=f"only {plural(len(samples), 'sample')} of {args.samples} could be had")
    there = [key for key in samples[-1].held if all(key in it.held for it in samples)]
    series = {key: [it.held[key].resident for it in samples] for key in there}
    last = samples[-1].held
    found = [_grown(last[key].name, last[key].pid, it, took) for key, it in series.items() if _grows(args, it) is True]
    if not found and samples[-1].others >= args.at_least:
        held = bytes_of(samples[-1].others)
        return Unknown(
            why=f"only the {plural(len(last), 'process')} that hold most were inspected, all more than {held}"
        )
    return tuple(sorted(found, key=lambda it: -it.grown))


def _gpus(args: Args, table: Mapping[str, Series], took: float) -> tuple[Grown, ...] | Unknown:
    reported = {uuid: _grows(args, it) for uuid, it in table.items()}
    known = {uuid: [it for it in table[uuid] if not isinstance(it, Unknown)] for uuid in table}
    found = tuple(_grown(uuid, 0, known[uuid], took) for uuid, it in reported.items() if it is True)
    blind = next((it for it in reported.values() if isinstance(it, Unknown)), None)
    return found or blind or ()


def _grown(name: str, pid: int, series: Sequence[int], took: float) -> Grown:
    grown = series[-1] - series[0]
    rate = round(grown * 60 / took) if took else 0
    return Grown(name=name, pid=pid, before=series[0], after=series[-1], grown=grown, per_minute=rate)


def holds(args: Args, state: State) -> Holds | Fails:
    """Nothing grows on."""
    if isinstance(state.processes, Unknown):
        raise ProbeError(state.processes.why)
    if args.gpus and isinstance(state.gpus, Unknown):
        raise ProbeError(state.gpus.why)
    growing = (*state.processes, *(() if isinstance(state.gpus, Unknown) else state.gpus))
    if growing:
        named = ", ".join(f"{it.name}{f' ({it.pid})' if it.pid else ''} by {bytes_of(it.grown)}" for it in growing[:5])
        return Fails(why=f"grows on: {named} in {seconds(state.seconds)}")
    return Holds(why=f"nothing grew on in {plural(state.samples, 'sample')} over {seconds(state.seconds)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """What a person would watch."""
    ask = " && nvidia-smi --query-gpu=index,memory.used --format=csv" if args.gpus else ""
    return (f"watch -n {max(1, round(args.every))} 'free -h && ps -eo pid,rss,comm --sort=-rss | head{ask}'",)
