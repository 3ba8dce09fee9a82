"""Refuse patterns that would match processes of the system itself."""

from __future__ import annotations

from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex, fault_in_regex

LONGEST = 500
"""Characters that a pattern may have."""

SYSTEM = (
    "/sbin/init",
    "/lib/systemd/systemd --system --deserialize 31",
    "/lib/systemd/systemd-logind",
    "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
    "sshd: root@notty",
    "-bash",
    "/usr/sbin/cron -f",
    "/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile",
    "/sbin/agetty -o -p -- \\u --noclear tty1 linux",
    "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock",
    "/usr/bin/containerd",
    "/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml",
    "/usr/sbin/slurmd -D -s",
    "/usr/bin/nvidia-persistenced --user nvidia-persistenced",
    "/usr/bin/nv-hostengine -n --service-account nvidia-dcgm",
    "/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg",
    "/usr/sbin/rsyslogd -n -iNONE",
    "/usr/sbin/chronyd -F 1",
)
"""Command lines that run on every other machine; a pattern that matches one of them is too wide."""


def objection_to(pattern: str) -> str:
    """Why *pattern* may not choose processes; empty when it may."""
    if not pattern.strip():
        return "an empty pattern matches every process"
    if len(pattern) > LONGEST:
        return f"a pattern can have at most {LONGEST} characters, but this one has {len(pattern)}"
    if fault := fault_in_regex(pattern):
        return fault
    compiled, budget = compile_regex(pattern), SearchBudget()
    try:
        if budget.found(compiled, ""):
            return "it matches the empty text, and therefore every process"
        wide = next((line for line in SYSTEM if budget.found(compiled, line)), None)
    except SearchTimeout as error:
        return f"the command line of a system process {error}"
    return "" if wide is None else f"it would match a system process: {wide}"
