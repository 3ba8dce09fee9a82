"""Query the NVIDIA GPUs of a host with nvidia-smi, and read the answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import AmdNode, ComputeProcess, Gpu, GpuPresence, SmiReading, bus_id, node_path
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, SMI
from runbook.library.gpu.facts.smi_parser import read_apps, read_gpus, read_gpus_again
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script

__all__ = [
    "ComputeProcess",
    "Gpu",
    "GpuPresence",
    "SmiReading",
    "ask_apps",
    "ask_gpus",
    "ask_gpus_again",
    "ask_presence",
    "bus_id",
    "read_apps",
    "read_gpus",
    "read_gpus_again",
    "read_presence",
]

CORE = (
    "index", "uuid", "pci.bus_id", "name", "driver_version", "persistence_mode", "memory.used", "memory.total",
    "utilization.gpu", "temperature.gpu", "pstate", "compute_mode", "mig.mode.current", "ecc.mode.current",
)  # fmt: skip
"""Fields that every driver since R450 supports."""

OPTIONAL = ("gpu_recovery_action", "remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending")
"""Fields that only some drivers support; one unknown field makes nvidia-smi refuse the whole query."""

SMALL = ("index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total")
"""Fields for an nvidia-smi that refuses the core fields: a very old or a reduced one."""

APPS = ("gpu_uuid", "pid", "used_gpu_memory")
"""Columns of a process.  The name is left out, because a user may put commas and newlines into it and so
forge a row.
"""


VALID = 10.0
"""The seconds for which a plan may use the values of the GPUs; before a change they are read again."""


def ask_gpus(interval: float = 0.0, times: int = 1, *, apps: bool = False, groups: Sequence[str] = ()) -> Command:
    """One script with every question about the GPUs; with *interval* they are probed again so many *times*.

    *apps* also asks for the processes, in the same script, so that a driver that hangs is asked only once.
    *groups* are further fields, each group with commas between them.  All of them are in one query; where nvidia-smi
    refuses it, each group has its own.  ``NEW/OLD`` is a field with two names: OLD is asked for if NEW is refused.
    """
    full, core, small = (",".join(item) for item in ((*CORE, *OPTIONAL), CORE, SMALL))
    words = (full, core, small, f"{interval:g} {times}" if interval else "", ",".join(APPS) if apps else "")
    needs = interval * times
    return replace(read_script(_ASK_GPUS, *words, *groups), hangs=SMI, valid_for=VALID + needs, waits=needs)


def ask_gpus_again(reading: SmiReading, apart: float) -> Command:
    """Return the command that probes the GPUs of *reading* again, *apart* seconds after that or later."""
    words = (str(round(apart * 100)), str(reading.at) if reading.at else "")
    return replace(read_script(_ASK_AGAIN, *words), hangs=SMI, waits=apart)


def ask_apps() -> Command:
    """Return the command that asks nvidia-smi for its processes."""
    return replace(read_script(_ASK_APPS, ",".join(APPS)), hangs=SMI)


def ask_presence(root: str = "") -> Command:
    """Return the command that looks for evidence of a GPU without the driver's programs; *root* is the root of the file
    system.
    """
    return replace(read_script(_ASK_PRESENCE, root), valid_for=VALID)


_ASK_GPUS = SCRIPT_HEAD + script(__package__, "smi_query")

_ASK_AGAIN = SCRIPT_HEAD + script(__package__, "smi_again")

_ASK_APPS = (
    SCRIPT_HEAD
    + r"""
listed "$1"
exit 0
"""
)

_ASK_PRESENCE = script(__package__, "gpu_presence")


def read_presence(done: Completed) -> GpuPresence:
    """Return the evidence in *done*.  Raises ProbeError if the probe did not finish."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError("sysfs and /dev could not be inspected for NVIDIA GPUs")
    facts = [line.split() for line in done.stdout.splitlines() if line.strip()]
    minors = {
        bus_id(fact[1]): int(fact[2]) for fact in facts if fact[0] == "minor" and len(fact) == 3 and _is_minor(fact[2])
    }
    nodes = [_amd_node(fact[1:]) for fact in facts if fact[0] == "kfd"]
    return GpuPresence(
        pci=sum(fact[0] == "pci" for fact in facts),
        nodes=tuple(fact[1] for fact in facts if fact[0] == "node" and len(fact) == 2),
        tool=["tool"] in facts,
        minors={bus: minor for bus, minor in minors.items() if bus},
        probed=["probed"] in facts,
        on_bus=tuple(bus for fact in facts if fact[0] == "bus" and len(fact) == 2 and (bus := bus_id(fact[1]))),
        container=["container"] in facts,
        all_processes=["machine"] in facts,
        amd_nodes=tuple(node for node in nodes if node),
        hidden=facts.count(["hidden"]) + nodes.count(None),
        accelerators=tuple(bus for fact in facts if fact[0] == "accelerator" and (bus := bus_id(" ".join(fact[1:])))),
        renders=tuple(
            node_path(int(fact[1])) for fact in facts if fact[0] == "render" and _is_minor(" ".join(fact[1:]))
        ),
    )


def _amd_node(words: Sequence[str]) -> AmdNode | None:
    if len(words) != 4 or not _is_minor(words[1]) or not _GPU_ID.fullmatch(words[3]):
        return None
    card = int(words[2]) if _is_minor(words[2]) else None
    return AmdNode(bus_id=bus_id(words[0]), render=int(words[1]), card=card, gpu_id=int(words[3]))


_GPU_ID = re.compile("[0-9]{1,19}")


def _is_minor(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6
