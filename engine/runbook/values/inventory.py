"""Hosts, their addresses and groups, and the selection of hosts for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runbook.values.playbook import SecretReference, Where
from runbook.values.types import Json


class HostKeys(StrEnum):
    """The treatment of a host's SSH key."""

    ACCEPT_NEW = "accept-new"  # an unknown key is accepted once and kept; a changed one is refused
    STRICT = "strict"  # an unknown key is refused
    IGNORE = "ignore"  # ephemeral machines and containers: keys change with every start


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of a host; *port* 0 stands for the port in ssh_config, or 22."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine of an inventory."""

    name: str
    addresses: tuple[Address, ...] = ()
    """In order of preference; the next is tried on connection failures only."""
    user: str = ""
    """The login user; empty: the user in ssh_config, or the name of the local user."""
    key: str = ""
    """Path of a private key on this machine (``~`` expanded); passed only if the file exists."""
    transport: str = "ssh"
    proxy: str = ""
    """An SSH ProxyCommand for the last resort, if the inventory names one."""
    proxy_env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Secrets that *proxy* takes from its environment, so that they stand on no command line."""
    via: Host | None = None
    """The host that leads to it, where the inventory names one (``ssh_proxy``)."""
    placeholder: str = ""
    """The text in place of its address, such as ``<public-ip>``: such a host is never connected to."""
    status: str = "ready"
    host_keys: HostKeys = HostKeys.ACCEPT_NEW
    groups: tuple[str, ...] = ()
    secrets: tuple[SecretReference, ...] = ()
    """The entries of its own ``secrets:``, and where that is silent, of its groups'."""
    vars: Mapping[str, Json] = field(default_factory=dict)
    """The host's fields as its file has them, secrets masked."""
    unread: tuple[str, ...] = ()
    """Files with variables of it, or of its groups, that are encrypted as a whole: what they say is not known."""
    where: Where = field(default_factory=Where)
    places: Mapping[str, Where] = field(default_factory=dict, compare=False, repr=False)
    """Where its ``transport`` and its ``ssh_proxy`` stand: whether they are right is known once all files are read."""

    def place_of(self, key: str) -> Where:
        """The place of the field *key*, or of the host where that is not known."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Every host that the files name, in their order."""

    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Group name to host names; derived groups and named ones together."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Values of secret fields, to be masked wherever they might appear."""
    references: tuple[SecretReference, ...] = ()
    """The entries of ``secrets:`` beside the hosts: the places of values that playbooks may use, on every host."""
    digest: str = ""
    """sha256 of the files read, hexadecimal."""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A host that matched but is not taken, and the reason."""

    host: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The hosts of a run, and those that were left out."""

    hosts: tuple[Host, ...]
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences about hosts that are taken all the same."""
