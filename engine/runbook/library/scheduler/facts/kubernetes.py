"""Read what Kubernetes says of a node, by kubectl."""

from __future__ import annotations

import json

from runbook.errors import ProbeError
from runbook.library.scheduler.facts.model import Node
from runbook.values.types import Unknown

MARK = "runbook/drained"
"""The annotation in which we leave our reason: a cordon has none of its own."""

_STAYS = ("DaemonSet", "Node")
"""Owners of pods that a drain leaves where they are: those of a DaemonSet, and static ones."""


def read_node(text: str, jobs: tuple[str, ...] | Unknown, asked_at: str) -> Node:
    """The node in kubectl's JSON.  Raises ProbeError where it is none."""
    try:
        tree = json.loads(text)
        meta, spec = tree["metadata"], tree.get("spec") or {}
        if tree["kind"] != "Node":
            raise ValueError(tree["kind"])
        notes = meta.get("annotations") or {}
        labels = meta.get("labels") or {}
        conditions = {each["type"]: each for each in (tree.get("status") or {}).get("conditions") or ()}
        name = str(meta["name"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ProbeError(f"kubectl's answer is no node: {text[:120]!r}") from error
    ready = str((conditions.get("Ready") or {}).get("status", "Unknown"))
    drained = spec.get("unschedulable") is True
    return Node(
        kind="kubernetes",
        name=name,
        asked_at=asked_at,
        state=("Ready" if ready == "True" else "NotReady") + (",SchedulingDisabled" if drained else ""),
        drained=drained,
        reason=str(notes.get(MARK, "")),
        responds=ready == "True",
        host_name=str(labels.get("kubernetes.io/hostname", "")),
        jobs=jobs,
    )


def read_pods(lines: list[str], failed: str) -> tuple[str, ...] | Unknown:
    """The pods in lines ``NAMESPACE NAME OWNER PHASE`` that a drain would move."""
    if failed:
        return Unknown(why=f"the pods cannot be listed: {failed}")
    rows = [line.split() for line in lines if line.strip()]
    if any(len(row) != 4 for row in rows):
        return Unknown(why="kubectl's list of pods is not as it was asked for")
    return tuple(
        f"pod {space}/{name} ({phase})"
        for space, name, owner, phase in rows
        if owner not in _STAYS and phase not in ("Succeeded", "Failed")
    )
