"""Wait until something holds, for a limited number of seconds."""

from __future__ import annotations

import time
from pathlib import Path


def appears(path: Path, within: float = 20.0) -> bool:
    deadline = time.monotonic() + within
    while not path.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def reads(path: Path, text: str, within: float = 20.0) -> bool:
    """Whether *path* comes to hold *text*."""
    deadline = time.monotonic() + within
    while not path.exists() or path.read_text() != text:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def soon(true, within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
