"""The scripts that run inside a lab host: its first process, its jobs, and the simulated nvidia-smi."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runbook.shell import program

INIT = program(__package__, "host_init")

JOB = program(__package__, "gpu_job")

SSHD = """HostKey /run/lab/host_key
AuthorizedKeysFile /run/lab/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
SetEnv PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMUX_TMPDIR=/run/lab
"""

SMI = program(__package__, "nvidia_smi")

OF_GPUS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia-smi": SMI,
        "nvidia-bug-report.sh": program(__package__, "nvidia_bug_report"),
        "gpu-faults": program(__package__, "gpu_faults"),
        "xids": program(__package__, "xid_faults"),
        "gpu-devices": program(__package__, "gpu_devices"),
        "gpu-tools": program(__package__, "gpu_tools"),
        "fabric": program(__package__, "fabric"),
        "mig-tool": program(__package__, "mig_tool"),
        "fabric-tools": program(__package__, "fabric_tools"),
        "infiniband": program(__package__, "infiniband"),
        "nccl-job": program(__package__, "nccl_job"),
    }
)
"""File to text: what a lab host is given for its GPUs."""
