"""Open a database of SQLite in a private folder."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable

from runbook.records.private_folder import PrivateFolder, Unsafe


def opened_database(
    folder: PrivateFolder, name: str, prepare: Callable[[sqlite3.Connection], None], *, any_thread: bool = False
) -> sqlite3.Connection:
    """Open the database *name* in *folder*, made if it is missing, and have *prepare* make it ready.

    Raises sqlite3.Error if it is damaged, and OSError.
    """
    file = folder.appending(name)  # mode 600, and no link
    try:
        there = os.fstat(file)
        os.fchmod(file, 0o600)
        base = sqlite3.connect(folder.path / name, timeout=10, check_same_thread=not any_thread)
    finally:
        os.close(file)
    try:
        if not os.path.samestat(there, os.stat(folder.path / name, follow_symlinks=False)):
            raise Unsafe(f"{name} was exchanged")
        prepare(base)
    except BaseException:
        base.close()
        raise
    return base
