"""Find the processes that have given files, or device nodes of GPUs, open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from fnmatch import fnmatchcase

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.open_files_script import HOLDERS
from runbook.library.processes.facts.protected import protection
from runbook.library.processes.facts.table import VALID, Row, Table, lines_of, read_processes
from runbook.library.processes.facts.table_script import PROCESSES
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, plural

GPUS = "/dev/nvidia*"
"""The files that are always checked, because they show whether a process uses a GPU."""

KFD = "/dev/kfd"
"""The device that every program on AMD's GPUs has open, whichever of them it uses."""

AMD_GPUS = (KFD, "/dev/dri/renderD*", "/dev/dri/card*")
"""The devices that show whether a process uses a GPU of AMD; displays have those of DRM open, too."""

_DRIVER = 195
"""The character device number of NVIDIA's driver (devices.txt of the kernel): minors 0-253 are GPUs."""

_DULL = frozenset(((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (1, 11), (5, 0), (5, 1), (5, 2), (10, 229)))
"""Character devices: null, zero, full, random, urandom, kmsg, tty, console, ptmx, fuse."""

_TERMINALS = frozenset((4, *range(136, 144)))
"""Majors of the terminals: virtual consoles, and pts."""

_DRM = 226
"""The character device number of DRM."""

FIRST_RENDER = 128
"""The lowest number of a render node of DRM; NVIDIA's driver has at most 32 GPUs, numbered from 0."""

_GPU = re.compile(r"nvidia(\d+)|renderD(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file that a process may have open."""

    path: str
    key: str
    """A key that is the same for every path of the same device or file."""
    asked: bool
    """Whether the file was requested."""
    file: tuple[int, int]
    """The device on which the file lies, and its inode."""

    @property
    def gpu(self) -> int | None:
        """Return the number of the GPU to which this device node belongs; None if it belongs to no single GPU."""
        kind, _, numbers = self.key.partition(":")
        if kind == "2":
            major, minor = (int(part, 16) for part in numbers.split(":"))
            if major == _DRIVER:
                return minor if minor < 254 else None
            if major == _DRM:
                return minor if minor >= FIRST_RENDER else None
        found = _GPU.fullmatch(self.path.rpartition("/")[2])
        return int(found[1] or found[2]) if found and self.path.startswith("/dev/") else None

    @property
    def dull(self) -> bool:
        """Whether it is /dev/null, a terminal or the like (devices.txt of the kernel), which does not identify its
        holder.
        """
        kind, _, numbers = self.key.partition(":")
        if kind != "2":
            return False
        major, minor = (int(part, 16) for part in numbers.split(":"))
        return (major, minor) in _DULL or major in _TERMINALS

    @property
    def partition(self) -> bool:
        """Whether the node opens a GPU without its number: a part of one (MIG), or any of AMD's."""
        return self.path.startswith("/dev/nvidia-caps/nvidia-cap") or self.path == KFD

    @property
    def driver(self) -> bool:
        """Whether the node belongs to the driver of a GPU."""
        return self.path == KFD or self.path.startswith(("/dev/nvidia", "/dev/dri/renderD"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFileScan:
    """The processes of a host, and the requested files and GPU nodes that each has open."""

    table: Table
    nodes: tuple[OpenFile, ...]
    open: Mapping[int, tuple[OpenFile, ...]] = field(default_factory=dict)
    """The open nodes of each process, by pid."""
    unseen: frozenset[int] = frozenset()
    """The pids of processes whose open files could not be read."""
    sockets: tuple[str, ...] = ()
    forged: tuple[str, ...] = ()
    """The requested paths that lead through a link which another user may change."""

    def everybodys(self) -> tuple[str, ...]:
        """Return the requested devices that any process has open, under whatever name."""
        return tuple(node.path for node in self.nodes if node.asked and node.dull)

    def not_seen(self) -> str:
        """Return a text that says whose processes could not be read, and why."""
        users: dict[str, int] = {}
        for pid in self.unseen:
            user = self.table.rows[pid].process.user
            users[user] = users.get(user, 0) + 1
        worst = sorted(users, key=lambda user: (-users[user], user))[:3]
        named = ", ".join(f"{users[word]} of user {word}" for word in worst)
        why = " in time (their users have too many open files)" if self.table.uid == 0 else ": set `become: true`"
        return f"{plural(len(self.unseen), 'process')} ({named}) could not be read{why}"

    def asked(self, pid: int) -> tuple[OpenFile, ...]:
        """Return the requested files that *pid* has open."""
        return tuple(file for file in self.open.get(pid, ()) if file.asked)

    def asked_for(self, *globs: str) -> OpenFileScan:
        """Return the walk as if of AMD's devices only those in *globs* had been asked for.

        ``/dev/nvidia*`` stands for /dev/kfd, too: a program that calculates has it open, and a display has not.
        """

        def judged(node: OpenFile) -> OpenFile:
            if not any(fnmatchcase(node.path, glob) for glob in AMD_GPUS):
                return node
            stands = node.path == KFD and GPUS in globs
            return replace(node, asked=node.asked and (stands or any(fnmatchcase(node.path, glob) for glob in globs)))

        return replace(
            self,
            nodes=tuple(map(judged, self.nodes)),
            open={pid: tuple(map(judged, nodes)) for pid, nodes in self.open.items()},
        )

    def present(self) -> tuple[str, ...]:
        """Return the requested files that exist."""
        return tuple(node.path for node in self.nodes if node.asked)


def ask_holders(*globs: str) -> Command:
    """Return the command that lists every process, and who has open a file in *globs* (without directories) or a GPU
    node.
    """
    return replace(read_script(PROCESSES + HOLDERS, *globs), private=True, valid_for=VALID)  # as in ask_processes


def read_holders(done: Completed) -> OpenFileScan:
    """Return the open files in *done*.  Raises ProbeError if the answer cannot be trusted."""
    table = read_processes(done)
    reported = [line.partition(" ")[::2] for line in done.stdout.split("\n")]
    inspected = _inspected(reported, table)
    asked = set(lines_of("asked", reported))
    nodes = tuple(_node(text, asked) for text in lines_of("node", reported))
    return OpenFileScan(
        table=table,
        nodes=nodes,
        open=_open(reported, table, nodes),
        unseen=frozenset(pid for pid, row in table.rows.items() if pid not in inspected and _may_hold(row, table)),
        sockets=tuple(lines_of("socket", reported)),
        forged=tuple(lines_of("forged", reported)),
    )


def _inspected(reported: list[tuple[str, str]], table: Table) -> set[int]:
    """Return the pids whose open files were read.  Raises ProbeError if not even our own could be read."""
    walker = next(iter(lines_of("walked", reported)), "")
    pids = _pids(reported, "seen")
    if not walker or lines_of("fault", reported) or (walker != "none" and int(walker) not in pids):
        raise ProbeError("the open files of processes could not be listed (this needs ls, awk, grep and stat)")
    pids = pids | _pids(reported, "over") if walker != "none" else set(table.rows)
    return pids - _pids(reported, "unsure")


def _pids(reported: Iterable[tuple[str, str]], wanted: str) -> set[int]:
    return {int(word) for text in lines_of(wanted, reported) for word in text.split() if word.isdigit()}


def _may_hold(row: Row, table: Table) -> bool:
    """Whether it matters that the open files of the process could not be read."""
    return not row.defunct and (not (why := protection(row, table)) or isinstance(why, Unknown))


def _node(text: str, asked: set[str]) -> OpenFile:
    key, device, inode, path = text.split(" ", 3)
    return OpenFile(path=path, key=key, asked=path in asked, file=(int(device), int(inode)))


def _open(
    reported: list[tuple[str, str]], table: Table, nodes: tuple[OpenFile, ...]
) -> dict[int, tuple[OpenFile, ...]]:
    """Return the files that each process has open, or mapped into its memory."""
    held: dict[int, dict[OpenFile, None]] = {}
    by_key: dict[str, list[OpenFile]] = {}
    for node in nodes:
        by_key.setdefault(node.key, []).append(node)
    for kind, rest in reported:
        words = rest.split()
        if kind == "holds" and len(words) == 2:
            held.setdefault(int(words[0]), {}).update(dict.fromkeys(by_key.get(words[1], ())))
        if kind == "maps" and len(words) == 3:
            found = [node for node in nodes if _mapped(words[1], words[2]) == node.file]
            held.setdefault(int(words[0]), {}).update(dict.fromkeys(found))
    return {pid: tuple(it) for pid, it in sorted(held.items(), key=lambda item: item[0]) if it and pid in table.rows}


def _mapped(device: str, inode: str) -> tuple[int, int]:
    """Return the device, as numbered by stat(2), and the inode from a line of /proc/PID/maps."""
    major, _, minor = device.partition(":")
    high, low = int(major, 16), int(minor, 16)
    return (low & 0xFF) | ((high & 0xFFF) << 8) | ((low & ~0xFF) << 12) | ((high & ~0xFFF) << 32), int(inode)
