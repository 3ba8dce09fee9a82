"""Report the GPUs: how busy they are on two probes, which are wedged, and which errors nvidia-smi reports.

On a host with AMD's GPUs, and none of NVIDIA, the values are the kernel's, and amd-smi is asked which it lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.amd import ask_amd, read_amd
from runbook.library.gpu.facts.device_users import Users, ask_amd_users, ask_users, read_amd_users, read_users
from runbook.library.gpu.facts.smi_query import (
    ComputeProcess,
    Gpu,
    GpuPresence,
    SmiReading,
    ask_gpus,
    ask_gpus_again,
    ask_presence,
    read_gpus,
    read_gpus_again,
    read_presence,
)
from runbook.library.gpu.facts.utilisation import (
    busy,
    complaints,
    idle,
    listed_on,
    selected,
    unseen,
    used_by_unseen,
    wedged,
)
from runbook.protocols import Absent, Probe
from runbook.values.types import Duration, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    busy_above: float = field(default=5, metadata={"minimum": 0, "maximum": 100})
    """A GPU is busy above this utilization (percent), on both probes."""
    apart: Duration = field(default=Duration(2), metadata={"minimum": 0.1, "maximum": 20})
    """Time between the two probes."""
    confirm_idle: bool = True
    """Whether an idle GPU is probed twice, too.  If not, the second probe is made only where a GPU was busy on the
    first, which is faster, and `idle` has the GPUs that were idle on each probe that was made.
    """
    expect_gpus: int = field(default=0, metadata={"minimum": 0})
    """The number of GPUs that the host should have; 0: not checked."""
    memory_free: float = field(default=0, metadata={"minimum": 0, "maximum": 100})
    """So much of each GPU's memory should be free (percent); see `memory_taken`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs of the host; those named in lists are named by UUID."""

    gpus: tuple[Gpu, ...] = ()
    """Each GPU: index, uuid, bus_id, name, memory_used, memory_total (MiB), utilization (%) ..."""
    count: int = 0
    """The number of GPUs that nvidia-smi lists."""
    missing: int = 0
    """The number of `expect_gpus` that nvidia-smi does not list."""
    names: tuple[str, ...] = ()
    """The GPU models of the host, each once."""
    busy: tuple[str, ...] | Unknown = ()
    """GPUs that were busy on both probes."""
    idle: tuple[str, ...] = ()
    """GPUs that were idle on both probes (see `confirm_idle`)."""
    requires_reset: tuple[str, ...] | Unknown = ()
    """GPUs that require a reset according to the driver; unknown if the driver does not report it."""
    wedged: tuple[str, ...] | Unknown = ()
    """GPUs that require a reset, or are busy although no process holds them."""
    used_by_unseen: tuple[str, ...] | Unknown = ()
    """GPUs whose memory is in use, though no process that can be seen from here holds them: another container's, or a
    hidden one.
    """
    memory_taken: tuple[str, ...] | Unknown = ()
    """GPUs of which less memory is free than `memory_free` asks for."""
    apps: tuple[ComputeProcess, ...] | Unknown = ()
    """The processes that nvidia-smi lists: gpu_uuid, pid, name, memory_mib, ended."""
    listed: tuple[int, ...] | Unknown = ()
    """The pids that nvidia-smi lists."""
    ended: tuple[ComputeProcess, ...] = ()
    """The processes of `apps` that have ended, and that nobody has collected (zombies)."""
    exclusive: tuple[str, ...] | Unknown = ()
    """GPUs in compute mode Exclusive_Process, Exclusive_Thread or Prohibited."""
    mig: tuple[str, ...] = ()
    """GPUs in MIG mode."""
    memory_free_mib: Mapping[str, float | Unknown] = field(default_factory=dict)
    """Free memory of each GPU, by UUID."""
    errors: tuple[str, ...] = ()
    """Errors that nvidia-smi reported, and faults that its rows show."""
    waiting_for_reset: tuple[str, ...] | Unknown = ()
    """GPUs whose memory waits for a reset (rows to be remapped, pages to be retired)."""
    faulty: tuple[str, ...] = ()
    """GPUs that lack a value which every healthy GPU has; see `errors`."""
    lost: tuple[str, ...] = ()
    """Bus ids of GPUs that are lost or have fallen off the bus."""
    tool: str = "nvidia-smi"
    """The vendor's program that lists the GPUs: nvidia-smi, or amd-smi on a host with AMD's GPUs."""


