"""Which messages of a kernel matter: one list for the filter on the host and for those who read what came through.

Each kind has *hints*, plain words in lower case, and a pattern. The host sends the lines that hold a hint, and a
reader looks only at those, so that the filter cannot drop what a reader would have known.

Any user has words of his own in the kernel's log (law 9): a program that faults is reported with the name of the file
that did it (``comm[pid]: segfault at ... in FILE[...]``), a mount in a user namespace with its options in quotes, a
kill for memory with the names of control groups. Such words are never searched: messages of a fixed form count only
from the beginning of the line on, and longer than the 15 characters that a process may be called; others only up to the
place where another's words may begin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of message."""

    hints: tuple[str, ...]
    """Words in lower case; each message of this kind holds one of them."""
    pattern: re.Pattern[str]
    own: Callable[[str], int] = len
    """How many characters of a message are the kernel's own words, as far as this kind goes."""

    def find(self, text: str) -> re.Match[str] | None:
        """Where *text* is of this kind, in the kernel's own words; None if it is not."""
        lower = text.lower()
        if not any(hint in lower for hint in self.hints):
            return None
        return self.pattern.search(text, 0, self.own(text))


_COMPLAINT = re.compile(r"\[\d+\]:? .*?\bin ")
"""The beginning of a message about a program that faulted; the name of its file follows."""

_QUOTED = re.compile(r"""(?<!\w)['"`]|^(?:oom-kill:|Tasks? in /|Memory cgroup stats|overlayfs: )""")
"""Where words of others begin that the kernel quotes, and messages with names of control groups and directories."""


def _before_a_file(text: str) -> int:
    """The length of *text* up to the name of the file that a program faulted in."""
    found = _COMPLAINT.search(text)
    return found.end() if found else len(text)


def _before_others(text: str) -> int:
    """The length of *text* up to the first words in it that a user may have chosen."""
    found = _QUOTED.search(text)
    return min(found.start() if found else len(text), _before_a_file(text))


_FAULTED = re.compile(
    r"(?:traps: )?(.{1,40})\[\d+\]:? (?=segfault |general protection|traps?\b|unhandled |bad frame|.*\bin )"
)
_NAMED = re.compile(
    r"Kill(?:ed)? process \d+(?:, UID \d+,)? \((.*)\)|INFO: task (.+):\d+ |^(.{1,32}?) invoked oom-killer: "
    r"|,task=(.*),pid=|\bname=(.{0,15}(?=, |,?$)|.*?(?=, |,?$))|reaped process \d+ \((.*)\)"
)
"""Where the kernel puts the name of a process."""
_QUOTES = re.compile(r"""(?<!\w)(['"`])(?:.*['"`]|.*$)""")


def users_words(text: str) -> str:
    """*text* with nothing left but what a user may have written: names of processes and their files, and quoted words.

    The kernel's own words are NUL characters there, which no message has.
    """
    spans = [found.span(found.lastindex or 0) for found in _NAMED.finditer(text)]
    if faulted := _FAULTED.match(text):
        file = _COMPLAINT.search(text, faulted.end(1))
        spans += [faulted.span(1), (file.end() if file else len(text), len(text))]
    elif not spans and (quoted := _QUOTES.search(text)):
        spans.append(quoted.span())
    inside = {at for begin, end in spans for at in range(begin, end)}
    return "".join(letter if at in inside else "\0" for at, letter in enumerate(text))


def _kind(*hints: str, pattern: str) -> Kind:
    """A kind whose messages may begin in many ways."""
    return Kind(hints, re.compile(pattern, re.IGNORECASE), _before_others)


def _driver(*hints: str, pattern: str) -> Kind:
    """A kind whose messages begin with *pattern*, and may quote others."""
    return Kind(hints, re.compile(f"^(?:{pattern})", re.IGNORECASE), _before_a_file)


def _memory(*hints: str, pattern: str) -> Kind:
    """A kind whose messages begin with *pattern*, with names of processes and control groups only where it has them."""
    return Kind(hints, re.compile(f"^(?:{pattern})", re.IGNORECASE))


_CARD = (
    r"(?:mlx4_core|mlx4_en|mlx5_core|e1000e?|igbvf|igb|igc|ixgbevf|ixgbe|i40e|iavf|ice|bnxt_en|bnx2x|tg3|r8169|cxgb4|qede"
    r"|ena|sfc|atlantic|ionic|enic|be2net)"
)
"""The drivers of network cards whose messages are known."""
_LINK = r"Link(?: is)?"

_OUT_OF_MEMORY = r"(?:(?:Memory cgroup )?Out of memory(?: \([^)]*\))?: )?"

