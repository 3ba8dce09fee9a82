"""Take several memory samples, and report the processes and GPUs whose memory use keeps growing.

A process or GPU grows if it is in every sample and uses more in each sample than in the one before. If a sample is
missing, the result is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, hung, number, reason, row, sections
from runbook.library.gpu.facts.smi_query import ask_presence, read_presence
from runbook.protocols import Fails, Holds, Probe
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Duration, Size, Unknown, plural, seconds

MIB = 1 << 20

PROCESSES = 2000
"""The maximum number of processes in one sample; those with the most memory are kept."""

LINES = 60_000
"""The maximum number of processes in all samples together."""

GPU_FIELDS = ("index", "uuid", "memory.used")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """The memory that one process held when a sample was taken."""

    pid: int
    start: str
    """The start time in clock ticks since boot; together with the pid, it identifies the process."""
    name: str
    resident: int
    """The resident memory in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of the memory."""

    at: float
    """The time of the sample in seconds since boot."""
    used: int | Unknown
    """The memory of the host that no program could get any more, in bytes."""
    held: Mapping[str, ProcessMemory] = field(default_factory=dict)
    """The memory of each process; the keys are ``pid:start``."""
    others: int = 0
    """The maximum number of bytes of each process that is not in the sample; 0: all processes are in the sample."""


def ask_samples(samples: int, every: float) -> Command:
    """Return the command that reads /proc *samples* times, with *every* seconds between two samples."""
    return read_script(_ASK, str(samples), f"{every:g}", str(min(PROCESSES, max(1, LINES // samples))))


_ASK = script(__package__, "growth_sample")
"""The script; it counts the fields of ``stat`` after the last bracket, because the name before it may contain
anything.
"""


def read_samples(done: Completed) -> tuple[Sample, ...]:
    """Return the samples in *done*, also if the time was up before the last sample.  Raises ProbeError if there is no
    sample.
    """
    blocks = re.split(r"^sample ", done.stdout, flags=re.MULTILINE)[1:]  # a process may be called `sample`
    whole = blocks[:-1] if done.timed_out or done.exit_code else blocks
    if not whole:
        raise ProbeError(
            "/proc could not be read in time" if done.timed_out else done.why_not("/proc could not be read")
        )
    return tuple(map(_sample, whole))


def _sample(block: str) -> Sample:
    head, *lines = block.split("\n")
    table = {
        words[1]: int(words[2]) * 1024 for line in lines if (words := line.split(" "))[0] == "mem" and len(words) == 3
    }
    held = tuple(_process_memory(line) for line in lines if line.startswith("held "))
    known = {"MemTotal", "MemAvailable"} <= table.keys()
    why = Unknown(why="this host's /proc/meminfo has no MemAvailable")
    return Sample(
        at=finite(head),
        used=table["MemTotal"] - table["MemAvailable"] if known else why,
        held={f"{memory.pid}:{memory.start}": memory for memory in held},
        others=min((memory.resident for memory in held), default=0) if "more" in lines else 0,
    )


def _process_memory(line: str) -> ProcessMemory:
    _, kib, pid, start, name = line.split(" ", 4)
    return ProcessMemory(pid=int(pid), start=start, name=name, resident=int(kib) * 1024)


def ask_gpu_samples(samples: int, every: float) -> Command:
    """Return the command that samples the memory of the GPUs *samples* times, with *every* seconds between two
    samples.
    """
    return read_script(_ASK_GPUS, str(samples), f"{every:g}", ",".join(GPU_FIELDS))


_ASK_GPUS = SCRIPT_HEAD + script(__package__, "growth_sample_gpus")


def read_gpu_samples(done: Completed) -> tuple[Mapping[str, int | Unknown], ...]:
    """Return the bytes in use on each GPU, by UUID, for each sample.  Raises ProbeError if no row can be trusted."""
    found = sections(done)
    samples = tuple(_used(section.lines) for section in found if section.exit_code is not None)
    if any(samples):
        return samples
    said = tuple(line for section in found for line in (*section.lines, *section.stderr))
    raise ProbeError(hung(done) if done.timed_out else reason(found[-1].exit_code, said))


def _used(lines: tuple[str, ...]) -> Mapping[str, int | Unknown]:
    rows = [values for line in lines if (values := row(line, GPU_FIELDS, "")) and values[1].startswith("GPU-")]
    reported = ((uuid, number(text)) for _, uuid, text in rows)
    return {uuid: it if isinstance(it, Unknown) else int(it * MIB) for uuid, it in reported}


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    samples: int = field(default=5, metadata={"minimum": 3, "maximum": 1000})
    """The number of samples to take."""
    every: Duration = field(default=Duration(2), metadata={"minimum": 0.1, "maximum": 600})
    """Time between two samples."""
    at_least: Size = field(default=Size(64 << 20), metadata={"minimum": 1})
    """Ignore a growth over all samples that is smaller than this."""
    rises: int = field(default=0, metadata={"minimum": 0})
    """The minimum number of samples in which the value must be higher than in the sample before (it must never fall);
    0: all.
    """
    gpus: bool = True
    """Sample the memory of GPUs, too, with nvidia-smi."""

    def __post_init__(self) -> None:
        if self.rises >= self.samples:
            raise ValueError(f"`rises`: {self.samples} samples allow only {self.samples - 1} rises")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A process or a GPU whose memory use grew."""

    name: str
    """The name of the process, or the UUID of the GPU."""
    pid: int = 0
    """The pid of the process; 0 for a GPU."""
    before: int
    """The bytes in the first sample."""
    after: int
    """The bytes in the last sample."""
    grown: int
    """The growth in bytes from the first sample to the last."""
    per_minute: int
    """The average growth in bytes per minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The development of memory use in the samples, in bytes."""

    samples: int
    """The number of samples that were taken."""
    seconds: float
    """Seconds between the first and the last sample."""
    used: tuple[int | Unknown, ...]
    """Bytes of the host's memory in use, in each sample."""
    used_growing: bool | Unknown
    """Whether `used` keeps growing."""
    processes: tuple[Grown, ...] | Unknown
    """Growing processes: name, pid, before, after, grown, per_minute; the fastest first."""
    gpus: tuple[Grown, ...] | Unknown
    """GPUs whose memory in use keeps growing, with the same fields."""
    gpu_used: Mapping[str, tuple[int | Unknown, ...]] = field(default_factory=dict)
    """Bytes of each GPU's memory in use in each sample, by UUID."""


