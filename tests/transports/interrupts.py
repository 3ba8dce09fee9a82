"""An interrupt that a test sets, at once or when a file is there."""

from __future__ import annotations

import threading
from pathlib import Path

from tests.support.waiting import appears


class Pressed:
    """An interrupt that a test sets."""

    def __init__(self) -> None:
        self.pressed = 0

    def level(self) -> int:
        return self.pressed


def pressing(interrupt, level: int, when: Path) -> None:
    """Press once the file *when* is there."""

    def wait() -> None:
        appears(when)
        interrupt.pressed = level

    threading.Thread(target=wait, daemon=True).start()
