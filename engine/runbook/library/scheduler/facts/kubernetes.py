"""Read the state of a node from Kubernetes, with kubectl."""

from __future__ import annotations

import json

from runbook.errors import ProbeError
from runbook.library.scheduler.facts.model import Node
from runbook.values.types import Unknown

MARK = "runbook/drained"
"""The annotation that holds our reason for a drain, because a cordon has no reason of its own."""

_STAYS = ("DaemonSet", "Node")
"""The owners of pods that a drain does not move: DaemonSet, and Node for static pods."""


def read_node(text: str, jobs: tuple[str, ...] | Unknown, asked_at: str) -> Node:
    """Return the node in *text*, the JSON from kubectl.  Raises ProbeError if there is none."""
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
    """Return the pods that a drain would move; each line is ``NAMESPACE NAME OWNER PHASE``."""
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