Series = Sequence[int | Unknown]


def probe(args: Args) -> Probe[State]:
    """Take the samples of processes and of GPUs, each with one script, both at the same time."""
    asked = replace(ask_samples(args.samples, args.every), timeout=_patience(args))
    if not args.gpus:
        return _state(args, read_samples((yield asked)), (), "GPUs were not sampled (`gpus: false`)")
    smi = replace(ask_gpu_samples(args.samples, args.every), timeout=_patience(args))
    present, memory, reported = yield ask_presence(), asked, smi
    if read_presence(present).absent:
        return _state(args, read_samples(memory), (), "")
    gpu_samples, why = _gpu_samples(reported)
    return _state(args, read_samples(memory), gpu_samples, why)


def _patience(args: Args) -> float:
    """Return the seconds after which the samples are given up: their pauses, and the time for nvidia-smi to answer
    each time.
    """
    return args.samples * (args.every + 2) + 10


def _gpu_samples(done: Completed) -> tuple[tuple[Mapping[str, int | Unknown], ...], str]:
    try:
        return read_gpu_samples(done), ""
    except ProbeError as error:
        return (), str(error)


def _state(args: Args, samples: Sequence[Sample], gpus: Sequence[Mapping[str, int | Unknown]], why: str) -> State:
    took = round(samples[-1].at - samples[0].at, 1)
    used = tuple(sample.used for sample in samples)
    table = {
        uuid: tuple(gpu.get(uuid, Unknown(why="nvidia-smi did not list this GPU in this sample")) for gpu in gpus)
        for uuid in _keys(gpus)
    }
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
    return tuple(dict.fromkeys(key for sample in samples for key in sample))


