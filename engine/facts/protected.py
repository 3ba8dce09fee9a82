"""Processes that are never ended, unless they are asked for by name; and those that never are at all."""

from __future__ import annotations

from collections.abc import Mapping

from engine.facts.processes import Process, Table

DAEMONS: Mapping[str, str] = {
    "systemd": "the init system", "systemd-": "part of the init system", "init": "the init system",
    "dbus-daemon": "the message bus", "cron": "the scheduler of jobs", "crond": "the scheduler of jobs",
    "nvidia-persistenced": "keeps the driver loaded", "nvidia-persiste": "keeps the driver loaded",
    "nv-hostengine": "DCGM", "dcgm": "DCGM", "dcgm-exporter": "exports metrics", "dcgmproftester": "DCGM",
    "nv-fabricmanager": "manages NVSwitch", "nv-fabricmanage": "manages NVSwitch", "nvsm": "NVIDIA System Management",
    "nvidia-cuda-mps-control": "MPS", "nvidia-cuda-mps-server": "MPS", "nvidia-cuda-mps": "MPS",
    "nvidia-device-plugin": "hands out GPUs to containers", "nvidia-device-p": "hands out GPUs to containers",
    "Xorg": "the display", "X": "the display", "gnome-shell": "the display", "gdm": "the display", "Xwayland": "the display",
    "dockerd": "Docker", "containerd": "containers", "containerd-shim": "containers", "docker-init": "containers",
    "conmon": "containers", "podman": "containers", "crio": "containers", "runc": "containers", "tini": "containers",
    "kubelet": "Kubernetes", "slurmd": "Slurm", "slurmstepd": "Slurm", "munged": "Slurm", "supervisord": "a supervisor",
    "agetty": "the console", "login": "a login", "rsyslogd": "the system log", "chronyd": "the clock",
    "nvidia-smi": "only asks", "node_exporter": "exports metrics", "tailscaled": "the network",
}  # fmt: skip
"""Names of programs (whole, or up to a ``-`` or a ``.``) and what they are; compared with argv[0] and the kernel's name."""

NEVER = ("sshd", "sshd-session", "sshd-auth")


def protection(process: Process, table: Table, allow: tuple[str, ...] = ()) -> str:
    """Why *process* is never a victim; empty when it may be one.  *allow*: daemons that were asked for by name."""
    if process.pid == 1:
        return "PID 1"
    if process.pid in table.own:
        return "our own shell, or above it"
    names = (process.program, process.name)
    if any(it in NEVER or it.startswith("sshd:") for it in names):
        return "sshd: the way in"
    if not process.command:
        return "a zombie" if process.state == "Z" else "a kernel thread"
    for name in names:
        if (daemon := _daemon(name)) and daemon not in allow and name not in allow:
            return f"{daemon}: {DAEMONS[daemon]}"
    return ""


def _daemon(name: str) -> str:
    """The entry of DAEMONS that *name* is; empty for none."""
    if name in DAEMONS:
        return name
    return next((it for it in DAEMONS if name.startswith((f"{it.rstrip('-')}-", f"{it}."))), "")
