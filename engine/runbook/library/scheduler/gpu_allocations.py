"""Name the jobs that have some GPUs of this host: as Slurm has given them, and as nvidia-smi lists processes on them.

Slurm's numbers of GPUs are compared with the GPUs that the processes of its jobs use. Where both contradict each other,
and where Slurm does not say which GPUs a job has, the jobs are unknown. Kubernetes does not say which pod has which
GPU: of pods there are those whose processes are on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import ComputeProcess, Gpu, GpuPresence
from runbook.library.gpu.facts.smi_query import ask_gpus, ask_presence, read_gpus, read_presence
from runbook.library.gpu.facts.utilisation import chosen
from runbook.library.processes.facts.open_files import GPUS, ask_holders, read_holders
from runbook.library.processes.facts.owners.evidence import OwnerEvidence, ask_owners, read_owners
from runbook.library.processes.facts.owners.model import Owner
from runbook.library.processes.facts.owners.owners import owners_in
from runbook.library.processes.facts.table import Table
from runbook.library.scheduler.facts.allocations import (
    Allocation,
    ask_allocations,
    contradictions,
    read_allocations,
)
from runbook.library.scheduler.facts.query import NODE_NAME, ask_node, read_node
from runbook.protocols import Probe
from runbook.text.shortened import first_few
from runbook.values.types import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    gpus: tuple[str, ...] = field(metadata={"min_items": 1})
    """UUIDs, PCI bus ids or indexes, as text."""
    kind: Literal["auto", "slurm", "kubernetes", "none"] = "auto"
    """The scheduler; auto: found out on the host."""
    node: str = ""
    """By which name the scheduler knows the host; empty: by its own."""

    def __post_init__(self) -> None:
        if self.node and not NODE_NAME.fullmatch(self.node):
            raise ValueError(f"`node`: {self.node!r} is not the name of a node")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The jobs of this host, by whether they have one of the GPUs."""

    summary: str
    """The jobs, the doubtful ones and the processes, in one sentence."""
    jobs: tuple[str, ...] | Unknown
    """The jobs that have one of the GPUs."""
    doubtful: tuple[str, ...]
    """The jobs of which it is not known which GPUs they have, each with the reason."""
    others: tuple[str, ...] | Unknown
    """The other jobs on this host."""
    processes: tuple[str, ...] | Unknown
    """The processes that nvidia-smi lists on one of the GPUs: pid, user, command and owner (job, pod, service ...)."""


def probe(args: Args) -> Probe[State]:
    """Ask for the GPUs, their processes and the scheduler; then Slurm for the GPUs of its jobs.

    Raises ProbeError if it is not known which GPUs are meant: nvidia-smi does not answer, or has no such GPU.
    """
    asked = yield (ask_presence(), ask_gpus(apps=True), ask_holders(GPUS), ask_node(args.kind, args.node))
    presence, smi, walked, stands = asked
    there = read_presence(presence)
    reading = read_gpus(smi)
    named = chosen(reading.gpus, args.gpus)
    if lacking := [name for name, gpu in named.items() if gpu is None]:
        known = ", ".join(str(gpu.index) for gpu in reading.gpus)
        raise ProbeError(f"there is no GPU {', '.join(lacking)} on this host; there are: {known}")
    wanted = [gpu for gpu in named.values() if gpu]
    table = read_holders(walked).table
    node = read_node(stands)
    allocations: tuple[Allocation, ...] | Unknown
    if isinstance(node, Unknown):
        allocations = node
    elif node.kind == "kubernetes":
        allocations = Unknown(why="Kubernetes does not say which pod has which GPU")
    elif node.kind != "slurm":
        allocations = Unknown(why="only Slurm says which job has which GPU, and this host is none of its nodes")
    else:
        allocations = read_allocations((yield ask_allocations(node.name)), node.name)
    jobs, others, doubtful = _by_gpu(allocations, wanted, there, reading.gpus, reading.apps, table)
    on_them = _pids_on(wanted, reading.apps, table)
    evidence = read_owners((yield ask_owners(on_them, table)), on_them, table) if on_them else OwnerEvidence()
    processes = _processes(reading.apps, wanted, table, owners_in(table, on_them, evidence))
    return State(
        summary=_summary(wanted, jobs, doubtful, processes),
        jobs=jobs,
        doubtful=doubtful,
        others=others,
        processes=processes,
    )


Jobs = tuple[str, ...] | Unknown


