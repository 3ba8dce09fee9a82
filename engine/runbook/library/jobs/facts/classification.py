"""Classify processes as left over or at work, from two samples of the GPUs and a second read of /proc."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import Gpu, GpuPresence, bus_id
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.leftover import (
    Load,
    ask_amd_load,
    ask_load,
    at_work,
    beyond_help,
    gpus_of,
    read_amd_load,
    read_load,
)
from runbook.library.processes.facts.open_files import AMD_GPUS, GPUS, OpenFileScan, ask_holders, read_holders
from runbook.library.processes.facts.owners.evidence import ask_owners, read_owners
from runbook.library.processes.facts.owners.model import Owner
from runbook.library.processes.facts.owners.owners import family_of, owned, owners_in
from runbook.library.processes.facts.process_jobs import process_jobs
from runbook.library.processes.facts.protected import Protected, as_process, spared
from runbook.library.processes.facts.table import Process, Table
from runbook.values.command import Command
from runbook.values.types import Unknown

NOT_ASKED = Unknown(why="not checked, because the step is for all of these processes, at work or left over")


LISTENING = 600.0
"""The seconds for which a job that listens on a port must be idle, because a server may wait so long for requests."""

ORPHANED = 60.0
"""The seconds after which a process whose launcher is gone is not starting any more."""


NOT_ASKED_FOR = Owner(kind="unknown", name="unknown: it was not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """The use of the GPUs by processes, as seen in samples."""

    load: Load
    walk: OpenFileScan | Unknown
    job: JobArguments = field(default_factory=JobArguments)
    owners: Mapping[int, Owner] = field(default_factory=dict)
    """The owners of the selected processes, and of the other processes of their jobs."""
    ports: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The ports on which these processes listen."""


def observe_gpu_use(
    job: JobArguments, before: Table, pids: Collection[int], *globs: str
) -> Generator[tuple[Command, ...], Any, GpuUse]:
    """Sample the GPUs for the time in *job*; then read the processes that have GPU nodes, or files of *globs*, open.

    *pids*, from the table *before*, are the processes in question; their owners are read during the samples.
    """
    family = family_of(before, pids)
    presence, gpus, answered, walked = yield (
        *ask_load(job.idle_for), ask_owners(family, before), ask_holders(*(globs or (GPUS,)))
    )  # fmt: skip
    walk: OpenFileScan | Unknown
    try:
        walk = read_holders(walked)
    except ProbeError as error:
        walk = Unknown(why=str(error))
    load = replace(
        read_load(presence, gpus, job.idle_for, job.busy_above), lost=frozenset(filter(None, map(bus_id, job.lost)))
    )
    if not isinstance(load.presence, Unknown) and (amd := load.presence.amd):
        return (yield from _observe_amd(amd, job, before, family, *(globs or (GPUS,))))
    if isinstance(walk, Unknown):
        return GpuUse(load=load, walk=walk, job=job)
    evidence = read_owners(answered, family, before)
    owners = owners_in(walk.table, family, evidence)
    return GpuUse(load=load, walk=walk, job=job, owners=owners, ports=evidence.ports)


def _observe_amd(
    amd: GpuPresence, job: JobArguments, before: Table, family: Collection[int], *globs: str
) -> Generator[tuple[Command, ...], Any, GpuUse]:
    """Do what ``observe_gpu_use`` does on a host with AMD's GPUs, whose devices a process shows by others."""
    gpus, answered, walked = yield (
        ask_amd_load(amd, job.idle_for), ask_owners(family, before), ask_holders(*globs, *AMD_GPUS)
    )  # fmt: skip
    load = read_amd_load(amd, gpus, job.idle_for, job.busy_above)
    try:
        walk = read_holders(walked).asked_for(*globs)
    except ProbeError as error:
        return GpuUse(load=load, walk=Unknown(why=str(error)), job=job)
    evidence = read_owners(answered, family, before)
    owners = owners_in(walk.table, family, evidence)
    return GpuUse(load=load, walk=walk, job=job, owners=owners, ports=evidence.ports)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMatch:
    """Processes, classified by whether their jobs are at work."""

    leftover: tuple[Process, ...] | Unknown = ()
    """The processes whose jobs keep no GPU busy; unknown if the GPUs cannot be queried."""
    at_work: tuple[Process, ...] | Unknown = ()
    """The processes whose jobs keep a GPU busy: workers, launchers and their helpers."""
    starting: tuple[Process, ...] = ()
    """Idle processes whose jobs were started less than `starting` ago, so that they are not left over."""
    owned: tuple[Process, ...] = ()
    """Idle processes whose owner lives (`owner`, `ownership`), so that they are not left over."""
    listening: tuple[Process, ...] = ()
    """Idle processes whose jobs listen on a port and were not idle for 10 minutes in the samples: servers at rest, or
    left over.
    """
    protected: tuple[Protected, ...] = ()
    """Processes that are never ended, each with the reason."""
    beyond_help: tuple[Protected, ...] = ()
    """The processes that hold only lost GPUs; they are left alone, because ending them restores no GPU."""


Match = TypeVar("Match", bound=JobMatch)


