"""The container that is meant by a pod, as the API's Pod describes it (v1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""The annotation by which a pod names the container that kubectl takes."""

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
"""The resources by which a container asks for GPUs, and a node offers them."""


def containers_meant(pod: Mapping[Any, Any]) -> tuple[str, ...]:
    """Return the container that is meant by *pod*: its default one, the only one, or the only one with GPUs; else all.

    Empty if it has none.
    """
    rows = _rows(_mapping(pod.get("spec")).get("containers"))
    names = tuple(str(row.get("name", "")) for row in rows)
    preferred = _mapping(_mapping(pod.get("metadata")).get("annotations")).get(DEFAULT_CONTAINER)
    if preferred in names:
        return (str(preferred),)
    limits = (_mapping(_mapping(row.get("resources")).get("limits")) for row in rows)
    with_gpus = tuple(name for name, limit in zip(names, limits, strict=True) if any(map(limit.get, GPU_RESOURCES)))
    return with_gpus if len(with_gpus) == 1 else names


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
