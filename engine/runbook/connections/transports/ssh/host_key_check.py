"""Check a host's key against the known keys."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import paramiko

from runbook.connections.transports.ssh.bounded_transport import BoundedTransport
from runbook.connections.transports.ssh.ssh_config import chosen
from runbook.dataclass import dataclass
from runbook.errors import Unreachable
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Host, HostKeys


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """One line of a known_hosts file about a host."""

    place: str
    """The place of the line: ``file:line``."""
    kind: str
    key: str
    """The key in base64."""
    revoked: bool = False

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint in the form of ``ssh-keygen -l``."""
        return fingerprint(self.key)


class NotKept(Exception):
    """The key could not be saved; the message has the file and the reason."""


class OwnFile:
    """The file with the keys that runbook has accepted; its lines are as in OpenSSH's known_hosts."""

    def __init__(self, path: str) -> None:
        folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        self.path = Path(os.path.expanduser(path or f"{folder}/runbook/known_hosts"))

    def keep(self, name: str, kind: str, key: str) -> None:
        """Add the key of *name* (``host``, or ``[host]:port``) once, even if other processes add keys.  Raises
        NotKept.
        """
        if str(self.path).startswith("~"):
            raise NotKept("you have no home directory; XDG_CONFIG_HOME can name another")
        line = f"{name} {kind} {key}\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self.path.open("a+", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                if line not in file.readlines():
                    file.write(line)
        except OSError as error:
            raise NotKept(f"{error.filename or self.path}: {(error.strerror or str(error)).lower()}") from error


def known_files(own: OwnFile) -> tuple[Path, ...]:
    """Return the files with known keys: the system's, the user's, and runbook's own."""
    return (Path("/etc/ssh/ssh_known_hosts"), Path(os.path.expanduser("~/.ssh/known_hosts")), own.path)


def known_of(name: str, files: Sequence[Path]) -> tuple[KnownHost, ...]:
    """Return every line about *name* (``host``, or ``[host]:port``).  Raises OSError if a file exists but cannot be
    read.

    The format is that of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"; certificate authorities are skipped.
    """
    found = []
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except (FileNotFoundError, NotADirectoryError):
            continue
        for number, line in enumerate(lines, 1):
            words = line.split()
            marker = words.pop(0) if words and words[0].startswith("@") else ""
            if len(words) < 3 or words[0].startswith("#") or marker not in ("", "@revoked"):
                continue
            if _names(words[0], name.lower()):
                place = f"{path}:{number}"
                found.append(KnownHost(place=place, kind=words[1], key=words[2], revoked=bool(marker)))
    return tuple(found)


def fingerprint(key: str) -> str:
    """Return the fingerprint of *key*, which is in base64."""
    from base64 import b64encode

    try:
        digest = hashlib.sha256(b64decode(key)).digest()
    except (NotBase64, ValueError):
        return "no key"
    return "SHA256:" + b64encode(digest).decode().rstrip("=")


def _names(patterns: str, name: str) -> bool:
    """Whether *patterns*, the first field of a line, matches *name*."""
    if patterns.startswith("|1|"):
        return _hashes(patterns, name)
    hit = False
    for part in patterns.lower().split(","):
        if _matches(part.removeprefix("!"), name):
            if part.startswith("!"):
                return False
            hit = True
    return hit


def _hashes(field: str, name: str) -> bool:
    try:
        salt, wanted = (b64decode(part) for part in field.split("|")[2:4])
    except (NotBase64, ValueError):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), wanted)


def _matches(pattern: str, name: str) -> bool:
    parts = (".*" if word == "*" else "." if word == "?" else re.escape(word) for word in pattern)
    return re.fullmatch("".join(parts), name) is not None


SIGNATURES = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}
"""The signature algorithms for a type of key, if their names differ from the name of the type."""


class Trust(paramiko.MissingHostKeyPolicy):
    """The check of each host key; paramiko itself gets no known keys, because it knows no patterns and no revoked
    keys.
    """

    def __init__(self, host: Host, options: ConnectOptions) -> None:
        strict = options.strict_host_keys and host.host_keys is not HostKeys.IGNORE
        self._mode = HostKeys.STRICT if strict else host.host_keys
        self._own = OwnFile(options.known_hosts)

    def transport_factory(self, name: str, ciphers: str = "") -> Any:
        """Return a maker of transports that prefer the types of key which are known for *name*.

        *ciphers*: the list ``Ciphers`` of ssh_config.
        """
        known = [] if self._mode is HostKeys.IGNORE else [host.kind for host in self._known(name) if not host.revoked]
        wanted = [word for kind in dict.fromkeys(known) for word in SIGNATURES.get(kind, (kind,))]

        def made(*args: Any, **keys: Any) -> paramiko.Transport:
            transport = BoundedTransport(*args, **keys)
            security = transport.get_security_options()
            offered = list(security.key_types)
            first = [word for word in wanted if word in offered]
            security.key_types = [*first, *(word for word in offered if word not in first)]
            if not (allowed := chosen(ciphers, security.ciphers)):
                transport.sock.close()
                raise Unreachable(f"Ciphers of your ssh_config names none of {', '.join(security.ciphers)}: {ciphers}")
            security.ciphers = allowed
            return transport

        return made

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Accept *key* of *hostname*, and save it if it is new.  Raises Unreachable if it is not trusted."""
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
