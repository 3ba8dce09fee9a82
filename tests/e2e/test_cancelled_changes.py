"""A change on which a run is cancelled: the report, the record and `resume` say how far it had come."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, Said, runbook
from tests.support.waiting import until

INVENTORY = "hosts:\n  here: {transport: local, gpu: none}\n"
BOOK = """\
name: cut
about: Three changes and a clean-up, each of which is written down.
remediate:
  - id: one
    command:
      check: {{params: &log [{log}], script: 'grep -qx one "$1" || exit 1'}}
      do:
        params: *log
        script: |
          echo begun >>"$1"
          n=0; while [ ! -e "$1.go" ] && [ $n -lt 1200 ]; do sleep 0.05; n=$((n + 1)); done
          echo one >>"$1"
  - {{id: two, command: {{do: {{params: *log, script: 'echo two >>"$1"'}}}}}}
  - {{id: last, always: true, command: {{do: {{params: *log, script: 'echo last >>"$1"'}}}}}}
"""
ASKED = {1: "a change that is running may finish", 2: "ending running changes, too"}
"""What the program says once it has been asked so often."""


@dataclass
class Scene:
    """The playbook on this machine, and what it has written."""

    folder: Path
    runs: list[subprocess.Popen] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.folder / "hosts.yaml").write_text(INVENTORY)
        (self.folder / "cut.yaml").write_text(BOOK.format(log=self.folder / "log"))

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def go(self) -> None:
        (self.folder / "log.go").touch()

    def begun(self, *, ignored: int = 0) -> subprocess.Popen:
        """A run in the middle of its first change; *ignored*: a signal that whoever started it has it ignore."""
        preexec = (lambda: signal.signal(ignored, signal.SIG_IGN)) if ignored else None
        reports = ("--report", "run.json", "--report", "run.md")
        process = subprocess.Popen(
            (*PROGRAM, "run", "cut.yaml", "-i", "hosts.yaml", "--hosts", "here", "--yes", *reports),
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=preexec,
        )  # fmt: skip
        self.runs.append(process)
        until(lambda: self.log or process.poll() is not None, "the first change")
        assert process.poll() is None
        return process

    def over(self) -> None:
        """Let no run outlive the test."""
        self.go()
        for process in self.runs:
            process.kill()
            process.communicate()

    def cancelled(self, number: int, times: int) -> str:
        """What a run prints that is asked to end so often while its first change is under way."""
        process = self.begun()
        for asked in range(1, times + 1):
            process.send_signal(number)
            assert ASKED[asked] in (process.stderr.readline() if process.stderr else "")
        if times == 1:
            self.go()
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 130
        return out

    def steps(self) -> dict[str, dict]:
        (host,) = json.loads((self.folder / "run.json").read_text())["hosts"]
        return {step["id"]: step for step in host["steps"]}

    def resume(self, *more: str) -> Said:
        return runbook("resume", "last", "-i", "hosts.yaml", "--yes", "--output", "json", *more, cwd=self.folder)


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    made.over()


def test_a_change_that_ran_to_its_end_is_done_and_what_came_after_it_is_not(scene):
    """Mutants: host_lines.py ``_end`` with every cancelled step as not done; ``_confirmed`` without ``Sent.ALL``;
    ``_asked_to_end`` with the command at which it was noticed as the reason of the host."""
    lines = [line.strip() for line in scene.cancelled(signal.SIGTERM, 1).splitlines()]
    assert scene.log == ["begun", "one", "last"]
    assert "interrupted by SIGTERM" in lines
    assert [line for line in lines if line.startswith(("done", "not "))] == [
        "done: last", "done, and not probed again: one", "not done: two",
    ]  # fmt: skip
    assert {name: step["sent"] for name, step in scene.steps().items()} == {"one": "all", "two": "", "last": "all"}
    (row,) = [line for line in (scene.folder / "run.md").read_text().splitlines() if "| `one` |" in line]
    assert "| cancelled, done, and not probed again |" in row
    said = scene.resume()
    assert said.code == 0, said.out
    assert scene.log.count("one") == scene.log.count("two") == 1


def test_a_change_that_was_ended_half_way_is_in_doubt_and_clean_up_that_was_not_sent_is_not(scene):
    """Mutants: host_lines.py ``_end`` with what is owed in doubt, or what is half done as not done."""
    lines = [line.strip() for line in scene.cancelled(signal.SIGINT, 2).splitlines()]
    assert scene.log == ["begun"]
    assert [line for line in lines if line.startswith(("done", "not "))] == [
        "not known, perhaps done, or half: one", "not done: two, last",
    ]  # fmt: skip
    assert {name: step["sent"] for name, step in scene.steps().items()} == {"one": "part", "two": "", "last": "nothing"}


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(scene, number):
    """As `nohup` starts a program, and a script what it puts in the background.  Mutants: ``can_stop`` without ``ignored``;
    SIG_IGN, which the shells that end what is late would inherit."""
    process = scene.begun(ignored=number)
    os.kill(process.pid, number)
    scene.go()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, scene.log) == (0, ["begun", "one", "two", "last"]), out
    assert number.name not in err
