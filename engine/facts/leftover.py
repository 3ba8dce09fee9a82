"""Which processes are left over from a dead job, and which are at work."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ProbeError
from engine.facts.gpu_load import busy
from engine.facts.gpus import Gpu, GpuPresence, Reading
from engine.facts.nvidia import ask_gpus, ask_presence, read_presence
from engine.facts.nvidia_reading import read_gpus
from engine.facts.processes import Process, Table, ask_processes, read_processes
from engine.values.command import Command
from engine.values.text import Unknown

APART = 2.0
"""Seconds between the two looks at how busy a GPU is."""

EVERYBODYS = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
"""Nodes that every CUDA process opens: they do not say which GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is known of the GPUs."""

    presence: GpuPresence
    reading: Reading | Unknown

    @property
    def apps(self) -> tuple[Any, ...] | Unknown:
        """What nvidia-smi lists."""
        return self.reading if isinstance(self.reading, Unknown) else self.reading.apps


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Candidates, told apart."""

    leftover: tuple[Process, ...] | Unknown
    at_work: tuple[Process, ...] | Unknown
    gpus: tuple[str, ...] | Unknown
    """The GPUs that left-over processes hold."""


def look_at_processes(paths: Iterable[str]) -> Generator[Command, Any, Table]:
    """The process table, and who has *paths* open."""
    return read_processes((yield ask_processes(paths)))


def look_at_load() -> Generator[tuple[Command, ...], Any, Load]:
    """Two looks at the GPUs; an nvidia-smi that does not answer is known as that, and not asked again."""
    present, asked = yield (ask_presence(), ask_gpus(APART, apps=True))
    presence = read_presence(present)
    if presence.absent:
        return Load(presence=presence, reading=Reading(gpus=(), apps=()))
    try:
        return Load(presence=presence, reading=read_gpus(asked))
    except ProbeError as error:
        return Load(presence=presence, reading=Unknown(why=str(error)))


def listed_marked(found: Iterable[Process], load: Load) -> tuple[Process, ...]:
    """*found*, each with whether nvidia-smi lists it."""
    apps = load.apps
    if isinstance(apps, Unknown):
        return tuple(replace(it, listed=apps) for it in found)
    pids = {it.pid for it in apps}
    return tuple(replace(it, listed=it.pid in pids) for it in found)


def told_apart(candidates: tuple[Process, ...], table: Table, load: Load, above: float) -> Sorted:
    """Which of *candidates* are left over: no GPU that they, or their job, hold is busier than *above* percent.

    A process is at work when a GPU that it holds was busy on both looks.  Its job is at work with it: candidates above
    it, everything below those, and candidates of a process group that one of them leads.  One that cannot be told
    makes the answer Unknown: nothing unknown is ever ended.
    """
    if not candidates:
        return Sorted(leftover=(), at_work=(), gpus=())
    everyone = {it.pid: it for it in table.processes if it.devices} | {it.pid: it for it in candidates}
    held = {pid: _held(it, load) for pid, it in everyone.items()}
    work = {pid: _works(gpus, load, above) for pid, gpus in held.items()}
    for one, other in _kin(candidates, everyone, table):
        for pid, kin in ((one, other), (other, one)):
            work.setdefault(pid, False)
            if work.get(kin) is True or (isinstance(work.get(kin), Unknown) and work[pid] is False):
                work[pid] = work[kin] if work[pid] is not True else True
    answers = [(it, work[it.pid]) for it in candidates]
    at_work = tuple(it for it, answer in answers if answer is True)
    if unknown := next((answer for _, answer in answers if isinstance(answer, Unknown)), None):
        return Sorted(leftover=unknown, at_work=at_work or unknown, gpus=unknown)
    leftover = tuple(it for it, answer in answers if answer is False)
    keys = {gpu.key for it in leftover for gpu in _certain(held[it.pid])}
    return Sorted(leftover=leftover, at_work=at_work, gpus=tuple(sorted(keys)))


def _kin(candidates: tuple[Process, ...], everyone: Mapping[int, Process], table: Table) -> list[tuple[int, int]]:
    """Pairs of one job, so ordered that what is known of a worker reaches its launcher, and from there every rank."""
    heads = {it.pid for it in candidates}
    up = [(above, pid) for pid in everyone for above in table.ancestors(pid) if above in heads and above != 1]
    groups = [(it.group, it.pid) for it in everyone.values() if it.group in heads and it.group != it.pid]
    pairs = [*up, *groups]
    return pairs * (1 + min(len(pairs), 8))


_Holding = tuple[tuple[Gpu, ...], bool]
"""The GPUs that a process holds for certain, and whether it may hold any other."""


def _certain(holding: _Holding) -> tuple[Gpu, ...]:
    return holding[0]


def _held(process: Process, load: Load) -> _Holding:
    if isinstance(load.reading, Unknown):
        return (), False
    by_bus = {it.bus_id: it for it in load.reading.gpus}
    minors = {minor: by_bus[bus] for bus, minor in load.presence.minors.items() if bus in by_bus}
    gpus: dict[str, Gpu] = {}
    unsure = False
    for path in process.devices:
        number = path.removeprefix("/dev/nvidia")
        if path in EVERYBODYS or not number.isdigit():
            continue
        if int(number) in minors:
            gpus[minors[int(number)].key] = minors[int(number)]
        elif len(load.reading.gpus) == 1 and len(load.presence.nodes) == 1:
            gpus[load.reading.gpus[0].key] = load.reading.gpus[0]
        else:
            unsure = True
    apps = load.reading.apps
    listed = {it.gpu_uuid for it in apps if it.pid == process.pid} if not isinstance(apps, Unknown) else set()
    gpus |= {it.key: it for it in load.reading.gpus if it.uuid in listed}
    return tuple(gpus.values()), unsure or (bool(process.devices) and isinstance(apps, Unknown) and not gpus)


def _works(holding: _Holding, load: Load, above: float) -> bool | Unknown:
    if isinstance(load.reading, Unknown):
        return load.reading
    gpus, unsure = holding
    answers = [busy(it, above) for it in (load.reading.gpus if unsure else gpus)]
    if True in answers:
        return True
    return next((it for it in answers if isinstance(it, Unknown)), False)
