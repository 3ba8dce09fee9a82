"""The programs that are protected, by name: daemons, ways in, terminals, editors, clients."""

from __future__ import annotations

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

REALLY = r"""
really() {  # pid: whether that is a process of root's or our own: anybody may call a process of his own anything
    real=
    { while read -r key real rest; do [ "$key" != Uid: ] || break; done <"/proc/$1/status"; } 2>/dev/null
    [ "${real:--}" = 0 ] || [ "${real:--}" = "$(id -u)" ]
}
"""
"""Goes before what looks for a process by the name that it has given itself.

Whoever starts a setuid program of root's shows by the real user. Whom files in /proc/PID belong to says nothing: a
process may hide that.
"""
