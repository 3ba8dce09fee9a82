"""Read a text file of the user, of a bounded size."""

from __future__ import annotations

from pathlib import Path

from runbook.errors import ConfigError

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Bytes that any file of ours may have, but for an inventory."""
MAX_INVENTORY_BYTES = 8 * 1024 * 1024
"""Bytes of an inventory: that of 10 000 hosts has 5 MB."""


def read_text(path: Path, largest: int = MAX_FILE_BYTES) -> str:
    """The text of *path*, of at most *largest* bytes.  Raises ConfigError when it cannot be had."""
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for, a device never ends
            raise ConfigError(f"cannot read {path}: {kind_of_file(path)}")
        with path.open("rb") as file:
            raw = file.read(largest + 1)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if len(raw) > largest:
        raise ConfigError(f"{path} is larger than {largest // 1024 // 1024} MiB, the maximum for such a file")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 text ({error.reason})") from error


def kind_of_file(path: Path) -> str:
    """Name the kind of *path*, which is no file."""
    if path.is_dir():
        return "it is a directory"
    return "it is a pipe; write its content to a file" if path.is_fifo() else "it is not a regular file"
