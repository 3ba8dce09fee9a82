"""Decide which processes are left over: a process is at work when a GPU that its job holds is busy.

Where this is not certain the answer is Unknown, and an unknown process is never taken for left over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.amd import AMD_SMI, ask_amd, read_amd
from runbook.library.gpu.facts.smi_query import (
    ComputeProcess,
    Gpu,
    GpuPresence,
    SmiReading,
    ask_gpus,
    ask_presence,
    read_gpus,
    read_presence,
)
from runbook.library.gpu.facts.utilisation import idle
from runbook.library.processes.facts.open_files import KFD, OpenFile, OpenFileScan
from runbook.library.processes.facts.process_jobs import process_jobs, worst
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown

APART = 5.0
"""The maximum number of seconds between two samples of a GPU's utilization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The load of a host's GPUs, and the processes that nvidia-smi lists on them."""

    reading: SmiReading | Unknown
    presence: GpuPresence | Unknown
    above: float
    """A utilization in percent; a GPU with a higher one in a sample is busy."""

    @property
    def absent(self) -> bool:
        """Whether it is proven that the host has no GPU that processes could use; one with AMD's has these for its
        presence.
        """
        return not isinstance(self.presence, Unknown) and self.presence.absent and self.presence.amd is None

    lost: frozenset[str] = frozenset()
    """Bus ids of GPUs that only a reboot can restore, according to the kernel."""

    @property
    def gone(self) -> frozenset[str]:
        """Return the bus ids of GPUs that only a reboot can restore, according to the kernel or nvidia-smi."""
        if isinstance(self.reading, Unknown):
            return self.lost
        shown = (gpu.bus_id for gpu in self.gpus if gpu.bus_id and _wants_reboot(gpu))
        return frozenset((*self.lost, *self.reading.lost, *shown))

    @property
    def tool(self) -> str:
        """Return the vendor's program that was asked."""
        return "nvidia-smi" if isinstance(self.reading, Unknown) else self.reading.tool

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """Return the GPUs that nvidia-smi shows."""
        return () if isinstance(self.reading, Unknown) else self.reading.gpus

    @property
    def apps(self) -> tuple[ComputeProcess, ...] | Unknown:
        """Return the processes that nvidia-smi lists."""
        if self.absent:
            return ()
        return self.reading if isinstance(self.reading, Unknown) else self.reading.apps

    def pids(self) -> frozenset[int] | Unknown:
        """Return the pids that nvidia-smi lists; they may belong to another pid namespace."""
        apps = self.apps
        if isinstance(apps, Unknown):
            return apps
        nameless = next((app.pid for app in apps if isinstance(app.pid, Unknown)), None)
        return nameless or frozenset(app.pid for app in apps if not isinstance(app.pid, Unknown))


def ask_load(idle_for: float) -> tuple[Command, Command]:
    """Return the commands for ``read_load``: samples of the GPUs for *idle_for* seconds, which is the time that it
    takes."""
    times = _further_samples(idle_for)
    return ask_presence(), ask_gpus(idle_for / times, times, apps=True)


def ask_amd_load(presence: GpuPresence, idle_for: float) -> Command:
    """Return the command for ``read_amd_load``."""
    times = _further_samples(idle_for)
    return ask_amd(presence, idle_for / times, times)


def read_amd_load(presence: GpuPresence, gpus: Completed, idle_for: float, above: float) -> Load:
    """Parse the answer to ``ask_amd_load(presence, idle_for)``.  Never raises: an unknown value is Unknown."""
    reading: SmiReading | Unknown
    try:
        reading = read_amd(gpus, presence, samples=1 + _further_samples(idle_for))
    except ProbeError as error:
        reading = Unknown(why=str(error))
    return Load(reading=reading, presence=presence, above=above)


def _further_samples(idle_for: float) -> int:
    return math.ceil(idle_for / APART)


def read_load(presence: Completed, gpus: Completed, idle_for: float, above: float) -> Load:
    """Parse the answers to ``ask_load(idle_for)``.  Never raises: an unknown value is Unknown."""
    there: GpuPresence | Unknown
    reading: SmiReading | Unknown
    try:
        there = read_presence(presence)
    except ProbeError as error:
        there = Unknown(why=str(error))
    try:
        reading = read_gpus(gpus, samples=1 + _further_samples(idle_for))
    except ProbeError as error:
        reading = Unknown(why=str(error))
    return Load(reading=reading, presence=there, above=above)


def _wants_reboot(gpu: Gpu) -> bool:
    return gpu.recovery_action == "Reboot" or any("GPU is lost" in fault for fault in gpu.faults)


