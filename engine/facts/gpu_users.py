"""Which processes of a host have the device node of a GPU open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.facts.gpus import Gpu, GpuPresence
from engine.values.command import Command, Completed, read_script
from engine.values.text import Unknown

_PASSING = ("nvidia-persiste", "nvidia-smi")
"""Names (of 15 letters at most) that stand in no way: persistence is switched off first, and nvidia-smi only asks."""

_WATCHING = (
    "nv-hostengine", "dcgm-exporter", "dcgmi", "nv-fabricmanage", "nvsm_core", "nvsm_health", "nvidia-device-p",
    "gpu-feature-dis", "nvidia_gpu_expo", "nvtop",
)  # fmt: skip
"""Daemons that hold every GPU and use none."""


_FIRST = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "s6-svscan", "runit")
"""First processes that start others and open no GPU; in containers nobody may look at theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A process with a device node open."""

    pid: int
    comm: str

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.comm})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Who has which node open."""

    by_node: Mapping[str, tuple[User, ...]]
    blind: str
    """Why some processes could not be looked at; empty: all could."""
    presence: GpuPresence

    def of(self, gpu: Gpu) -> tuple[str, ...] | Unknown:
        """Everyone who stands in the way of a reset, in words."""
        users = self._on(gpu)
        return users if isinstance(users, Unknown) else tuple(str(it) for it in users)

    def held(self, gpu: Gpu) -> bool | Unknown:
        """Whether a process may be at work on it; daemons that only watch are none."""
        users = self._on(gpu, _WATCHING)
        return users if isinstance(users, Unknown) else bool(users)

    def _on(self, gpu: Gpu, leave_out: tuple[str, ...] = ()) -> tuple[User, ...] | Unknown:
        skipped = (*_PASSING, *leave_out)
        there = {node: [it for it in users if it.comm not in skipped] for node, users in self.by_node.items()}
        node = self._node(gpu)
        found = tuple(there.get(node, ()))
        if found:
            return found
        if self.blind:
            return Unknown(why=self.blind)
        if not node and any(there.values()):
            return Unknown(why="the driver does not say which device node is whose")
        return ()

    def _node(self, gpu: Gpu) -> str:
        """Its device node: by the driver's own table, else in the order of the nodes, if there are as many."""
        minors, nodes = self.presence.minors, sorted(self.presence.nodes, key=lambda it: (len(it), it))
        if minors:
            return f"/dev/nvidia{minors[gpu.bus_id]}" if gpu.bus_id in minors else ""
        return nodes[gpu.index] if gpu.index < len(nodes) else ""


def ask_users(root: str = "") -> Command:
    """Every process with ``/dev/nvidia0`` ... open; *root* is where the file system begins."""
    return read_script(_ASK, root)


_ASK = r"""
LC_ALL=C; export LC_ALL
cd "$1/proc" || exit 1
last=
ls -l [0-9]*/fd 2>&1 | grep -E '^[0-9]+/fd:|-> /dev/nvidia[0-9]|ermission denied' | while read -r line; do
    comm=
    case $line in
        [0-9]*/fd:) pid=${line%/fd:} ;;
        *'-> /dev/nvidia'[0-9]*)
            read -r comm 2>/dev/null <"$pid/comm"
            echo "user $pid ${line##*-> } $comm" ;;
        *'ermission denied'*)
            hidden=${line%%/fd*}; hidden=${hidden##*[!0-9]}
            [ "$hidden" = "$last" ] && continue
            last=$hidden
            read -r comm 2>/dev/null <"$hidden/comm"
            echo "blind $hidden - $comm" ;;
    esac
done
[ -d 1 ] || echo 'blind 1 - hidden'  # hidepid: processes of others do not even show
[ -r self/stat ] && echo looked
"""


def read_users(done: Completed, presence: GpuPresence) -> Users:
    """What the walk of /proc saw; a walk that did not come to its end knows nothing."""
    by_node: dict[str, dict[int, User]] = {}
    hidden: list[User] = []
    for line in done.stdout.splitlines():
        kind, pid, node, comm = (*line.split(" ", 3), "", "", "", "")[:4]
        if kind not in ("user", "blind") or not (pid.isascii() and pid.isdigit() and len(pid) < 10):
            continue
        user = User(pid=int(pid), comm=comm.removeprefix("(deleted)").strip())
        if kind == "user":
            by_node.setdefault(node, {})[user.pid] = user
        elif user.comm not in _FIRST:
            hidden.append(user)
    blind = ""
    if done.timed_out or done.exit_code != 0 or "looked" not in done.stdout.splitlines():
        blind = "/proc could not be walked"
    elif hidden:
        more = f" and {len(hidden) - 3} more" if len(hidden) > 3 else ""
        blind = f"what {', '.join(map(str, hidden[:3]))}{more} has open could not be looked at: it needs root"
    return Users(by_node={node: tuple(it.values()) for node, it in by_node.items()}, blind=blind, presence=presence)