KINDS: Mapping[str, Kind] = {
    "oom_invoked": _memory("invoked oom-killer: ", pattern=r"(.{1,32}?) invoked oom-killer: "),
    "oom_constraint": _memory("oom-kill:constraint=", pattern=r"oom-kill:constraint=(\w+),(.*)"),
    "oom_limit": _memory(
        "killed as a result of limit of", pattern=r"Task in (\S+) killed as a result of limit of (\S+)"
    ),
    "oom_group": _memory(
        "memory.oom.group", pattern=r"Tasks in (\S+) are going to be killed due to memory\.oom\.group"
    ),
    "oom_chosen": _memory("kill process ", pattern=_OUT_OF_MEMORY + r"Kill process (\d+) \((.*?)\) score "),
    "oom_killed": _memory(
        "killed process ",
        pattern=_OUT_OF_MEMORY + r"Killed process (\d+)(?:, UID \d+,)? \((.*)\)(?:[,.]? ?(.*))?$",
    ),
    "oom_nobody": _kind(
        "no killable process", pattern=r"out of memory and no killable process|no killable process(?:es)?\b"
    ),
    "oom_reaped": _memory("oom_reaper", pattern=r"oom_reaper: reaped process (\d+) \((.*)\), now "),
    "oomd": _kind("oomd", pattern=r"systemd-oomd(?:\[\d+\])?: Killed (\S+) due to (.*)"),
    "xid": _driver(
        "xid (",
        pattern=r"(?:NVRM: )?Xid \((?:PCI:)?([0-9a-f:.]{10,})((?:[ ,]+GPU-C?I:[0-9a-f]+)*)\): (\d+)(?:, *(.*))?",
    ),
    "sxid": _driver("sxid (", pattern=r"(nvidia-nvswitch\d+): SXid \((?:PCI:)?([0-9a-f:.]+)\): (\d+)(?:, *(.*))?"),
    "off_the_bus": _driver("fallen off the bus", pattern=r"(?:NVRM:|GPU).*fallen off the bus"),
    "init_failed": _driver(
        "nvrm",
        "nvidia: probe of",
        "[nvidia-drm]",
        pattern=r"NVRM:?.*(?:(?:RmInitAdapter|rm_init_adapter).*fail|failed to initialize the NVIDIA"
        r"|failed to wait for GFW"
        r"|cannot (?:initialize GSP|proceed with booting)|NVIDIA devices? (?:is invalid|were initialized)"
        r"|NVIDIA probe routine failed|is already bound to )"
        r"|nvidia: probe of \S+ failed|(?:\[drm:.* \*ERROR\* )?\[nvidia-drm\].*Failed to (?:allocate|register) ",
    ),
    "api_mismatch": _driver("nvrm: api mismatch", pattern=r"NVRM: API mismatch"),
    "firmware_hung": _driver(
        "nvrm", pattern=r"NVRM:?.*(?:heartbeat timed out|\bGSP Timeout\b|Memory Subsystem Error detected)"
    ),
    "needs_reset": _driver("nvrm", pattern=r"NVRM:?.*(?:NV_ERR_RESET_REQUIRED|likely in a bad state)"),
    "hung_task": _driver(
        "blocked",
        "can't die",
        pattern=r"INFO: task (.+):(\d+) (?:(?:is )?blocked (?:.*)?|can't die )for more than (\d+) seconds",
    ),
    "lockup": _kind(
        "lockup",
        "self-detected stall",
        "detected stall",
        "stuck for",
        "detected expedited stall",
        "kthread starved",
        pattern=r"(?:soft|hard|workqueue|spinlock) lockup\b(?! detector).*|\bkthread starved for \d+ jiffies"
        r"|(?:rcu.*)?(?:self-detected stall|detected (?:expedited )?stalls?)\b.*"
        r"|CPU#?\d+ stuck for \d+s.*",
    ),
    "panic": _kind(
        "kernel panic",
        "[#",  # die() of every architecture numbers its oopses: `divide error: 0000 [#1] SMP`
        "panic: double fault",
        "oops: ",
        "oops - ",
        "unable to handle kernel",
        "bug: ",
        "kernel bug at",
        "general protection fault, ",
        "list_add corruption",
        "list_del corruption",
        pattern=r"Kernel panic\b.*|(?:: |, sig: )[0-9a-f]* ?\[#\d+\]|\bPANIC: double fault"
        r"|\bOops(?:: [0-9a-f]{4,16}\b| - )|\bunable to handle kernel\b"
        r"|\bBUG: (?!.{0,20}lockup\b)|kernel BUG at .*"
        r"|\bgeneral protection fault, (?:maybe|probably|IS_ERR|0000|in ).*|\blist_(?:add|del) corruption",
    ),
    "hardware": _kind(
        "hardware error",
        "uncorrect",
        "machine check e",
        "edac ",
        "fatal error",
        "memory failure: 0x",
        "aer: ",
        pattern=r"\[Hardware Error\](?!.*\bcorrected\b).*|Machine check events? logged.*|EDAC .*\b[1-9]\d* UE\b.*"
        r"|\bMachine Check Exception:|\bMemory failure: 0x[0-9a-f]+: .*|AER: (?:can't recover|device recovery failed)"
        r"|severity=Uncorrect(?:ed|able).*|AER: .*Uncorrect(?:ed|able).*|Uncorrect(?:ed|able) \(Fatal\).*"
        r"|Fatal error (?:message )?(?:received|reported).*",
    ),
    "disk": _kind(
        "i/o error",
        "failing i/o",
        "rejecting i/o",
        "medium error",
        "target error",
        "transport error",
        "hardware error [",
        "unhandled sense code",
        "unrecovered",
        "failed result: ",
        "remounting filesystem",
        "ext2-fs",
        "ext3-fs",
        "ext4-fs",
        "jbd2",
        "aborting journal",
        "index full",
        "xfs",
        "btrfs",
        "f2fs-fs",
        "nvme",
        "md/",
        "md: ",
        "exception emask",
        "failed command",
        "error:",
        "interface fatal error",
        "beyond end of device",
        "nfs: server",
        pattern=r"I/O error|failing I/O|rejecting I/O|(?:medium|target|transport) error|unhandled sense code"
        r"|Add\. Sense: .*Unrecovered|\[sd[a-z]+\] .*FAILED Result: |Sense Key : Hardware Error \["
        r"|remounting filesystem read-only|EXT[234]-fs (?:error|\([^)]*\): .*\berror\b)|JBD2: .*error"
        r"|Aborting journal on device|Directory (?:\(.*\) )?index full"
        r"|\bXFS(?: \(.*)?: .*(?:error|shut(?:ting)? down|corrupt|fail|xfs_repair)|\bxfs_\w+: error"
        r"|BTRFS.*(?:error|critical|forced readonly|\berrs: wr \d)"
        r"|BTRFS warning.*(?:csum|corrupt|abort|unable|lost page|missing)|F2FS-fs.*error"
        r"|nvme.*(?:timeout|controller is down|removing after probe|abort status|faulty power saving mode"
        r"|Disabling device after reset failure)"
        r"|\bmd/\S* .*(?:disk failure|not correctable|read error|write error|cannot continue|continuing on \d+ device)"
        r"|\bmd/\S* active with (?P<active>\d+) out of (?!(?P=active) )\d+ "
        r"|\bmd: .*(?:write got error|kicking non-fresh|super_written)"
        r"|ata[\d.]+: (?:exception Emask|failed command|S?error:|.*interface fatal error)"
        r"|(?:attempt to )?access beyond end of device|\bnfs: server \S+ not responding",
    ),
    "driver_loaded": _driver("nvrm", pattern=r"NVRM: loading NVIDIA UNIX "),
    "network": _driver(
        "health compromised",
        "insufficient power on the pcie slot",
        "high temperature",
        "health recovery f",
        "handling bad device",
        "fatal error ",
        "fw is unable to respond",
        "health issue observed",
        "will cause a leak of a command resource",
        "port module event[error]",
        "tx timeout detected",
        "synd 0x",
        "error cqe on cqn",
        "), syndrome (0x",
        "internal error detected",
        "unit hang",
        "netdev watchdog: ",
        pattern=r"mlx[45]_\w+ [0-9a-f:.]{12}.*(?:device's health compromised|insufficient power on the PCIe slot"
        r"|\bHigh temperature\b|health recovery (?:flow aborted|failed)|handling bad device|\bFatal error \d+ detected"
        r"|FW is unable to respond|Health issue observed|Will cause a leak of a command resource"
        r"|Port module event\[error\]|TX timeout detected|\bsynd 0x0*[1-9a-f]|Error cqe on cqn "
        r"|failed, status (?:internal error|bad system state)\(0x[0-9a-f]+\), syndrome \(0x|Internal error detected)"
        rf"|{_CARD} [0-9a-f:.]{{12}}.*(?:Detected (?:Hardware|Tx) Unit Hang|NETDEV WATCHDOG: )"
        rf"|NETDEV WATCHDOG: \S+ \({_CARD}\): transmit queue \d+ timed out",
    ),
    "link_down": _driver(
        "link is down", "link down", pattern=rf"({_CARD}\b.{{0,80}}?)[ :]+(?:NIC )?Link (?:is )?Down\b"
    ),
    "link_up": _driver("link is up", "link up", pattern=rf"({_CARD}\b.{{0,80}}?)[ :]+(?:NIC )?Link (?:is )?Up\b"),
    "missed": _kind("kernel messages", pattern=r"\bsystemd-journald?(?:\[\d+\])?: Missed (\d+) kernel messages"),
}
"""Every kind, by name.  Sources: Linux `Documentation/admin-guide` (OOM, RAS, lockup-watchdogs), the drivers' texts."""


def worth_sending() -> str:
    """An awk expression over a line in lower case: whether it holds a hint of any kind."""
    hints = sorted({hint for kind in KINDS.values() for hint in kind.hints})
    shortest = [hint for hint in hints if not any(other != hint and other in hint for other in hints)]
    return "|".join([*map(_literal, shortest), "nvrm"])


def _literal(hint: str) -> str:
    """*hint* as a regular expression of awk, and of Python without a warning: ``[[]`` may be a nested set one day."""
    return "\\[".join(re.sub(r"([]().*+?^${}|\\/])", r"[\1]", part) for part in hint.split("["))
