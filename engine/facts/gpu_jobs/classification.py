"""Classify processes as left over or at work, from two samples of the GPUs and a second read of /proc."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from engine.errors import ProbeError
from engine.facts.gpu.model import Gpu, bus_id
from engine.facts.gpu_jobs.arguments import JobArguments
from engine.facts.gpu_jobs.jobs import process_jobs
from engine.facts.gpu_jobs.leftover import Load, ask_load, at_work, beyond_help, gpus_of, read_load
from engine.facts.processes.open_files import GPUS, OpenFileScan, ask_holders, read_holders
from engine.facts.processes.protected import Protected, shown, spared
from engine.facts.processes.table import Process
from engine.values.command import Command
from engine.values.types import Unknown

NOT_ASKED = Unknown(why="not checked, because the step is for all of these processes, at work or left over")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """What a closer probe saw."""

    load: Load
    walk: OpenFileScan | Unknown
    starting: float = 0.0
    """Seconds for which a job that holds nothing is not left over."""


def observe_gpu_use(job: JobArguments, *globs: str) -> Generator[tuple[Command, ...], Any, GpuUse]:
    """Sample the GPUs for as long as *job* says, and then read who has their nodes, and files of *globs*, open."""
    presence, gpus, walked = yield (*ask_load(job.idle_for), ask_holders(*(globs or (GPUS,))))
    walk: OpenFileScan | Unknown
    try:
        walk = read_holders(walked)
    except ProbeError as error:
        walk = Unknown(why=str(error))
    load = replace(read_load(presence, gpus, job.busy_above), lost=frozenset(filter(None, map(bus_id, job.lost))))
    return GpuUse(load=load, walk=walk, starting=job.starting)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMatch:
    """Processes, classified by whether their jobs are at work."""

    leftover: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose jobs keep no GPU busy; unknown if the GPUs cannot be queried."}
    )
    at_work: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose jobs keep a GPU busy: workers, launchers and their helpers."}
    )
    starting: tuple[Process, ...] = field(
        default=(),
        metadata={"about": "Those whose jobs hold no GPU and were started less than `starting` ago: not left over."},
    )
    protected: tuple[Protected, ...] = field(
        default=(), metadata={"about": "Processes that are never ended, each with the reason."}
    )
    beyond_help: tuple[Protected, ...] = field(
        default=(),
        metadata={"about": "Those that hold only lost GPUs: left alone, because ending them brings no GPU back."},
    )


Match = TypeVar("Match", bound=JobMatch)


def classify_into(
    match: Match,
    processes: tuple[Process, ...],
    before: Collection[str],
    closer: GpuUse,
    blind: Unknown | None = None,
) -> Match:
    """*match* with *processes* classified; *blind*: why none that is left over would not mean that there is none."""
    sides = classify(processes, before, closer)
    return replace(
        match,
        leftover=sides.leftover or blind or (),
        at_work=sides.at_work,
        starting=sides.starting,
        protected=(*match.protected, *sides.protected),
        beyond_help=sides.beyond_help,
    )


def classify(processes: tuple[Process, ...], before: Collection[str], closer: GpuUse) -> JobMatch:
    """*processes* by whether their jobs are at work, each by itself: a user's unknown does not hide another's leftover.

    One whose key is not in *before* has just started, and so is at work.  An answer is unknown where nothing is in it
    but what might be, and where nvidia-smi did not answer; those of which it is not known are protected.
    """
    if not processes:
        return JobMatch()
    if isinstance(closer.walk, Unknown):
        return JobMatch(leftover=closer.walk, at_work=closer.walk)
    work = at_work(closer.walk, closer.load)
    hopeless = beyond_help(closer.walk, closer.load)
    answers = [(process, True if process.key not in before else work[process.pid]) for process in processes]
    beyond = [process for process, answer in answers if process.pid in hopeless and answer is not True]
    others = [(process, answer) for process, answer in answers if process not in beyond]
    lost = tuple(_beyond(process, hopeless[process.pid]) for process in beyond)
    young = set() if closer.load.absent else _young_without_gpu(processes, closer.walk, closer.starting)
    return replace(_by_answer(others, young, closer), beyond_help=lost)


def _young_without_gpu(processes: Collection[Process], walk: OpenFileScan, least: float) -> set[int]:
    """Those of *processes* in whose jobs none holds anything, and none is known to have run for *least* seconds."""
    old = [one.pid for one in processes if not isinstance(one.seconds, Unknown) and one.seconds >= least]
    holders = [pid for pid, files in walk.open.items() if files]
    of_jobs = process_jobs(walk.table).share(dict.fromkeys([*old, *holders], True))
    return {process.pid for process in processes if of_jobs.get(process.pid) is not True}


def _by_answer(answers: Sequence[tuple[Process, bool | Unknown]], young: Collection[int], closer: GpuUse) -> JobMatch:
    """Processes, each with whether it is at work; those that are not, and *young*, are starting."""
    undecided = tuple(
        spared(process, f"whether it is left over is not known: {answer.why}")
        for process, answer in answers
        if isinstance(answer, Unknown)
    )
    unknown = Unknown(why=str(undecided[0])) if undecided else None
    if unknown and isinstance(closer.load.reading, Unknown):  # of no GPU is it known who uses it
        return JobMatch(leftover=unknown, at_work=unknown, protected=undecided)
    return JobMatch(
        leftover=tuple(one for one, answer in answers if answer is False and one.pid not in young) or unknown or (),
        starting=tuple(one for one, answer in answers if answer is False and one.pid in young),
        at_work=tuple(process for process, answer in answers if answer is True) or unknown or (),
        protected=undecided,
    )


def _beyond(process: Process, buses: tuple[str, ...]) -> Protected:
    return spared(
        process,
        f"it holds GPU {', '.join(buses)}, which is lost: only a reboot of the host brings the GPU back, not a kill",
    )


def described(pid: int, walk: OpenFileScan, load: Load) -> Process:
    """The process with what it has open, and whether nvidia-smi lists it."""
    pids = load.pids()
    devices = tuple(file.path for file in walk.open.get(pid, ()))
    listed = pids if isinstance(pids, Unknown) else pid in pids
    return replace(shown(walk.table.rows[pid]), devices=devices, listed=listed, gpus=_gpus(pid, walk, load))


def _gpus(pid: int, walk: OpenFileScan, load: Load) -> tuple[str, ...]:
    """The GPUs that the process holds by their indices, each with its memory there; none where that is not known."""
    held = gpus_of(pid, walk, load)
    if isinstance(held, Unknown):
        return ()
    apps = () if isinstance(load.apps, Unknown) else load.apps
    used: dict[str, float | None] = {}
    for app in apps:
        if app.pid == pid:
            used[app.gpu_uuid] = None if isinstance(app.memory_mib, Unknown) else app.memory_mib
    return tuple(_with_memory(gpu, used.get(gpu.uuid)) for gpu in sorted(held, key=lambda it: it.index))


def _with_memory(gpu: Gpu, mib: float | None) -> str:
    return f"GPU {gpu.index}" + ("" if mib is None else f" ({mib:.0f} MiB)")
