"""The part of a watcher that its HTTP side sees."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Protocol

from runbook.commands.watch.known import Known
from runbook.commands.watch.watcher import Health, Heard
from runbook.watch.alerts import Payload


class Desk(Protocol):
    """The watcher, as the HTTP side needs it; every method may be called from any thread."""

    @property
    def lock(self) -> RLock:
        """The lock that is held whenever ``known`` or its store is used."""
        ...

    @property
    def known(self) -> Known:
        """The rules, and what is known of their hosts."""
        ...

    @property
    def hosts(self) -> Mapping[str, tuple[str, ...]]:
        """The hosts of each rule, by its name."""
        ...

    def heard(self, payload: Payload) -> Heard:
        """Store the alerts of *payload* within milliseconds; they are decided about later.  Raises StoreError."""
        ...

    def health(self) -> Health:
        """Return whether the watcher is at work, without waiting for ``lock``."""
        ...

    def stop(self, digest: str, by: str) -> bool:
        """Interrupt the run of the plan *digest* for *by*; returns whether there is one that can be interrupted."""
        ...

    def wake(self) -> None:
        """Begin the next cycle now: something was appended."""
        ...

    def is_closing(self) -> bool:
        """Whether the watcher is about to end, so that streams must end too."""
        ...
