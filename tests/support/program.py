"""Run the program as a user would, in a process of its own, and read what it prints; also on the hosts of a lab."""

from __future__ import annotations

import atexit
import json
import os
import pty
import subprocess
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from runbook import lab
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.values.playbook import Step
from tests.support import forked_program
from tests.support.waiting import LIMIT

PROGRAM = (sys.executable, "-m", "runbook")


@dataclass
class Said:
    """What a run of the program said."""

    code: int
    out: str
    err: str

    @cached_property
    def document(self) -> dict:
        return json.loads(self.out)

    def host(self, name: str) -> dict:
        return next(it for it in self.document["hosts"] if it["host"] == name)

    def step(self, host: str, step: str) -> dict:
        return next(it for it in self.host(host)["steps"] if it["id"] == step)

    def finding(self, host: str, finding: str) -> dict:
        return next(it for it in self.host(host)["findings"] if it["id"] == finding)

    def writes(self) -> list[str]:
        return [
            command["line"]
            for host in self.document["hosts"]
            for step in host["steps"]
            for command in step["commands"]
            if command["effect"] == "write" and command["exit_code"] is not None
        ]


def runbook(*argv: str, cwd: Path | None = None, timeout: float = 2 * LIMIT, **env: str) -> Said:
    """Run the program without a terminal."""
    whole = {**os.environ, **env}
    server = _server()
    if forked_program.read_at_start(whole) == server.began_with:
        return Said(*server.run(argv, whole, str(cwd or Path.cwd()), timeout))
    done = subprocess.run(
        (*PROGRAM, *argv), capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False, cwd=cwd, env=whole,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


@cache
def _server() -> forked_program.Server:
    made = forked_program.Server.start()
    atexit.register(made.stop)
    return made


def on_terminal(argv: tuple[str, ...], answer: str, cwd: Path | None = None, **env: str) -> tuple[int, str]:
    """Run the program with a terminal as stdin, on which *answer* has been typed; its exit code, and all that it said."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    try:
        code, out, err = _server().run(argv, {**os.environ, **env}, str(cwd or Path.cwd()), 60, theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    return code, out + err


def begun(*argv: str, cwd: Path | None = None, **env: str) -> forked_program.Run:
    """A run of the program that goes on beside the test; nobody reads its stdout."""
    with open(os.devnull, "r+b") as nowhere:
        return _server().begin(argv, {**os.environ, **env}, str(cwd or Path.cwd()), nowhere.fileno(), nowhere.fileno())


@dataclass
class Practice:
    """A lab that is up."""

    lab: lab.Lab

    def run(self, playbook: str, *argv: str, hosts: str = "all", output: str = "json", **keys) -> Said:
        where = ("-i", str(self.lab.inventory), "--hosts", hosts, "--output", output)
        return runbook("run", playbook, *where, *argv, **keys)

    def exec(self, host: str, text: str) -> str:
        """What *text* prints on *host*, by plain ssh."""
        argv = lab.shell_argv(self.lab.directory, host)
        done = subprocess.run((*argv, text), capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def commands(self, host: str) -> set[str]:
        """The command lines that live on *host*."""
        lines = self.exec(host, "ps -eo stat=,args=").splitlines()
        return {it.split(None, 1)[1] for it in lines if not it.startswith("Z")}

    def calls(self, host: str) -> list[str]:
        """What nvidia-smi was asked on *host*."""
        return (self.lab.state(host) / "calls").read_text().splitlines()


def scene(playbook: str, **more: str) -> tuple[str, ...]:
    """The inputs of the lab's scene for *playbook*, with *more* of them or others, as words of a command line."""
    texts = {name: it if isinstance(it, str) else json.dumps(it) for name, it in lab.SCENARIOS[playbook].inputs.items()}
    return tuple(word for name, it in {**texts, **more}.items() for word in ("-e", f"{name}={it}"))


def look(playbook: str, step: str) -> Step:
    """A probe of one of the playbooks, as it is written."""
    path = Path(__file__).parents[2] / "playbooks" / f"{playbook}.yaml"
    (found,) = (it for it in load_playbook(path.read_text(), str(path), discover()).diagnose if it.id == step)
    return found
