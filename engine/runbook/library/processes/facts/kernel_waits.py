"""Say what a task waits for in the kernel, by the functions that it is in.

A file system of the network stands before the disk: its functions call the same ones of the page cache.  Sources: names
of functions and modules in Linux, Lustre, OpenZFS, the client of BeeGFS, and the open GPU kernel modules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from runbook.dataclass import dataclass

AwaitedPart = Literal["GPU driver", "network file system", "FUSE", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """The part of the kernel that a task waits in."""

    part: AwaitedPart
    owner: str
    """The driver or file system, by name."""
    function: str

    @property
    def place(self) -> str:
        """The function, and whose it is: ``fuse_lock_inode of FUSE``."""
        return f"{self.function} of {self.owner}"


_OWNERS: tuple[tuple[AwaitedPart, str, str, str], ...] = (
    ("GPU driver", "NVIDIA's unified memory", "uvm_", "nvidia_uvm"),
    ("GPU driver", "NVIDIA's driver", r"nvidia_|_?nv\d+rm|nv_|nvkms_|os_acquire_|rm_", r"nvidia\w*"),
    ("FUSE", "FUSE", r"_*fuse_|request_wait_answer", "fuse|virtiofs"),
    ("network file system", "NFS", r"_*nfs[34]?_|_*rpc_|xprt_", r"nfs|nfsv[34]|sunrpc|lockd|auth_rpcgss"),
    ("network file system", "Ceph", r"_*ceph_|rbd_", "ceph|libceph|rbd"),
    (
        "network file system",
        "Lustre",
        "ptlrpc_|ldlm_|ll_|osc_|mdc_|lov_|lmv_|cl_",
        "lustre|ptlrpc|obdclass|lov|osc|mdc|lmv|mgc|lnet",
    ),
    ("network file system", "SMB", "_*cifs_|smb2_|SMB2_", "cifs"),
    ("network file system", "GPFS", "gpfs_", r"mmfs\w*|tracedev"),
    ("network file system", "BeeGFS", "FhgfsOps", "beegfs"),
    ("disk", "XFS", "_*xfs_|xlog_", "xfs"),
    ("disk", "ext4", "_*ext4_|_*jbd2_", "ext4|jbd2"),
    ("disk", "Btrfs", "_*btrfs_", "btrfs"),
    ("disk", "ZFS", "txg_|zio_|dmu_|zil_|zfs_|dbuf_|arc_|spa_", "zfs|spl"),
)
"""The part, its driver or file system, and patterns of their functions (in a kernel without modules) and modules."""
_DISK = re.compile(
    r"io_schedule|_*bit_wait_io|_*blk_|submit_bio_wait|wbt_wait|rq_qos_wait|nvme_|folio_wait|wait_on_(?:page|buffer)"
    "|get_request"
)
"""Functions in which a task waits for a disk, or for the disk under any file system."""


def awaited_part(frames: Sequence[tuple[str, str]]) -> Awaited | None:
    """Return what a task waits for; *frames* are functions and their modules, the innermost first.  None: not shown."""
    for function, module in frames:
        for part, owner, functions, modules in _OWNERS:
            if re.fullmatch(modules, module) or (not module and re.match(functions, function)):
                return Awaited(part=part, owner=owner, function=function)
    disk = next((function for function, _ in frames if _DISK.match(function)), "")
    return Awaited(part="disk", owner="the block layer", function=disk) if disk else None
