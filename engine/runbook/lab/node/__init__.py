"""Lab hosts that are nodes of a scheduler and that can be rebooted: their simulated programs and their faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from runbook.shell import program

OF_NODES: Mapping[str, str] = MappingProxyType(
    {
        "slurm": "An idle node of Slurm; it can be rebooted, and comes back.",
        "slurm_job": "A node of Slurm with a job that ends some seconds after the node is drained.",
        "slurm_busy": "A node of Slurm with two jobs that do not end, one on each GPU.",
        "slurm_drained": "A node of Slurm that somebody else has drained.",
        "kubernetes": "A node of Kubernetes, with a kubectl that may cordon it.",
        "never_back": "A node of Slurm that a reboot takes away for good.",
        "gpu_missing": "A node of Slurm that comes back from a reboot with a GPU less.",
        "reboot_ignored": "A node of Slurm on which a reboot is accepted, and does not happen.",
    }
)
"""Fault to sentence; each of them alone makes a node that keeps its state over a reboot."""


_PROGRAMS: Mapping[str, str] = MappingProxyType(
    {
        "node": program(__package__, "node"),
        "scontrol": program(__package__, "scontrol"),
        "squeue": program(__package__, "squeue"),
        "kubectl": program(__package__, "kubectl"),
        "reboot": program(__package__, "reboot"),
    }
)


def files_for(faults: Iterable[str]) -> Mapping[str, str]:
    """Return file to text: the files of a lab host with *faults* that is a cluster node; none for other hosts."""
    if not is_node(faults):
        return {}
    return _PROGRAMS


def is_node(faults: Iterable[str]) -> bool:
    """Whether a host with *faults* can be rebooted."""
    return bool(OF_NODES.keys() & set(faults))
