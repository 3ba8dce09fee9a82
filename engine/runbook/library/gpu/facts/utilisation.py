"""Decide whether a GPU is busy, idle or wedged; the answer is Unknown if the values do not allow a decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from runbook.library.gpu.facts.model import UNLISTED, ComputeProcess, Gpu, GpuPresence, SmiReading
from runbook.values.types import Unknown, plural

EMPTY = 1024.0
"""The maximum memory in MiB that an unused GPU may show as used (the driver's share grows with the GPU; H200: about
600).
"""


def busy(gpu: Gpu, above: float) -> bool | Unknown:
    """Return whether *gpu* was busier than *above* percent at every probe; Unknown if a value is not a number."""
    if _only_starting(gpu):
        return False
    seen = gpu.samples or (gpu.utilization,)
    if gpu.faults and not all(not isinstance(number, Unknown) and number > above for number in seen):
        return _not_well(gpu)
    if any(not isinstance(number, Unknown) and number <= above for number in seen):
        return False
    return next((number for number in seen if isinstance(number, Unknown)), True)


def idle(gpu: Gpu, below: float) -> bool | Unknown:
    """Return whether *gpu* was at *below* percent or less at every probe; Unknown if a value is not a number, or the
    GPU has a fault.
    """
    if _only_starting(gpu):
        return True
    if gpu.faults:
        return _not_well(gpu)
    seen = gpu.samples or (gpu.utilization,)
    if any(not isinstance(number, Unknown) and number > below for number in seen):
        return False
    return next((number for number in seen if isinstance(number, Unknown)), True)


def _only_starting(gpu: Gpu) -> bool:
    """Whether its percentage is the driver's own work: without persistence each probe restarts the driver.

    An idle L40S then shows 100 % with 0 MiB in use; whatever really runs on a GPU uses memory.
    """
    if gpu.faults or any(isinstance(sample, Unknown) for sample in (*gpu.samples, gpu.utilization)):
        return False
    return gpu.persistence is False and gpu.memory_used == 0


def _not_well(gpu: Gpu) -> Unknown:
    return Unknown(why=f"there is no value for {'; '.join(gpu.faults)}")


def wedged(gpu: Gpu, above: float, held: bool | Unknown, listed: bool | Unknown) -> bool | Unknown:
    """Whether the GPU is broken for the next user: the driver asks for a reset, or it is busy without a process.

    *held*: a process of this host has its device node open; *listed*: nvidia-smi lists a process on it.
    """
    if gpu.requires_reset is True:
        return True
    at_work = busy(gpu, above)
    if at_work is False or held is True or listed is True:
        return False
    if isinstance(at_work, Unknown):
        return False if _never_told(gpu) and _empty(gpu) else at_work
    return next((each for each in (held, listed) if isinstance(each, Unknown)), True)


def unused(gpu: Gpu) -> bool:
    """Whether the values show that nobody uses the GPU: 0 percent in every sample, and no memory except the driver's
    own.
    """
    return idle(gpu, 0) is True and _empty(gpu)


def used_by_unseen(
    gpu: Gpu, held: bool | Unknown, apps: tuple[ComputeProcess, ...] | Unknown, *, all_processes: bool
) -> bool | Unknown:
    """Whether a process that this /proc does not show uses *gpu*: memory is in use, and no visible process holds it.

    If nvidia-smi lists a pid that is not here, any amount of memory is enough; if it hides a pid, the result is
    Unknown.  *all_processes*: this /proc shows the whole machine; then an unknown holder makes the result Unknown.
    """
    listed = () if isinstance(apps, Unknown) else tuple(app for app in apps if gpu.uuid and app.gpu_uuid == gpu.uuid)
    if held is True or not gpu.uuid:
        return False
    if any(not app.name and not isinstance(app.pid, Unknown) for app in listed):
        return True
    if isinstance(gpu.memory_used, Unknown) or gpu.memory_used < EMPTY or any(app.name for app in listed):
        hidden = (app.pid for app in listed if isinstance(app.pid, Unknown) and app.pid != UNLISTED)
        why = f"nvidia-smi hides which process uses GPU {gpu.index}"
        return next((Unknown(why=f"{why}: {pid.why}") for pid in hidden), False)
    return held if isinstance(held, Unknown) and all_processes else True


def _never_told(gpu: Gpu) -> bool:
    """Whether this kind of GPU, or its mode, never reports a utilization, so that a missing value is no fault."""
    return isinstance(gpu.utilization, Unknown) and "utilization.gpu" in gpu.untold and not gpu.faults


def _empty(gpu: Gpu) -> bool:
    return not isinstance(gpu.memory_used, Unknown) and gpu.memory_used < EMPTY


def listed_on(gpu: Gpu, apps: tuple[ComputeProcess, ...] | Unknown, *, all_processes: bool = False) -> bool | Unknown:
    """Whether nvidia-smi lists a process on *gpu*.

    *all_processes*: this /proc shows the machine; then a pid that is none of here has ended, and the driver has kept
    its context.
    """
    if isinstance(apps, Unknown):
        return apps
    here = [app for app in apps if app.gpu_uuid and app.gpu_uuid == gpu.uuid]
    if any(process.name or not (all_processes or isinstance(process.pid, Unknown)) for process in here):
        return True
    if unknown := next((process.pid for process in here if isinstance(process.pid, Unknown)), None):
        return unknown
    if any(not app.gpu_uuid.startswith("GPU-") for app in apps) or not gpu.uuid:
        return Unknown(why="the driver lists processes without saying on which GPU")
    return False


def selected(gpus: Iterable[Gpu], test: Callable[[Gpu], bool | Unknown]) -> tuple[str, ...] | Unknown:
    """Return the keys of the GPUs for which *test* is true; Unknown if there are none and one result is unknown."""
    answers = [(gpu.key, test(gpu)) for gpu in gpus]
    found = tuple(key for key, answer in answers if answer is True)
    return found or next((answer for _, answer in answers if isinstance(answer, Unknown)), ())


def complaints(reading: SmiReading) -> tuple[str, ...]:
    """Return the error messages of nvidia-smi, and the GPUs that its rows show as broken beyond a reset."""
    reported = list(reading.errors)
    for gpu in reading.gpus:
        if gpu.faults:
            reported.append(f"GPU {gpu.index} ({gpu.key}) reports incomplete data: {'; '.join(gpu.faults)}")
        action = gpu.recovery_action
        if not isinstance(action, Unknown) and action != "None" and "reset" not in action.lower():
            reported.append(f"GPU {gpu.index} ({gpu.key}): the driver asks for: {action}")
        if gpu.remap_failed is True:
            reported.append(f"GPU {gpu.index} ({gpu.key}): a memory row could not be remapped; the GPU needs service")
    return tuple(reported)


def unseen(reading: SmiReading, presence: GpuPresence) -> tuple[str, ...]:
    """Return a sentence for each GPU that is on the bus, or has a device node, and has no row in nvidia-smi.

    A container sees the whole bus and has a part of it, so that only its device nodes count there.
    """
    rows = len(reading.gpus)
    shown = {gpu.bus_id for gpu in reading.gpus}
    lacking = [bus for bus in presence.on_bus if bus not in shown and bus not in reading.lost]
    if lacking and not presence.container and len(presence.on_bus) > rows:
        return (
            f"{reading.tool} shows {rows} of {plural(len(presence.on_bus), 'GPU')} on the PCI bus: "
            f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing",
        )
    if len(presence.nodes) > rows + len(reading.lost):
        return (f"{reading.tool} shows {rows} of {plural(len(presence.nodes), 'GPU')} that have a device node",)
    return ()


def chosen(gpus: Iterable[Gpu], names: Iterable[str]) -> Mapping[str, Gpu | None]:
    """Return the GPU for each of *names* (UUID, bus id or index); None if there is no such GPU."""
    there = tuple(gpus)
    return {name: next((gpu for gpu in there if gpu.is_called(name)), None) for name in names}