def beyond_help(walk: OpenFileScan, load: Load) -> Mapping[int, tuple[str, ...]]:
    """Return the processes that hold lost GPUs only, each with these GPUs: ending them brings no GPU back.

    A process without a GPU (a launcher) is among them if its job has no other GPU open.  If the node of a lost GPU is
    unknown, every node counts that may be it.
    """
    if not load.gone:
        return {}
    open_ = {pid: [node for node in nodes if node.gpu is not None] for pid, nodes in walk.open.items()}
    sides = {pid: [_lost_of(node, walk, load) for node in nodes] for pid, nodes in open_.items() if nodes}
    own = {pid: tuple(sorted(set(buses))) for pid, buses in sides.items() if all(buses)}
    shared = process_jobs(walk.table)
    hangs = shared.share(dict.fromkeys(own, True))
    works = shared.share({pid: not all(buses) for pid, buses in sides.items()})
    named = tuple(sorted({bus for buses in own.values() for bus in buses}))
    launchers = {
        pid: named for pid, answer in hangs.items() if answer is True and works[pid] is not True and pid not in own
    }
    return {**launchers, **own}


def _lost_of(node: OpenFile, walk: OpenFileScan, load: Load) -> str:
    """Return the lost GPU that *node* opens, or may open; empty if it opens another GPU."""
    numbers = {} if isinstance(load.presence, Unknown) else load.presence.minors
    mine = next((bus for bus, number in numbers.items() if number == node.gpu), "")
    if mine:
        return mine if mine in load.gone else ""
    if all(bus in numbers for bus in load.gone):
        return ""
    gpu = _gpu_of(node, walk, load)
    if not isinstance(gpu, Unknown):
        return gpu.bus_id if gpu.bus_id in load.gone else ""
    return ", ".join(sorted(load.gone))


def at_work(walk: OpenFileScan, load: Load) -> Mapping[int, bool | Unknown]:
    """Return for each process of the host, by pid, whether its job is at work."""
    if load.absent or _all_idle(walk, load):
        return dict.fromkeys(walk.table.rows, False)
    listed = _listed(load)
    own = {pid: _own(pid, walk, load, listed) for pid in walk.table.rows}
    return process_jobs(walk.table).share(own)


def gpus_of(pid: int, walk: OpenFileScan, load: Load) -> tuple[Gpu, ...] | Unknown:
    """Return the GPUs that the process *pid* holds."""
    if isinstance(load.reading, Unknown) and not load.absent:
        return load.reading
    found = {app.gpu_uuid: None for app in load.apps if app.pid == pid} if not isinstance(load.apps, Unknown) else {}
    held = {gpu.key: gpu for gpu in load.gpus if gpu.uuid and gpu.uuid in found}
    nodes = [file for file in _telling(pid, walk, load) if file.gpu is not None or file.partition]
    for node in nodes:
        gpu = _gpu_of(node, walk, load)
        if isinstance(gpu, Unknown):
            everything = (
                len({node.gpu for node in nodes if node.gpu is not None}) == len(_gpu_nodes(walk)) == len(load.gpus)
            )
            return load.gpus if everything else gpu
        held[gpu.key] = gpu
    return tuple(held.values())


def _all_idle(walk: OpenFileScan, load: Load) -> bool:
    """Whether no GPU is busy, so that no job can be at work."""
    if isinstance(load.reading, Unknown) or load.reading.lost or not load.gpus:
        return False
    complete = len(load.gpus) >= len(_gpu_nodes(walk)) and not _unshown(load)
    return complete and all(idle(gpu, load.above) is True for gpu in load.gpus)


def _unshown(load: Load) -> str:
    """Return the reason why there may be a GPU whose load was not read, and which processes here could use."""
    there = load.presence
    if isinstance(there, Unknown):
        return ""
    if load.tool == AMD_SMI and there.sees_all and not isinstance(load.apps, Unknown):
        shown = {gpu.uuid for gpu in load.gpus}
        if any(app.gpu_uuid not in shown for app in load.apps):
            return "AMD's driver lists a process on a GPU that is not known here"
    buses = there.on_bus if there.sees_all else there.given
    lacking = {*buses} - {gpu.bus_id for gpu in load.gpus}
    if lacking and len(load.gpus) < len({*buses}):
        return f"{load.tool} does not show the load of {', '.join(sorted(lacking))}"
    return ""


def _gpu_nodes(walk: OpenFileScan) -> set[int]:
    return {node.gpu for node in walk.nodes if node.gpu is not None}


