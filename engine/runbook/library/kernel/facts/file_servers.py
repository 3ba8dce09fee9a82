"""Servers of network file systems that kernel messages report as not responding, and as responding again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.events import when
from runbook.library.kernel.facts.patterns import KINDS
from runbook.library.system.facts.kernel_messages import Message
from runbook.values.types import Unknown

NetworkFileSystem = Literal["NFS", "Lustre", "CephFS", "GPFS", "SMB"]
_BY_GROUP: Mapping[str, NetworkFileSystem] = {
    "nfs": "NFS",
    "gpfs": "GPFS",
    "smb": "SMB",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileServer:
    """A server that did not respond at some time since the host was booted."""

    server: str
    """As it was named when it was mounted; of Lustre, the target, such as ``fs1-OST0002``; of CephFS, the daemon."""
    kind: NetworkFileSystem
    """By which file system the host uses it."""
    silent: bool
    """Whether its last message says that it does not respond."""
    at: str | Unknown
    """When the present silence, or the last one, began: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the present silence, or the last one, began, in seconds since 1970."""
    count: int
    """The number of messages, of all requests together, that it does not respond."""
    text: str
    """The last message of the kernel about it, at most 1000 characters."""


def file_servers(messages: Iterable[Message]) -> tuple[FileServer, ...]:
    """Servers that did not respond at some time, each once: the silent ones first, and the latest first."""
    found: dict[tuple[NetworkFileSystem, str], FileServer] = {}
    for message in messages:
        text = message.text.strip()
        if said := KINDS["server_silent"].find(message.text):
            key = _connection(said)
            before = found.get(key)
            if before and before.silent:
                found[key] = replace(before, count=before.count + 1, text=text)
                continue
            count = 1 + (before.count if before else 0)
            server = _server(said, key[1])
            found[key] = FileServer(**when(message), server=server, kind=key[0], silent=True, count=count, text=text)
        elif (said := KINDS["server_back"].find(message.text)) and (key := _connection(said)) in found:
            found[key] = replace(found[key], silent=False, text=text)
    latest = sorted(found.values(), key=lambda it: _age(it.seconds))
    return _each_once(sorted(latest, key=lambda it: not it.silent))


def _each_once(connections: Iterable[FileServer]) -> tuple[FileServer, ...]:
    """Return one entry for each server, the first; a server of Lustre may have several connections."""
    servers: dict[tuple[NetworkFileSystem, str], FileServer] = {}
    for each in connections:
        before = servers.get((each.kind, each.server))
        servers[each.kind, each.server] = replace(before, count=before.count + each.count) if before else each
    return tuple(servers.values())


def _age(seconds: float | Unknown) -> float:
    return 0.0 if isinstance(seconds, Unknown) else -seconds


_TARGET = re.compile(r"[\w.]+-(?:OST|MDT)[0-9a-f]{4}(?=-)")
"""The target in the name of an import: ``fs1-OST0002-osc-ffff8a2c``."""


def _connection(said: re.Match[str]) -> tuple[NetworkFileSystem, str]:
    """Return the file system and the name by which its messages pair: a server, or an import of Lustre.

    The server's name does not pair: Lustre may write the address instead when the connection is restored.
    """
    named = {name: server for name, server in said.groupdict().items() if server}
    if lustre := named.get("import") or named.get("request") or named.get("mgs"):
        return "Lustre", lustre
    (group, server) = named.popitem()
    return _BY_GROUP.get(group, "CephFS"), server


def _server(said: re.Match[str], connection: str) -> str:
    """Return the server as it is shown."""
    target = _TARGET.match(connection)
    return said["lustre"] or (target[0] if target else connection)
