"""Give each GPU of a host one verdict, from the values of the bus, the driver and nvidia-smi."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.amd import NOT_TOLD
from runbook.library.gpu.facts.clock_reasons import HARDWARE, WARM
from runbook.library.gpu.facts.health_query import NOT_REPORTED, GpuHealth
from runbook.library.gpu.facts.model import NOT_ASKED, Gpu, GpuPresence, node_path
from runbook.library.gpu.facts.pci import PciDevice
from runbook.library.gpu.facts.smi_parser import SILENT
from runbook.values.types import Unknown, plural


class Condition(StrEnum):
    """The faults of a GPU; the order of definition is the order of urgency."""

    LOST = "lost"
    NOT_STARTED = "not started by the driver"
    REBOOT = "needs a reboot"
    BROKEN = "needs service"
    RESET = "needs a reset"
    NO_VALUES = "reports no values"
    SLOWED = "slowed down by the hardware"
    ERRORS = "uncorrected memory errors"
    WAITS = "memory waits for a reset"
    NARROW = "narrow link"
    FABRIC = "not in the NVLink fabric"
    UNLICENSED = "without a license"
    MIG_WAITS = "MIG mode waits for a reset"
    ONE_VALUE = "one value cannot be read"
    WARM = "slowed down for heat"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVerdict:
    """A GPU of the host, and its faults."""

    bus_id: str
    """The PCI address in the form of sysfs, ``0000:97:00.0``; empty if nvidia-smi did not report it."""
    index: int | Unknown
    """The number by which nvidia-smi lists the GPU; unknown if nvidia-smi does not list it."""
    uuid: str
    """The UUID, ``GPU-...``; empty if nvidia-smi does not list the GPU, or does not report its UUID."""
    name: str
    """The name of the product, such as NVIDIA H100 80GB HBM3, from nvidia-smi, else from lspci."""
    verdict: str
    """``healthy``, ``unknown``, or the most urgent of ``conditions``."""
    conditions: tuple[str, ...]
    """The faults, in words, the most urgent first: `lost`, `needs a reset`, `narrow link` ..."""
    why: tuple[str, ...]
    """A sentence for each condition."""
    not_checked: tuple[str, ...]
    """Checks without a value, each with the reason: this driver does not report the value, or did not answer."""

    def reason(self, condition: Condition) -> str:
        """Return the sentence for *condition*, which must be in ``conditions``."""
        return self.why[self.conditions.index(condition)]

    def __str__(self) -> str:
        label = f"GPU {self.index}" if not isinstance(self.index, Unknown) else "GPU"
        return f"{label} ({self.bus_id or self.uuid or self.name}): {self.verdict}" + (
            f" ({'; '.join(self.why)})" if self.why else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All values that were read about the GPUs of one host."""

    devices: Mapping[str, PciDevice]
    """The GPUs on the bus, by bus id, except those with a driver of another kind."""
    gpus: tuple[Gpu, ...] | Unknown
    """The GPUs that nvidia-smi lists; Unknown, with the reason, if nvidia-smi gave no row."""
    health: Mapping[str, GpuHealth]
    """The health of each GPU; the key is the index of the GPU as text."""
    lost: Collection[str] = ()
    """The bus ids of GPUs that nvidia-smi calls lost."""
    lost_in_log: Collection[str] = ()
    """The bus ids of GPUs that the kernel's messages call lost."""
    bad_inforom: Collection[str] = ()
    """The bus ids of GPUs whose infoROM nvidia-smi calls corrupted."""
    cards: Collection[str] | Unknown = ()
    """The bus ids in the driver's own table."""
    other_drivers: int = 0
    """The number of GPUs on the bus with a driver of another kind; their device nodes may still exist."""
    presence: GpuPresence = field(default_factory=lambda: GpuPresence(pci=0))
    """The device nodes, and the GPU of each."""
    tool: str = "nvidia-smi"
    """The vendor's program that lists the GPUs."""
    unlisted: str = ""
    """The reason why it is not known which GPUs the program lists; empty if it is known."""

    @property
    def container(self) -> bool:
        """Whether the host is a container (a container sees the whole bus)."""
        return self.presence.container