def _listed(load: Load) -> dict[int, list[str]]:
    """Return the UUIDs of the GPUs on which nvidia-smi lists each pid."""
    found: dict[int, list[str]] = {}
    for app in () if isinstance(load.apps, Unknown) else load.apps:
        if not isinstance(app.pid, Unknown):
            found.setdefault(app.pid, []).append(app.gpu_uuid)
    return found


def _own(pid: int, walk: OpenFileScan, load: Load, listed: Mapping[int, list[str]]) -> bool | Unknown:
    """Whether the process itself holds a busy GPU."""
    if isinstance(load.reading, Unknown):
        if pid in walk.unseen:
            return Unknown(why="its open files could not be inspected, and " + load.reading.why)
        return load.reading if any(file.driver for file in walk.open.get(pid, ())) else False
    answers = [_busy_node(file, walk, load) for file in _telling(pid, walk, load)]
    answers += [_busy_uuid(word, load) for word in listed.get(pid, ())]
    if pid in walk.unseen and not any(answer is True for answer in answers):
        answers.append(
            Unknown(why="its open files could not be inspected, and a GPU is busy, or its utilisation is unknown")
        )
    return worst(answers)


def _telling(pid: int, walk: OpenFileScan, load: Load) -> tuple[OpenFile, ...]:
    """Return those open files of *pid* that tell which GPUs it uses.

    A program of AMD's opens every GPU that it may use; where the driver lists those on which the process has memory or
    a queue, the open files tell no more.  /dev/kfd tells nothing beside the device of a GPU.
    """
    files = walk.open.get(pid, ())
    if _is_listed_whole(pid, load):
        return tuple(file for file in files if not file.driver)
    numbered = any(file.path != KFD and file.gpu is not None for file in files)
    return tuple(file for file in files if not (numbered and file.path == KFD))


def _is_listed_whole(pid: int, load: Load) -> bool:
    """Whether AMD's driver lists all GPUs that *pid* uses.

    It lists pids of the machine, which are no pids of a container.  An entry that could not be read has no UUID.
    """
    apps, there = load.apps, load.presence
    if load.tool != AMD_SMI or isinstance(apps, Unknown) or isinstance(there, Unknown) or not there.all_processes:
        return False
    uuids = [app.gpu_uuid for app in apps if app.pid == pid]
    shown = {gpu.uuid for gpu in load.gpus}
    return bool(uuids) and all(uuid and uuid in shown for uuid in uuids)


def _busy_node(node: OpenFile, walk: OpenFileScan, load: Load) -> bool | Unknown:
    if node.gpu is None and not node.partition:
        driver_only = node.driver and isinstance(load.apps, Unknown)
        return load.apps if driver_only and isinstance(load.apps, Unknown) else False
    gpu = _gpu_of(node, walk, load)
    if not isinstance(gpu, Unknown):
        return _busy(gpu, load)
    answer = worst(_busy(gpu, load) for gpu in load.gpus)
    if answer is False and (len(load.gpus) < len(_gpu_nodes(walk)) or _unshown(load)):
        return gpu
    return answer


def _busy_uuid(uuid: str, load: Load) -> bool | Unknown:
    """Return whether GPU *uuid* is busy; without a UUID, whether any GPU is."""
    named = [gpu for gpu in load.gpus if gpu.uuid == uuid and uuid]
    answer = worst(_busy(gpu, load) for gpu in named or load.gpus)
    unshown = "" if named or answer is not False else _unshown(load)
    return Unknown(why=unshown) if unshown else answer


def _busy(gpu: Gpu, load: Load) -> bool | Unknown:
    answer = idle(gpu, load.above)
    if isinstance(answer, Unknown):
        return Unknown(why=f"GPU {gpu.index} does not report how busy it is: {answer.why}")
    return not answer


def _gpu_of(node: OpenFile, walk: OpenFileScan, load: Load) -> Gpu | Unknown:
    """Return the GPU that a node opens, by the driver's number for it; never by the order of nvidia-smi."""
    numbers = {} if isinstance(load.presence, Unknown) else load.presence.minors
    buses = [bus for bus, number in numbers.items() if number == node.gpu and node.gpu is not None]
    gpu = next((gpu for gpu in load.gpus if gpu.bus_id and gpu.bus_id in buses), None)
    if gpu:
        return gpu
    if buses:
        return Unknown(why=f"{load.tool} does not show the GPU of {node.path}")
    if len(load.gpus) == 1 and len(_gpu_nodes(walk)) == 1 and not _unshown(load):
        return load.gpus[0]
    return Unknown(why=f"it is not known which GPU {node.path} belongs to")
