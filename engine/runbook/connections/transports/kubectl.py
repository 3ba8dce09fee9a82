"""Run commands in a container of a pod, by ``kubectl exec``, with the same sessions as over SSH."""

from __future__ import annotations

from typing import Any

from runbook.connections.containers import NotRunning, another, connected, context_words, locked
from runbook.protocols import Connection, ConnectOptions, Interrupt
from runbook.values.inventory import Container, Host
from runbook.values.pods import containers_meant

__all__ = ["connect", "locked"]


class _Kubectl:
    """The kubectl command for one container of a pod."""

    def __init__(self, container: Container) -> None:
        self._container = container
        namespace = ("--namespace", container.namespace) if container.namespace else ()
        self._program = ("kubectl", *context_words("--context", container), *namespace)

    def inspect(self) -> tuple[str, ...]:
        """See ``runbook.connections.containers.Engine``."""
        return (*self._program, "get", "pod", "--output", "json", "--", self._container.pod)

    def entered(self, document: Any) -> tuple[str, ...]:
        """Return ``kubectl exec`` for the pod's container, which is named: kubectl would take one of several."""
        pod = self._container.pod
        try:
            meta, status = document["metadata"], document.get("status") or {}
            identity = str(meta.get("uid", ""))
            names = [str(each["name"]) for each in document["spec"]["containers"]]
            phase, going = str(status.get("phase", "")), bool(meta.get("deletionTimestamp"))
            states = {str(each["name"]): each.get("state") or {} for each in status.get("containerStatuses") or ()}
        except (TypeError, KeyError, AttributeError) as error:
            raise NotRunning("kubectl printed no pod") from error
        if self._container.id not in ("", identity):
            raise NotRunning(another(f"pod {pod}", identity, self._container))
        if going or phase != "Running":
            raise NotRunning(f"the pod {pod} does not run: it is {'being deleted' if going else phase or 'unknown'}")
        meant = (self._container.name,) if self._container.name else containers_meant(document)
        name = meant[0] if len(meant) == 1 else ""
        if name not in names:
            which = f"no container {name}" if name else "several containers: name one with `container:`"
            raise NotRunning(f"the pod {pod} has {which}; there are: {', '.join(names)}")
        if "running" not in states.get(name, {}):
            raise NotRunning(f"the container {name} of the pod {pod} does not run")
        return (*self._program, "exec", "-i", pod, "--container", name, "--")


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """Return a connection to the container *host*; see ``connected``."""
    assert host.container
    return connected(host, _Kubectl(host.container), options, interrupt)
