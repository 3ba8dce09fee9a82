"""Keep a lab host running over its reboots; run as a program with ADDRESS PORT FOLDER ARGV.

Each boot is a new first process with a new boot id, and a new listener: while the host is away its port refuses.  What
survives a boot is in FOLDER: ``state`` (with the order to reboot that the host's ``reboot`` leaves) and ``disk``.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

AWAY = 1.0
"""Seconds between the end of a boot and the beginning of the next one."""
POLL = 0.1
WAITING = 128
PR_SET_PDEATHSIG = 1


def keep(address: str, port: int, folder: Path, command: list[str]) -> int:
    """Start the host, and start it again whenever it has been rebooted; its exit code where it ended otherwise."""
    (folder / "disk").mkdir(exist_ok=True)
    while True:
        (folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        with socket.create_server((address, port), backlog=WAITING) as listener:
            process = subprocess.Popen(command, stdin=listener.fileno(), close_fds=False, preexec_fn=_end_with_us)
        order = _order(process, folder / "state" / "reboot")
        if order is None:
            return process.returncode
        process.kill()  # its namespace, and all that lives in it, ends with it
        process.wait()
        if order == "never_back":
            signal.pause()
        time.sleep(AWAY)
        _forget(folder, order)


def _order(process: subprocess.Popen[bytes], file: Path) -> str | None:
    """Return the order of the host's ``reboot``; None: the host has ended without one."""
    while process.poll() is None:
        if file.exists():
            time.sleep(3 * POLL)  # anybody who asked gets an answer
            order = file.read_text().strip()
            file.unlink()
            return order
        time.sleep(POLL)
    return None


def _forget(folder: Path, order: str) -> None:
    """Remove the files that a boot does not keep."""
    state = folder / "state"
    for name in ("up", "was_reset.0", "was_reset.1"):
        (state / name).unlink(missing_ok=True)
    for name in ("listed", "busy"):
        for file in (state / name).iterdir():
            file.unlink()
    (state / "rebooted").touch()
    if order == "gpu_missing":
        (state / "gpu_missing").touch()


def _end_with_us() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(keep(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]))
