"""The knowledge of a host from the messages of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.gpu_needs import GpuNeed
from runbook.library.kernel.facts.events import HungTask, IoError, OomKill, Xid
from runbook.library.kernel.facts.faults import GpuFault, KernelFault, OomdKill
from runbook.library.kernel.facts.file_servers import FileServer
from runbook.library.kernel.facts.network_faults import NetworkFault
from runbook.library.kernel.facts.xid_groups import XidGroup
from runbook.values.types import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogMatch:
    """A message with a signature in it."""

    signature: str = field(metadata={"named_by": ("signatures",)})
    """The name of the signature that the message has: a key of `signatures`."""
    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    text: str
    """The message of the kernel, at most 1000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogState:
    """The events that the kernel reported; of each kind the latest 200, oldest first."""

    oom: tuple[OomKill, ...] | Unknown
    """Processes killed for memory: at, seconds, pid, name, scope (host, cgroup), container ..."""
    oom_host: tuple[OomKill, ...] | Unknown
    """The kills of `oom` because the host itself had no memory left."""
    oom_cgroup: tuple[OomKill, ...] | Unknown
    """The kills of `oom` because a container or control group had reached its limit."""
    oom_job: tuple[OomKill, ...] | Unknown
    """The kills of `oom` that `victims` names, except those in another service's control group."""
    oom_others: tuple[OomKill, ...] | Unknown
    """The rest of `oom`: processes of others, or processes that the log does not name."""
    xids: tuple[Xid, ...] | Unknown
    """Xid errors of GPUs: at, seconds, code, bus_id, pid, name, meaning, bucket, need, who, text."""
    xid_codes: tuple[int, ...] | Unknown
    """The codes of `xids`, each once."""
    gpu_needs: tuple[GpuNeed, ...] | Unknown
    """The need of each GPU with a fault, by the vendor's catalogue, the most urgent first: bus_id, need (nothing,
    restart the application, check the node, contact the vendor, reset the GPU, reboot the node), code, bucket,
    meaning, at, text, count, who (acts), serious, because (the Xid that a 154 speaks of), note, say. The newest Xid
    154 of a GPU overrides earlier ones.
    """
    open_needs: tuple[GpuNeed, ...] | Unknown
    """The needs of `gpu_needs` that still apply, with `ago`: a reboot ends them all, reloading the driver repairs what
    a reset repairs, and no fault that asks for a reboot, the vendor, or a check of the node.
    """
    sick_gpus: tuple[GpuNeed, ...] | Unknown
    """The needs of `open_needs` that ask for more than a restart of the application (`serious`)."""
    xid_groups: tuple[XidGroup, ...] | Unknown
    """The `xids` since the last boot by GPU and number, the newest first: bus_id, code, count, at, ago, meaning,
    bucket, need, who (acts), processes, say.
    """
    sick_switches: tuple[Xid, ...] | Unknown
    """The SXids of `sxids` since the last boot, and since the driver was loaded, that may not be ignored."""
    lost_gpus: tuple[str, ...] = ()
    """Bus ids of GPUs that fell off the bus, or need a reboot by the catalogue, since the last boot; empty if not
    known.
    """
    gpu_faults: tuple[GpuFault, ...] | Unknown
    """GPUs that fell off the bus or could not be started, reported without an Xid: kind, bus_id ..."""
    open_faults: tuple[GpuFault, ...] | Unknown
    """The faults of `gpu_faults` that reloading the driver has not repaired, with `ago`."""
    network: tuple[NetworkFault, ...] | Unknown
    """Faults of network cards, and links that went down and stayed down: at, seconds, kind (card, link_down), device,
    text.
    """
    links_down: tuple[NetworkFault, ...] = ()
    """The links of `network` that went down since the last boot and stayed down; empty if not known."""
    file_servers: tuple[FileServer, ...] = ()
    """Servers of network file systems that did not respond since the last boot, those that are silent now first:
    server, kind (NFS, Lustre, CephFS, GPFS, SMB), silent, at, seconds (of its beginning), count, text; empty if not
    known.
    """
    lockups: tuple[KernelFault, ...] | Unknown
    """Processors that hung: soft and hard lockups, stalls of RCU: at, seconds, text."""
    panics: tuple[KernelFault, ...] | Unknown
    """Panics and oopses of the kernel itself."""
    hardware_errors: tuple[KernelFault, ...] | Unknown
    """Uncorrected errors of memory, processors and PCI Express (machine checks, EDAC, AER), and what the IOMMU refused.
    """
    corrected_errors: tuple[KernelFault, ...] | Unknown
    """Errors of memory, processors and PCI Express that were corrected, which a few times is normal."""
    other_errors: tuple[KernelFault, ...] | Unknown = ()
    """Messages that the kernel itself calls errors, later than two minutes after the boot, and that no other field
    has."""
    oomd_kills: tuple[OomdKill, ...] | Unknown
    """Control groups that systemd-oomd killed for memory pressure: at, seconds, cgroup, text."""
    no_victim: tuple[KernelFault, ...] | Unknown
    """Times when memory ran out and the kernel found no process to kill."""
    sxids: tuple[Xid, ...] | Unknown
    """Faults of NVSwitches, with their `switch` and `severity`."""
    io_errors: tuple[IoError, ...] | Unknown
    """Errors of disks and file systems: at, seconds, device, text."""
    hung_tasks: tuple[HungTask, ...] | Unknown
    """Tasks that were blocked too long: at, seconds, pid, name, waited (seconds), owner."""
    matches: tuple[KernelLogMatch, ...] | Unknown
    """Messages with one of `signatures`: signature, at, seconds, text."""
    counts: Mapping[str, int | Unknown] = field(metadata={"named_by": ("signatures",)})
    """The number of messages with each signature."""
    found: tuple[str, ...] | Unknown = field(metadata={"named_by": ("signatures",)})
    """Names of the signatures that were found."""
    sources: tuple[str, ...]
    """The sources that were read: journal, dmesg, a file, or text."""
    gap: str | Unknown = ""
    """The reason why the log may lack messages of the period, such as `the log begins at ..., 9 days after the boot`;
    empty: it lacks none."""
    complete: bool | Unknown = True
    """True if there is no `gap`, otherwise unknown: `not kernel.complete`."""
    taints: tuple[str, ...] | Unknown = ()
    """The marks that the kernel has set on itself since the boot, whatever its log still holds: oops, soft lockup,
    machine check, bad page.
    """
    begins: str | Unknown
    """The time since which the log is complete (UTC)."""
    ends: str | Unknown
    """The time of the last message (UTC)."""
    read_at: float | Unknown
    """When the log was read by the host's clock (seconds since 1970), as `seconds` are."""
    booted_ago: float | Unknown
    """Seconds since the host was booted."""
    clock_offset: float | Unknown
    """Seconds by which the journal's times are later than those computed from the time since boot."""