def verdicts(seen: Seen) -> tuple[GpuVerdict, ...]:
    """Return a verdict for each GPU that the bus, a device node or nvidia-smi shows, in the order of bus ids."""
    rows = () if isinstance(seen.gpus, Unknown) else seen.gpus
    by_bus = {gpu.bus_id: gpu for gpu in rows if gpu.bus_id}
    nameless = [gpu for gpu in rows if not gpu.bus_id]
    buses = {*by_bus, *seen.lost, *_expected(seen)}
    without_row = [bus for bus in buses - {*by_bus} if not _is_lost(bus, seen)]
    if nameless and len(nameless) >= len(without_row):  # they are the same GPUs
        buses -= {*without_row}
    of_bus = (_judge(bus, by_bus.get(bus), seen) for bus in sorted(buses))
    return (*of_bus, *(_judge("", gpu, seen) for gpu in nameless), *_only_nodes(seen, buses - {*by_bus}))


def _expected(seen: Seen) -> Collection[str]:
    """Return the bus ids of the GPUs that the host has.

    A container sees the whole bus and the messages of the whole host.  There, a GPU without a row counts if the
    container has its device node, or if it is in the driver's table and lost.  If nvidia-smi gave no row, the whole
    table counts.
    """
    if not seen.container:
        return {*seen.devices, *seen.lost_in_log}
    own = {bus for bus in seen.devices if isinstance(seen.cards, Unknown) or bus in seen.cards}
    if isinstance(seen.gpus, Unknown):
        return own
    lost = {bus for bus in own if seen.devices[bus].gone is True or bus in seen.lost_in_log}
    return {*lost, *seen.presence.given}


def _is_lost(bus: str, seen: Seen) -> bool:
    device = seen.devices.get(bus)
    return (device is not None and device.gone is True) or bus in seen.lost or bus in seen.lost_in_log


def _only_nodes(seen: Seen, without_row: Collection[str]) -> Iterator[GpuVerdict]:
    """Yield the GPUs that only a device node shows; nodes are counted if the driver does not assign them to GPUs."""
    if isinstance(seen.gpus, Unknown):
        return
    minors = seen.presence.minors
    loose = [node for node in seen.presence.nodes if node not in map(node_path, minors.values())]
    theirs = sum(gpu.bus_id not in minors for gpu in seen.gpus) + sum(bus not in minors for bus in without_row)
    why = f"{seen.tool} lists {len(seen.gpus)} of {plural(len(seen.presence.nodes), 'GPU')} that have a device node"
    for node in loose[theirs + seen.other_drivers :]:
        yield GpuVerdict(
            bus_id="",
            index=_UNLISTED,
            uuid="",
            name=node if not theirs else "with a device node",
            verdict=str(Condition.NOT_STARTED),
            conditions=(str(Condition.NOT_STARTED),),
            why=(f"{why} ({', '.join(seen.presence.nodes)})",),
            not_checked=(),
        )


_UNLISTED = Unknown(why="nvidia-smi does not list it")


