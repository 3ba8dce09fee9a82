"""Patterns of the kernel messages that matter: one list for the filter on the host and for the parsers.

Each kind has *hints*, plain words in lower case, and a pattern. The host sends the lines that hold a hint, and a
reader looks only at those, so that the filter cannot drop what a reader would have known.

Any user has words of his own in the kernel's log (law 9): names of processes, files, control groups and interfaces
(``users_words``). They are never searched, but for messages that name a process or a control group: these count only
from the beginning of the line on, and with a beginning longer than the 15 characters that a process may be called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.users_words import begins_with_users, kernels_words


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of message."""

    hints: tuple[str, ...]
    """Words in lower case; each message of this kind holds one of them."""
    pattern: str
    """A regular expression, whatever the case; compiled when a message has a hint."""
    names: bool = False
    """Whether the message names a process or a control group, which its pattern reads."""

    def find(self, text: str) -> re.Match[str] | None:
        """Return the match of this kind in *text*, only in words of the kernel; None: there is none."""
        lower = text.lower()
        if not any(hint in lower for hint in self.hints):
            return None
        if not self.names:
            return re.search(self.pattern, kernels_words(text), re.IGNORECASE)
        return None if begins_with_users(text) else re.search(self.pattern, text, re.IGNORECASE)


def _kind(hints: str, pattern: str) -> Kind:
    """A kind whose messages may begin in many ways; *hints* are separated by ``|``."""
    return Kind(tuple(hints.split("|")), pattern)


def _driver(hints: str, pattern: str) -> Kind:
    """Return a kind whose messages begin with *pattern*; further lines of a long message are indented."""
    return Kind(tuple(hints.split("|")), f"^\\s*(?:{pattern})")


def _names(hints: str, pattern: str) -> Kind:
    """A kind whose messages begin with *pattern*, with names of processes and control groups only where it has them."""
    return Kind(tuple(hints.split("|")), f"^(?:{pattern})", names=True)


_CARD = (
    r"(?:mlx4_core|mlx4_en|mlx5_core|e1000e?|igbvf|igb|igc|ixgbevf|ixgbe|i40e|iavf|ice|bnxt_en|bnx2x|tg3|r8169|cxgb4|qede"
    r"|ena|sfc|atlantic|ionic|enic|be2net)"
)
"""The drivers of network cards whose messages are known."""
_LINK = r"Link(?: is)?"

_RPC = r"(?:nfs|nfs_acl|lockd): server (?P<nfs>[\w.:%-]{1,255})"
_LUSTRE = r"Lustre: (?:\d+:\d+:\(\S{1,80}\) )?(?P<import>[\w.@-]{1,120}): Connection"
"""Messages of the clients of network file systems about their servers; Lustre calls its end of a connection import."""
_LUSTRE_REQUEST = (
    r"Lustre: (?:\d+:\d+:\(\S{1,80}\) )?@@@ Request sent has failed due to network error"
    r".*->(?P<request>[\w.]+-(?:OST|MDT)[0-9a-f]{4}-[\w-]{1,60}|MGC[\w.]+@\w+)"
)
_LIBCEPH = r"libceph(?: \(\S{1,60} e\d+\))?: "
"""Newer kernels name the cluster, too."""
_CEPH_SILENT = (
    rf"{_LIBCEPH}(?:(?P<ceph>osd\d+) down$|(?P<monitor>mon)\d+ .*(?:session lost|connect error|socket closed))"
    r"|ceph: (?P<mds>mds\d+) (?:hung|closed our session|reconnect denied|rejected session)"
)
_CEPH_BACK = (
    rf"{_LIBCEPH}(?:(?P<ceph>osd\d+) up$|(?P<monitor>mon)\d+ .*session established)"
    r"|ceph: (?P<mds>mds\d+) (?:came back|reconnect success|recovery completed)"
)

