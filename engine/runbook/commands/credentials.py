"""Secrets that a person gives to a run: the sudo password, and the passphrases of keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Protocol

from runbook.connections import transports
from runbook.errors import ConfigError
from runbook.values.inventory import Host

MAX_PASSWORD_FILE_BYTES = 4096
"""Bytes of a password file that are read; its first line is the password."""


class Prompter(Protocol):
    """The person who started the program, who can be asked for passwords."""

    def is_there(self) -> bool:
        """Whether the person can be asked."""
        ...

    def secret(self, prompt: str) -> str:
        """Ask with *prompt*, and read the answer without showing it."""
        ...


def become_password(file: str, ask: bool, person: Prompter) -> str:
    """Return the sudo password, from *file* or from the person; empty if neither option is given.  Raises
    ConfigError.
    """
    if file and ask:
        raise ConfigError("--ask-become-pass and --become-password-file exclude each other: give one of them")
    if file:
        return _first_line("--become-password-file", file)
    if not ask:
        return ""
    if not person.is_there():
        raise ConfigError("--ask-become-pass: there is no terminal to ask on; give --become-password-file FILE")
    return person.secret("Password for sudo on the hosts")


def passphrases(hosts: Sequence[Host], person: Prompter) -> Mapping[str, str]:
    """Ask for the passphrases of the encrypted keys that *hosts* need and no agent holds; return them, keyed by key
    file.

    Returns an empty mapping if there is no person to ask.
    """
    if not person.is_there():
        return {}
    used = {host.transport for host in hosts} & set(transports.names())
    paths = [path for name in sorted(used) for path in transports.locked(name, hosts)]
    given = {path: person.secret(f"Passphrase for {path} (Enter: continue without this key)") for path in paths}
    return {path: value for path, value in given.items() if value}


def _first_line(option: str, path: str) -> str:
    """Return the first line of the file *path*, which other users must not be able to read, or of a pipe."""
    try:
        number = os.open(os.path.expanduser(path), os.O_RDONLY)
        with open(number, "rb") as file:
            mode = os.fstat(number).st_mode
            if not stat.S_ISFIFO(mode) and stat.S_IMODE(mode) & 0o077:
                raise ConfigError(
                    f"{option}: others can read {path} (mode {stat.S_IMODE(mode):04o}); run chmod 600 {path}"
                )
            text = file.read(MAX_PASSWORD_FILE_BYTES).decode().split("\n")[0].removesuffix("\r")
    except OSError as error:
        raise ConfigError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option} {path}: its first line is not UTF-8 text") from error
    if not text or "\0" in text:
        raise ConfigError(f"{option} {path}: its first line is {'empty' if not text else 'not text'}")
    return text
