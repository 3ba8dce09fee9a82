"""Read the state of a node from Slurm: one line of ``scontrol -o show node``, and its jobs from squeue."""

from __future__ import annotations

import re

from runbook.errors import ProbeError
from runbook.library.scheduler.facts.model import Node
from runbook.values.types import Unknown

_REASON = re.compile(r"\bReason=(.*) \[([^\s\[\]@]+)@([^\]\s]+)\]", re.DOTALL)
_BARE_REASON = re.compile(r"\bReason=(.*)", re.DOTALL)
_STATE = re.compile(r"(?:^|\s)State=(\S+)")
_FIELD = "(?:^|\\s){}=(\\S+)"

_SIGNS = {
    "*": "NOT_RESPONDING", "~": "POWERED_DOWN", "#": "POWERING_UP", "!": "POWER_DOWN", "%": "POWERING_DOWN",
    "$": "MAINT", "@": "REBOOT_REQUESTED", "^": "REBOOT_ISSUED", "-": "PLANNED", "+": "",
}  # fmt: skip
"""The meaning of a sign after a state; Slurm before 21.08 prints these signs in scontrol, too (``DOWN*+DRAIN``)."""

_BASES = {"ALLOCATED", "DOWN", "ERROR", "FUTURE", "IDLE", "MIXED", "UNKNOWN"}
_AT_WORK = {"ALLOCATED", "ALLOC", "MIXED", "COMPLETING"}
_SILENT = {"NOT_RESPONDING", "NO_RESPOND"}
_OBSTACLES = {
    "POWERED_DOWN": "it is powered down by Slurm",
    "POWERING_DOWN": "Slurm is powering it down",
    "POWER_DOWN": "Slurm is about to power it down",
    "POWERING_UP": "Slurm is powering it up",
    "POWER_UP": "Slurm is powering it up",
    "POWER": "it is powered down by Slurm",
    "REBOOT_ISSUED": "Slurm is rebooting it",
    "REBOOT_REQUESTED": "a reboot by Slurm is requested",
    "REBOOT": "a reboot by Slurm is requested",
    "FAIL": "Slurm marks it as failing",
    "FAILING": "Slurm marks it as failing",
    "INVALID_REG": "it has registered with a configuration that is not slurm.conf's",
    "FUTURE": "it is not in service yet",
    "ERROR": "Slurm reports an error",
}  # fmt: skip


def read_node(line: str, jobs: tuple[str, ...] | Unknown, asked_at: str) -> Node:
    """Return the node in *line*.  Raises ProbeError if there is no node, or its state is not known."""
    before, found, _ = line.partition(" Reason=")
    state = _STATE.search(before)
    name = re.search(_FIELD.format("NodeName"), before)
    if not state or not name:
        raise ProbeError(f"scontrol's answer names no node with a state: {line[:120]!r}")
    words = _state_words(state[1])
    base = next((word for word in words if word in _BASES), "")
    if not base or base == "UNKNOWN":
        raise ProbeError(f"Slurm does not know the state of {name[1]}: {state[1]}")
    reason, by, since = _reason(f"Reason={line.partition(' Reason=')[2]}" if found else "")
    if not isinstance(jobs, Unknown) and not jobs and words & _AT_WORK:
        jobs = (f"not listed, but Slurm's state is {state[1]}",)
    host = re.search(_FIELD.format("NodeHostName"), before)
    return Node(
        kind="slurm",
        name=name[1],
        asked_at=asked_at,
        state=state[1],
        drained=bool(words & {"DRAIN", "DRAINED", "DRAINING"}),
        down=base == "DOWN",
        reason=reason,
        by=by,
        since=since,
        responds=not words & _SILENT,
        obstacle=next((_OBSTACLES[word] for word in sorted(words) if word in _OBSTACLES), ""),
        host_name=host[1] if host else "",
        jobs=jobs,
    )


def read_jobs(lines: list[str], failed: str) -> tuple[str, ...] | Unknown:
    """Return the jobs in *lines* (``ID STATE USER``); unknown if squeue failed (*failed* is its message)."""
    if failed:
        return Unknown(why=f"the jobs cannot be listed: {failed}")
    rows = [line.split() for line in lines if line.strip()]
    if any(len(row) != 3 for row in rows):
        return Unknown(why="squeue's answer is not as it was asked for")
    return tuple(f"job {number} of {user} ({state})" for number, state, user in rows)


def _state_words(state: str) -> frozenset[str]:
    """Return the base state and the flags of *state*, such as ``IDLE+DRAIN``, ``DOWN*+DRAIN`` or ``mixed#``."""
    found = set()
    for part in state.upper().split("+"):
        word = part.rstrip("".join(_SIGNS))
        found |= {word, *(_SIGNS[sign] for sign in part[len(word) :])}
    found |= {"IDLE"} if found & {"DRAINED"} else {"ALLOCATED"} if found & {"DRAINING"} else set()
    found |= {"ALLOCATED"} if "ALLOC" in found else {"MIXED"} if "MIX" in found else set()
    return frozenset(found - {""})


def _reason(text: str) -> tuple[str, str, str]:
    """Return the reason, its user, and its time."""
    if found := _REASON.match(text):
        return " ".join(found[1].split("\n")).strip(), found[2], found[3]
    bare = _BARE_REASON.match(text)
    return (" ".join(bare[1].split()), "", "") if bare else ("", "", "")
