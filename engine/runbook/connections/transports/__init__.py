"""The transports: one file each; the name of the file is the value of ``transport`` in an inventory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pkgutil import iter_modules
from typing import Any, TypeVar, cast

from runbook.connections.sessions.channel import Opener
from runbook.errors import Unreachable
from runbook.extensions import TRANSPORTS, with_extensions
from runbook.extensions import load as load_module
from runbook.protocols import Closing, ConnectOptions, Interrupt, Transport
from runbook.values.inventory import Host

C = TypeVar("C", bound=Closing)


class SharedConnections:
    """Objects that the hosts of a run share, such as the connections to gateways; each is made when it is first needed.

    Safe for threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[object, Any] = {}

    def of(self, kind: Callable[[], C]) -> C:
        """Return the object that the first call of *kind* has made."""
        with self._lock:
            if kind not in self._made:
                self._made[kind] = kind()
            return cast(C, self._made[kind])

    def close(self) -> None:
        """Close all connections, and open no new ones.  Never raises."""
        with self._lock:
            made = list(self._made.values())
        for each in made:
            each.close()


def names() -> tuple[str, ...]:
    """Return the names of all transports.  Raises ConfigError if two packages have a transport of the same name."""
    return tuple(_modules())


def _modules() -> Mapping[str, str]:
    return with_extensions(TRANSPORTS, {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)})


def load(name: str) -> Transport:
    """Return the transport called *name*, which must be one of ``names``."""
    return cast(Transport, load_module(TRANSPORTS, name, _modules()[name]))


def locked(name: str, hosts: Sequence[Host]) -> tuple[str, ...]:
    """Return the private key files of *hosts* that need a passphrase; none if the transport has no such keys."""
    find = getattr(load(name), "locked", None)
    return tuple(find(hosts)) if find else ()


def opener(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Opener:
    """Return an open connection to the machine *host* that starts shells.

    Raises Unreachable, also if the transport of *host* is a way into something else than a machine.
    """
    open_ = getattr(load(host.transport), "opener", None)
    if not open_:
        raise Unreachable(f"the transport {host.transport} leads to no machine")
    return cast(Opener, open_(host, options, interrupt))
