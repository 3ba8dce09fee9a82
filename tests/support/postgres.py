"""A PostgreSQL of a test's own, on a socket in its directory: Debian's package, without TCP."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from pathlib import Path

from tests.support.requirements import POSTGRES
from tests.support.waiting import until


class Postgres:
    """A server in *folder*, which is stopped at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        if os.geteuid() == 0:
            shutil.chown(folder, self.user)
        self._as("initdb", "-D", str(self.data), "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8")
        self.start()

    def _as(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(POSTGRES / program), *words]
        if os.geteuid() == 0:
            argv = ["setpriv", "--reuid", self.user, "--regid", self.user, "--init-groups", *argv]
        return subprocess.run(argv, check=True, capture_output=True, text=True, cwd=self.folder)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off -c max_connections=200"
        self._as(
            "pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-o", options, "-l", str(self.folder / "log"), "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop it; *mode*: as pg_ctl's ``-m``."""
        self._as("pg_ctl", "-D", str(self.data), "-w", "-t", "60", "-m", mode, "stop")

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def place(self, role: str = "postgres", database: str = "postgres") -> str:
        """The URL of a role."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def psql(self, text: str, database: str = "postgres") -> str:
        """Run *text* as the superuser, and return what it prints."""
        argv = [
            "psql",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            str(self.folder),
            "-U",
            "postgres",
            "-d",
            database,
            "-c",
            text,
        ]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout

    def close(self) -> None:
        if (self.data / "postmaster.pid").exists():
            pid = self.pid
            os.kill(pid, signal.SIGINT)  # fast shutdown
            until(lambda: not (self.data / "postmaster.pid").exists())
