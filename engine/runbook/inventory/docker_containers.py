"""Read the containers of an engine from ``docker ps`` or ``podman ps`` with ``--format json``, or ``docker inspect``.

A container becomes a host of the transport docker.  Docker prints a JSON object a line, podman and ``inspect`` a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.inventory.fields import Notes, Path
from runbook.inventory.hosts import hosts_at, inventory_of
from runbook.inventory.json_text import json_in
from runbook.inventory.text_formats import TextDocument
from runbook.protocols import Place
from runbook.values.inventory import Host, Inventory

CONTAINERS, CONTEXT, ENGINE = "docker_containers", "context", "engine"
"""The keys of the tree: the rows, the engine's context (empty: the default), and its program (empty: by the rows)."""

READS_JSON = True

GROUPS = ("com.docker.compose.project", "com.docker.compose.service")
"""The labels whose values become groups."""


def recognises(document: object) -> bool:
    """Whether *document* is the tree of ``parse_text``, or one container as docker prints it."""
    return isinstance(document, Mapping) and (CONTAINERS in document or _is_row(document))


def parse_text(text: str, file: str) -> TextDocument | None:
    """Return the containers in *text* as a tree; None if it is something else."""
    document = json_in(text)
    if isinstance(document, Mapping) and CONTAINERS in document:
        return TextDocument(file=file, value=document, places={})
    rows = document if isinstance(document, list) else [document]
    if not rows or not all(map(_is_row, rows)):
        return None
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    by_line = len(lines) == len(rows)
    places: dict[Path, tuple[int, int]] = {(CONTAINERS, at): (lines[at], 1) for at in range(len(rows)) if by_line}
    return TextDocument(file=file, value={CONTAINERS: rows}, places=places)


def _is_row(row: object) -> bool:
    if not isinstance(row, Mapping):
        return False
    return {"ID", "Names", "Image"} <= row.keys() or (
        {"Id", "Image"} <= row.keys() and bool({"Names", "Name"} & row.keys())
    )


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the containers in *document* as hosts.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    tree: Mapping[Any, Any] = document if isinstance(document, Mapping) else {}
    rows = tree.get(CONTAINERS, [tree])
    if not isinstance(rows, list) or not rows:
        notes.add((CONTAINERS,), "the engine lists no container")
        rows = []
    hosts: list[Host] = []
    for number, row in enumerate(rows):
        name = _name(row) if _is_row(row) else ""
        if not name:
            notes.add((CONTAINERS, number), f"{CONTAINERS}.{number}: expected a container with a name")
            continue
        fields = _fields(name, row, str(tree.get(CONTEXT) or ""), str(tree.get(ENGINE) or ""))
        if ENGINE in tree:  # the engine has just said it; a list in a file may be older than the container of this name
            fields["container_id"] = str(row.get("ID", row.get("Id")))
        hosts += hosts_at(name, fields, (CONTAINERS, number), notes)
    return inventory_of(hosts, {}, notes)


def _name(row: Mapping[str, Any]) -> str:
    """Return the container's own name; docker also lists the names by which others link to it (``web/db``)."""
    names = row.get("Names", row.get("Name"))
    every = names if isinstance(names, list) else str(names or "").split(",")
    own = [str(name).removeprefix("/") for name in every]
    return next((name for name in own if name and "/" not in name), "")


def _fields(name: str, row: Mapping[str, Any], context: str, engine: str) -> dict[str, object]:
    labels = _labels(row)
    fields: dict[str, object] = {
        "transport": "docker",
        "container": name,
        "container_engine": engine or ("podman" if _is_podmans(row) else "docker"),
        "context": context,
        "status": _status(row),
        "group_names": [labels[key] for key in GROUPS if labels.get(key)],
        "is_container": True,
    }
    gpus = _gpus(row)
    return {**fields, "gpu": gpus} if gpus else fields


def _is_podmans(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("Names"), list) or not str(row.get("Name", "/")).startswith("/")


def _status(row: Mapping[str, Any]) -> str:
    """Return ``ready`` if the container runs, otherwise the engine's word for its state; unknown if there is none."""
    state = row.get("State")
    word = state.get("Status") if isinstance(state, Mapping) else state
    text = str(word or "").lower() or ("running" if str(row.get("Status", "")).startswith("Up ") else "unknown")
    return "ready" if text == "running" else text


def _labels(row: Mapping[str, Any]) -> Mapping[str, str]:
    config = row.get("Config")
    labels = config.get("Labels") if isinstance(config, Mapping) else row.get("Labels")
    if isinstance(labels, Mapping):
        return {str(key): str(value) for key, value in labels.items()}
    pairs = (part.partition("=") for part in str(labels or "").split(","))
    return {key: value for key, sign, value in pairs if sign}


def _gpus(row: Mapping[str, Any]) -> str:
    """Return the label of the GPUs that the container was given; empty if the row does not say it."""
    settings = row.get("HostConfig")
    if not isinstance(settings, Mapping) or "DeviceRequests" not in settings:
        return ""
    requests = [each for each in settings["DeviceRequests"] or () if isinstance(each, Mapping)]
    wanted = [each for each in requests if "gpu" in str(each.get("Capabilities"))]
    counts = [len(each.get("DeviceIDs") or ()) or each.get("Count") for each in wanted]
    return ", ".join("GPU" if count == -1 else f"{count}x GPU" for count in counts) or "none"
