"""Real processes to look for and to end, and a private /dev with pretended GPUs for them to hold."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runbook.values.command import Command, Completed
from tests.support.waiting import LIMIT, soon, state, until

SHELLS = ("dash", "bash", "busybox", "only busybox")
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def each(names: Iterable[str]) -> list:
    """Names of shells as parameters of a test, of which each asks for the program that it needs.

    The gate has dash, and busybox with the programs of busybox or else with those of the machine; the others are left to
    `make soak`, unless there is no other.
    """
    names = tuple(names)
    soaked = {"bash", *(("busybox",) if "only busybox" in names else ())} if len(names) > 1 else ()
    return [
        pytest.param(name, marks=[pytest.mark.real(name.split()[-1]), *([pytest.mark.soak] if name in soaked else [])])
        for name in names
    ]


def shell(name: str, folder: Path) -> tuple[str, ...]:
    """How a script is started; *only busybox* has no other program on its PATH."""
    if name == "only busybox":
        tools = folder / "busybox-only"
        if not tools.exists():
            tools.mkdir()
            subprocess.run(["busybox", "--install", "-s", str(tools)], check=True)
        return ("env", "-i", f"PATH={tools}", str(tools / "sh"))
    return ("busybox", "sh") if name == "busybox" else (name,)


@dataclass
class Machine:
    """This machine as a connection has it, from inside a stage or as another user if so wished."""

    shell: tuple[str, ...] = ("dash",)
    before: tuple[str, ...] = ()
    """Words before the shell."""
    path: Path | None = None
    timeout: float = LIMIT
    sent: list[Command] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return tuple(map(self._run, commands))

    def _run(self, command: Command) -> Completed:
        self.sent.append(command)
        words = [*self.shell, "-c", command.script, "sh", *command.argv] if command.script else list(command.argv)
        env = {**os.environ, "PATH": f"{self.path}:{os.environ['PATH']}"} if self.path else None
        began = time.monotonic()
        with subprocess.Popen(
            [*self.before, *words],
            stdin=subprocess.PIPE if command.stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        ) as process:
            late = False
            try:
                out, err = process.communicate(command.stdin.encode() or None, timeout=self.timeout)
            except subprocess.TimeoutExpired:
                late = True
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
        return Completed(
            exit_code=None if late else process.returncode,
            stdout=out.decode("utf-8", "surrogateescape"),
            stderr=err.decode("utf-8", "surrogateescape"),
            seconds=time.monotonic() - began,
            timed_out=late,
        )


def _mind_signals() -> None:
    """What was started in the background of a shell ignores these, and so would all that it starts."""
    for it in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(it, signal.SIG_DFL)


@dataclass
class Stage:
    """Processes that a test starts, all of them ended with it, and perhaps GPUs of their own."""

    folder: Path
    word: str = field(default_factory=lambda: f"w{secrets.token_hex(5)}")
    """Stands on the command lines of this test's processes and of no others."""
    inside: tuple[str, ...] = ()
    started: list[subprocess.Popen] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def plant(self, gpus: int, *, minors: bool = True) -> Stage:
        """From now on processes have a /dev with so many GPUs; *minors*: the driver says which is which."""
        lines = ["mount --make-rprivate /", "mount -t tmpfs none /mnt", "cp -a /dev/null /dev/zero /dev/urandom /mnt/"]
        lines += [f": >/mnt/nvidia{it}" for it in range(gpus)] + [": >/mnt/nvidiactl", ": >/mnt/nvidia-uvm"]
        lines += ["mkdir /mnt/nvidia-caps", "mount --move /mnt /dev", "mount -t tmpfs none /proc/driver"]
        for it in range(gpus if minors else 0):
            place = f"/proc/driver/nvidia/gpus/0000:{0x90 + it:02x}:00.0"
            lines += [f"mkdir -p {place}", f"printf 'Device Minor: \\t %d\\n' {it} >{place}/information"]
        setup = self.start(["unshare", "-m", "sh", "-ec", "\n".join([*lines, "echo up; exec sleep 900"])])
        self.inside = ("nsenter", "-t", str(setup.pid), "-m")
        return self

    def start(self, argv: list[str], *, up: bool = True, **keys) -> subprocess.Popen:
        """A process in a session of its own; with *up* it says so before it is used."""
        keys = {"start_new_session": True, "stdin": subprocess.DEVNULL, **keys}
        out = subprocess.PIPE if up else subprocess.DEVNULL
        process = subprocess.Popen([*self.inside, *argv], stdout=out, preexec_fn=_mind_signals, **keys)
        self.started.append(process)
        if up:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == b"up", argv
        return process

    def job(self, *holds: str, name: str = "", ignores: str = "", **keys) -> subprocess.Popen:
        """A process that sleeps with files open; *ignores* names a signal."""
        opened = " ".join(f"{3 + at}<{shlex.quote(it)}" for at, it in enumerate(holds))
        trap = f"trap '' {ignores};" if ignores else ""
        called = shlex.quote(name or f"python train_{self.word}.py")
        line = f"{trap} exec {opened}; echo up; exec -a {called} sleep 800"
        return _became_sleep(self.start(["bash", "-c", line], **keys))

    def family(self, *children: str, name: str = "", **keys) -> tuple[subprocess.Popen, list[int]]:
        """A launcher, and one child in a session of its own for each of *children*: the file that it holds."""
        jobs = "\n".join(
            f"setsid bash -c 'exec 3<{it or '/dev/null'}; echo $$; exec -a \"rank {self.word}\" sleep 800' &"
            for it in children
        )
        called = name or f"torchrun_{self.word}"
        launcher = self.start(["bash", "-c", f"echo up; {jobs}\nwait", called], **keys)
        assert launcher.stdout is not None
        pids = sorted(int(launcher.stdout.readline()) for _ in children)
        self.others += pids
        return launcher, pids

    def close(self) -> None:
        """End what was started, by pid."""
        for pid in self.others:
            try:
                if self.word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        for it in reversed(self.started):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(it.pid, signal.SIGKILL)  # a session of its own: what it started goes with it
            it.wait()
            if it.stdout:
                it.stdout.close()


