"""Lock a lab's directory while a lab is started or ended there."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runbook.errors import ConfigError


@contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keep *directory* to ourselves meanwhile.  Raises ConfigError where somebody else of this machine has it.

    A name of an abstract socket is the lock: it leaves no file, and ends with the program (unix(7)).
    """
    name = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:32]
    with socket.socket(socket.AF_UNIX) as lock:
        try:
            lock.bind(f"\0runbook-lab-{name}")
        except OSError as error:
            raise ConfigError(
                f"a lab is being started in {directory}, or `lab run` is at work there: wait, or give another --dir"
            ) from error
        yield
