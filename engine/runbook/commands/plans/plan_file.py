"""Read the files that an apply depends on: plans, signatures and signers; trusted ones must be safe from other
users.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runbook.errors import ConfigError
from runbook.foreign_files import MOVE_IT, refuse_foreign, user_name

LARGEST = 256 * 1024 * 1024
"""The maximum number of bytes of a plan; a plan for 1000 hosts has about 20 MB."""
LARGEST_SIGNERS = 1024 * 1024
"""The maximum number of bytes of a file of signers, and of a signature."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_plan(path: str, *, trusted: bool) -> bytes:
    """Return the content of a plan's file; *trusted*: the plan will be carried out.  Raises ConfigError."""
    return _read(path, LARGEST, "the plan", trusted=trusted)


def read_signature(path: str) -> bytes:
    """Return the content of a signature; the file need not be trusted.  Raises ConfigError."""
    return _read(path, LARGEST_SIGNERS, "the signature", trusted=False)


def read_signers(path: Path) -> bytes:
    """Return the content of a file of signers.  Raises ConfigError if another user can write or replace it."""
    real = refuse_foreign(path, MOVE_IT).resolve()
    return _read(str(real), LARGEST_SIGNERS, "who may approve", trusted=True)


def _read(path: str, largest: int, what: str, *, trusted: bool) -> bytes:
    try:
        number = os.open(os.path.expanduser(path), _READ)
        with open(number, "rb") as file:
            there = os.fstat(number)
            if not stat.S_ISREG(there.st_mode):
                raise ConfigError(f"cannot read {path}: it is not a regular file")
            if trusted:
                _refuse_foreign(path, there, what)
            raw = file.read(largest + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if len(raw) > largest:
        raise ConfigError(f"{path} is larger than {largest // 1024 // 1024} MiB, the maximum for such a file")
    return raw


def _refuse_foreign(path: str, there: os.stat_result, what: str) -> None:
    if there.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"{path} belongs to {user_name(there.st_uid)}, who decides what is in it: read it, and copy it "
            f"(`cp`) if {what} is to be believed"
        )
    if there.st_mode & 0o022:
        raise ConfigError(f"{path}: other users can write to it; `chmod go-w {path}` when you know what is in it")
