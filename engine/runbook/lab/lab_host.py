"""One host of a lab, and its entry in the inventory file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from runbook.dataclass import dataclass
from runbook.lab import amd


@dataclass(frozen=True, slots=True, kw_only=True)
class LabHost:
    """One host of a lab; *pid* and *start* name its outer process on this machine, 0 where there is none."""

    name: str
    address: str
    port: int
    faults: tuple[str, ...]
    pid: int = 0
    start: str = ""

    @property
    def lives(self) -> bool:
        """Whether its processes are there."""
        return bool(self.pid) and start_of(self.pid) == self.start

    def __str__(self) -> str:
        state = "up" if self.lives else "no processes" if not self.pid else "gone"
        return f"{self.name:12} {self.address}:{self.port}  {state:13} {', '.join(self.faults)}"


def start_of(pid: int) -> str:
    """The start time of *pid* in clock ticks; empty where there is no such process, or only a dead one."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def inventory_text(hosts: Sequence[LabHost], key: Path) -> str:
    """The inventory file of a lab of *hosts*, which all take the private *key*."""
    lines = ["# The hosts of a lab on this machine: throw-away, and only the GPU is pretended.", "hosts:"]
    for host in hosts:
        gpu = "none" if "no_gpu" in host.faults else amd.LABEL if amd.is_amd(host.faults) else "2x H100 (lab)"
        lines += [
            f"  {host.name}:",
            f"    ssh_host: {host.address}",
            f"    ssh_port: {host.port}",
            "    ssh_user: root",
            f"    ssh_key: {key}",
            f"    gpu: {gpu}",
            f"    role: {_role(host)}",
            "    status: ready",
            "    is_ephemeral: true",
        ]
    return "\n".join(lines) + "\n"


def _role(host: LabHost) -> str:
    if "leader" in host.faults:
        return "coordinator"
    return "cpu_selfplay" if "no_gpu" in host.faults else "gpu_training_primary"