def _judge(bus: str, gpu: Gpu | None, seen: Seen) -> GpuVerdict:
    device = seen.devices.get(bus)
    health = seen.health.get(str(gpu.index)) if gpu else None
    found = dict(_on_the_bus(bus, device, gpu, seen))
    if gpu:
        found |= dict(_conditions_from_row(gpu)) | dict(_conditions_from_health(gpu, health))
    if gpu and health and (lacking := _only_here(gpu, health, seen)):
        also = f"{found[Condition.ONE_VALUE]}; " if Condition.ONE_VALUE in found else ""
        found[Condition.ONE_VALUE] = f"{also}{', '.join(lacking)}: [N/A], unlike equal GPUs of this host"
    if bus in seen.bad_inforom:
        found.setdefault(Condition.BROKEN, "its infoROM, the board's own record, is corrupted")
    if device and device.narrow is True:
        found.setdefault(Condition.NARROW, f"{device.width} lanes of {device.width_max}")
    conditions = tuple(condition for condition in Condition if condition in found)
    missing = tuple(_missing_values(gpu, health)) if gpu else ()
    if gpu and seen.unlisted:
        missing = ((f"whether {seen.tool} lists it", Unknown(why=seen.unlisted)), *missing)
    unknown = gpu is None or any(not _normally_missing(gpu, value) for _, value in missing)
    return GpuVerdict(
        bus_id=bus,
        index=gpu.index if gpu else _UNLISTED,
        uuid=gpu.uuid if gpu else "",
        name=(gpu.name if gpu else "") or (device.model if device else ""),
        verdict=str(conditions[0]) if conditions else "unknown" if unknown else "healthy",
        conditions=tuple(map(str, conditions)),
        why=tuple(found[condition] for condition in conditions),
        not_checked=tuple(f"{check}: {value.why}" for check, value in missing),
    )


def _on_the_bus(bus: str, device: PciDevice | None, gpu: Gpu | None, seen: Seen) -> Iterator[tuple[Condition, str]]:
    """Yield the conditions that are visible without nvidia-smi, and the conditions of a GPU that nvidia-smi does not
    list.
    """
    if device and device.gone is True:
        yield Condition.LOST, "it does not answer on the PCI bus (rev ff)"
    elif bus in seen.lost:
        yield Condition.LOST, "nvidia-smi calls it lost"
    elif bus in seen.lost_in_log and gpu is None:
        yield Condition.LOST, "the kernel's messages call it lost"
    elif gpu is None and not isinstance(seen.gpus, Unknown):
        if seen.container:
            node = node_path(seen.presence.minors[bus])
            yield Condition.NOT_STARTED, f"its device node {node} is here, and {seen.tool} does not list it"
        elif not isinstance(seen.cards, Unknown) and bus not in seen.cards:
            yield Condition.NOT_STARTED, "it is on the PCI bus, and the driver does not have it"
        else:
            yield Condition.NOT_STARTED, f"it is on the PCI bus, and {seen.tool} does not list it"


def _only_here(gpu: Gpu, health: GpuHealth, seen: Seen) -> tuple[str, ...]:
    """Return the values that this GPU lacks although an equal GPU has them, so that the product supports them."""
    rows = () if isinstance(seen.gpus, Unknown) else seen.gpus
    equals = [seen.health.get(str(other.index)) for other in rows if (other.name, other.mig) == (gpu.name, gpu.mig)]
    return tuple(
        column
        for column in health.not_applicable
        if column.startswith(_READINGS) and any(other and column not in other.not_applicable for other in equals)
    )


def _conditions_from_row(gpu: Gpu) -> Iterator[tuple[Condition, str]]:
    action = gpu.recovery_action
    if isinstance(action, str) and action != "None" and "reset" not in action.lower():
        yield Condition.REBOOT, f"the driver asks for: {action}"
    if gpu.remap_failed is True:
        yield Condition.BROKEN, "a memory row could not be remapped"
    if gpu.requires_reset is True:
        yield Condition.RESET, f"the driver asks for: {action}" if isinstance(action, str) else "the driver asks for it"
    if gpu.faults:
        small = [fault.startswith(_READINGS) for fault in gpu.faults] == [True]
        yield Condition.ONE_VALUE if small else Condition.NO_VALUES, "; ".join(gpu.faults)
    if gpu.waits_for_reset is True:
        yield Condition.WAITS, "rows to be remapped" if gpu.remap_pending is True else "pages to be retired"


