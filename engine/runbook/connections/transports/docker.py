"""Run commands in a container, by ``docker exec`` or ``podman exec``, with the same sessions as over SSH."""

from __future__ import annotations

from typing import Any

from runbook.connections.containers import NotRunning, another, connected, context_words, locked
from runbook.protocols import Connection, ConnectOptions, Interrupt
from runbook.values.inventory import Container, Host

__all__ = ["connect", "locked"]

CONTEXT = {"docker": "--context", "podman": "--connection"}
"""The option by which each program chooses its engine."""


class _Docker:
    """The docker or podman command for one container."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self._program = (container.engine, *context_words(CONTEXT[container.engine], container))

    def inspect(self) -> tuple[str, ...]:
        """See ``runbook.connections.containers.Engine``."""
        return (*self._program, "container", "inspect", "--", self._container.name)

    def entered(self, document: Any) -> tuple[str, ...]:
        """Return ``docker exec`` with the container's id: its name may be given to another one."""
        try:
            (found,) = document
            identity, state = str(found["Id"]), found["State"]
            running, paused, status = bool(state["Running"]), bool(state.get("Paused")), str(state.get("Status", ""))
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise NotRunning(f"{self._program[0]} printed no state of the container") from error
        if not identity.startswith(self._container.id):
            raise NotRunning(another(f"container {self._container.name}", identity, self._container))
        if not running or paused:
            raise NotRunning(f"the container {self._container.name} does not run: it is {status or 'not running'}")
        user = ("--user", self._container.user) if self._container.user else ()
        return (*self._program, "exec", "-i", *user, identity)


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """Return a connection to the container *host*; see ``connected``."""
    assert host.container
    return connected(host, _Docker(host.container), options, interrupt)
