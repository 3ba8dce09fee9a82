"""Run the program in a process of its own that need not import it first: a server of this session has done so, and forks.

Importing is most of what a short run computes, and tests make hundreds of them.  A run has its own streams, folder and
environment, is ended by its own signals, and leaves nothing behind in the next one.  What the interpreter itself reads
when it starts (``PYTHON*``, the locale) is the server's: runs that set those are started as anybody would.
"""

from __future__ import annotations

import array
import contextlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "engine.cli",
    "engine.app.run_command",
    "engine.app.run",
    "engine.app.outputs",
    "engine.lang.loader",
    "engine.executor",
)
"""Before the first fork; a run imports what else it needs."""
READ_AT_START = ("PYTHON", "LC_", "LANG")


@dataclass
class Server:
    """The process that forks, and our end of the line to it."""

    line: socket.socket
    process: subprocess.Popen = field(repr=False)
    began_with: dict[str, str]
    """What its interpreter has read of the environment."""

    @staticmethod
    def start() -> Server:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                (sys.executable, "-m", "tests.forked_program", str(theirs.fileno())),
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd=ROOT,
            )  # fmt: skip
        return Server(ours, process, read_at_start(os.environ))

    def stop(self) -> None:
        self.line.close()  # it ends when nobody is at the other end
        self.process.wait()

    def run(self, argv: tuple[str, ...], env: dict[str, str], cwd: str, timeout: float) -> tuple[int, str, str]:
        """Its exit code, stdout and stderr.  Raises TimeoutExpired, and has then killed it."""
        told, tells = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(told, "rb", buffering=0) as status:
            asked = json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode()
            with tempfile.TemporaryFile() as request:
                request.write(asked)
                request.flush()
                files = array.array("i", [request.fileno(), out.fileno(), err.fileno(), tells])
                self.line.sendmsg([b"run"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            os.close(tells)
            pid = int(status.readline())
            if not select.select([status], [], [], timeout)[0]:
                os.kill(pid, signal.SIGKILL)
                status.readline()
                raise subprocess.TimeoutExpired(("runbook", *argv), timeout)
            return int(status.readline()), _text(out), _text(err)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """What of *env* the interpreter reads when it starts, and no more later."""
    return {name: value for name, value in env.items() if name.startswith(READ_AT_START)}


def _serve(line: socket.socket) -> dict | None:
    """Fork for each request, and tell how it ended; returns in each child, with its request, and at the end with None."""
    wakes, wake = os.pipe()
    for it in (wakes, wake):
        os.set_blocking(it, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([line, wakes], [], [])
        if wakes in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakes, 4096)
            _tell_ended(running)
        if line not in ready:
            continue
        said, files, _, _ = socket.recv_fds(line, 16, 4)
        if not said:
            return None
        request, out, err, status = files
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for it in (line.fileno(), wakes, wake, status, *running.values()):
                os.close(it)
            return {"request": request, "out": out, "err": err}
        os.write(status, b"%d\n" % pid)
        running[pid] = status
        for it in (request, out, err):
            os.close(it)


def _tell_ended(running: dict[int, int]) -> None:
    for pid in list(running):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            os.write(running[pid], b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(running.pop(pid))


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        importlib.import_module(name)
    files = _serve(line)
    if files is None:
        return
    line.detach()
    with open(files["request"], "rb") as request:
        request.seek(0)
        asked = json.load(request)
    for source, target in ((files["out"], 1), (files["err"], 2)):
        os.dup2(source, target)
        os.close(source)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["engine", *asked["argv"]]
    runpy.run_module("engine", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
