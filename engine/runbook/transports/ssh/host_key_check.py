"""Check a host's key against the known keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paramiko

from runbook.errors import Unreachable
from runbook.protocols import ConnectOptions
from runbook.transports.ssh.bounded_transport import BoundedTransport
from runbook.transports.ssh.known_hosts import KnownHost, NotKept, OwnFile, known_files, known_of
from runbook.values.inventory import Host, HostKeys

SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""What a server offers for a kind of key, where that is called otherwise."""


class Trust(paramiko.MissingHostKeyPolicy):
    """Asked for every key: paramiko is given none to compare with, because it knows no patterns and no revoked keys."""

    def __init__(self, host: Host, options: ConnectOptions) -> None:
        strict = options.strict_host_keys and host.host_keys is not HostKeys.IGNORE
        self._mode = HostKeys.STRICT if strict else host.host_keys
        self._own = OwnFile(options.known_hosts)

    def transport_factory(self, name: str) -> Any:
        """A maker of Transports that ask for the kinds of key first that are known of *name*."""
        known = [] if self._mode is HostKeys.IGNORE else [host.kind for host in self._known(name) if not host.revoked]
        wanted = [word for kind in dict.fromkeys(known) for word in SIGNATURES.get(kind, (kind,))]

        def made(*args: Any, **keys: Any) -> paramiko.Transport:
            transport = BoundedTransport(*args, **keys)
            security = transport.get_security_options()
            offered = list(security.key_types)
            first = [word for word in wanted if word in offered]
            security.key_types = [*first, *(word for word in offered if word not in first)]
            return transport

        return made

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Accept *key*, and keep it where it is new.  Raises Unreachable."""
        if self._mode is HostKeys.IGNORE:
            return
        known = self._known(hostname)
        same = [host for host in known if (host.kind, host.key) == (key.get_name(), key.get_base64())]
        if bad := [host for host in same if host.revoked]:
            raise Unreachable(f"its host key is marked as revoked ({bad[0].place})")
        others = [host for host in known if not host.revoked and host not in same]
        if same:
            return
        if others:
            raise Unreachable(_changed(hostname, key, others, self._own))
        if self._mode is HostKeys.STRICT:
            raise Unreachable(
                f"its host key is not known ({key.fingerprint}), and --strict-host-keys refuses that; "
                f"compare the fingerprint and add the key to {self._own.path}"
            )
        try:
            self._own.keep(hostname, key.get_name(), key.get_base64())
        except NotKept as error:
            raise Unreachable(
                f"its host key is new ({key.fingerprint}), and cannot be kept to be compared the next time: {error}"
            ) from error

    def _known(self, name: str) -> tuple[KnownHost, ...]:
        try:
            return known_of(name, known_files(self._own))
        except OSError as error:
            words = (error.strerror or str(error)).lower()
            raise Unreachable(f"its host key cannot be checked: {error.filename}: {words}") from error


def _changed(name: str, key: paramiko.PKey, known: Sequence[KnownHost], own: OwnFile) -> str:
    alike = [host for host in known if host.kind == key.get_name()] or list(known)
    ours = f" -f {own.path}" if alike[0].place.startswith(f"{own.path}:") else ""
    expected = f"{alike[0].fingerprint} (known from {alike[0].place})"
    return (
        f"its host key has changed: expected {expected}, got {key.fingerprint}; "
        f"if the machine was really reinstalled, remove the old key: ssh-keygen -R '{name}'{ours}"
    )
