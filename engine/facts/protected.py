"""Processes that are never ended unless somebody names them, and some not even then."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from engine.facts.processes import SHELLS, Process, Row, Table

NAMES: dict[str, str] = {
    "a way into the host": "sshd sshd-session sshd-auth dropbear tailscaled cloudflared",
    "part of the system": (
        "init systemd systemd-* (sd-pam) dbus-daemon dbus-broker* cron crond atd rsyslogd agetty login udevd auditd "
        "chronyd NetworkManager polkitd sssd* snapd"
    ),
    "a daemon of the GPU driver": (
        "nvidia-persistenced nv-hostengine nv-fabricmanager nvsm* dcgm dcgm-exporter nvidia-imex "
        "nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-device-plugin gpu-feature-discovery"
    ),
    "a look at the GPU, not a job": "nvidia-smi dcgmi nvtop",
    "a desktop": "Xorg X Xwayland gnome-shell gnome-session* gdm gdm3 gdm-* lightdm sddm",
    "the container runtime": "dockerd containerd containerd-shim* crio conmon runc docker-proxy podman",
    "what keeps other processes going": "supervisord s6-supervise runsv runsvdir monit",
    "the cluster's agent": "kubelet kube-proxy slurmd slurmstepd slurmctld munged",
    "a terminal that others may be using": "tmux* screen SCREEN",
    "a client of something else, not a job": (
        "docker docker-compose docker-buildx nerdctl kubectl crictl helm ssh scp sftp sftp-server rsync git git-* pip "
        "pip3 pip3.* pipx apt apt-get dpkg dnf yum apk curl wget jupyter jupyter-* jupyterhub* code code-server"
    ),
    "an editor or a pager, not a job": "vi vim vim.* nvim nano emacs less more man tail head grep watch htop top",
}
"""Why, and the programs; a ``*`` at the end stands for anything."""

_INTERPRETED = frozenset(
    ("pip", "pip3", "pipx", "jupyter", "jupyter-lab", "jupyter-notebook", "jupyterhub", "supervisord")
)
"""Protected programs that are known by the script that an interpreter runs; a job may call its script anything else."""

_KERNEL = 15
"""Characters that the kernel keeps of a program's name."""

_EXACT = {it[:cut]: why for why, names in NAMES.items() for it in names.split() for cut in (_KERNEL, None)}
_PREFIXES = tuple(
    (it.removesuffix("*")[:_KERNEL], why) for why, names in NAMES.items() for it in names.split() if it.endswith("*")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A process that is spared whatever it matches or holds."""

    pid: int
    user: str
    command: str
    process: Process
    why: str


def programs(row: Row) -> tuple[str, ...]:
    """What the process is called: by its first argument, and by the kernel."""
    first = row.argv[0].split(" ")[0].rstrip(":") if row.argv else ""
    return tuple(dict.fromkeys(it for it in (first.rpartition("/")[2].lstrip("-"), row.name) if it))


def _script(row: Row) -> tuple[str, ...]:
    """The program that an interpreter runs, as it is called: ``python3 /usr/bin/pip install ...`` is pip."""
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if not re.fullmatch(r"python[0-9.]*|perl|ruby|node", first) or len(row.argv) < 2:
        return ()
    if row.argv[1] == "-m" and len(row.argv) > 2:
        return (row.argv[2].partition(".")[0],)
    return () if row.argv[1].startswith("-") else (row.argv[1].rpartition("/")[2],)


def daemon(row: Row, allow: Collection[str] = ()) -> str:
    """Why its program is spared; empty: it is not, or *allow* names it."""
    called = programs(row)
    for it in (*called, *(name for name in _script(row) if name in _INTERPRETED)):
        why = _EXACT.get(it) or next((why for prefix, why in _PREFIXES if it.startswith(prefix)), "")
        cut = len(it) == _KERNEL and any(name[:_KERNEL] == it for name in allow)
        if why and it not in allow and not cut:
            return f"{it} is {why}"
    return "it is this tool" if is_this_tool(row) else ""


def is_this_tool(row: Row) -> bool:
    """Whether it runs a playbook, as this very program does."""
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if len(row.argv) < 2 or not first.startswith("python"):
        return False
    return row.argv[1].rpartition("/")[2] == "runbook" or row.argv[1:3] == ("-m", "engine")


def protection(row: Row, table: Table, allow: Collection[str] = ()) -> str:
    """Why the process must not be ended; empty: it may be.

    Pid 1 and whatever our own connection hangs on are spared even where *allow* names their program.
    """
    pid = row.process.pid
    if pid == 1:
        return "pid 1 keeps the host, or the container, alive"
    if pid in table.way_in or pid in table.own:
        return "our own connection hangs on it"
    return daemon(row, allow)


def interactive(row: Row) -> bool:
    """Whether it is a shell that a person types into: what it runs are several jobs, not one."""
    if not row.argv:
        return False
    shell = row.argv[0].rpartition("/")[2]
    if shell.lstrip("-") not in SHELLS:
        return False
    return shell.startswith("-") or (row.terminal and not _runs_a_script(row.argv[1:]))


def _runs_a_script(arguments: tuple[str, ...]) -> bool:
    """Whether a shell with these arguments runs a file or a text (``-c``)."""
    waiting = list(arguments)
    while waiting:
        one = waiting.pop(0)
        if one in ("--rcfile", "--init-file", "-o", "-O", "+o", "+O"):
            waiting[:1] = []
        elif re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", one) or not one.startswith(("-", "+")):
            return True
    return False