def _grows(args: Args, series: Series) -> bool | Unknown:
    """Return whether *series* grows as *args* require; unknown if a value is missing."""
    if len(series) < args.samples:
        return Unknown(why=f"only {plural(len(series), 'sample')} of {args.samples} could be taken")
    known = [number for number in series if not isinstance(number, Unknown)]
    if len(known) < len(series):
        return next(number for number in series if isinstance(number, Unknown))
    steps = [later - before for before, later in pairwise(known)]
    enough = sum(step > 0 for step in steps) >= (args.rises or len(steps))
    return enough and min(steps) >= 0 and known[-1] - known[0] >= args.at_least


def _processes(args: Args, samples: Sequence[Sample], took: float) -> tuple[Grown, ...] | Unknown:
    """Return the growing processes among those that are in every sample; other processes are not judged."""
    if len(samples) < args.samples:
        return Unknown(why=f"only {plural(len(samples), 'sample')} of {args.samples} could be taken")
    there = [key for key in samples[-1].held if all(key in sample.held for sample in samples)]
    series = {key: [sample.held[key].resident for sample in samples] for key in there}
    last = samples[-1].held
    found = [
        _grown(last[key].name, last[key].pid, value, took)
        for key, value in series.items()
        if _grows(args, value) is True
    ]
    if not found and samples[-1].others >= args.at_least:
        held = bytes_of(samples[-1].others)
        return Unknown(
            why=f"only the {plural(len(last), 'process')} with the most memory were inspected, all above {held}"
        )
    return tuple(sorted(found, key=lambda it: -it.grown))


def _gpus(args: Args, table: Mapping[str, Series], took: float) -> tuple[Grown, ...] | Unknown:
    reported = {uuid: _grows(args, value) for uuid, value in table.items()}
    known = {uuid: [number for number in table[uuid] if not isinstance(number, Unknown)] for uuid in table}
    found = tuple(_grown(uuid, 0, known[uuid], took) for uuid, value in reported.items() if value is True)
    blind = next((flag for flag in reported.values() if isinstance(flag, Unknown)), None)
    return found or blind or ()


def _grown(name: str, pid: int, series: Sequence[int], took: float) -> Grown:
    grown = series[-1] - series[0]
    rate = round(grown * 60 / took) if took else 0
    return Grown(name=name, pid=pid, before=series[0], after=series[-1], grown=grown, per_minute=rate)


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that nothing keeps growing."""
    if isinstance(state.processes, Unknown):
        raise ProbeError(state.processes.why)
    if args.gpus and isinstance(state.gpus, Unknown):
        raise ProbeError(state.gpus.why)
    gpus = () if isinstance(state.gpus, Unknown) else state.gpus
    growing = sorted((*state.processes, *gpus), key=lambda one: one.grown, reverse=True)
    if growing:
        named = ", ".join(
            f"{grown.name}{f' ({grown.pid})' if grown.pid else ''} by {bytes_of(grown.grown)}" for grown in growing[:5]
        )
        return Fails(why=f"growing: {named} in {seconds(state.seconds)}")
    return Holds(why=f"nothing kept growing in {plural(state.samples, 'sample')} over {seconds(state.seconds)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands with which a person would watch the memory."""
    ask = " && nvidia-smi --query-gpu=index,memory.used --format=csv" if args.gpus else ""
    return (f"watch -n {max(1, round(args.every))} 'free -h && ps -eo pid,rss,comm --sort=-rss | head{ask}'",)
