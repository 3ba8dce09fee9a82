"""The GPUs of a host as nvidia-smi and sysfs report them; a value that could not be read is Unknown, never zero."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.processes.facts.open_files import FIRST_RENDER
from runbook.values.types import Unknown

NOT_ASKED = Unknown(why="this version of nvidia-smi does not support the field")
_BUS_ID = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})(?:\.([0-7]))?")
_BUS_ID_WITHIN = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?(?![0-9A-Fa-f])")


UNLISTED = Unknown(why="the driver lists no processes on GPUs of this model")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU; a value that nvidia-smi could not give is Unknown, never zero."""

    index: int
    """The number by which nvidia-smi lists the GPU; after a reboot another GPU may have this number."""
    uuid: str
    """The UUID, ``GPU-...``, which never changes; empty if nvidia-smi did not report it."""
    bus_id: str = ""
    """The PCI address in the form of sysfs, ``0000:97:00.0``; empty if nvidia-smi did not report it."""
    name: str = ""
    """The name of the product, such as NVIDIA H100 80GB HBM3; empty if nvidia-smi did not report it."""
    driver: str | Unknown = NOT_ASKED
    """The version of the NVIDIA driver, such as 550.90.07."""
    persistence: bool | Unknown = NOT_ASKED
    """Whether persistence mode is on; it keeps the driver's state while no program uses the GPU."""
    memory_used: float | Unknown = NOT_ASKED
    """The memory in use in MiB, as counted by nvidia-smi (memory.used)."""
    memory_total: float | Unknown = NOT_ASKED
    """The total memory in MiB (memory.total)."""
    utilization: float | Unknown = NOT_ASKED
    """The utilization in percent at the last probe."""
    samples: tuple[float | Unknown, ...] = ()
    """The utilization in percent at every probe, oldest first."""
    temperature: float | Unknown = NOT_ASKED
    """The temperature of the GPU in degrees Celsius."""
    pstate: str | Unknown = NOT_ASKED
    """The performance state: P0, the fastest, to P12, the slowest."""
    compute_mode: str | Unknown = NOT_ASKED
    """The programs that may use the GPU: Default, Exclusive_Process (one process at a time), Prohibited."""
    mig: str | Unknown = NOT_ASKED
    """Whether MIG mode is on now: Enabled, Disabled; unknown if the GPU has no such mode."""
    ecc: str | Unknown = NOT_ASKED
    """Whether the memory corrects errors (ECC) now: Enabled, Disabled; unknown if the GPU has no such mode."""
    recovery_action: str | Unknown = NOT_ASKED
    """The action that the driver requires: ``None``, ``Reset``, ``Reboot``, ``Drain P2P``, ``Drain and Reset``."""
    requires_reset: bool | Unknown = NOT_ASKED
    """Whether the GPU must be reset before it can be used again, according to the driver."""
    remap_pending: bool | Unknown = NOT_ASKED
    """Whether a memory row will be replaced at the next reset (GPUs since Ampere)."""
    remap_failed: bool | Unknown = NOT_ASKED
    """Whether the replacement of a memory row has ever failed (GPUs since Ampere)."""
    retire_pending: bool | Unknown = NOT_ASKED
    """Whether a memory page will be retired at the next reset (GPUs before Ampere)."""
    drain_recommended: bool | Unknown = NOT_ASKED
    """Whether an older driver reports ``Drain and Reset Recommended``."""
    untold: tuple[str, ...] = ()
    """Columns that are always empty for this model or mode, so that an empty value is no fault."""
    faults: tuple[str, ...] = ()
    """Columns with a marker in place of the value that a healthy GPU has, and the marker: ``temperature.gpu: [Unknown
    Error]``.
    """

    @property
    def waits_for_reset(self) -> bool | Unknown:
        """Whether the memory needs a reset: to remap rows, to retire pages, or because the driver recommends it."""
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
        """Return the best known name of the GPU: its UUID, else its bus id, else its index."""
        return self.uuid or self.bus_id or str(self.index)

    def is_called(self, name: str) -> bool:
        """Whether *name* is the GPU's UUID, its bus id in any form, or its index."""
        return name in (self.uuid, str(self.index)) or bool(self.bus_id and bus_id(name) == self.bus_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeProcess:
    """A compute process as nvidia-smi lists it; its pid may belong to another pid namespace."""

    gpu_uuid: str
    """The UUID of the GPU or MIG device that the process uses; empty if nvidia-smi did not report it."""
    pid: int | Unknown
    """The pid from the driver; within a container, there may be no process with this pid."""
    name: str
    """The name of the process in the kernel (15 characters); empty if there is no process with this pid here."""
    memory_mib: float | Unknown
    """The GPU memory that the process uses, in MiB; unknown if nvidia-smi did not report it."""
    ended: bool = False
    """Whether the process is a zombie: it has ended, but its parent has not collected it; its children hold the shared
    memory.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiReading:
    """The answers to one script of nvidia-smi queries."""

    gpus: tuple[Gpu, ...]
    errors: tuple[str, ...] = ()
    """The error messages that nvidia-smi printed beside its rows."""
    lost: tuple[str, ...] = ()
    """The bus ids of GPUs that nvidia-smi calls lost or fallen off the bus."""
    bad_inforom: tuple[str, ...] = ()
    """The bus ids of GPUs with a corrupted infoROM (the board's own record)."""
    apps: tuple[ComputeProcess, ...] | Unknown = NOT_ASKED
    tool: str = "nvidia-smi"
    """The vendor's program that lists the GPUs: nvidia-smi, amd-smi."""
    unlisted: str = ""
    """The reason why it is not known which GPUs the program lists; empty if it is known, or there is none."""
    at: int = 0
    """The time of the first answer on the host, in hundredths of a second since it was started; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AmdNode:
    """A GPU that AMD's driver calculates on, or a part of one."""

    bus_id: str
    """The PCI address of the GPU; empty for a part of a partitioned one, which has none of its own."""
    render: int
    """The number in the name of its device node, ``/dev/dri/renderD128``."""
    card: int | None
    """The number in the name of the node by which displays use it, ``/dev/dri/card0``; None if it has none."""
    gpu_id: int
    """The number that the driver gives it (gpu_id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPresence:
    """The evidence from outside the driver that the host has an NVIDIA GPU, or has none."""

    pci: int
    """The number of NVIDIA display and 3D controllers on the PCI bus."""
    nodes: tuple[str, ...] = ()
    """The device nodes ``/dev/nvidia0`` ..."""
    tool: bool = False
    """Whether nvidia-smi is installed."""
    minors: Mapping[str, int] = field(default_factory=dict)
    """The number in the name of each GPU's device node, by bus id, from the driver."""
    probed: bool = True
    """Whether sysfs could be read."""
    on_bus: tuple[str, ...] = ()
    """The bus ids of these controllers, except those with a driver of another kind (vfio-pci, nouveau)."""
    container: bool = False
    """Whether the host is a container: it may see the whole bus, but have only a part of the GPUs."""
    all_processes: bool = True
    """Whether /proc shows every process of the machine; this is not so in another pid namespace than the first."""
    amd_nodes: tuple[AmdNode, ...] = ()
    """The GPUs in AMD's driver."""
    accelerators: tuple[str, ...] = ()
    """The bus ids of AMD's accelerators, except those with a driver of another kind (vfio-pci)."""
    renders: tuple[str, ...] = ()
    """The device nodes of ``amd_nodes`` that exist here."""
    hidden: int = 0
    """The number of GPUs in AMD's driver that cannot be read here, or of which the kernel says two things."""

    @property
    def sees_all(self) -> bool:
        """Whether processes here may use any GPU of the machine: only a container of its own has a part of them."""
        return self.all_processes or not self.container

    @property
    def doubt(self) -> str:
        """Return the reason why it is not known which GPU of AMD is which; empty if it is known."""
        if any(not node.bus_id for node in self.amd_nodes):
            return "AMD's GPUs are partitioned: the kernel does not report the load of a part of a GPU"
        if self.hidden and self.sees_all:
            return "AMD's driver has a GPU that cannot be read here"
        for name in ("bus_id", "render", "gpu_id"):
            if len({getattr(node, name) for node in self.amd_nodes}) < len(self.amd_nodes):
                return f"AMD's driver gives two GPUs the same number ({name})"
        return "" if self.amd_nodes else "AMD's driver does not have the GPUs that are on the bus"

    @property
    def amd(self) -> GpuPresence | None:
        """The evidence of AMD's GPUs in the same form; None where there is none, or there is an NVIDIA GPU.

        Beside an NVIDIA GPU those of AMD are left out: as a rule they are part of the processor, and draw the screen.
        """
        there = self.amd_nodes or (self.sees_all and (self.hidden or self.accelerators))
        if not self.absent or not there:
            return None
        buses = tuple(dict.fromkeys(node.bus_id for node in self.amd_nodes if node.bus_id))
        return replace(
            self,
            pci=len(buses),
            nodes=self.renders,
            minors={node.bus_id: node.render for node in self.amd_nodes if node.bus_id},
            on_bus=tuple(sorted({*buses, *self.accelerators})),
        )

    @property
    def given(self) -> tuple[str, ...]:
        """Return the bus ids of the GPUs of this host: all on the bus; in a container, those whose device
        node it has.
        """
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
    """Return the device node of the GPU with this number in the driver (which is not the index in nvidia-smi)."""
    return f"/dev/nvidia{minor}" if minor < FIRST_RENDER else f"/dev/dri/renderD{minor}"


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
    """Return every PCI address in *text*, in the form of sysfs."""
    return tuple(dict.fromkeys(bus_id(found_text) for found_text in _BUS_ID_WITHIN.findall(text)))
