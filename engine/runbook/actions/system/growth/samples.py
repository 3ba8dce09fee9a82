"""How much memory is used, sample after sample: of the host, of single processes, and of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from runbook.errors import ProbeError
from runbook.facts.gpu.smi_output import SCRIPT_HEAD, hung, number, reason, row, sections
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

MIB = 1 << 20

PROCESSES = 2000
"""Processes of one sample that come back at most, those that hold most."""

LINES = 60_000
"""Processes of all samples together that come back at most."""

GPU_FIELDS = ("index", "uuid", "memory.used")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMemory:
    """What one process held when a sample was taken."""

    pid: int
    start: str
    """Clock ticks between boot and its start: with the pid, its identity."""
    name: str
    resident: int
    """Bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of the memory."""

    at: float
    """Seconds since boot."""
    used: int | Unknown
    """Bytes of the host that no program could still get."""
    held: Mapping[str, ProcessMemory] = field(default_factory=dict)
    """By ``pid:start``."""
    others: int = 0
    """Bytes that each of the processes may hold which are not in it; 0: all are."""


def ask_samples(samples: int, every: float) -> Command:
    """One script that reads /proc *samples* times, *every* so many seconds."""
    return read_script(_ASK, str(samples), f"{every:g}", str(min(PROCESSES, max(1, LINES // samples))))


_ASK = script(__package__, "growth_sample")
"""Fields of ``stat`` are counted behind its last bracket: the name before it may hold anything."""


def read_samples(done: Completed) -> tuple[Sample, ...]:
    """The samples in *done*, those that were taken before time was up too.  Raises ProbeError where there is none."""
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
    held = tuple(_held(line) for line in lines if line.startswith("held "))
    known = {"MemTotal", "MemAvailable"} <= table.keys()
    why = Unknown(why="this host's /proc/meminfo has no MemAvailable")
    return Sample(
        at=finite(head),
        used=table["MemTotal"] - table["MemAvailable"] if known else why,
        held={f"{memory.pid}:{memory.start}": memory for memory in held},
        others=min((memory.resident for memory in held), default=0) if "more" in lines else 0,
    )


def _held(line: str) -> ProcessMemory:
    _, kib, pid, start, name = line.split(" ", 4)
    return ProcessMemory(pid=int(pid), start=start, name=name, resident=int(kib) * 1024)


def ask_gpu_samples(samples: int, every: float) -> Command:
    """The same for the memory of the GPUs."""
    return read_script(_ASK_GPUS, str(samples), f"{every:g}", ",".join(GPU_FIELDS))


_ASK_GPUS = SCRIPT_HEAD + script(__package__, "growth_sample_gpus")


def read_gpu_samples(done: Completed) -> tuple[Mapping[str, int | Unknown], ...]:
    """Bytes in use on each GPU, by its UUID, sample after sample.  Raises ProbeError where no row can be believed."""
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
