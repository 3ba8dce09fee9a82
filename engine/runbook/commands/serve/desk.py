"""The part of a watcher that its HTTP side sees."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Protocol

from runbook.commands.watch.known import Known
from runbook.dataclass import dataclass
from runbook.watch.alerts import Payload


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """The number of alerts of one payload that led to something, and of those that did not."""

    taken: int = 0
    """Alerts that were stored for a rule and a host."""
    unlistened: int = 0
    """Alerts to which no rule listens."""
    unknown_hosts: int = 0
    """Alerts that a rule listens to, about a host that it may not touch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the watcher is at work."""

    is_well: bool
    why: str = ""
    """The reason why it is not; anybody may read it, so that it names no host and no file."""
    cycle_age: float = 0.0
    """Seconds since the last cycle ended."""


class Desk(Protocol):
    """The watcher, as the HTTP side needs it; every method may be called from any thread."""

    @property
    def lock(self) -> RLock:
        """The lock that is held whenever ``known`` or its store is used."""
        ...

    @property
    def known(self) -> Known:
        """The rules, and what is known of their hosts.

        The HTTP side calls ``catch_up``, which hands each event out once: the cycle needs a memory of its own.
        """
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

    def wake(self) -> None:
        """Begin the next cycle now: something was appended."""
        ...

    def is_closing(self) -> bool:
        """Whether the watcher is about to end, so that streams must end too."""
        ...
