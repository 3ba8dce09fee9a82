"""Run a probe by itself: send what it yields to this machine, or to a stand-in, and take what it returns."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from runbook.values.command import Command, Completed
from tests.support.waiting import LIMIT

SHELLS = {"dash": ("dash",), "bash": ("bash",), "busybox": ("busybox", "sh")}


def drive(probe, connection):
    """What *probe* returns when its questions are answered by *connection*."""
    reply = None
    while True:
        try:
            asked = probe.send(reply)
        except StopIteration as done:
            return done.value
        reply = connection.run(asked)[0] if isinstance(asked, Command) else connection.run(*asked)


@dataclass
class Here:
    """A connection to this machine, in the simplest way, with *path* before everything else."""

    path: Path | None = None
    root: Path | None = None
    """Where looks at the file system begin that may begin anywhere."""
    uid: str = ""
    """Said instead of the real answer to ``id -u``."""
    shell: tuple[str, ...] = ("dash",)
    timeout: float = LIMIT
    sent: list[Command] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return tuple(map(self._run, commands))

    def _run(self, command: Command) -> Completed:
        self.sent.append(command)
        if self.root and command.script and command.argv[:1] == ("",):
            command = replace(command, argv=(str(self.root), *command.argv[1:]))
        if self.uid and command.argv == ("id", "-u"):
            return Completed(exit_code=0, stdout=f"{self.uid}\n")
        argv = [*self.shell, "-c", command.script, "sh", *command.argv] if command.script else list(command.argv)
        env = {**os.environ, **dict(command.env)}
        if self.path:
            env["PATH"] = f"{self.path}:{env['PATH']}"
        began = time.monotonic()
        with subprocess.Popen(
            argv, stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=env, start_new_session=True,
        ) as process:  # fmt: skip
            late = False
            try:
                limit = min(self.timeout, command.timeout or self.timeout)
                out, err = process.communicate(command.stdin.encode() or None, timeout=limit)
            except subprocess.TimeoutExpired:
                late = True
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
        code = process.returncode
        return Completed(
            exit_code=None if late else code if code >= 0 else 128 - code,
            stdout=out.decode("utf-8", "replace"),
            stderr=err.decode("utf-8", "replace"),
            seconds=time.monotonic() - began,
            timed_out=late,
        )


@dataclass
class Meanwhile(Here):
    """This machine, on which *act* is what a script does where it would sleep."""

    act: str = ":"

    def _run(self, command: Command) -> Completed:
        return super()._run(replace(command, script=f"sleep() {{\n{self.act}\n}}\n{command.script}"))


def broken_awk(directory: Path, *, first: int = 1, last: int = 1_000_000) -> Path:
    """A ``bin`` in *directory* with an awk that gives up on its calls from *first* to *last*, as mawk does where a process
    ends while its file in /proc is being read: what it has printed is printed, the rest is lost."""
    made = directory / "bin"
    made.mkdir()
    (made / "awk").write_text(f"""#!/bin/sh
n=$(wc -l <{made}/calls 2>/dev/null); n=$((${{n:-0}} + 1)); echo "$n" >>{made}/calls
[ $n -ge {first} ] && [ $n -le {last} ] || exec {shutil.which("awk")} "$@"
{shutil.which("awk")} "$@" | head -n 1
echo 'awk: read error (No such process)' >&2; exit 2
""")
    (made / "awk").chmod(0o755)
    return made
