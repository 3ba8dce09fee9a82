"""Read from a path among the control groups which container, service or login a process is in.

What lies below another manager (a container of any kind, a service that starts units of its own) is that manager's: its
units mean nothing to this host's systemd. Paths are read from pid 1's own on, so that within a container its own
systemd is the manager that is asked.
"""

from __future__ import annotations

import re

CUT = "..."
"""The text in place of the middle of a path, if the path is too long to read."""

LXC = "lxc/"
"""The prefix of the name of a container of LXC, LXD, Incus or Proxmox."""

_CONTAINER = re.compile(
    r"(?<![0-9a-f])(?<!libpod_pod_)(?<!libpod_parent/)(?P<id>[0-9a-f]{64})(?![0-9a-f])"  # not the id of podman's pods
    r"|/job_(?P<job>\d+)"
    r"|/lxc(?:\.(?:payload|monitor)[./]|/)(?P<lxc>[^/]+)"
    r"|/(?P<name>machine-[^/]+\.scope|\.\.\.)(?![^/])"
)
_UNIT = (".service", ".scope", ".slice")
_LOGIN = re.compile(r"(.*/session-[^/]+\.scope)(?![^/])")


def container_in(cgroup: str, first: str) -> str:
    """Return the outermost container, or job, that *cgroup* is in and *first*, the group of pid 1, is not.

    Where both are in the same ones, the innermost of these: we are in it ourselves.
    """
    boxes, ours = _containers(cgroup), _containers(first)
    shared = 0
    while shared < min(len(boxes), len(ours)) and boxes[shared] == ours[shared]:
        shared += 1
    if shared < len(boxes):
        return boxes[shared]
    return boxes[-1] if boxes else _nested(_below_managers(cgroup, first))


def unit_in(cgroup: str, first: str) -> str:
    """Return the service of this host's systemd, or of a user's, that *cgroup* is in, by sd_pid_get_unit(3)."""
    unit = next(iter(_below_managers(cgroup, first)), "")
    return unit if unit.endswith(".service") and not unit.startswith("user@") else ""


def login_in(cgroup: str, first: str) -> str:
    """Return the part of *cgroup* that is the scope of a login (``session-7.scope``)."""
    found = _LOGIN.match(_from(cgroup, first))
    return found[1] if found else ""


def _containers(cgroup: str) -> list[str]:
    """Return the containers along *cgroup*, outermost first."""
    return [_called(found) for found in _CONTAINER.finditer(cgroup)]


def _called(found: re.Match[str]) -> str:
    if found["id"]:
        return found["id"][:12]
    if found["job"]:
        return f"job_{found['job']}"
    return LXC + found["lxc"] if found["lxc"] else found["name"]


def _from(cgroup: str, first: str) -> str:
    """Return *cgroup* as pid 1's manager sees it."""
    root = first.removesuffix("/init.scope").rstrip("/")
    return cgroup.removeprefix(root) if cgroup == root or cgroup.startswith(f"{root}/") else cgroup


def _below_managers(cgroup: str, first: str) -> list[str]:
    """Return the parts of *cgroup* from the first part that is neither a slice nor the manager of a user."""
    parts = [part for part in _from(cgroup, first).split("/") if part not in ("", "..")]
    parts = _after_slices(parts)
    return _after_slices(parts[1:]) if parts and re.fullmatch(r"user@[0-9]+\.service", parts[0]) else parts


def _after_slices(parts: list[str]) -> list[str]:
    while parts and parts[0].endswith(".slice"):
        parts = parts[1:]
    return parts


def _nested(parts: list[str]) -> str:
    """Return the container, of an unknown kind, in which a second systemd has created units; empty if there is none."""
    if not parts or parts[0].endswith(".service"):
        return ""
    if parts[0].endswith(".scope"):
        return parts[0] if any(part.endswith(_UNIT) for part in parts[1:]) else ""
    inner = next((at for at, part in enumerate(parts) if at and part.endswith(_UNIT)), 0)
    return "/".join(parts[:inner])
