"""The commands that reset a GPU, and what nvidia-smi says when it will not."""

from __future__ import annotations

import re
from dataclasses import replace

from engine.facts.gpu.model import Gpu, bus_ids
from engine.facts.gpu.smi_output import one_line
from engine.values.command import Command, Completed, write_script

TIMEOUT = 600.0
"""Seconds after which a reset is reported; it is never ended."""

_PATH = "PATH=$PATH:/usr/bin:/usr/local/nvidia/bin; LC_ALL=C; export PATH LC_ALL; "
_RESET = _PATH + 'exec nvidia-smi --gpu-reset -i "$1" </dev/null'
_PERSISTENCE = _PATH + 'exec nvidia-smi -i "$1" -pm "$2" </dev/null'

_USED = re.compile(r"\bin use by\b|\bbeing used by\b|\bused by (?:another|one or more|some)\b|currently in use", re.I)
_FORBIDDEN = re.compile(r"insufficient permissions|not permitted|permission denied|operation not permitted", re.I)
_UNSUPPORTED = re.compile(r"not supported|unsupported", re.I)
_LOST = re.compile(r"is lost|fallen off the bus", re.I)


def reset(gpus: tuple[Gpu, ...]) -> Command:
    """Reset *gpus* by one command; never ended half-way."""
    names = ",".join(map(_name, gpus))
    line = ("nvidia-smi", "--gpu-reset", "-i", names)
    return replace(write_script(_RESET, names), stands_for=line, timeout=TIMEOUT, unkillable=True)


def set_persistence(gpu: Gpu, *, on: bool) -> Command:
    """Switch persistence mode, which holds the GPU as a client does."""
    name, mode = _name(gpu), "1" if on else "0"
    return replace(write_script(_PERSISTENCE, name, mode), stands_for=("nvidia-smi", "-i", name, "-pm", mode))


def _name(gpu: Gpu) -> str:
    """What ``-i`` takes: never an index, which may belong to another GPU by then."""
    return gpu.uuid or gpu.bus_id.rjust(len("00000000:97:00.0"), "0")


def refusal(command: Command, completed: Completed) -> str:
    """Why nvidia-smi would not, in words; empty where it says nothing that we know."""
    said = one_line(f"{completed.stdout} {completed.stderr}")
    which = ", ".join(bus_ids(said)) or (command.argv[0] if command.argv else "the GPU")
    if completed.timed_out or completed.exit_code is None:
        return ""
    if completed.exit_code == 127:
        return "there is no nvidia-smi on this host"
    if _USED.search(said):
        return (
            f"nvidia-smi says that another client uses {which}: a process in another container or pid namespace, a "
            "daemon such as DCGM, nvidia-persistenced, a display server or the device plugin, or an application on a "
            "GPU that is linked to it; see who holds them with `fuser -v /dev/nvidia*` on the machine itself, and "
            f"`runbook run zombie-gpu --dry-run` (exit code {completed.exit_code})"
        )
    if completed.exit_code == 4 or _FORBIDDEN.search(said):
        said = said or f"exit code {completed.exit_code}"
        return f"not permitted here: {said} (in a container only the provider can: stop the pod and start it)"
    if _LOST.search(said):
        return f"{which} has fallen off the bus: only a reboot of the host brings it back"
    if _UNSUPPORTED.search(said):
        return f"a reset of {which} is not supported here: {said}"
    return ""
