"""Hosts, their addresses and groups, and the selection of hosts for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.values.playbook import SecretReference, Where
from runbook.values.types import Json


class HostKeys(StrEnum):
    """The treatment of the SSH host key."""

    ACCEPT_NEW = "accept-new"  # an unknown key is accepted once and kept; a changed one is refused
    STRICT = "strict"  # an unknown key is refused
    IGNORE = "ignore"  # ephemeral machines and containers: keys change with every start


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of a host; *port* 0 means the port in ssh_config, or 22."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.port else self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container, and how the program that runs commands in it finds it."""

    name: str = ""
    """The container's name or id; in a pod, its name there, empty if the pod has one container."""
    engine: str = ""
    """The program: docker, podman, or kubectl."""
    user: str = ""
    """The user whose commands run in the container; empty: the image's."""
    context: str = ""
    """The program's context (podman: its connection); empty: the program's default."""
    pod: str = ""
    namespace: str = ""
    """The pod's namespace; empty: that of the context."""
    id: str = ""
    """The engine's id of the container, or the pod's uid: no other is entered.  Empty: whatever has the name."""

    def __str__(self) -> str:
        if not self.pod:
            return self.name
        return "/".join(filter(None, (self.namespace, self.pod, self.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A machine, or a container, in an inventory."""

    name: str
    addresses: tuple[Address, ...] = ()
    """The addresses in order of preference; the next address is tried only if a connection fails."""
    user: str = ""
    """The login user; empty: the user in ssh_config, or the name of the local user."""
    key: str = ""
    """The path of a private key on this machine (``~`` expanded); it is used only if the file exists."""
    transport: str = "ssh"
    proxy: str = ""
    """The SSH ProxyCommand that is tried last, if the inventory gives a ProxyCommand."""
    proxy_env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Secrets that *proxy* reads from its environment, so that they are on no command line."""
    via: Host | None = None
    """The host through which this one is reached: the jump host (``ssh_proxy``), or the host that has the engine of
    a container (``container_host``).
    """
    container: Container | None = None
    """The container that this host is; None: a machine."""
    placeholder: str = ""
    """The text in place of the address, such as ``<public-ip>``; there is never a connection to such a host."""
    status: str = "ready"
    host_keys: HostKeys = HostKeys.ACCEPT_NEW
    groups: tuple[str, ...] = ()
    secrets: tuple[SecretReference, ...] = ()
    """The entries of the host's ``secrets:``, completed with the entries of its groups."""
    vars: Mapping[str, Json] = field(default_factory=dict)
    """The host's fields from its file, with secrets masked."""
    unread: tuple[str, ...] = ()
    """The files with variables of the host or of its groups that are encrypted as a whole, so that they are
    not known.
    """
    where: Where = field(default_factory=Where)
    places: Mapping[str, Where] = field(default_factory=dict, compare=False, repr=False)
    """The places of ``transport``, ``ssh_proxy`` and ``container_host`` in the file; they can be checked only when all
    files are read.
    """

    def place_of(self, key: str) -> Where:
        """Return the place of the field *key*, or the place of the host if the field's place is not known."""
        return self.places.get(key, self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The inputs and limits of playbooks on some hosts, such as those with one model of GPU."""

    name: str
    hosts: tuple[str, ...]
    inputs: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs in place of a playbook's defaults, by the name of the playbook and of the input."""
    host_deadline: float = 0.0
    cooldown: float = 0.0
    """Limits of playbooks, in seconds; the stricter one counts.  0: no such limit."""
    where: Where = Where()
    places: Mapping[tuple[str, str], Where] = field(default_factory=dict, compare=False)
    """The place of each input, by the names of the playbook and the input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All hosts of the inventory files, in their order."""

    hosts: tuple[Host, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the hosts in each group, both derived groups and named groups."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The values of secret fields, to be masked wherever they might appear."""
    references: tuple[SecretReference, ...] = ()
    """The entries of ``secrets:`` for all hosts: the places of values that playbooks may use on every host."""
    profiles: tuple[Profile, ...] = ()
    digest: str = ""
    """The SHA-256 of the files, hexadecimal."""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A host that the pattern matches but the run leaves out, and the reason."""

    host: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The hosts of a run, and the hosts that were left out."""

    hosts: tuple[Host, ...]
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences about hosts that are part of the run nevertheless."""
