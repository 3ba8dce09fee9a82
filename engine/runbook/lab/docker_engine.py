"""A real Docker engine for one lab host, which ends with the host."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from runbook.errors import ConfigError
from runbook.shell import program

OF_DOCKER: Mapping[str, str] = MappingProxyType(
    {
        "docker": "A Docker engine without containers and images.",
        "at_work": "A container at work, which logs its steps; it must be left alone.",
        "hung": "A container that keeps running but does nothing, after an out-of-memory error of the GPU in its log.",
        "died_of_memory": "A container that exceeded its memory limit and was killed by the kernel.",
        "died_of_kill": "A container that was killed through Docker.",
        "died_of_segfault": "A container that crashed with a segmentation fault.",
        "died_of_gpu_memory": "A container that exited after an out-of-memory error of the GPU in its log.",
        "died_of_disk": "A container that exited because the disk that it wrote to was full.",
        "died_of_itself": "A container that exited with an error of its program.",
        "died_silently": "A container that exited without a line in its log.",
        "dies_again": "A container in a restart loop: it clones a repository into a directory that already exists.",
        "docker_full": "Docker's disk is full of containers that exited days ago, and of untagged images.",
        "unbounded_logs": "Docker does not limit the containers' logs, and ends its containers when it is restarted.",
        "lost_gpu": "A running container that can no longer open its GPUs, as after a daemon-reload of systemd.",
        "docker_dead": "The Docker daemon was killed; a container of its outlives it.",
        "no_toolkit": "Docker has no runtime that gives containers the GPUs.",
    }
)
"""The faults that give a host a Docker engine; the containers of one host share it."""

NEEDED: Mapping[str, str] = MappingProxyType(
    {
        "dockerd": "docker.io",
        "docker": "docker.io",
        "containerd": "docker.io",
        "runc": "docker.io",
        "busybox": "busybox-static",
    }
)
"""Programs, and Debian's packages with them."""

STARTS_WITHIN = 60.0
"""Seconds in which such a host starts, containers and all."""


def has_engine(faults: Sequence[str]) -> bool:
    """Whether a host with these *faults* has an engine."""
    return any(fault in OF_DOCKER for fault in faults)


def require_engine(hosts: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """See that this machine can run the engines of *hosts*.  Raises ConfigError with what is missing."""
    wanting = [name for name, faults in hosts if has_engine(faults)]
    if not wanting:
        return
    who = f"a Docker engine ({', '.join(wanting)})"
    if os.geteuid() != 0:
        raise ConfigError(f"{who} needs root: run the lab with sudo")
    lacking = {package: None for program, package in NEEDED.items() if not shutil.which(program)}
    if "busybox-static" not in lacking and not _is_static(Path(shutil.which("busybox") or "")):
        lacking["busybox-static"] = None
    if lacking:
        raise ConfigError(f"{who} needs {' and '.join(lacking)} (Debian: apt-get install {' '.join(lacking)})")


def require_overlay(hosts: Sequence[tuple[str, tuple[str, ...]]], refusal: str) -> None:
    """An engine writes to /etc and /var.  Raises ConfigError where hosts cannot, with this machine's *refusal*."""
    wanting = [name for name, faults in hosts if has_engine(faults)]
    if wanting and refusal:
        raise ConfigError(
            f"a Docker engine ({', '.join(wanting)}) needs an overlay over /, which this machine refuses ({refusal})"
        )


def _is_static(program: Path) -> bool:
    """Whether *program* runs without libraries: its first page names no loader."""
    with program.open("rb") as file:
        return b"/ld-" not in file.read(4096)


def group_of(folder: Path) -> str:
    """The cgroup below which the containers of the lab in *folder* live, and nobody else's."""
    return f"runbook-lab-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:7]}"


def engine_files(folder: Path, name: str, faults: Sequence[str]) -> dict[str, str]:
    """Return the files of host *name* in *folder* for its Docker engine; empty: it has no engine."""
    if not has_engine(faults):
        return {}
    mark = secrets.token_hex(3)  # the kernel remembers the containers of hosts that are gone
    group = f"/{group_of(folder)}/{name}-{mark} busybox-{mark}\n"
    return {"docker": ENGINE, "docker-service": SERVICE, "group": group, "dmesg": DMESG}


def remove_groups(folder: Path) -> None:
    """Remove the cgroups of the lab in *folder*, whose processes have ended."""
    roots = [
        path
        for path in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*"))
        if (path / group_of(folder)).is_dir()
    ]
    deadline = time.monotonic() + 5
    while roots and time.monotonic() < deadline:
        for root in roots:
            for place, _, _ in os.walk(root / group_of(folder), topdown=False):
                with suppress(OSError):  # what still ends in it holds it for a moment
                    Path(place).rmdir()
        roots = [root for root in roots if (root / group_of(folder)).is_dir()]
        if roots:
            time.sleep(0.02)


DMESG = program(__package__, "docker_engine_dmesg")

SERVICE = program(__package__, "docker_engine_service")

ENGINE = program(__package__, "docker_engine")
