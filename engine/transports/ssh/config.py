"""The ssh_config files, and what the inventory knows better."""

from __future__ import annotations

import os
from pathlib import Path

import paramiko
from paramiko.ssh_exception import ConfigParseError

from engine.errors import Unreachable
from engine.values.inventory import Address

FILES = ("~/.ssh/config", "/etc/ssh/ssh_config")
"""Of two values the first counts (ssh_config(5))."""


def ssh_config(address: Address | None = None, user: str = "") -> paramiko.SSHConfig:
    """What the files say; *address* and *user* go before them, so that ``%p`` in a ProxyCommand is the right port.

    Raises Unreachable when a file that is there cannot be read.
    """
    ours = [f"Host {address.host}"] if address else []
    ours += [f"  Port {address.port}"] if address and address.port else []
    ours += [f"  User {user}"] if address and user else []
    try:
        return paramiko.SSHConfig.from_text("\n".join([*ours, *map(_text, FILES), ""]))
    except ConfigParseError as error:
        raise Unreachable(f"your ssh_config cannot be read: {error}") from error
    except OSError as error:
        raise Unreachable(f"{error.filename} cannot be read: {(error.strerror or '').lower()}") from error


def _text(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""
