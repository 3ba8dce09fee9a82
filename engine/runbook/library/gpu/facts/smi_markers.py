"""Words such as [N/A] in nvidia-smi's output: which are normal for a GPU's model or mode; every other one is a fault.

A GPU is idle, free or well only by numbers. Where a column that every healthy GPU fills holds a marker, that GPU is
not known to be well, whatever its other columns say. Sources: the man page of nvidia-smi ("[N/A]" is printed where a
product does not support a field), the MIG user guide (utilisation), the vGPU guide (guests see no sensors).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from runbook.library.gpu.facts.smi_output import marker

CORE_COLUMNS = ("uuid", "pci.bus_id", "name", "memory.used", "memory.total", "utilization.gpu", "temperature.gpu")
"""Columns that every healthy GPU fills, except for the models and modes below."""

_ABSENT = re.compile(r"\[?\s*(?:n/?a|not supported|not available)\s*\]?", re.IGNORECASE)
"""Matches the words for "this product has no such value"; `[Unknown Error]`, `ERR!` and an empty column do
not match.
"""

_FORBIDDEN = re.compile(r"\[?\s*insufficient permissions\s*\]?", re.IGNORECASE)
"""Matches the values of the whole GPU in a container that has only a MIG instance of it."""

_RESET = re.compile(r"requires reset", re.IGNORECASE)
"""Matches a marker that is reported in another way: see ``Gpu.requires_reset``."""

_SHARED_MEMORY = re.compile(r"\b(?:GB10|Orin|Xavier|Thor|Tegra|Jetson)\b", re.IGNORECASE)
"""Matches systems on a chip whose GPU has no memory of its own."""

_PROFILE = re.compile(r"-\d+(?:-\d+)?[ABCQ](?:\b|$)", re.IGNORECASE)
"""Matches the end of the name of a share of a GPU in a virtual machine: ``A100D-20C``, ``GRID T4-16Q``."""

_VGPU = re.compile(rf"\bvGPU\b|\bGRID\b|{_PROFILE.pattern}", re.IGNORECASE)

_OLD_GEFORCE = re.compile(
    r"GeForce (?:GT\b|GTS\b|GTX (?:[4-7]\d\d|TITAN(?: Z| Black)?(?! X))\b|\d{3}M?\b|[89]\d\d\dM?\b)"
    r"|\bNVS \d|\bQuadro (?:K?\d{3}\b|NVS)"
)
"""Matches consumer cards up to Kepler, about which the driver reports very little."""


def normally_unfilled(values: Mapping[str, str]) -> frozenset[str]:
    """Return the columns of one row in which ``[N/A]`` is normal for this model or mode."""
    name = values.get("name", "")
    found: set[str] = set()
    if values.get("mig.mode.current") == "Enabled":
        found |= {"utilization.gpu"}
        found |= {column for column in ("memory.used", "memory.total") if _FORBIDDEN.fullmatch(values.get(column, ""))}
    if _VGPU.search(name):
        found |= {"utilization.gpu", "temperature.gpu", "pci.bus_id"}
    if _SHARED_MEMORY.search(name):
        found |= {"memory.used", "memory.total", "temperature.gpu"}
    if _OLD_GEFORCE.search(name):
        found |= {"utilization.gpu"}
    if "nvgpu" in name:  # the GPU of a Jetson; `tegrastats` has its values
        found |= {"utilization.gpu", "pci.bus_id"}
    return frozenset(found)


def is_share(name: str) -> bool:
    """Whether *name* is the name of a share of a GPU in a virtual machine (vGPU)."""
    return bool(_PROFILE.search(name))


def lists_no_processes(name: str) -> bool:
    """Whether nvidia-smi normally prints `[Not Supported]` instead of the processes on a GPU model *name*."""
    return bool(_OLD_GEFORCE.search(name))


def says_nothing(line: str) -> bool:
    """Whether *line* contains only words for "this product has no such value"."""
    return all(_ABSENT.fullmatch(part) for part in line.split(", "))


def unfilled_columns(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the empty columns of one row that are always empty for this model or mode."""
    normal = normally_unfilled(values)
    return tuple(column for column in CORE_COLUMNS if column in normal and _untold(values.get(column, "-")))


def _untold(value: str) -> bool:
    return bool(_ABSENT.fullmatch(value) or _FORBIDDEN.fullmatch(value))


def faults(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the markers of one row that are not normal in their column, each with its column."""
    normal = normally_unfilled(values)
    found = []
    for column, value in values.items():
        if not marker(value) or _RESET.search(value):
            continue
        absent = bool(_ABSENT.fullmatch(value))
        if column in CORE_COLUMNS:
            usual = column in normal and _untold(value)
        else:
            usual = absent or not value or "deprecated" in value.lower() or "not found" in value.lower()
            usual |= values.get("mig.mode.current") == "Enabled" and bool(_FORBIDDEN.fullmatch(value))
        if not usual:
            found.append(f"{column}: {value or 'empty'}")
    return tuple(found)
