"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own processes, files, network and host name (what this machine does not allow is reported), and is
reached by SSH on a loopback address.  Only the GPU is pretended: processes, signals, files and SSH are real.
"""

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runbook.errors import ConfigError
from runbook.lab.faults import FAULTS
from runbook.lab.isolation import found
from runbook.lab.lab_host import LabHost
from runbook.lab.lifecycle import INVENTORY, SHARED, Lab, LabOptions, down, sharing, shell_argv, status, up
from runbook.lab.location import default_directory
from runbook.lab.node import OF_NODES
from runbook.lab.scenarios import SCENARIOS, Scenario, inputs_of

HOST_PROGRAMS = ("unshare", "sshd", "sshd-session", "sshd-auth", "dockerd", "containerd", "containerd-shim-runc-v2")
"""Programs that keep a host going, and are not its faults."""
SERVER = "runbook.lab.ssh_server"
"""The module that does so where there is no sshd."""


def processes_on_host(outer: int) -> tuple[tuple[int, str], ...]:
    """The processes below *outer*, each with its pid inside of the host and its command line."""
    parents = {int(path.name): _parent(path) for path in Path("/proc").iterdir() if path.name.isdigit()}
    found = [_process_identity(Path(f"/proc/{pid}")) for pid in parents if _is_below(pid, outer, parents)]
    return tuple(sorted(item for item in found if item is not None))


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _is_below(pid: int, outer: int, parents: dict[int, int]) -> bool:
    return pid != outer and any(number == outer for number in _above(pid, parents))


def _above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    for _ in range(100):
        pid = parents.get(pid, 0)
        if pid <= 1:
            return
        yield pid


def _process_identity(process: Path) -> tuple[int, str] | None:
    """Its pid inside and its command line; None where it is gone, defunct, or keeps the host going."""
    try:
        words = [part.decode(errors="replace") for part in (process / "cmdline").read_bytes().split(b"\0") if part]
        status = (process / "status").read_text(errors="replace")
    except OSError:
        return None
    # The first number is ours, the second the host's; those of containers have a third one.
    inner = next((int(line.split()[1:3][-1]) for line in status.splitlines() if line.startswith("NSpid:")), 0)
    if not words or inner <= 1 or words[0].rpartition("/")[2].split(":")[0] in HOST_PROGRAMS or SERVER in words[:3]:
        return None
    return inner, " ".join(words)


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep *directory* to ourselves meanwhile.  Raises ConfigError where somebody else of this machine has it.

    A name of an abstract socket is the lock: it leaves no file, and ends with the program (unix(7)).
    """
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0runbook-lab-{name}")
        except OSError as error:
            raise ConfigError(
                f"a lab is being started in {directory}, or `lab run` is at work there: wait, or give another --dir"
            ) from error
        yield


__all__ = [
    "FAULTS",
    "INVENTORY",
    "OF_NODES",
    "SCENARIOS",
    "SHARED",
    "Lab",
    "LabHost",
    "LabOptions",
    "Scenario",
    "default_directory",
    "down",
    "found",
    "held",
    "inputs_of",
    "processes_on_host",
    "sharing",
    "shell_argv",
    "status",
    "up",
]
