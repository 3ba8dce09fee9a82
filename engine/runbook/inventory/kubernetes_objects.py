"""Read nodes and pods of a Kubernetes cluster from ``kubectl get nodes`` or ``kubectl get pods``, with ``-o json``.

A node becomes an SSH host, a pod a host of the transport kubectl.  The fields are those of the API's Node and Pod, v1
(kubernetes.io/docs/reference/kubernetes-api).  Only what lasts becomes a field: a heartbeat changes no host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from runbook.inventory.fields import Notes, Path
from runbook.inventory.hosts import hosts_at, inventory_of
from runbook.inventory.json_text import json_in
from runbook.inventory.text_formats import TextDocument
from runbook.protocols import Place
from runbook.values.inventory import Host, Inventory
from runbook.values.pods import DEFAULT_CONTAINER, GPU_RESOURCES, containers_meant

OBJECTS, CONTEXT = "kubernetes_objects", "context"
"""The keys of the tree: the objects, and the context of kubectl that lists them (empty: its default)."""

READS_JSON = True

REGION = "topology.kubernetes.io/region"
ROLE = "node-role.kubernetes.io/"
GPU_MODELS = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "cloud.google.com/gke-accelerator")
"""The labels with a node's GPU model, as the vendors' feature discovery and GKE set them."""

ADDRESSES = ("InternalIP", "Hostname", "ExternalIP")
"""The types of a node's addresses, in order of preference."""

POD_GROUPS = ("app", "app.kubernetes.io/name", "app.kubernetes.io/instance", "job-name", "batch.kubernetes.io/job-name")
"""The labels of a pod whose values become groups."""


def recognises(document: object) -> bool:
    """Whether *document* is the tree of ``parse_text``, or nodes and pods as kubectl prints them in YAML."""
    return isinstance(document, Mapping) and (OBJECTS in document or _is_of_api(document))


def parse_text(text: str, file: str) -> TextDocument | None:
    """Return the objects in *text*, the output of kubectl in JSON, as a tree; None if it is something else."""
    document = json_in(text)
    if not isinstance(document, Mapping) or not recognises(document):
        return None
    return TextDocument(file=file, value=document if OBJECTS in document else tree_of(document), places={})


def _is_of_api(document: Mapping[object, object]) -> bool:
    return "apiVersion" in document and "kind" in document and ("items" in document or "metadata" in document)


def tree_of(document: Mapping[Any, Any], context: str = "", *, with_ids: bool = False) -> Mapping[str, Any]:
    """Return what hosts are made of in *document*, an object or a list of the API, as *context* of kubectl lists it.

    *with_ids*: the hosts are these pods alone, and no later ones of their names; a list in a file may be old.
    """
    items = document.get("items", [document])
    kind = str(document.get("kind", "")).removesuffix("List")
    keys = ("name", "namespace", "labels", "deletionTimestamp", *(("uid",) if with_ids else ()))
    found = [_lasting(item, kind, keys) for item in items] if isinstance(items, list) else items
    return {OBJECTS: found, CONTEXT: context}


def _lasting(item: Any, kind: str, keys: tuple[str, ...]) -> Any:
    """Return *item* without what changes although the host stays the same; anything else than an object as it is.

    *keys*: what is kept of its metadata.
    """
    if not isinstance(item, Mapping):
        return item
    meta, spec, status = (_mapping(item.get(key)) for key in ("metadata", "spec", "status"))
    kept = {key: meta[key] for key in keys if key in meta}
    preferred = _mapping(meta.get("annotations")).get(DEFAULT_CONTAINER)
    return {
        "kind": item.get("kind", kind),
        "metadata": {**kept, **({"annotations": {DEFAULT_CONTAINER: preferred}} if preferred else {})},
        "spec": {key: spec[key] for key in ("unschedulable", "providerID", "nodeName", "containers") if key in spec},
        "status": {
            key: status[key]
            for key in ("addresses", "capacity", "conditions", "phase", "containerStatuses")
            if key in status
        },
    }


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the nodes and pods in *document* as hosts.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    tree = document if isinstance(document, Mapping) else {}
    tree = tree if OBJECTS in tree else tree_of(tree)
    items = tree[OBJECTS]
    if not isinstance(items, list) or not items:
        notes.add((OBJECTS,), "kubectl lists no node and no pod")
        items = []
    names = Counter(_name(item) for item in items if _kind(item) == "Pod")
    hosts: list[Host] = []
    for number, item in enumerate(items):
        path: Path = ("items", number)
        match _kind(item):
            case "Node" if _name(item):
                hosts += hosts_at(_name(item), _node(item), (*path, _name(item)), notes)
            case "Pod" if _name(item):
                for name, fields in _pod(item, str(tree.get(CONTEXT) or ""), alone=names[_name(item)] == 1):
                    hosts += hosts_at(name, fields, (*path, name), notes)
            case "Node" | "Pod" as kind:
                notes.add(path, f"items.{number}: a {kind} without a name")
            case kind:
                notes.add(path, f"items.{number}: expected a Node or a Pod, not {kind or 'something without a kind'}")
    return inventory_of(hosts, {}, notes)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _kind(item: object) -> str:
    return str(_mapping(item).get("kind") or "")[:60]