def _conditions_from_health(gpu: Gpu, health: GpuHealth | None) -> Iterator[tuple[Condition, str]]:
    if health is None:
        return
    if health.sram_threshold is True:
        yield Condition.BROKEN, "more uncorrected SRAM errors than the vendor allows"
    if not isinstance(health.ecc_volatile, Unknown) and health.ecc_volatile > 0:
        yield Condition.ERRORS, f"{health.ecc_volatile:.0f} uncorrected memory errors since the driver was loaded"
    yield from _conditions_from_clocks(health)
    if isinstance(health.mig_pending, str) and isinstance(gpu.mig, str) and health.mig_pending != gpu.mig:
        yield Condition.MIG_WAITS, f"MIG is {gpu.mig}, and {health.mig_pending} after a reset"
    if in_fabric(health) is False:
        status = "not reported" if isinstance(health.fabric_status, Unknown) else health.fabric_status
        yield Condition.FABRIC, f"fabric state {health.fabric_state}, status {status}"
    if isinstance(health.license, str) and health.license.lower().startswith("unlicensed"):
        yield Condition.UNLICENSED, f"the license of this vGPU: {health.license}"


def _conditions_from_clocks(health: GpuHealth) -> Iterator[tuple[Condition, str]]:
    width, most = health.link_width, health.link_width_max
    if isinstance(width, float) and isinstance(most, float) and 0 < width < most:
        yield Condition.NARROW, f"{width:.0f} lanes of {most:.0f}"
    if isinstance(health.reasons, Unknown):
        return
    if hard := [reason for reason in health.reasons if reason in HARDWARE]:
        yield Condition.SLOWED, ", ".join(hard)
    if warm := [reason for reason in health.reasons if reason in WARM]:
        yield Condition.WARM, ", ".join(warm)


def in_fabric(health: GpuHealth) -> bool | Unknown:
    """Return whether the GPU has joined the NVLink fabric completely, according to both values; True if there is no
    such fabric.
    """
    state, status = health.fabric_state, health.fabric_status
    if "fabric.state" in health.not_applicable or state == "Not Supported":
        return True
    if isinstance(state, Unknown):
        return state
    if state != "Completed":
        return False
    return status if isinstance(status, Unknown) else status == "Success"


_READINGS = ("power.", "enforced.power.", "clocks.current.", "clocks.max.", "temperature.memory", "fan.")
"""Columns that do not affect the verdict; a single one that cannot be read can often be read again a minute later."""

_CHECKS = {
    "uncorrected memory errors": ("ecc_volatile", "ecc.errors.uncorrected.volatile.total"),
    "PCI link width": ("link_width", "pcie.link.width.current"),
    "reasons for low clocks": ("reasons", "clocks_event_reasons.active"),
    "pending MIG mode": ("mig_pending", "mig.mode.pending"),
}

_NOT_IN_THIS_DRIVER = (NOT_ASKED, NOT_REPORTED, SILENT, NOT_TOLD)
_NO_SUCH_VALUE = ("nvidia-smi prints [N/A]", "nvidia-smi prints N/A", "nvidia-smi prints [Not Supported]")


def _normally_missing(gpu: Gpu, value: Unknown) -> bool:
    """Whether it is normal that *value* is missing: the driver does not support it, or hides it from a container with
    a MIG instance.
    """
    return value in _NOT_IN_THIS_DRIVER or (gpu.mig == "Enabled" and "insufficient permissions" in value.why.lower())


def _missing_values(gpu: Gpu, health: GpuHealth | None) -> Iterator[tuple[str, Unknown]]:
    """Yield the checks without a value; a check that this product or mode does not have is left out."""
    of_row = {
        "whether a reset is needed": gpu.recovery_action if gpu.requires_reset == SILENT else gpu.requires_reset,
        "remapped rows": gpu.remap_pending,
        "persistence mode": gpu.persistence,
    }
    for name, value in of_row.items():
        if isinstance(value, Unknown) and value.why not in _NO_SUCH_VALUE:
            yield name, value
    for name, (attribute, column) in _CHECKS.items():
        value = getattr(health, attribute) if health else Unknown(why="nvidia-smi was not asked for it")
        if (
            isinstance(value, Unknown)
            and value.why not in _NO_SUCH_VALUE
            and not (health and column in health.not_applicable)
        ):
            yield name, value
