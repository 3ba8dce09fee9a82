"""Lab hosts on which an idle process holds GPU 0 and has an owner: a job, a service, a container, a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from runbook.shell import program

OF_OWNERS: Mapping[str, str] = MappingProxyType(
    {
        "slurm_allocated": "An idle process holds GPU 0; its environment names a job that Slurm has running.",
        "slurm_adopted": "An idle process holds GPU 0, in the control group of a job that Slurm has running.",
        "slurm_ended": "An idle process holds GPU 0; its environment names a job that Slurm does not know any more.",
        "slurm_cancelled": "An idle process holds GPU 0; its environment names a job that Slurm has cancelled.",
        "slurm_silent": "An idle process holds GPU 0; its environment names a job, and Slurm does not answer.",
        "idle_service": "An idle server holds GPU 0: a process of an active systemd service.",
        "left_by_service": "An idle process holds GPU 0: a service that has failed has left it behind.",
        "idle_container": "An idle process holds GPU 0, in a container that runs.",
        "left_by_container": "An idle process holds GPU 0, in the control group of a container that has exited.",
        "strange_container": "An idle process holds GPU 0, in a container that no engine on the host knows.",
        "idle_pod": "An idle process holds GPU 0, in a pod of Kubernetes that runs.",
        "inside_container": "The host is a container itself, and an idle process in it holds GPU 0.",
        "terminal_job": "An idle process holds GPU 0, started from a terminal that is still open.",
        "notebook": "An idle kernel of a notebook server holds GPU 0.",
        "launched": "An idle rank holds GPU 0, and its launcher lives.",
        "idle_server": "An idle server, started by hand, holds GPU 0 and listens on port 8000.",
        "idle_engine": "An idle worker holds GPU 0; the server that has started it listens on port 8000.",
    }
)
"""Fault to sentence."""

FILES: Mapping[str, str] = MappingProxyType(
    {
        "owned-jobs": program(__package__, "owned_jobs"),
        "owners-tool": program(__package__, "owners_tool"),
    }
)
"""File to text: what a lab host with one of these faults is given."""


def files_for(faults: Iterable[str]) -> Mapping[str, str]:
    """Return the files, by name, for a lab host with *faults*; empty: it has none of these faults."""
    return FILES if OF_OWNERS.keys() & set(faults) else {}
