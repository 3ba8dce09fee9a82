"""Run the program in a process of its own that need not import it first: a server of this session has done so, and forks.

Importing is most of what a short run computes, and tests make hundreds of them.  A run has its own streams, folder and
environment, is ended by its own signals, and leaves nothing behind in the next one.  What the interpreter itself reads
when it starts (``PYTHON*``, the locale) is the server's: runs that set those are started as anybody would.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
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
from types import ModuleType
from typing import IO

from tests.support.waiting import LIMIT

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "runbook.cli",
    "runbook.commands",
    "runbook.connections",
    "runbook.inventory",
    "runbook.library",
    "runbook.reporting",
)
"""Before the first fork, with all that is in them and all that they import."""
NOT_IMPORTED = ("runbook.cli.mcp", "runbook.commands.mcp")
"""What few runs need and takes long; such a run imports it."""
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
                (sys.executable, "-m", "tests.support.forked_program", str(theirs.fileno())),
                stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], cwd=ROOT,
            )  # fmt: skip
        return Server(ours, process, read_at_start(os.environ))

    def stop(self) -> None:
        self.line.close()  # it ends when nobody is at the other end
        self.process.wait()

    def run(
        self, argv: tuple[str, ...], env: dict[str, str], cwd: str, timeout: float, stdin: int | None = None
    ) -> tuple[int, str, str]:
        """Its exit code, stdout and stderr.  Raises TimeoutExpired, and has then killed it."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = self.begin(argv, env, cwd, out.fileno(), err.fileno(), stdin).wait(timeout)
            return code, _text(out), _text(err)

    def begin(
        self, argv: tuple[str, ...], env: dict[str, str], cwd: str, out: int, err: int, stdin: int | None = None
    ) -> Run:
        """A run that goes on beside the test; its stdin is empty, or the file *stdin*."""
        told, tells = os.pipe()
        with tempfile.TemporaryFile() as request:
            request.write(json.dumps({"argv": argv, "env": env, "cwd": cwd}).encode())
            request.flush()
            files = array.array("i", [request.fileno(), out, err, tells, *(() if stdin is None else (stdin,))])
            self.line.sendmsg([b"run"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        os.close(tells)
        status = open(told, "rb", buffering=0)  # noqa: SIM115 it is closed when the run has ended
        return Run(argv, int(status.readline()), status)


@dataclass
class Run:
    """A process of the program, which its server waits for."""

    argv: tuple[str, ...]
    pid: int
    """A child of the server."""
    status: IO[bytes] = field(repr=False)
    returncode: int | None = None

    def poll(self, timeout: float = 0) -> int | None:
        """Its exit code, once it has ended; a signal that ended it is a negative one."""
        if self.returncode is None and select.select([self.status], [], [], timeout)[0]:
            self.returncode = int(self.status.readline())
            self.status.close()
        return self.returncode

    def wait(self, timeout: float = LIMIT) -> int:
        """Its exit code.  Raises TimeoutExpired, and has then killed it."""
        code = self.poll(timeout)
        if code is None:
            self.kill()
            raise subprocess.TimeoutExpired(("runbook", *self.argv), timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it, and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.poll(LIMIT)


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
        said, files, _, _ = socket.recv_fds(line, 16, 5)
        if not said:
            return None
        request, out, err, status, *stdin = files
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for it in (line.fileno(), wakes, wake, status, *running.values()):
                os.close(it)
            return {"request": request, "streams": [*((file, 0) for file in stdin), (out, 1), (err, 2)]}
        os.write(status, b"%d\n" % pid)
        running[pid] = status
        for it in (request, out, err, *stdin):
            os.close(it)


def _tell_ended(running: dict[int, int]) -> None:
    for pid in list(running):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            os.write(running[pid], b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(running.pop(pid))


def _import_all(package: ModuleType) -> None:
    for it in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if not it.name.startswith(NOT_IMPORTED):
            made = importlib.import_module(it.name)
            if it.ispkg:
                _import_all(made)


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    for name in IMPORTED:
        _import_all(importlib.import_module(name))
    importlib.import_module("runbook.codec").from_json(int, 0)  # its converter is made once in a process
    gc.collect()
    gc.freeze()  # what is here already is no garbage of any run
    files = _serve(line)
    if files is None:
        return
    line.detach()
    with open(files["request"], "rb") as request:
        request.seek(0)
        asked = json.load(request)
    for source, target in files["streams"]:
        os.dup2(source, target)
        os.close(source)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv = ["runbook", *asked["argv"]]
    runpy.run_module("runbook", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
