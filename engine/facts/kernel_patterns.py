"""Which messages of a kernel matter: one list for the filter on the host and for those who read what came through.

Each kind has *hints*, plain words in lower case, and a pattern. The host sends the lines that hold a hint, and a
reader looks only at those, so that the filter cannot drop what a reader would have known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of message."""

    hints: tuple[str, ...]
    """Words in lower case; each message of this kind holds one of them."""
    pattern: re.Pattern[str]

    def find(self, text: str) -> re.Match[str] | None:
        """Where *text* is of this kind; None if it is not."""
        lower = text.lower()
        return self.pattern.search(text) if any(hint in lower for hint in self.hints) else None


def _kind(*hints: str, pattern: str) -> Kind:
    return Kind(hints, re.compile(pattern, re.IGNORECASE))


KINDS: Mapping[str, Kind] = {
    "oom_invoked": _kind("invoked oom-killer: ", pattern=r"(.{1,64}?) invoked oom-killer: "),
    "oom_constraint": _kind("oom-kill:constraint=", pattern=r"oom-kill:constraint=(\w+),(.*)"),
    "oom_limit": _kind("killed as a result of limit of", pattern=r"Task in (\S+) killed as a result of limit of (\S+)"),
    "oom_group": _kind("memory.oom.group", pattern=r"Tasks in (\S+) are going to be killed due to memory\.oom\.group"),
    "oom_chosen": _kind("kill process ", pattern=r"\bKill process (\d+) \((.*?)\) score "),
    "oom_killed": _kind("killed process ", pattern=r"\bKilled process (\d+)(?:, UID \d+,)? \((.*)\)(?:[,.]? ?(.*))?$"),
    "oom_nobody": _kind(
        "no killable process", pattern=r"out of memory and no killable process|no killable process(?:es)?\b"
    ),
    "oom_reaped": _kind("oom_reaper", pattern=r"\boom_reaper: reaped process (\d+) \((.*)\), now "),
    "oomd": _kind("oomd", pattern=r"systemd-oomd(?:\[\d+\])?: Killed (\S+) due to (.*)"),
    "xid": _kind(
        "xid (",
        pattern=r"(?<![a-z])Xid \((?:PCI:)?([0-9a-f:.]+)((?:[ ,]+GPU-C?I:[0-9a-f]+)*)\): (\d+)(?:, *(.*))?",
    ),
    "sxid": _kind("sxid (", pattern=r"(nvidia-nvswitch\d+): SXid \((?:PCI:)?([0-9a-f:.]+)\): (\d+)(?:, *(.*))?"),
    "off_the_bus": _kind("fallen off the bus", pattern=r"NVRM:.*fallen off the bus|GPU.*fallen off the bus"),
    "init_failed": _kind(
        "nvrm",
        "nvidia: probe of",
        "[nvidia-drm]",
        pattern=r"NVRM:?.*(?:(?:RmInitAdapter|rm_init_adapter).*fail|failed to initialize the NVIDIA"
        r"|failed to wait for GFW"
        r"|cannot (?:initialize GSP|proceed with booting)|NVIDIA devices? (?:is invalid|were initialized)"
        r"|NVIDIA probe routine failed|is already bound to )"
        r"|\bnvidia: probe of \S+ failed|\[nvidia-drm\].*Failed to (?:allocate|register) ",
    ),
    "api_mismatch": _kind("nvrm: api mismatch", pattern=r"NVRM: API mismatch"),
    "firmware_hung": _kind(
        "nvrm", pattern=r"NVRM:?.*(?:heartbeat timed out|\bGSP Timeout\b|Memory Subsystem Error detected)"
    ),
    "needs_reset": _kind("nvrm", pattern=r"NVRM:?.*(?:NV_ERR_RESET_REQUIRED|likely in a bad state)"),
    "hung_task": _kind(
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
