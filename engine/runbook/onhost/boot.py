"""The current boot of a host, the reboots that runbook has sent to it, and the command that sends a reboot."""

from __future__ import annotations

import re
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import PLACES, SAFE, script
from runbook.values.command import Command, Completed, read, read_script, write_script

BOOT_ID = "/proc/sys/kernel/random/boot_id"
"""The file with a random UUID that the kernel makes when it starts (random(4))."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LastReboot:
    """The last reboot that runbook has sent to a host, as recorded on the host."""

    boot_id: str
    """The id of the boot that the reboot should end."""
    ago: float
    """The seconds since the reboot was sent, by the host's clock."""
    gpus: int
    """The number of GPUs that were expected after the reboot."""
    words: str
    """The reason for the reboot, and the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """The current boot of a host."""

    boot_id: str
    up: float
    """The seconds since the boot began."""
    container: bool
    """Whether the host is a container, which cannot be rebooted from within."""
    systemd: bool
    stopping: bool
    """Whether the host is shutting down."""
    root: bool
    last: LastReboot | None


def ask_boot_id() -> Command:
    """Return the command that reads only the boot id."""
    return replace(read("cat", BOOT_ID), timeout=10.0)


def read_boot_id(done: Completed) -> str:
    """Return the boot id from the output of ``ask_boot_id``; empty if the host does not report it."""
    found = done.stdout.strip() if done.exit_code == 0 else ""
    return found if _UUID.fullmatch(found) else ""


def ask_boot() -> Command:
    """Return the command that reads all fields of ``Boot`` with one script."""
    return read_script(SAFE + PLACES + script(__package__, "boot_probe"))


def read_boot(done: Completed) -> Boot:
    """Parse the output of ``ask_boot``.  Raises ProbeError if it cannot be read."""
    if done.timed_out or done.exit_code != 0:
        said = done.stderr.strip().splitlines()
        raise ProbeError(said[-1] if said else "the host does not say which boot it is in")
    rows = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    facts = dict(rows)
    boot_id, up = facts.get("boot", ""), facts.get("up", "")
    if not _UUID.fullmatch(boot_id) or not re.fullmatch(r"\d+(\.\d+)?", up):
        raise ProbeError(f"{BOOT_ID} holds no boot id: {boot_id[:60]!r}")
    return Boot(
        boot_id=boot_id,
        up=float(up),
        container="container" in facts,
        systemd="systemd" in facts,
        stopping="stopping" in facts,
        root=facts.get("uid") == "0",
        last=_last([rest for kind, rest in rows if kind == "last"], facts.get("now", "")),
    )


def _last(lines: list[str], now: str) -> LastReboot | None:
    if not lines:
        return None
    boot_id, at, gpus, words = (*lines, "", "", "", "")[:4]
    if not _UUID.fullmatch(boot_id) or not all(word.isdigit() for word in (at, gpus, now)):
        raise ProbeError("/var/lib/runbook/rebooted is damaged: nobody knows when the host was last rebooted by us")
    return LastReboot(boot_id=boot_id, ago=float(max(0, int(now) - int(at))), gpus=int(gpus), words=words)


def send_reboot(boot_id: str, words: str, gpus: int, force_after: float) -> Command:
    """Return the command that records and starts a reboot, if the host is still in the boot *boot_id*.

    *words*: the reason, for people.  *gpus*: the number of GPUs expected afterwards.  *force_after*: seconds after
    which
    a hanging shutdown is forced, or 0.
    """
    command = write_script(
        SAFE + PLACES + script(__package__, "boot_reboot"),
        boot_id,
        words,
        f"{gpus}",
        f"{force_after:.0f}",
        called=("reboot", boot_id),
    )
    return replace(command, timeout=60.0)
