"""Hosts that count how often each of their steps was done, and runs on them that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import read_run
from runbook.values.event import ChangeStarted, HostFinished, RunFinished, StepFinished
from runbook.values.result import StepResult
from tests.support.program import PROGRAM, Said, runbook
from tests.support.waiting import until

HOSTS = [f"h{it}" for it in range(int(os.environ.get("RUNBOOK_TEST_HOSTS", "5")))]
STEPS = ("count", "handler", "last")

INVENTORY = "hosts:\n" + "".join(f"  {it}: {{transport: local}}\n" for it in HOSTS)

PLAYBOOK = """\
name: counted
about: Counts on each host how often each of its steps was done.
inputs:
  place: {about: Where it counts., type: string, required: true}
remediate:
  - id: count
    command: {do: {params: &file ["{{ inputs.place }}/{{ host.name }}"], script: 'echo >>"$1.count"; sleep 0.05'}}
  - id: settings
    file: {path: "{{ inputs.place }}/{{ host.name }}.conf", content: "new\\n"}
  - id: handler
    if_changed: [settings]
    command: {do: {params: *file, script: 'echo >>"$1.handler"; sleep 0.05'}}
  - id: last
    command: {do: {params: *file, script: 'echo >>"$1.last"; sleep 0.05'}}
"""


class Scene:
    """Hosts that count, on this machine; every run goes by their inventory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir(exist_ok=True)
        (folder / "counted.yaml").write_text(PLAYBOOK)
        (folder / "hosts.yaml").write_text(INVENTORY)
        self.begin = ("run", "counted.yaml", "--hosts", "all", "-e", f"place={folder}", "--yes", "--parallel", "3")

    def run(self, *words: str) -> Said:
        return runbook(*words, "-i", "hosts.yaml", "--output", "json", cwd=self.folder)

    def killed(self, after: float, *words: str) -> None:
        """Start a run, and kill it so many seconds after it has begun to record."""
        argv = (*PROGRAM, *words, "-i", "hosts.yaml")
        before = set(self.journals())
        process = subprocess.Popen(argv, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: process.poll() is not None or set(self.journals()) != before, "the record")
        time.sleep(after)  # noqa: TID251 any moment
        process.send_signal(signal.SIGKILL)
        process.wait()
        time.sleep(0.5)  # noqa: TID251 what was in flight runs on to its end, and tells nobody

    def journals(self) -> Iterator[str]:
        return (it.name for it in records().glob("*.jsonl"))

    def counts(self) -> dict[str, dict[str, int]]:
        """How often each step was done on each host."""
        return {host: {step: self._lines(f"{host}.{step}") for step in STEPS} for host in HOSTS}

    def _lines(self, name: str) -> int:
        path = self.folder / name
        return len(path.read_text().splitlines()) if path.exists() else 0

    def blocked(self, said: Said) -> dict[str, list[str]]:
        """The steps that each host does not take because nobody knows whether they were done."""
        found = {
            host["host"]: [it["id"] for it in host["steps"] if "nobody knows whether" in it["why"]]
            for host in said.document["hosts"]
        }
        return {host: steps for host, steps in found.items() if steps}


def records() -> Path:
    return Path(os.environ["XDG_STATE_HOME"], "runbook", "runs")


def as_if_killed_in(scene: Scene, step: str, end: StepResult | None = None) -> str:
    """A run that recorded the beginning of *step* on every host, perhaps its *end*, and then nothing more of it."""
    assert scene.run(*scene.begin, "--parallel", "1").code == 0
    return cut_in(step, end)


def cut_in(step: str, end: StepResult | None = None) -> str:
    """The one recorded run, as if it had been killed in *step*, or after this *end* of it."""
    (path,) = records().glob("*.jsonl")
    recorded = read_run(PrivateFolder(records()), path.stem)
    path.unlink()
    (records() / "ledger").unlink()
    made = Journal(PrivateFolder(records()), path.stem)
    over: set[str] = set()
    for event in recorded.events:
        host = getattr(event, "host", "")
        if host in over or isinstance(event, HostFinished | RunFinished):
            continue
        if isinstance(event, StepFinished) and event.result.id == step:
            over.add(host)
            continue
        if isinstance(event, ChangeStarted) and event.step == step:
            over.add(host)
        made.on(event)
        if end and isinstance(event, ChangeStarted) and event.step == step:
            made.on(StepFinished(host=host, result=end))
    made.close()
    return path.stem