def _name(item: object) -> str:
    name = _mapping(_mapping(item).get("metadata")).get("name")
    return name if isinstance(name, str) else ""


def _labels(item: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(_mapping(item.get("metadata")).get("labels"))


def _node(item: Mapping[str, Any]) -> dict[str, object]:
    spec, status, labels = _mapping(item.get("spec")), _mapping(item.get("status")), _labels(item)
    addresses = {str(row.get("type")): row.get("address") for row in reversed(_rows(status.get("addresses")))}
    provider = str(spec.get("providerID") or "").partition(":")[0]
    return {
        "ssh_host": next((addresses[kind] for kind in ADDRESSES if addresses.get(kind)), ""),
        "status": _node_status(spec, status),
        "gpu": _gpus(_mapping(status.get("capacity")), labels),
        "region": labels.get(REGION),
        "provider": provider or None,
        "role": [key.removeprefix(ROLE) for key in labels if str(key).startswith(ROLE)],
    }


def _node_status(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return ``ready``, or why the scheduler gives the node no pods; a node without a word on it is unknown."""
    ready = next((row.get("status") for row in _rows(status.get("conditions")) if row.get("type") == "Ready"), None)
    if ready != "True":
        return {"False": "not_ready", "Unknown": "not_responding"}.get(str(ready), "unknown")
    return "cordoned" if spec.get("unschedulable") else "ready"


def _gpus(capacity: Mapping[str, Any], labels: Mapping[str, Any]) -> str:
    """Return the label of the GPUs, such as ``8x NVIDIA-H100``; ``none`` if the node offers none."""
    model = next((str(labels[key]) for key in GPU_MODELS if labels.get(key)), "GPU")
    counts = [str(capacity[key]) for key in GPU_RESOURCES if str(capacity.get(key, "0")) != "0"]
    return ", ".join(f"{count}x {model}" for count in counts) or "none"


def _pod(item: Mapping[str, Any], context: str, *, alone: bool) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the host of a pod: of its default container, or of each one if none is.  *alone*: no other pod is called
    like it.
    """
    spec, meta = _mapping(item.get("spec")), _mapping(item.get("metadata"))
    namespace = str(meta.get("namespace") or "")
    name = _name(item) if alone or not namespace else f"{_name(item)}.{namespace}"
    labels = _labels(item)
    chosen = containers_meant(item) or ("",)
    for container in chosen:
        yield (
            name if len(chosen) == 1 else f"{name}.{container}",
            {
                "transport": "kubectl",
                "pod": _name(item),
                "namespace": namespace,
                "container": container,
                "container_id": str(meta.get("uid") or ""),
                "context": context,
                "status": _pod_status(item, container),
                "node": spec.get("nodeName"),
                "group_names": [namespace, *(str(labels[key]) for key in POD_GROUPS if labels.get(key))],
                "is_container": True,
            },
        )


def _pod_status(item: Mapping[str, Any], container: str) -> str:
    """Return ``ready`` if *container* runs, or the reason why it does not, as kubectl's STATUS has it."""
    status = _mapping(item.get("status"))
    if _mapping(item.get("metadata")).get("deletionTimestamp"):
        return "terminating"
    states = {row.get("name"): _mapping(row.get("state")) for row in _rows(status.get("containerStatuses"))}
    for state in ("waiting", "terminated"):
        if state in states.get(container, {}):
            return str(_mapping(states[container][state]).get("reason") or state)
    phase = str(status.get("phase") or "unknown")
    if phase != "Running":
        return phase
    return "ready" if "running" in states.get(container, {}) else "unknown"
