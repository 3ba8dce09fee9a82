"""The memory that is left to a host, and to the container that we are in."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

_NONE = 1 << 60
"""A limit so high is none: control groups of version 1 write a number where there is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hungry:
    """A process, by what it holds of memory."""

    pid: int
    """The pid of the process on the host."""
    name: str
    """The name of the process, at most 15 characters, as the kernel keeps it."""
    resident: int
    """Bytes of memory that it holds (VmRSS), those that it shares with others among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A control group of ours, or the closest above it, that may not have all of the host's memory."""

    group: str
    """Its path; empty at the top, as a container sees its own."""
    bytes: int
    """Bytes of memory that the group may have at most."""
    used: int
    """Bytes that it has, without what could be dropped at once: pages of files that nobody has used lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The numbers of /proc and of the control groups, in bytes."""

    total: int
    available: int | Unknown
    swap_total: int | Unknown
    swap_free: int | Unknown
    top: tuple[Hungry, ...] | Unknown
    limits: tuple[Limit, ...] | Unknown
    """The limits that are lower than the host's memory, ours first."""
    oom_kills: int | Unknown
    """The number of kills by the kernel for a limit of our own control group, or of one in it."""


def ask_memory(most: int) -> Command:
    """One script that reads /proc/meminfo, the limits of our control groups, and the *most* greatest processes."""
    return read_script(_ASK, str(most))


_ASK = script(__package__, "memory_probe")


def read_memory(done: Completed) -> Memory:
    """Parse *done*.  Raises ProbeError where even the size of the memory is not known."""
    if done.timed_out:
        raise ProbeError("/proc could not be read in time")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("/proc could not be read"))
    lines = [line.partition(" ")[::2] for line in done.stdout.split("\n") if line]
    table = dict(_entry(rest) for word, rest in lines if word == "mem")
    total = table.get("MemTotal", 0)
    if not total:
        raise ProbeError("/proc/meminfo does not say how much memory there is")
    groups = [rest for word, rest in lines if word == "group"]
    return Memory(
        total=total,
        available=_bytes_of(table, "MemAvailable"),
        swap_total=_bytes_of(table, "SwapTotal"),
        swap_free=_bytes_of(table, "SwapFree"),
        top=tuple(map(_hungry, (rest for word, rest in lines if word == "top")))
        or Unknown(why="no process could be inspected"),
        limits=_limits(groups, total),
        oom_kills=_kills(groups),
    )


def _entry(line: str) -> tuple[str, int]:
    name, _, rest = line.partition(":")
    number, _, unit = rest.strip().partition(" ")
    return name, int(number) * (1024 if unit == "kB" else 1) if number.isdigit() else 0


def _bytes_of(table: Mapping[str, int], name: str) -> int | Unknown:
    return table[name] if name in table else Unknown(why=f"this host's /proc/meminfo has no {name}")


def _hungry(line: str) -> Hungry:
    resident, pid, name = line.split(" ", 2)
    return Hungry(pid=int(pid), name=name, resident=int(resident) * 1024)


def _limits(groups: list[str], total: int) -> tuple[Limit, ...] | Unknown:
    if not groups:
        return Unknown(why="no memory control group is visible")
    found: list[Limit] = []
    for line in groups:
        limit, used, cold, _, path = line.split(" ", 4)
        if limit.isdigit() and int(limit) < min(total, _NONE) and used.isdigit():
            waste = int(cold) if cold.isdigit() else 0
            found.append(Limit(group=path, bytes=int(limit), used=max(0, int(used) - waste)))
    return tuple(found)


def _kills(groups: list[str]) -> int | Unknown:
    count = groups[0].split(" ", 4)[3] if groups else ""
    return int(count) if count.isdigit() else Unknown(why="our control group does not count OOM kills")