_WAITING_FUNCTIONS = (
    "fuse_|request_wait_answer|nfs_|nfs3_|nfs4_|rpc_|ceph_|ptlrpc_|ldlm_|cifs_|smb2_|fhgfsops|xfs_|xlog_|ext4_|jbd2_|"
    "btrfs_|txg_|zio_|dmu_|zil_|nvidia_|uvm_|nvkms_|os_acquire_|io_schedule|bit_wait_io|blk_mq_|submit_bio_wait|wbt_wait|"
    "rq_qos_wait|nvme_"
)
_WAITING_MODULES = (
    "fuse|nfs|nfsv3|nfsv4|sunrpc|lockd|ceph|libceph|rbd|lustre|ptlrpc|obdclass|lov|osc|mdc|lmv|cifs|mmfs26|mmfslinux|beegfs|"
    "xfs|ext4|jbd2|btrfs|zfs|spl|nvidia|nvidia_uvm|nvidia_modeset|nvidia_drm"
)
"""Parts of functions, and modules, in the trace of a task that waits for a file system, a disk or a GPU."""

_OUT_OF_MEMORY = r"(?:(?:Memory cgroup )?Out of memory(?: \([^)]*\))?: )?"

KINDS: Mapping[str, Kind] = {
    "oom_invoked": _names("invoked oom-killer: ", pattern=r"(.{1,32}?) invoked oom-killer: "),
    "oom_constraint": _names("oom-kill:constraint=", pattern=r"oom-kill:constraint=(\w+),(.*)"),
    "oom_limit": _names(
        "killed as a result of limit of", pattern=r"Task in (\S+) killed as a result of limit of (\S+)"
    ),
    "oom_stats": _names("memory cgroup stats for", pattern=r"Memory cgroup stats for (\S+?):(?: |$)"),
    "oom_group": _names("memory.oom.group", pattern=r"Tasks in (\S+) are going to be killed due to memory\.oom\.group"),
    "oom_chosen": _names("kill process ", pattern=_OUT_OF_MEMORY + r"Kill process (\d+) \((.*?)\) score "),
    "oom_killed": _names(
        "killed process ",
        pattern=_OUT_OF_MEMORY + r"Killed process (\d+)(?:, UID \d+,)? \((.*)\)(?:[,.]? ?(.*))?$",
    ),
    "oom_nobody": _kind(
        "no killable process", pattern=r"out of memory and no killable process|no killable process(?:es)?\b"
    ),
    "oom_reaped": _names("oom_reaper", pattern=r"oom_reaper: reaped process (\d+) \((.*)\), now "),
    "oomd": _names(
        "oomd|earlyoom|[talos] sending sig",
        pattern=r"(?:\S+ )?systemd-oomd(?:\[\d+\])?: Killed (?P<oomd>\S+) due to .*"
        r'|\[talos\] Sending SIGKILL to cgroup .*OOMController.*"cgroup": ?"(?P<talos>[^"]+)"'
        r"|(?:\S+ )?earlyoom(?:\[\d+\])?: sending SIG(?:TERM|KILL) to process (?P<earlyoom>\d+)\b",
    ),
    "xid": _names(
        "xid (",
        pattern=r"(?:NVRM: )?Xid \((?:PCI:)?([0-9a-f:.]{10,}|\.\.\.)((?:[ ,]+GPU-C?I:[0-9a-f]+)*)\): (\d+)(?:, *(.*))?",
    ),
    "sxid": _names("sxid (", pattern=r"(nvidia-nvswitch\d+): SXid \((?:PCI:)?([0-9a-f:.]+)\): (\d+)(?:, *(.*))?"),
    "off_the_bus": _driver(
        "fallen off the bus|gpu_is_lost", pattern=r"(?:NVRM:|GPU).*(?:fallen off the bus|\bNV_ERR_GPU_IS_LOST\b)"
    ),
    "nouveau_failed": _driver(  # drivers/gpu/drm/nouveau; before Linux 4.3: `nouveau E[   PFIFO][0000:01:00.0] ...`
        "nouveau ",
        pattern=r"(?:\[drm\] )?nouveau (?:[0-9a-f:.]{12}|E\[ *[\w|]+\](?:\[[0-9a-f:.]{12}\])?):? "
        r"(?:(?:fifo|PFIFO|gr|PGRAPH|DRM|drm|mmu|gsp|timer|disp|ce\d?|sec2)[\w:]*:? )?"
        r"(?:(?:SCHED|CACHE|DATA)_ERROR\b|DMA_PUSHER\b|PBDMA\d+: |ILLEGAL_(?:CLASS|MTHD)\b|trapped (?:read|write)\b"
        r"|(?:ctxsw|mmu|gr|fifo|rc|engine|channel|idle|DMA|core|base)?[ _-]?time(?:d )?out\b"
        r"|(?:read |write |mmu |)fault\b|TRAP\b|GPC\d+/(?:TPC|PROP|ESETUP)\w*/?\w* trap|GPU lockup\b"
        r"|channel \d+: killed|runlist \d+: scheduled for recovery|.{0,60}\berrored - disabling channel"
        r"|.{0,60}\bfailed to idle channel|rc engn:|Xid:\d+)",
    ),
    "bus_error": _driver(
        "aer: ",
        pattern=r"nvidia [0-9a-f:.]{12}: AER: (?:.*severity=Uncorrect(?:ed|able) \(Fatal\)|can't recover)",
    ),
    "other_driver": _driver(
        "is already bound to|obtained ownership of|probe routine was not called",
        pattern=r"NVRM:? GPU \S+ is already bound to (?!vfio-pci)(\w+)"
        r"|NVRM: The NVIDIA probe routine was not called for|NVRM: was loaded and obtained ownership of the NVIDIA",
    ),
    "init_failed": _driver(
        "nvrm|nvidia: probe of|probe with driver nvidia|[nvidia-drm]|nvidia: disagrees about|nvidia: version magic",
        pattern=r"NVRM:?.*(?:(?:RmInitAdapter|rm_init_adapter).*fail|failed to initialize the NVIDIA"
        r"|failed to wait for GFW"
        r"|cannot (?:initialize GSP|proceed with booting)|NVIDIA devices? (?:is invalid|were initialized)"
        r"|NVIDIA probe routine failed|FSP command timed out|No NVIDIA (?:graphics adapter|devices?) probed)"
        r"|NVRM: installed in this system is not supported by"
        r"|nvidia: (?:disagrees about version of symbol|version magic )"
        r"|nvidia: probe of \S+ failed|nvidia [0-9a-f:.]{12}: probe with driver nvidia failed"
        r"|(?:\[drm:.* \*ERROR\* )?\[nvidia-drm\].*Failed to (?:allocate|register) ",
    ),
    "api_mismatch": _driver("nvrm: api mismatch", pattern=r"NVRM: API mismatch"),
    "firmware_hung": _driver(
        "nvrm|nvidia-modeset: error",
        pattern=r"NVRM:?.*(?:heartbeat timed out|\bGSP Timeout\b|\bkflcnCoreDump|Memory Subsystem Error detected)"
        r"|nvidia-modeset: ERROR: GPU:\d+: (?:Error while waiting for GPU progress|Failed to query display engine"
        r"|Idling display engine timed out)",
    ),
    "needs_reset": _driver("nvrm", pattern=r"NVRM:?.*(?:NV_ERR_RESET_REQUIRED|likely in a bad state)"),
    "hung_task": _names(
        "blocked|can't die",
        pattern=r"INFO: task (.{1,60}?):(\d+) (?:(?:is )?blocked (?:.*)?|can't die )for more than (\d+) seconds",
    ),
    "hung_frame": _driver(
        f"{_WAITING_FUNCTIONS}|[" + "|[".join(_WAITING_MODULES.split("|")),
        pattern=r"(?:\[<[0-9a-f]{8,16}>\] )?"
        rf"(?:(?P<function>\w{{0,40}}(?:{_WAITING_FUNCTIONS})[\w.]{{0,60}})\+0x[0-9a-f]+/0x[0-9a-f]+"
        r"(?: \[(?P<module>\w+))?"
        rf"|(?P<called>[\w.]{{2,80}})\+0x[0-9a-f]+/0x[0-9a-f]+ \[(?P<of>{_WAITING_MODULES})\b)",
    ),
    "lock_owner": _names(
        "blocked on a",
        pattern=r"INFO: task (.{1,60}?):(\d+)(?: <\w+>)? (?:is )?blocked on an? [\w-]+ likely (?:owned|last held) by"
        r" task (.{1,60}):(\d+)(?: <\w+>)?\.?$",
    ),
    "lockup": _kind(
        "lockup|self-detected stall|detected stall|stuck for|detected expedited stall|kthread starved",
        pattern=r"(?:soft|hard|workqueue|spinlock) lockup\b(?! detector).*|\bkthread starved for \d+ jiffies"
        r"|(?:rcu.*)?(?:self-detected stall|detected (?:expedited )?stalls?)\b(?!.*\} \d{1,3} jiffies).*"
        r"|CPU#?\d+ stuck for \d+s.*",
    ),
    "panic": _kind(  # die() of every architecture numbers its oopses: `divide error: 0000 [#1] SMP`
        "kernel panic|[#|panic: double fault|oops: |oops - |unable to handle kernel|bug: |kernel bug at|"
        "general protection fault, |list_add corruption|list_del corruption",
        pattern=r"Kernel panic\b.*|(?:: |, sig: )[0-9a-f]* ?\[#\d+\](?=\s|$)|\bPANIC: double fault"
        r"|\bOops(?:: [0-9a-f]{4,16}\b| - )|\bunable to handle kernel\b"
        r"|\bBUG: (?!.{0,20}lockup\b)|kernel BUG at .*"
        r"|\bgeneral protection fault, (?:maybe|probably|IS_ERR|0000|in ).*|\blist_(?:add|del) corruption",
    ),
    "hardware": _kind(
        "hardware error|uncorrect|machine check e|edac |fatal error|memory failure: 0x|aer: |io_page_fault|"
        "dmar: [dma|pciehp|dpc: containment|device inaccessible|giving up|nmi|temperature|"
        "swiotlb buffer is full|gpu hang|gpu reset begin",
        pattern=r"\[Hardware Error\](?!.*\bcorrected\b).*|Machine check events? logged.*|EDAC .*\b[1-9]\d* UE\b.*"
        r"|\bMachine Check Exception:|\bMemory failure: 0x[0-9a-f]+: .*|AER: (?:can't recover|device recovery failed)"
        r"|severity=Uncorrect(?:ed|able).*|AER: .*Uncorrect(?:ed|able).*|Uncorrect(?:ed|able) \(Fatal\).*"
        r"|Fatal error (?:message )?(?:received|reported).*|\[IO_PAGE_FAULT .*|DMAR: \[DMA .*fault addr.*"
        r"|\bpciehp\b.*\bslot\([^)]*\): Link Down.*|\bDPC: containment event.*|, device inaccessible$"
        r"|\bnot ready \d+ms after .*; giving up|\bNMI: (?:IOCK|PCI system) error.*|\bNMI received for unknown reason.*"
        r"|temperature (?:is )?above threshold.*|critical temperature reached.*|swiotlb buffer is full.*"
        r"|\b(?:i915|xe|amdgpu|radeon) .*GPU (?:HANG|reset begin).*|\buncorrectable hardware error\b.*",
    ),
    "corrected": _kind(
        "aer: |edac |hardware error|severity=correct",
        pattern=r"AER: (?:Multiple )?Correct(?:ed|able) error(?: message)? received.*|\bseverity=Correct(?:ed|able)\b.*"
        r"|EDAC .*\b[1-9]\d* CE\b.*|\[Hardware Error\].*\b[Cc]orrected\b.*",
    ),
    "disk": _kind(
        "i/o error|failing i/o|rejecting i/o|medium error|target error|transport error|hardware error [|"
        "unhandled sense code|unrecovered|failed result: |remounting filesystem|ext2-fs|ext3-fs|ext4-fs|jbd2|"
        "aborting journal|index full|xfs|btrfs|f2fs-fs|nvme|md/|md: |exception emask|failed command|error:|"
        "interface fatal error|beyond end of device|fw in fault|fault_state(|lockup detected|"
        "abort request|squashfs error|loop: write error|out-of-data-space|device offlined",
        pattern=r"I/O error|failing I/O|rejecting I/O|(?:medium|target|transport) error|unhandled sense code"
        r"|Add\. Sense: .*Unrecovered|\[sd[a-z]+\] .*FAILED Result: |Sense Key : Hardware Error \["
        r"|remounting filesystem read-only|EXT[234]-fs (?:error|\([^)]*\): .*\berror\b)|JBD2: .*error"
        r"|Aborting journal on device|Directory (?:\(.*\) )?index full"
        r"|\bXFS(?: \(.*)?: .*(?:error|shut(?:ting)? down|corrupt|fail|xfs_repair)|\bxfs_\w+: error"
        r"|BTRFS\S*\s.*(?:error|critical|forced readonly|\berrs: wr \d)"
        r"|BTRFS warning.*(?:csum|corrupt|abort|unable|lost page|missing)|F2FS-fs\s.*error"
        r"|nvme\S*\s.*(?:timeout|controller is down|removing after probe|abort status|faulty power saving mode"
        r"|Disabling device after reset failure)"
        r"|\bmd/\S* .*(?:disk failure|not correctable|read error|write error|cannot continue|continuing on \d+ device)"
        r"|\bmd/\S* active with (?P<active>\d+) out of (?!(?P=active) )\d+ "
        r"|\bmd: .*(?:write got error|kicking non-fresh|super_written)"
        r"|ata[\d.]+: (?:exception Emask|failed command|S?error:|.*interface fatal error)"
        r"|(?:attempt to )?access beyond end of device|megaraid_sas .*FW in FAULT"
        r"|\bmpt[23]sas\S*: .*fault_state\(|\bhpsa .*lockup detected|\baacraid: Host .*abort request|SQUASHFS error"
        r"|\bloop: Write error at|\bto out-of-data-space\b|\bDevice offlined",
    ),
    "booted": _driver("linux version ", pattern=r"Linux version \d+\.\d+\S* \("),
    "driver_loaded": _driver("nvrm", pattern=r"NVRM: loading NVIDIA UNIX "),
    "gpu_reset": _driver(  # what `gpu_reset` writes to /dev/kmsg, which only root can
        "runbook: gpu reset executed",
        pattern=r"(?:[\w.-]+ )?runbook: GPU reset executed: ([0-9a-f:.]+) \S+ success: true$",
    ),
    "network": _driver(
        "health compromised|insufficient power on the pcie slot|high temperature|health recovery f|"
        "handling bad device|fatal error |fw is unable to respond|health issue observed|"
        "will cause a leak of a command resource|port module event[error]|tx timeout detected|synd 0x|"
        "error cqe on cqn|), syndrome (0x|internal error detected|_load_one failed|unit hang|"
        "netdev watchdog: |pf reset issued|reset adapter|keep alive watchdog|transmit timed out|"
        "tx timeout on queue|unknown symbol|disagrees about version",
        pattern=r"mlx[45]_\w+ [0-9a-f:.]{12}.*(?:device's health compromised|insufficient power on the PCIe slot"
        r"|\bHigh temperature\b|health recovery (?:flow aborted|failed)|handling bad device|\bFatal error \d+ detected"
        r"|FW is unable to respond|Health issue observed|Will cause a leak of a command resource"
        r"|Port module event\[error\]|TX timeout detected|\bsynd 0x0*[1-9a-f]|Error cqe on cqn "
        r"|failed, status (?:internal error|bad system state)\(0x[0-9a-f]+\), syndrome \(0x|Internal error detected"
        r"|\w+_load_one failed)"
        rf"|{_CARD} [0-9a-f:.]{{12}}.*(?:Detected (?:Hardware|Tx) Unit Hang|NETDEV WATCHDOG: |TX timeout detected"
        r"|PF reset issued|Reset adapter|Keep alive watchdog timeout|transmit timed out)"
        r"|virtio_net \S+ .*TX timeout on queue"
        r"|(?:nv_peer_mem|nvidia_peermem|(?:ib|rdma|mlx[45])_\w+): (?:disagrees about version of|Unknown) symbol "
        r"|NETDEV WATCHDOG: \S+ \([^)]*\): transmit queue \d+ timed out"
        r"|[\w-]{1,32} [0-9a-f:.]{12} \S+: NETDEV WATCHDOG: CPU: \d+: transmit queue \d+ timed out",
    ),
    "link_down": _driver("link is down|link down", pattern=rf"({_CARD}\b.{{0,80}}?)[ :]+(?:NIC )?Link (?:is )?Down\b"),
    "link_up": _driver("link is up|link up", pattern=rf"({_CARD}\b.{{0,80}}?)[ :]+(?:NIC )?Link (?:is )?Up\b"),
    "server_silent": _driver(
        "nfs: server |nfs_acl: server |lockd: server |: connection to |@@@ request sent has failed|libceph|"
        "ceph: mds|gpfs deadman|cifs|failed from mgs",
        pattern=rf"{_RPC} not responding, (?:still trying|timed out)"
        rf"|{_LUSTRE} to (?:service )?(?P<lustre>[\w.-]+) (?:\(at \S+\)|via nid \S+) was lost"
        rf"|{_LUSTRE_REQUEST}|{_CEPH_SILENT}"
        r"|LustreError: \S{1,12}: (?P<mgs>MGC[\w.]+@\w+): Conf\w+ from log \S{1,120} failed from MGS"
        r"|(?P<gpfs>GPFS) Deadman Switch timer has expired"
        r"|CIFS:? VFS: (?:\\\\|Server )(?P<smb>[\w.:-]{1,255}) has not responded in ",
    ),
    "server_back": _driver(
        "nfs: server |nfs_acl: server |lockd: server |: connection restored to |libceph|ceph: mds",
        pattern=rf"{_RPC} OK$|{_LUSTRE} restored to |{_CEPH_BACK}",
    ),
    "missed": _names(
        "kernel messages", pattern=r"(?:\S+ )?systemd-journald?(?:\[\d+\])?: Missed (\d+) kernel messages"
    ),
}
"""Every kind, by name.  Sources: Linux `Documentation/admin-guide` (OOM, RAS, lockup-watchdogs), the drivers' texts."""


NO_FAULTS = frozenset(
    {
        "oom_reaped",
        "corrected",
        "booted",
        "driver_loaded",
        "gpu_reset",
        "hung_frame",
        "link_up",
        "server_back",
        "missed",
    }
)
"""Kinds that say of no fault."""


def anywhere_in_a_line(kind: Kind) -> str:
    """The pattern of *kind* for a whole line, with what a journal or the ring buffer writes before a message."""
    pattern = kind.pattern.removeprefix("^")
    return f"(?i)(?:^|[\\]:] ){pattern}" if pattern != kind.pattern else f"(?i){pattern}"


def worth_sending() -> str:
    """An awk expression over a line in lower case: whether it holds a hint of any kind."""
    hints = sorted({hint for kind in KINDS.values() for hint in kind.hints})
    shortest = [hint for hint in hints if not any(other != hint and other in hint for other in hints)]
    return "|".join([*map(_literal, shortest), "nvrm"])


def _literal(hint: str) -> str:
    """*hint* as a regular expression of awk, and of Python without a warning: ``[[]`` may be a nested set one day."""
    return "\\[".join(re.sub(r"([]().*+?^${}|\\/])", r"[\1]", part) for part in hint.split("["))
