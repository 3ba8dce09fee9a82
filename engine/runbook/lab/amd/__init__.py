"""Lab hosts with two GPUs of AMD, and none of NVIDIA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from runbook.shell import program

OF_AMD: Mapping[str, str] = MappingProxyType(
    {
        "amd_idle": "Two idle GPUs of AMD.",
        "amd_leftovers": "Two GPUs of AMD: an idle process of a dead job holds GPU 0, and a job is at work on GPU 1.",
        "amd_smi_hangs": "Two GPUs of AMD: amd-smi never answers, and an idle process of a dead job holds GPU 0.",
        "amd_errors": "Two GPUs of AMD: the memory of GPU 1 has had errors that could not be corrected.",
    }
)
"""Fault to sentence."""

LABEL = "2x MI300X (lab)"
"""The GPUs of such a host in the inventory."""

FILES: Mapping[str, str] = MappingProxyType(
    {
        "amd-devices": program(__package__, "amd_devices"),
        "amd-jobs": program(__package__, "amd_jobs"),
        "amd-smi": program(__package__, "amd_smi"),
    }
)
"""File to text: what such a host is given."""


def is_amd(faults: Iterable[str]) -> bool:
    """Whether a host with *faults* has GPUs of AMD."""
    return bool(OF_AMD.keys() & set(faults))


def files_for(faults: Iterable[str]) -> Mapping[str, str]:
    """Return the files, by name, for a lab host with *faults*; empty: it has no GPU of AMD."""
    return FILES if is_amd(faults) else {}
