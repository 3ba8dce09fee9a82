"""Read the known_hosts files, and keep our own."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """One line that speaks of a host."""

    place: str
    """``file:line``."""
    kind: str
    key: str
    """Base64."""
    revoked: bool = False

    @property
    def fingerprint(self) -> str:
        """As ``ssh-keygen -l`` says it."""
        return fingerprint(self.key)


class NotKept(Exception):
    """A key that could not be written down; the text says where, and why."""


class OwnFile:
    """Keys that we have accepted: lines as in OpenSSH's known_hosts."""

    def __init__(self, path: str) -> None:
        folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
        self.path = Path(os.path.expanduser(path or f"{folder}/runbook/known_hosts"))

    def keep(self, name: str, kind: str, key: str) -> None:
        """Add the key of *name* (``host``, or ``[host]:port``) once, anybody who else is adding.  Raises NotKept."""
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
    """Where keys may be known from: the system's file, the user's, ours."""
    return (Path("/etc/ssh/ssh_known_hosts"), Path(os.path.expanduser("~/.ssh/known_hosts")), own.path)


def known_of(name: str, files: Sequence[Path]) -> tuple[KnownHost, ...]:
    """Every line about *name* (``host``, or ``[host]:port``).  Raises OSError when a file that is there cannot be read.

    The format is that of sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"; certificate authorities are passed over.
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
    """That of a key in base64."""
    from base64 import b64encode

    try:
        digest = hashlib.sha256(b64decode(key)).digest()
    except (NotBase64, ValueError):
        return "no key"
    return "SHA256:" + b64encode(digest).decode().rstrip("=")


def _names(patterns: str, name: str) -> bool:
    """Whether the first field of a line means *name*."""
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
