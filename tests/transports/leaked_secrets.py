"""Watch every process of this machine for a secret on its command line or in its environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "sud0-s3cret 'pass' $word \"x\" \\ ü"


@contextmanager
def spied_on(secret: str) -> Iterator[list[str]]:
    """Every process whose arguments or environment hold *secret* meanwhile."""
    caught: list[str] = []
    over = threading.Event()
    needle = secret.encode()

    def watch() -> None:
        while not over.is_set():
            for pid in os.listdir("/proc"):
                for name in ("cmdline", "environ") if pid.isdigit() else ():
                    try:
                        text = Path(f"/proc/{pid}/{name}").read_bytes()
                    except OSError:
                        continue
                    if needle in text:
                        caught.append(f"{name} of {pid}: {text!r}")

    thread = threading.Thread(target=watch)
    thread.start()
    yield caught
    over.set()
    thread.join()