def _became_sleep(process: subprocess.Popen) -> subprocess.Popen:
    """*process*, once it is no shell any more, which has another command line and ignores SIGQUIT."""
    comm = Path(f"/proc/{process.pid}/comm")
    until(lambda: process.poll() is not None or comm.read_text() == "sleep\n", f"sleep by {process.args}")
    return process


def lives(pid: int) -> bool:
    """Whether there is such a process, and not only its remains."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def living(mark: str) -> list[int]:
    """The processes that have *mark* in their command line and are not dead; read in /proc, as no `ps` may be there."""
    found = []
    for line in (each / "cmdline" for each in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            if mark in line.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(line.parent.name))
    return found


def shows_up(mark: str, within: float = LIMIT) -> bool:
    """Whether a process with *mark* is there in time: one that has only just been forked has its parent's command line."""
    return soon(lambda: living(mark), within)


def children_in(parent: int, letter: str) -> list[int]:
    """Its children that are in that state of proc(5)."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(child) for child in children if state(int(child)) == letter]


def computed() -> float:
    """Seconds that we and the programs that we have waited for have computed; a busy machine makes no difference to them."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def start_of(pid: int) -> int:
    """Field 22 of its stat."""
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(") ")[2].split()[19])


def can(program: str) -> bool:
    """Whether this machine has *program*."""
    return shutil.which(program) is not None


def end(mark: str) -> None:
    for pid in living(mark):
        os.kill(pid, signal.SIGKILL)


def gone(mark: str, within: float = LIMIT) -> bool:
    """Whether no process has *mark* in its command line in time."""
    return soon(lambda: not living(mark), within)