def probe(args: Args) -> Probe[State]:
    """Ask sysfs, and then nvidia-smi and /proc; with `confirm_idle`, one command takes both samples of nvidia-smi."""
    presence = read_presence((yield ask_presence()))
    if amd := presence.amd:
        smi, users = yield ask_amd(amd, args.apart, 1), ask_amd_users()
        return _state(args, read_amd(smi, amd, samples=2), read_amd_users(users, amd), amd)
    if presence.absent:
        return Absent(why="no NVIDIA GPU", state=State(missing=args.expect_gpus))
    smi, users = yield ask_gpus(args.apart if args.confirm_idle else 0.0, apps=True), ask_users()
    reading = read_gpus(smi, samples=2 if args.confirm_idle else 1)
    if not args.confirm_idle and any(busy(gpu, args.busy_above) is not False for gpu in reading.gpus):
        reading = read_gpus_again(reading, (yield ask_gpus_again(reading, args.apart)))
    return _state(args, reading, read_users(users, presence), presence)


def _state(args: Args, reading: SmiReading, users: Users, presence: GpuPresence) -> State:
    gpus, apps = reading.gpus, reading.apps
    visible = presence.all_processes
    broken = {
        each.key: wedged(each, args.busy_above, users.held(each), listed_on(each, apps, all_processes=visible))
        for each in gpus
    }
    unseen_use = {
        each.key: broken[each.key] is not True and used_by_unseen(each, users.held(each), apps, all_processes=visible)
        for each in gpus
    }
    return State(
        gpus=gpus,
        count=len(gpus),
        missing=max(0, args.expect_gpus - len(gpus)),
        names=tuple(dict.fromkeys(gpu.name for gpu in gpus if gpu.name)),
        busy=selected(gpus, lambda it: busy(it, args.busy_above)),
        idle=tuple(gpu.key for gpu in gpus if idle(gpu, args.busy_above) is True),
        requires_reset=selected(gpus, lambda it: it.requires_reset),
        wedged=selected(gpus, lambda it: False if unseen_use[it.key] is True else broken[it.key]),
        used_by_unseen=selected(gpus, lambda it: unseen_use[it.key]),
        memory_taken=selected(gpus, lambda it: _taken(it, args.memory_free)),
        apps=apps,
        listed=_pids(apps),
        ended=() if isinstance(apps, Unknown) else tuple(app for app in apps if app.ended),
        exclusive=selected(gpus, _exclusive),
        mig=tuple(gpu.key for gpu in gpus if gpu.mig == "Enabled"),
        memory_free_mib={gpu.key: _free(gpu) for gpu in gpus},
        waiting_for_reset=selected(gpus, lambda gpu: gpu.waits_for_reset),
        faulty=tuple(gpu.key for gpu in gpus if gpu.faults),
        errors=(*complaints(reading), *unseen(reading, presence)),
        lost=reading.lost,
        tool=reading.tool,
    )


def _pids(apps: tuple[ComputeProcess, ...] | Unknown) -> tuple[int, ...] | Unknown:
    if isinstance(apps, Unknown):
        return apps
    known = tuple(dict.fromkeys(app.pid for app in apps if not isinstance(app.pid, Unknown)))
    return known or next((app.pid for app in apps if isinstance(app.pid, Unknown)), ())


def _exclusive(gpu: Gpu) -> bool | Unknown:
    mode = gpu.compute_mode
    if isinstance(mode, Unknown) and "compute_mode" in gpu.untold:
        return False
    return mode if isinstance(mode, Unknown) else mode.startswith(("Exclusive", "Prohibited"))


def _taken(gpu: Gpu, wanted: float) -> bool | Unknown:
    free = _free(gpu)
    if isinstance(free, Unknown):
        return False if {"memory.used", "memory.total"} & {*gpu.untold} else free
    return not isinstance(gpu.memory_total, Unknown) and free < wanted / 100 * gpu.memory_total


def _free(gpu: Gpu) -> float | Unknown:
    if isinstance(gpu.memory_used, Unknown):
        return gpu.memory_used
    if isinstance(gpu.memory_total, Unknown):
        return gpu.memory_total
    return max(0.0, gpu.memory_total - gpu.memory_used)


def by_hand(args: Args) -> tuple[str, ...]:
    """The table, then the numbers, twice."""
    query = "index,uuid,pci.bus_id,utilization.gpu,memory.used,compute_mode,persistence_mode"
    return ("nvidia-smi", f"nvidia-smi --query-gpu={query} --format=csv      # twice: a single reading can mislead")