def _by_gpu(
    allocations: tuple[Allocation, ...] | Unknown,
    wanted: list[Gpu],
    there: GpuPresence,
    gpus: tuple[Gpu, ...],
    apps: tuple[ComputeProcess, ...] | Unknown,
    table: Table,
) -> tuple[Jobs, Jobs, tuple[str, ...]]:
    """Return the jobs that have one of the GPUs *wanted*, the others, and those of which that is not known."""
    if isinstance(allocations, Unknown):
        return allocations, allocations, ()
    numbers = {gpu.uuid: there.minors.get(gpu.bus_id) for gpu in gpus}
    if any(numbers[gpu.uuid] is None for gpu in wanted):
        why = Unknown(why="the number of the GPU's device node is not known")
        return why, why, ()
    if wrong := contradictions(allocations, _used(apps, numbers, table)):
        return Unknown(why=wrong), Unknown(why=wrong), ()
    minors = {numbers[gpu.uuid] for gpu in wanted}
    jobs, others, doubtful = list[str](), list[str](), list[str]()
    for each in allocations:
        if isinstance(each.gpus, Unknown):
            doubtful.append(f"{each}: {each.gpus.why}")
        else:
            (jobs if minors & {*each.gpus} else others).append(str(each))
    return tuple(jobs), tuple(others), tuple(doubtful)


def _used(
    apps: tuple[ComputeProcess, ...] | Unknown, numbers: Mapping[str, int | None], table: Table
) -> dict[str, set[int]]:
    """Return the numbers of the GPUs on which each job of Slurm has processes, by the job's number."""
    found: dict[str, set[int]] = {}
    for app in () if isinstance(apps, Unknown) else apps:
        row = None if isinstance(app.pid, Unknown) else table.rows.get(app.pid)
        number = numbers.get(app.gpu_uuid)
        if row and number is not None and row.process.container.startswith("job_"):
            found.setdefault(row.process.container.removeprefix("job_"), set()).add(number)
    return found


def _pids_on(wanted: list[Gpu], apps: tuple[ComputeProcess, ...] | Unknown, table: Table) -> frozenset[int]:
    """Return the processes of *table* that nvidia-smi lists on one of the GPUs *wanted*."""
    uuids = {gpu.uuid for gpu in wanted}
    listed = () if isinstance(apps, Unknown) else (app.pid for app in apps if app.gpu_uuid in uuids)
    return frozenset(pid for pid in listed if not isinstance(pid, Unknown) and pid in table.rows)


def _processes(
    apps: tuple[ComputeProcess, ...] | Unknown, wanted: list[Gpu], table: Table, owners: Mapping[int, Owner]
) -> tuple[str, ...] | Unknown:
    """Return the processes that nvidia-smi lists on one of the GPUs *wanted*, in words."""
    if isinstance(apps, Unknown):
        return apps
    found: dict[str, None] = {}
    for app in apps:
        if app.gpu_uuid not in {gpu.uuid for gpu in wanted}:
            continue
        if isinstance(app.pid, Unknown):
            return app.pid
        row = table.rows.get(app.pid)
        words = f" of {row.process.user}: {row.process.command[:80]}" if row else ""
        words += f" ({owners[app.pid]})" if app.pid in owners else ""
        found[f"pid {app.pid}{words}"] = None
    return tuple(found)


def _summary(wanted: list[Gpu], jobs: Jobs, doubtful: tuple[str, ...], processes: Jobs) -> str:
    gpus = f"GPU {', '.join(str(gpu.index) for gpu in wanted)}"
    running = (
        f"on it {'runs' if len(processes) == 1 else 'run'} {first_few(processes)}"
        if not isinstance(processes, Unknown) and processes
        else "nvidia-smi lists no process on it"
        if not isinstance(processes, Unknown)
        else f"what runs on it is not known: {processes.why}"
    )
    if isinstance(jobs, Unknown):
        return f"which jobs have {gpus} is not known: {jobs.why}; {running}"
    given = f"{gpus} is given to {first_few(jobs)}: end it, or `scontrol requeue` it" if jobs else ""
    doubt = f"not known of {first_few(doubtful)}" if doubtful else ""
    none = "" if given or doubt else f"Slurm has given {gpus} to no job"
    return "; ".join(filter(None, (given, doubt, none, running)))


def by_hand(args: Args) -> tuple[str, ...]:
    """The jobs with their GPUs, and the processes on them."""
    return (
        "scontrol -d show job | grep -E 'JobId|IDX'",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv",
    )
