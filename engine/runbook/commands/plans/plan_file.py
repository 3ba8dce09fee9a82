"""Read the file of a plan, and what else an apply believes, from files that no other user can write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runbook.errors import ConfigError
from runbook.foreign_files import MOVE_IT, refuse_foreign, user_name

LARGEST = 256 * 1024 * 1024
"""Bytes of a plan: that of 1000 hosts has some 20 MB."""
LARGEST_SIGNERS = 1024 * 1024
"""Bytes of a file of signers, and of a signature."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_plan(path: str, *, trusted: bool) -> bytes:
    """The content of a plan's file; *trusted*: it is going to be carried out.  Raises ConfigError."""
    return _read(path, LARGEST, "the plan", trusted=trusted)


def read_signature(path: str) -> bytes:
    """The content of a signature, which proves itself.  Raises ConfigError."""
    return _read(path, LARGEST_SIGNERS, "the signature", trusted=False)


def read_signers(path: Path) -> bytes:
    """The content of a file of signers.  Raises ConfigError where another user can write or exchange it."""
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
