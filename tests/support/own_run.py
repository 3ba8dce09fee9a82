"""This machine with a /run of its own, for what root keeps there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from runbook.onhost.host_lock import LockBusy, LockHeld, LockUnavailable, ask_lock, ask_unlock, read_lock
from runbook.values.command import Command, Completed

ROOM = "mount -t tmpfs -o mode=755 none /run && mkdir -m 1777 /run/lock && echo ready && exec sleep 600"


class Room:
    """This machine with a /run of its own, so that the locks of other tests are not in the way."""

    def __init__(self) -> None:
        argv = ["unshare", "--mount", "sh", "-c", ROOM]
        self.keeper = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.keeper.stdout
        assert self.keeper.stdout.readline() == "ready\n"
        self.run = Path(f"/proc/{self.keeper.pid}/root/run")

    def argv(self, command: Command, shell: tuple[str, ...] = ("dash",), told: object = "") -> list[str]:
        inside = ["nsenter", "--target", str(self.keeper.pid), "--mount", "env", f"RUNBOOK_LOCK_PLACES={told}"]
        return [*inside, *shell, "-c", command.script, "sh", *command.argv]

    def take(
        self, run: str = "r1", shell: tuple[str, ...] = ("dash",), told: object = ""
    ) -> LockHeld | LockBusy | LockUnavailable:
        """Take root's lock for *run*; this process is what holds it."""
        argv = self.argv(ask_lock(run, "h", f"run {run} by ann"), shell, told)
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
        return read_lock(Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr))

    def give(self, run: str = "r1", told: object = "") -> None:
        argv = self.argv(ask_unlock(run, "h"), told=told)
        subprocess.run(argv, check=True, capture_output=True, timeout=60, cwd="/")

    def entries(self) -> list[Path]:
        return [*self.run.glob("runbook/*/*")]
