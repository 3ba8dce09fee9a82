"""Find the processes of a host that have a GPU's device node open, and whether they prevent a reset."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import Gpu, GpuPresence
from runbook.library.gpu.facts.utilisation import unused
from runbook.library.processes.facts.open_files import AMD_GPUS, GPUS, KFD, OpenFileScan, ask_holders, read_holders
from runbook.library.processes.facts.protected import daemon
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown

OTHER_NAMESPACE = "this /proc shows one pid namespace: a process of another container, or of the machine, may hold it"
_PASSING = ("nvidia-persiste", "nvidia-smi")
"""Names (at most 15 letters) of processes that do not prevent a reset: persistence mode is switched off first, and
nvidia-smi only reads.
"""

_WATCHING = (
    "nv-hostengine", "dcgm-exporter", "dcgmi", "nv-fabricmanage", "nvsm_core", "nvsm_health", "nvidia-device-p",
    "gpu-feature-dis", "nvidia_gpu_expo", "nvtop", "amd-smi", "rocm-smi", "rdc", "rdcd", "amdgpu_top", "radeontop",
)  # fmt: skip
"""Daemons that have every GPU open but do not compute on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A process with a device node open."""

    pid: int
    name: str
    """The name of the process in the kernel."""
    believed: bool = True
    """Whether the name can be trusted: the process belongs to root or to our own user, or it is root's program of that
    name.
    """

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """The processes that have each GPU's node open."""

    by_number: Mapping[int, tuple[User, ...]]
    """The processes by the number in the name of the device node: 0 is ``/dev/nvidia0``."""
    blind: str
    """The reason why there may be further users; empty if there are none."""
    presence: GpuPresence

    def of(self, gpu: Gpu, stopped: Collection[int] = ()) -> tuple[str, ...] | Unknown:
        """Return every process that prevents a reset, as text, except the processes *stopped* for it."""
        users = self._on(gpu, _PASSING, stopped)
        return users if isinstance(users, Unknown) else tuple(str(user) for user in users)

    def pids(self) -> frozenset[int]:
        """Return the pid of every process that is known to have a GPU's node open."""
        return frozenset(user.pid for users in self.by_number.values() for user in users)

    def at_work(self) -> tuple[str, ...] | Unknown:
        """Return every process on any GPU, as text, except daemons that only monitor."""
        stands = (*_PASSING, *_WATCHING)
        users = {user for users in self.by_number.values() for user in users}
        found = sorted((each for each in users if each.name not in stands or not each.believed), key=lambda it: it.pid)
        if not found and (self.blind or not self.presence.all_processes):
            return Unknown(why=self.blind or OTHER_NAMESPACE)
        return tuple(str(each) for each in found)

    def held(self, gpu: Gpu) -> bool | Unknown:
        """Whether a process may be using *gpu*; daemons that only monitor do not count."""
        users = self._on(gpu, (*_PASSING, *_WATCHING))
        return users if isinstance(users, Unknown) else bool(users)

    def _on(self, gpu: Gpu, leave_out: tuple[str, ...], stopped: Collection[int] = ()) -> tuple[User, ...] | Unknown:
        there = {
            number: tuple(
                user for user in users if (user.name not in leave_out or not user.believed) and user.pid not in stopped
            )
            for number, users in self.by_number.items()
        }
        number = self._number(gpu)
        found = there.get(number, ()) if number is not None else ()
        if found:
            return found
        if self.blind:
            return Unknown(why=self.blind)
        if not self.presence.all_processes and not unused(gpu):
            return Unknown(why=OTHER_NAMESPACE)
        if number is None and any(there.values()):
            return Unknown(why="the driver does not report which device node belongs to which GPU")
        return ()

    def _number(self, gpu: Gpu) -> int | None:
        """Return the number of the GPU's node: from the driver's own table, or without a table from the order of the
        existing nodes.
        """
        if self.presence.minors:
            return self.presence.minors.get(gpu.bus_id)
        numbers = sorted(
            int(word) for word in (node.removeprefix("/dev/nvidia") for node in self.presence.nodes) if word.isdigit()
        )
        return numbers[gpu.index] if gpu.index < len(numbers) else None


def ask_amd_users() -> Command:
    """Return the command that lists the processes with a device of AMD's GPUs open."""
    return ask_holders(*AMD_GPUS)


def read_amd_users(done: Completed, presence: GpuPresence) -> Users:
    """Return the users in *done*, the answer to ``ask_amd_users``.  Never raises, as ``read_users``.

    A process with only /dev/kfd open may use any GPU, so that it counts on each.
    """
    try:
        walk = read_holders(done)
    except ProbeError as error:
        return Users(by_number={}, blind=str(error), presence=presence)
    numbers = {f"/dev/dri/card{node.card}": node.render for node in presence.amd_nodes if node.card is not None}
    by_number: dict[int, list[User]] = {}
    for pid, nodes in walk.open.items():
        row = walk.table.rows[pid]
        user = User(pid=pid, name=row.name, believed=row.names is None or bool(daemon(row)))
        numbered = {node.gpu if node.gpu is not None else numbers.get(node.path) for node in nodes} - {None}
        anything = any(node.path == KFD for node in nodes) and not numbered
        for number in {node.render for node in presence.amd_nodes} if anything else numbered:
            if number is not None:
                by_number.setdefault(number, []).append(user)
    return Users(
        by_number={number: tuple(users) for number, users in by_number.items()}, blind=_blind(walk), presence=presence
    )  # fmt: skip


def ask_users() -> Command:
    """Return the command that lists the processes with ``/dev/nvidia0`` ... open."""
    return ask_holders(GPUS)


def read_users(done: Completed, presence: GpuPresence) -> Users:
    """Return the users in *done*, the answer to ``ask_users``.  Never raises: if the answer cannot be trusted, the
    users are unknown.
    """
    try:
        walk = read_holders(done)
    except ProbeError as error:
        return Users(by_number={}, blind=str(error), presence=presence)
    by_number: dict[int, list[User]] = {}
    for pid, nodes in walk.open.items():
        row = walk.table.rows[pid]
        user = User(pid=pid, name=row.name, believed=row.names is None or bool(daemon(row)))
        for number in {node.gpu for node in nodes if node.gpu is not None}:
            by_number.setdefault(number, []).append(user)
    return Users(
        by_number={number: tuple(users) for number, users in by_number.items()}, blind=_blind(walk), presence=presence
    )  # fmt: skip


def _blind(walk: OpenFileScan) -> str:
    if walk.table.hidden:
        return walk.table.hidden
    if not walk.unseen:
        return ""
    return walk.not_seen()