def classify_into(
    match: Match,
    processes: tuple[Process, ...],
    before: Collection[str],
    closer: GpuUse,
    blind: Unknown | None = None,
) -> Match:
    """*match* with *processes* classified.

    *blind*: the reason why processes may be hidden; if no leftover is found, leftovers are unknown for this reason.
    """
    sides = classify(processes, before, closer)
    return replace(
        match,
        leftover=sides.leftover or blind or (),
        at_work=sides.at_work,
        starting=sides.starting,
        owned=sides.owned,
        listening=sides.listening,
        protected=(*match.protected, *sides.protected),
        beyond_help=sides.beyond_help,
    )


def classify(processes: tuple[Process, ...], before: Collection[str], closer: GpuUse) -> JobMatch:
    """Sort *processes* by whether their jobs are at work.

    Each process is judged by itself, so that an unknown one does not hide a leftover of another.  A process whose key
    is not in *before* has just started, and counts as at work.  A list is unknown if nvidia-smi did not answer, or if
    its only candidates are uncertain; uncertain processes are protected.
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
    return replace(_by_answer(others, closer, closer.walk), beyond_help=lost)


def _young(processes: Collection[Process], closer: GpuUse, walk: OpenFileScan) -> set[int]:
    """Return the processes whose jobs have just been started.

    For a job that holds a GPU, the youngest holder counts, because a restarted rank is loading its weights now.  For
    another job, the oldest process counts.  A process of unknown age may have just started.
    """
    if not closer.job.starting or closer.load.absent:
        return set()
    members = process_jobs(walk.table).members
    found: set[int] = set()
    for process in processes:
        family = [walk.table.rows[pid].process for pid in members[process.pid]]
        owners = [closer.owners.get(one.pid) for one in family]
        supervised = any(owner is not None and owner.kind == "supervised" for owner in owners)
        least = closer.job.starting if supervised else min(closer.job.starting, ORPHANED)
        ages = [None if isinstance(one.seconds, Unknown) else one.seconds for one in family if walk.open.get(one.pid)]
        if ages:
            young = any(age is None or age < least for age in ages)
        else:
            young = not any(not isinstance(one.seconds, Unknown) and one.seconds >= least for one in family)
        if young:
            found.add(process.pid)
    return found


def _servers(processes: Collection[Process], closer: GpuUse, walk: OpenFileScan) -> set[int]:
    """Return the processes of jobs that listen on a port, unless there is evidence that the job is not a server at
    rest.
    """
    if closer.load.absent or closer.job.incident or closer.job.idle_for >= LISTENING:
        return set()
    members = process_jobs(walk.table).members
    return {process.pid for process in processes if any(closer.ports.get(pid) for pid in members[process.pid])}


def _by_answer(answers: Sequence[tuple[Process, bool | Unknown]], closer: GpuUse, walk: OpenFileScan) -> JobMatch:
    """Sort processes by *answers*, which tell whether each is at work.

    Idle processes with a living owner are spared first.
    """
    idle = [process for process, answer in answers if answer is False]
    spare = closer.job.spare_owned
    owners = {process.pid: closer.owners.get(process.pid, NOT_ASKED_FOR) for process in idle}
    owned_ones = tuple(process for process in idle if spare and owners[process.pid].lives)
    hidden = tuple(process for process in idle if spare and owners[process.pid].kind == "unknown")
    idle = [process for process in idle if process not in owned_ones and process not in hidden]
    young, serving = _young(idle, closer, walk), _servers(idle, closer, walk)
    undecided = tuple(
        spared(process, f"whether it is left over is not known: {answer.why}")
        for process, answer in answers
        if isinstance(answer, Unknown)
    ) + tuple(spared(process, f"whose it is, is not known: {owners[process.pid].why}") for process in hidden)
    unknown = Unknown(why=str(undecided[0])) if undecided else None
    if unknown and isinstance(closer.load.reading, Unknown):  # of no GPU is it known who uses it
        return JobMatch(leftover=unknown, at_work=unknown, protected=undecided)
    return JobMatch(
        leftover=tuple(one for one in idle if one.pid not in young and one.pid not in serving) or unknown or (),
        starting=tuple(one for one in idle if one.pid in young),
        listening=tuple(one for one in idle if one.pid in serving and one.pid not in young),
        owned=owned_ones,
        at_work=tuple(process for process, answer in answers if answer is True) or unknown or (),
        protected=undecided,
    )


def _beyond(process: Process, buses: tuple[str, ...]) -> Protected:
    return spared(
        process,
        f"it holds GPU {', '.join(buses)}, which is lost: only a reboot of the host brings the GPU back, not a kill",
    )


def described(pid: int, walk: OpenFileScan, closer: GpuUse) -> Process:
    """Return the process with its open files, its entry in nvidia-smi, and its owner."""
    load = closer.load
    pids = load.pids()
    devices = tuple(file.path for file in walk.open.get(pid, ()))
    listed = pids if isinstance(pids, Unknown) else pid in pids
    plain = replace(as_process(walk.table.rows[pid]), devices=devices, listed=listed, gpus=_gpus(pid, walk, load))
    return owned(plain, closer.owners[pid]) if pid in closer.owners else plain


def _gpus(pid: int, walk: OpenFileScan, load: Load) -> tuple[str, ...]:
    """Return the indices of the GPUs that the process holds, each with its memory there; empty if they are unknown."""
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
