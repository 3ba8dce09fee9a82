"""Where a fault is provoked: a folder, hosts, the program itself, and what must not be harmed or left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from runbook import lab
from tests.support.program import PROGRAM, Practice, Said
from tests.support.sshd import Sshd, start_sshd
from tests.support.waiting import LIMIT, until

LOCAL = "hosts:\n  here: {transport: local, gpu: none}\n"
ROOM_SCRIPT = """\
mkdir -p -m 700 /run/runbook && mount -t tmpfs -o mode=700 lock /run/runbook && echo ready && exec sleep 600
"""
ROOM = ("unshare", "--mount", "sh", "-c", ROOM_SCRIPT)
"""Mounts of a place's own: else the locks of all tests on this machine would keep each other out."""
WITHIN = 60.0
"""Seconds that any run may take."""
LOOK = "diagnose:\n  - {id: look, command: {argv: ['true']}}\n"


@dataclass
class Told(Said):
    """What a run of the program said, and what it cost."""

    seconds: float = 0.0
    cpu: float = 0.0
    """Seconds that the program itself has computed."""
    memory: int = 0
    """Bytes of the program itself at its largest."""

    @cached_property
    def document(self) -> dict:
        return json.loads(self.out)

    def about(self, host: str, step: str = "") -> str:
        """Everything that is said of a host, or of one step on it; without a host what stands on stderr."""
        if not host:
            return self.err
        told = self.step(host, step) if step else self.host(host)
        return "\n".join(_texts(told))


def _texts(tree: object) -> Iterable[str]:
    if isinstance(tree, str):
        yield tree
    for it in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _texts(it)


@dataclass
class Running:
    """The program on its way, with its streams in files."""

    process: subprocess.Popen
    out: Path
    err: Path
    terminal: int = -1
    began: float = field(default_factory=time.monotonic)

    def interrupt(self) -> None:
        """What Ctrl-C does: to the terminal that it has, or to the program itself."""
        if self.terminal < 0:
            self.process.send_signal(signal.SIGINT)
        else:
            os.write(self.terminal, b"\x03")

    def says(self, words: str) -> None:
        """Wait until *words* stand on stderr."""
        self.until(lambda: words in self.err.read_text(errors="replace"), f"{words!r} on stderr")

    def until(self, holds: Callable[[], object], what: str) -> None:
        """Wait until *holds*, as long as the program runs."""

        def held() -> bool:
            over = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            done = bool(holds())
            assert done or not over, f"ended before {what}: {self.err.read_text(errors='replace')}"
            return done

        until(held, what)

    def ended(self) -> Told:
        """Wait for its end."""
        deadline, memory = time.monotonic() + WITHIN, 0
        while True:
            memory = max(memory, _largest(self.process.pid))  # ru_maxrss counts anybody who forked it, too
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                self.process.kill()
                os.wait4(self.process.pid, 0)
                self.process.returncode = -signal.SIGKILL
                raise AssertionError(f"it does not end: {self.err.read_text(errors='replace')}")
            time.sleep(0.02)  # noqa: TID251 its memory is looked at as often
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.terminal >= 0:
            os.close(self.terminal)
        return Told(
            code=self.process.returncode,
            out=self.out.read_text(),
            err=self.err.read_text(),
            seconds=time.monotonic() - self.began,
            cpu=used.ru_utime + used.ru_stime,
            memory=memory,
        )


