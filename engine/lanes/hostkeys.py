"""Our own file of host keys, and where the others are."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path


class OwnFile:
    """Keys that we have accepted: lines as in OpenSSH's known_hosts."""

    def __init__(self, path: str) -> None:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
        self.path = Path(path).expanduser() if path else folder / "runbook" / "known_hosts"

    def keep(self, name: str, kind: str, key: str) -> None:
        """Add the key of *name* (``host``, or ``[host]:port``) once, whoever else is adding at the same time."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = f"{name} {kind} {key}\n"
        with self.path.open("a+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if line not in file.readlines():
                file.write(line)


def known_files(own: OwnFile) -> tuple[Path, ...]:
    """Every file of known keys that is there: the system's, the user's, ours."""
    files = (Path("/etc/ssh/ssh_known_hosts"), Path("~/.ssh/known_hosts").expanduser(), own.path)
    return tuple(it for it in files if it.is_file())


def place_of(name: str, files: Sequence[Path]) -> str:
    """``file:line`` of the first line that names *name* in clear; empty where there is none."""
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if name in line.split(" ", 1)[0].split(","):
                return f"{path}:{number}"
    return ""
