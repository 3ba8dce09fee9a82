"""The names of protected programs: daemons, remote access, terminals, editors, clients."""

from __future__ import annotations

from runbook.shell import script

DAEMON_NAMES: dict[str, str] = {
    "a remote access service": "sshd sshd-session sshd-auth dropbear tailscaled cloudflared",
    "part of the system": (
        "init systemd systemd-* (sd-pam) dbus-daemon dbus-broker* cron crond atd rsyslogd agetty login udevd auditd "
        "chronyd NetworkManager polkitd sssd* snapd"
    ),
    "a daemon of the GPU driver": (
        "nvidia-persistenced nv-hostengine nv-fabricmanager nvsm* dcgm dcgm-exporter nvidia-imex "
        "nvidia-cuda-mps-control nvidia-cuda-mps-server nvidia-device-plugin gpu-feature-discovery"
    ),
    "a GPU monitoring tool, not a job": "nvidia-smi dcgmi nvtop amd-smi rocm-smi amdgpu_top radeontop rdcd",
    "a desktop": "Xorg X Xwayland gnome-shell gnome-session* gdm gdm3 gdm-* lightdm sddm",
    "the container runtime": "dockerd containerd containerd-shim* crio conmon runc docker-proxy podman",
    "a process supervisor": "supervisord s6-supervise runsv runsvdir monit",
    "a cluster agent": "kubelet kube-proxy slurmd slurmstepd slurmctld munged",
    "a terminal that others may be using": "tmux* screen SCREEN",
    "a client program, not a job": (
        "docker docker-compose docker-buildx nerdctl kubectl crictl helm ssh scp sftp sftp-server rsync git git-* pip "
        "pip3 pip3.* pipx apt apt-get dpkg dnf yum apk curl wget jupyter jupyter-* jupyterhub* code code-server"
    ),
    "an editor or a pager, not a job": "vi vim vim.* nvim nano emacs less more man tail head grep watch htop top",
}
"""The names of protected programs by the reason; a ``*`` at the end stands for any text."""

REALLY = script(__package__, "known_daemons")
"""Comes before a script that searches for a process by its own name.

A user who starts a setuid program of root is recognised by the real user id.  The owner of the files in /proc/PID
proves nothing, because a process may hide it.
"""