def _largest(pid: int) -> int:
    """The most memory that a process has had since it began to run its program; 0 where that cannot be told."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(it.split()[1]) * 1024 for it in lines if it.startswith("VmHWM:")), 0)


class Place:
    """One fault's own place; *end* takes down all that was put up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = f"RUNBOOK_FAULT={uuid.uuid4().hex}"
        self.env: dict[str, str] = {}
        (folder / "home").mkdir()
        self.short = Path(tempfile.mkdtemp(prefix="runbook-"))
        """A folder with a short name: a socket's may have 107 characters."""
        self._runs = 0
        self._labs: list[tuple[Practice, dict[str, set]]] = []
        self._ends: list[Callable[[], object]] = []
        self.bystander = subprocess.Popen(["sleep", "600"])
        self.finally_(self.bystander.kill)
        self._room = subprocess.Popen(ROOM, stdout=subprocess.PIPE, text=True)
        self.finally_(self._room.kill)
        assert self._room.stdout
        assert self._room.stdout.readline() == "ready\n"
        self.inside = ("nsenter", "--mount", "--target", str(self._room.pid), "--")
        """What comes before a program that is to see the mounts of this place only."""

    def finally_(self, end: Callable[[], object]) -> None:
        """Have *end* called when all is over."""
        self._ends.append(end)

    def file(self, name: str, text: str | bytes) -> Path:
        """A file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def playbook(self, text: str = LOOK, name: str = "toy") -> str:
        """A playbook."""
        return str(self.file(f"{name}.yaml", f"name: {name}\n{text}"))

    def disk(self, name: str, options: str) -> tuple[Path, Path]:
        """A small disk of its own: the folder as hosts see it, and as we do."""
        folder = self.folder / name
        folder.mkdir()
        subprocess.run((*self.inside, "mount", "-t", "tmpfs", "-o", options, "none", str(folder)), check=True)
        return folder, Path(f"/proc/{self._room.pid}/root{folder}")

    def sshd(self, name: str = "sshd", **keys) -> Sshd:
        """An sshd whose sessions carry the mark of this place."""
        server = start_sshd(self.folder / name, extra=f"SetEnv {self.mark}\n", before=self.inside, **keys)
        self.finally_(server.stop)
        return server

    def lab(self, *faults: str) -> Practice:
        """A lab that is up, of whose hosts no process may end or be added."""
        made = Practice(lab.up(lab.LabOptions(directory=self.folder / f"lab{len(self._labs)}", faults=faults)))
        self.finally_(lambda: lab.down(made.lab.directory))
        for it in made.lab.hosts:
            if set(it.faults) & {"busy", "leftovers"}:
                until(lambda it=it: len(lab.processes_on_host(it.pid)) >= 3, f"the jobs of {it.name}")
        time.sleep(0.2)  # noqa: TID251 until every process of the hosts has its name, which nothing tells
        self._labs.append((made, {it.name: set(lab.processes_on_host(it.pid)) for it in made.lab.hosts}))
        return made

    def start(
        self,
        *argv: str,
        inventory: str | Path = "",
        terminal: bool = False,
        before: tuple[str, ...] = (),
        yes: bool = True,
    ) -> Running:
        """Start the program: the hosts of *inventory*, or this machine; *before* are words before it.

        Without a *terminal*, a run is given its yes beforehand, unless it is not to have one.
        """
        self._runs += 1
        out, err = self.folder / f"out{self._runs}", self.folder / f"err{self._runs}"
        where = str(inventory) if inventory else str(self.file("hosts.yaml", LOCAL))
        name, value = self.mark.split("=")
        agreed = ("--yes",) if yes and not terminal and argv[0] == "run" and "--yes" not in argv else ()
        words = (*self.inside, *before, *PROGRAM, *argv, *agreed, "-i", where, "--output", "json")
        ours, theirs = os.openpty() if terminal else (-1, os.open(os.devnull, os.O_RDONLY))
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                ("setsid", "--ctty", "--wait", *words) if terminal else words,
                stdin=theirs, stdout=to_out, stderr=to_err, process_group=None if terminal else 0,
                env={**os.environ, "HOME": str(self.folder / "home"), name: value, **self.env},
            )  # fmt: skip
        os.close(theirs)
        return Running(process, out, err, ours)

    def run(self, playbook: str, *argv: str, hosts: str = "all", **keys) -> Told:
        """Run a playbook to its end."""
        return self.start("run", playbook, "--hosts", hosts, *argv, **keys).ended()

    def lives(self, words: str) -> bool:
        """Whether a process with *words* on its command line was started by the program, or over our sshd."""
        return any(words in it for it in _carrying(self.mark.encode()))

    def unharmed(self, within: float = LIMIT) -> None:
        """Nobody else was ended, and nothing of the program's is left on any host *within* so many seconds."""
        assert self.bystander.poll() is None, "a process that has nothing to do with it was ended"
        until(lambda: not _carrying(self.mark.encode()), "the last process of the program to end", within)
        for practice, before in self._labs:
            for it in practice.lab.hosts:
                if it.lives:
                    until(
                        lambda it=it, wanted=before: set(lab.processes_on_host(it.pid)) == wanted[it.name],
                        f"{it.name} to be as it was",
                        within,
                    )

    def end(self) -> None:
        """Take down everything."""
        for it in reversed(self._ends):
            it()
        self.bystander.wait()
        self._room.wait()
        if self._room.stdout:
            self._room.stdout.close()
        shutil.rmtree(self.short)


def _carrying(mark: bytes) -> list[str]:
    """The processes with *mark* in their environment."""
    found = []
    for it in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (it / "environ").read_bytes().split(b"\0"):
                found.append((it / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found
