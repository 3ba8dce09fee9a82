"""Ask which scheduler a host has, and what state the host has in it; nothing is changed."""

from __future__ import annotations

import re
from dataclasses import replace

from runbook.errors import ProbeError
from runbook.library.scheduler.facts import kubernetes, slurm
from runbook.library.scheduler.facts.model import Node
from runbook.shell import PLACES, SAFE, script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

KINDS = ("auto", "slurm", "kubernetes", "none")
NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
"""Matches the name of a node."""

PROGRAMS = script(__package__, "programs")
"""Functions that ask the programs of a scheduler, and say why one gave no answer."""

_QUERY = SAFE + PLACES + PROGRAMS + script(__package__, "query")


def ask_node(kind: str = "auto", node: str = "") -> Command:
    """Return the command that reads the scheduler, the node and its jobs; *node* empty: the machine on which
    it runs.
    """
    return replace(read_script(_QUERY, kind, node), timeout=75.0)


def read_node(done: Completed) -> Node | Unknown:
    """Return the state of the host in *done*; unknown if the scheduler gave no answer that can be trusted."""
    if done.timed_out:
        return Unknown(why="the scheduler gave no answer in time")
    said = _sections(done.stdout)
    if done.exit_code != 0 or "asked" not in said:
        words = done.stderr.strip().splitlines()
        return Unknown(why=words[-1] if words else "the scheduler could not be asked")
    if wrong := said.get("unknown"):
        return Unknown(why=wrong[0])
    asked_at, jobs, failed = said["asked"][0], said.get("job", []), " ".join(said.get("jobs-failed", []))
    try:
        match said.get("kind", [""])[0]:
            case "slurm":
                return slurm.read_node("\n".join(said.get("node", [])), slurm.read_jobs(jobs, failed), asked_at)
            case "kubernetes":
                pods = kubernetes.read_pods(jobs, failed)
                return kubernetes.read_node("\n".join(said.get("node", [])), pods, asked_at)
            case "none":
                return _plain(said, asked_at)
    except ProbeError as error:
        return Unknown(why=str(error))
    return Unknown(why="the answer names no scheduler")


def _plain(said: dict[str, list[str]], asked_at: str) -> Node:
    """Return the state of a host without a scheduler, according to runbook's own mark on the host."""
    reason, by, since = (*said.get("mark", []), "", "", "")[:3]
    return Node(
        kind="none", name=asked_at, asked_at=asked_at, drained="mark" in said, reason=reason, by=by, since=since,
        jobs_known=False,
    )  # fmt: skip


def _sections(text: str) -> dict[str, list[str]]:
    """Return the lines of *text*, ``KIND REST``, by their kind."""
    found: dict[str, list[str]] = {}
    for line in text.split("\n"):
        kind, gap, rest = line.partition(" ")
        if gap:
            found.setdefault(kind, []).append(rest)
    return found
