"""The GPUs of a host as nvidia-smi and sysfs report them; a value that could not be read is Unknown, never zero."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from runbook.values.types import Unknown

NOT_ASKED = Unknown(why="this version of nvidia-smi does not support the field")
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?")
_BUS_ID_WITHIN = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?(?![0-9A-Fa-f])")


UNLISTED = Unknown(why="the driver lists no processes on GPUs of this model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; a value that nvidia-smi could not give is Unknown, never zero."""

    index: int
    """The number by which nvidia-smi lists it; another GPU may have it after a reboot."""
    uuid: str
    """Its UUID, ``GPU-...``, which it keeps; empty where nvidia-smi could not say."""
    bus_id: str = ""
    """Its PCI address as sysfs writes it, ``0000:97:00.0``; empty where nvidia-smi could not say."""
    name: str = ""
    """The product's name, such as NVIDIA H100 80GB HBM3; empty where nvidia-smi could not say."""
    driver: str | Unknown = NOT_ASKED
    """The version of the NVIDIA driver, such as 550.90.07."""
    persistence: bool | Unknown = NOT_ASKED
    """Whether persistence mode is on, which keeps the driver's state while no program uses the GPU."""
    memory_used: float | Unknown = NOT_ASKED
    """MiB of its memory in use, as nvidia-smi counts (memory.used)."""
    memory_total: float | Unknown = NOT_ASKED
    """MiB of its memory in all (memory.total)."""
    utilization: float | Unknown = NOT_ASKED
    """Percent, on the last probe."""
    samples: tuple[float | Unknown, ...] = ()
    """The percentages of every probe, oldest first."""
    temperature: float | Unknown = NOT_ASKED
    """Degrees Celsius of the GPU."""
    pstate: str | Unknown = NOT_ASKED
    """The performance state: P0, the fastest, to P12, the slowest."""
    compute_mode: str | Unknown = NOT_ASKED
    """The programs that may use it: Default, Exclusive_Process (one process at a time), Prohibited."""
    mig: str | Unknown = NOT_ASKED
    """Whether MIG mode is on now: Enabled, Disabled; unknown where the GPU has no such mode."""
    ecc: str | Unknown = NOT_ASKED
    """Whether its memory corrects errors (ECC) now: Enabled, Disabled; unknown where the GPU has no such mode."""
    recovery_action: str | Unknown = NOT_ASKED
    """The action that the driver asks for: ``None``, ``Reset``, ``Reboot``, ``Drain P2P``, ``Drain and Reset``."""
    requires_reset: bool | Unknown = NOT_ASKED
    """Whether the driver says that the GPU has to be reset before it can be used again."""
    remap_pending: bool | Unknown = NOT_ASKED
    """Whether a memory row waits for a reset to be replaced: GPUs from Ampere on."""
    remap_failed: bool | Unknown = NOT_ASKED
    """Whether a memory row could not be replaced at some time: GPUs from Ampere on."""
    retire_pending: bool | Unknown = NOT_ASKED
    """Whether a memory page waits for a reset to be retired: GPUs before Ampere."""
    drain_recommended: bool | Unknown = NOT_ASKED
    """Whether an older driver says ``Drain and Reset Recommended``."""
    untold: tuple[str, ...] = ()
    """Columns that this model or mode never fills, so that nothing is wrong with their being empty."""
    faults: tuple[str, ...] = ()
    """Columns that hold a marker where a healthy GPU has a value, with it: ``temperature.gpu: [Unknown Error]``."""

    @property
    def waits_for_reset(self) -> bool | Unknown:
        """Whether its memory waits for a reset: rows to be remapped, pages to be retired, or by the driver's advice."""
        reported = (self.remap_pending, self.retire_pending, self.drain_recommended)
        if any(flag is True for flag in reported):
            return True
        return (
            False
            if any(flag is False for flag in reported)
            else Unknown(why="the driver does not report whether memory waits for a reset")
        )

    @property
    def key(self) -> str:
        """Return its name: the UUID, or the best that is known instead."""
        return self.uuid or self.bus_id or str(self.index)

    def is_called(self, name: str) -> bool:
        """Whether *name* is its UUID, its bus id in any form, or its index."""
        return name in (self.uuid, str(self.index)) or bool(self.bus_id and bus_id(name) == self.bus_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeProcess:
    """A compute process as nvidia-smi lists it; its pid may belong to another pid namespace."""

    gpu_uuid: str
    """The UUID of the GPU, or of the MIG device, that it uses; empty where nvidia-smi could not say."""
    pid: int | Unknown
    """Its pid as the driver numbers it; seen from a container, it may be none of the processes there."""
    name: str
    """As the kernel calls it (15 characters); empty where the pid is none of here."""
    memory_mib: float | Unknown
    """MiB of the GPU's memory that it uses; unknown where nvidia-smi does not say."""
    ended: bool = False
    """A zombie: it has ended, and its parent has not collected it; its children hold the shared memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiReading:
    """The answers to one script of nvidia-smi queries."""

    gpus: tuple[Gpu, ...]
    errors: tuple[str, ...] = ()
    """The complaints beside the rows that it did print."""
    lost: tuple[str, ...] = ()
    """Bus ids of GPUs that it calls lost or fallen off the bus."""
    bad_inforom: tuple[str, ...] = ()
    """Bus ids of GPUs whose infoROM, the board's own record, is corrupted."""
    apps: tuple[ComputeProcess, ...] | Unknown = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresence:
    """The evidence, without the driver's help, of whether the host has an NVIDIA GPU at all."""

    pci: int
    """NVIDIA display and 3D controllers on the PCI bus."""
    nodes: tuple[str, ...] = ()
    """Device nodes ``/dev/nvidia0`` ..."""
    tool: bool = False
    """Whether there is an nvidia-smi."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """Bus id to the number in the name of its device node, as the driver has it."""
    probed: bool = True
    """Whether sysfs could be inspected."""
    on_bus: tuple[str, ...] = ()
    """Bus ids of those controllers that a driver of another kind (vfio-pci, nouveau) does not have."""
    container: bool = False
    """Whether the host is a container: it may see the whole bus, and be given a part of the GPUs."""
    all_processes: bool = True
    """Whether /proc shows every process of the machine; in another pid namespace than the first it does not."""

    @property
    def given(self) -> tuple[str, ...]:
        """Bus ids of GPUs that are this host's: all on the bus; of a container those whose device node it has."""
        if not self.container:
            return self.on_bus
        return tuple(bus for bus, minor in self.minors.items() if node_path(minor) in self.nodes)

    def unlisted(self, listed: Iterable[str]) -> tuple[str, ...]:
        """Return the bus ids of ``given`` that are not in *listed*, the bus ids of all rows (empty for none)."""
        rows = tuple(listed)
        return () if len(rows) >= len(self.given) else tuple(sorted({*self.given} - {*rows}))

    @property
    def absent(self) -> bool:
        """Whether it is proven that there is no NVIDIA GPU."""
        return self.probed and not self.pci and not self.nodes and not self.tool


def node_path(minor: int) -> str:
    """The device node of the GPU with this number in the driver, which is not its index in nvidia-smi."""
    return f"/dev/nvidia{minor}"


def bus_id(value: str) -> str:
    """Return a PCI address in the form of sysfs, ``0000:97:00.0``; empty: *value* is no address.

    nvidia-smi writes eight digits for the domain, and the kernel omits the function; both use any case.
    """
    found = _BUS_ID.fullmatch(value.strip())
    if not found:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function or '0'}".lower()


def bus_ids(text: str) -> tuple[str, ...]:
    """Every PCI address in *text*, as sysfs writes it."""
    return tuple(dict.fromkeys(bus_id(found_text) for found_text in _BUS_ID_WITHIN.findall(text)))
