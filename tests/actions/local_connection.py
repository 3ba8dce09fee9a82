"""This machine over the lanes that a run uses: commands are ended there as on a host."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from runbook.connections.transports import local
from runbook.protocols import Connection, ConnectOptions
from runbook.values.command import Command, Completed
from runbook.values.inventory import Host
from tests.support.probe_driver import Here


class _Never:
    def level(self) -> int:
        return 0


@dataclass
class Wired:
    """A connection whose commands have a time limit, as a step gives them one."""

    inner: Connection
    sent: list[Command] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        self.sent += commands
        return self.inner.run(*(replace(it, timeout=it.timeout or 60) for it in commands))


@contextlib.contextmanager
def wired() -> Iterator[Wired]:
    """A connection to this machine."""
    inner = local.connect(Host(name="here"), ConnectOptions(), _Never())
    try:
        yield Wired(inner)
    finally:
        inner.close()


@dataclass
class Fed(Here):
    """This machine by any shell, with what goes to a command's stdin."""

    def _run(self, command: Command) -> Completed:
        self.sent.append(command)
        env = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"} if self.path else None
        argv = [*self.shell, "-c", command.script, "sh", *command.argv] if command.script else list(command.argv)
        done = subprocess.run(argv, input=command.stdin.encode(), capture_output=True, env=env, timeout=60)
        out, err = (it.decode("utf-8", "replace") for it in (done.stdout, done.stderr))
        return Completed(exit_code=done.returncode, stdout=out, stderr=err)
