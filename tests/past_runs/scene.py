"""Hosts of this machine with real processes each, a playbook that ends them, and the commands of saved plans."""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.program import Said, on_terminal, runbook
from tests.support.waiting import soon

ME = getpass.getuser()

BOOK = """\
name: sleepers
about: End the sleepers of a test.
inputs:
  mark: {{about: A part of their command line., type: string, required: true}}
  token: {{about: A secret., secret: true, default: ''}}
diagnose:
  - id: runs
    processes: {{patterns: ["{{{{ inputs.mark }}}}-{{{{ host.name }}}}-"]}}
findings:
  - id: held
    when: runs.matches
    severity: error
    say: "{{{{ runs.matches | counted('sleeper') }}}}"
remediate:
  - id: stop
    for: held
    pkill: {{patterns: ["{{{{ inputs.mark }}}}-{{{{ host.name }}}}-"], grace: 1s}}
{more}"""


@dataclass
class Scene:
    """A directory with a playbook, an inventory and a plan."""

    folder: Path
    more: str = ""
    processes: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mark = f"sleeper{os.urandom(4).hex()}"
        self.book.write_text(BOOK.format(more=self.more))
        self.inventory.write_text("hosts: {a: {transport: local}, b: {transport: local}}\n")

    @property
    def book(self) -> Path:
        return self.folder / "sleepers.yaml"

    @property
    def inventory(self) -> Path:
        return self.folder / "hosts.yaml"

    @property
    def file(self) -> Path:
        return self.folder / "plan.json"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def env(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.state), "HOME": str(self.folder)}

    def sleeper(self, host: str) -> subprocess.Popen:
        """A process on *host* that the playbook ends."""
        name = f"{self.mark}-{host}-{len(self.processes)}"
        made = subprocess.Popen(("python3", "-c", "import time; print(flush=True); time.sleep(600)", name), stdout=-1)
        assert made.stdout
        made.stdout.readline()
        self.processes.append(made)
        return made

    def close(self) -> None:
        for it in self.processes:
            it.kill()
            it.communicate()

    def run(self, *words: str, cwd: Path | None = None, **env: str) -> Said:
        return runbook(*words, cwd=cwd or self.folder, **{**self.env, **env})

    def plan(self, *words: str, hosts: str = "all", **env: str) -> Said:
        given = ("-i", "hosts.yaml", "--hosts", hosts, "-e", f"mark={self.mark}", "-o", "plan.json")
        return self.run("plan", "sleepers.yaml", *given, *words, **env)

    def apply(self, *words: str, **env: str) -> Said:
        return self.run("apply", "plan.json", "--yes", "--output", "json", *words, **env)

    def document(self) -> dict:
        return json.loads(self.file.read_text())


def resealed(tree) -> bytes:
    """The file of *tree* with the digest that belongs to it."""
    from runbook.commands.plans import document

    return json.dumps({**tree, "digest": document._digest(tree)}).encode()


def alive(process: subprocess.Popen) -> bool:
    return process.poll() is None


def ended(process: subprocess.Popen) -> bool:
    """Whether it was ended by a signal, soon."""
    return soon(lambda: not alive(process)) and process.returncode in (-signal.SIGTERM, -signal.SIGKILL)


def asked(scene: Scene, words: tuple[str, ...], answer: str) -> tuple[int, str]:
    """Run the program on a terminal in *scene*."""
    return on_terminal(words, answer, cwd=scene.folder, **scene.env)
