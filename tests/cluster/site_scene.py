"""Workers as processes, and toy hosts on this machine: each write is a line in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.made_cluster import Cluster
from tests.support.program import PROGRAM, Said, runbook
from tests.support.waiting import LIMIT, until

TOY = """\
name: toy
about: A toy that marks each host once.
inputs:
  place: {about: The directory of the marks., type: string, required: true}
  takes: {about: The seconds that a mark takes., type: number, default: 0}
diagnose:
  - {id: mark, name: The mark, command: {script: 'cat "$1.mark" 2>/dev/null || echo none', params: ["{{ inputs.place }}/{{ host.name }}"]}}
findings:
  - {id: unmarked, when: "'done' not in mark.stdout", severity: error, say: "{{ host.name }} has no mark", advise: [Mark it.]}
remediate:
  - id: write
    name: Mark the host
    command:
      check: {params: ["{{ inputs.place }}/{{ host.name }}"], script: 'test -e "$1.mark"'}
      do: {params: ["{{ inputs.place }}/{{ host.name }}", "{{ inputs.takes | string }}"], script: 'echo done >>"$1.mark"; sleep "$2"'}
"""


@dataclass
class Worker:
    """A ``runbook worker``."""

    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """End it and what it has started, as a power cut does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")


@dataclass
class Scene:
    """Hosts of two sites, who may order from them, and their workers."""

    folder: Path
    cluster: Cluster
    hosts: dict[str, str] = field(default_factory=dict)
    """The site of each host."""
    workers: list[Worker] = field(default_factory=list)

    def made(self) -> Scene:
        for name in ("marks", "home/.ssh", "locks"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "locks/.runbook-locks").touch()
        (self.folder / "locks").chmod(0o700)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True)
        self.signers.write_text(f"alice@example.com {self.key.with_suffix('.pub').read_text()}")
        (self.folder / "toy.yaml").write_text(TOY)
        rows = [
            f"  {name}: {{transport: local, site: {site}, rack: r{at % 3}}}"
            for at, (name, site) in enumerate(self.hosts.items())
        ]
        (self.folder / "hosts.yaml").write_text("\n".join(["hosts:", *rows, ""]))
        return self

    @property
    def key(self) -> Path:
        return self.folder / "home/.ssh/id_ed25519"

    @property
    def signers(self) -> Path:
        return self.folder / "allowed_signers"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder / "home"), "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CACHE_HOME": str(self.folder / "cache"), "RUNBOOK_CLUSTER": self.cluster.place("alice"),
        }  # fmt: skip

    def worker(self, site: str, *words: str) -> Worker:
        number = len(self.workers)
        locks = self.folder / f"locks-{number}"  # all hosts are this machine: a lock a worker, as if they were not
        locks.mkdir(mode=0o700)
        (locks / ".runbook-locks").touch()
        own = {**os.environ, **self.environment, "RUNBOOK_CLUSTER": self.cluster.place(f"runbook_site_{site}"),
               "XDG_STATE_HOME": str(self.folder / f"worker-{number}"), "RUNBOOK_LOCK_PLACES": str(locks)}  # fmt: skip
        log = self.folder / f"worker-{number}.log"
        given = ("--shards", "1", "--accept-new-host-keys", "--allowed-signers", str(self.signers), *words)
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*PROGRAM, "worker", *given], env=own, cwd=self.folder, stdout=file, stderr=file, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self.workers.append(Worker(process, log))
        until(lambda: "ready" in self.workers[-1].said or process.poll() is not None)
        assert process.poll() is None, self.workers[-1].said
        return self.workers[-1]

    def run(self, *words: str, hosts: str = "all", via: str = "cluster", **env: str) -> Said:
        given = ("-i", "hosts.yaml", "--hosts", hosts, "-e", f"place={self.folder / 'marks'}", "--output", "json")
        return runbook(
            "run",
            "toy.yaml",
            *given,
            "--via",
            via,
            *words,
            cwd=self.folder,
            timeout=LIMIT,
            **{**self.environment, **env},
        )

    def start(self, *words: str, hosts: str = "all") -> subprocess.Popen[str]:
        """Begin a run in a process of its own."""
        given = ("-i", "hosts.yaml", "--hosts", hosts, "-e", f"place={self.folder / 'marks'}", "--output", "json")
        return subprocess.Popen(
            [*PROGRAM, "run", "toy.yaml", *given, "--via", "cluster", *words], env={**os.environ, **self.environment},
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def marks(self) -> dict[str, int]:
        """How often each host was written to."""
        return {path.stem: path.read_text().count("done") for path in (self.folder / "marks").glob("*.mark")}

    def close(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()


def verdicts(said: Said) -> dict[str, str]:
    assert said.out, said.err
    return {it["host"]: it["verdict"] for it in said.document["hosts"]}
