"""A playbook that changes a file for a while, on this machine; its run can be killed on the way."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.forked_program import Run
from tests.support.program import Said, begun, runbook
from tests.support.waiting import until

INVENTORY = "hosts:\n  here: {transport: local, gpu: none}\n  there: {transport: local, gpu: none}\n"

FLIP = """\
name: flip
hosts: here
inputs:
  file: {about: The file that is changed., type: string, required: true}
  token: {about: A secret., type: string, default: "", secret: true}
remediate:
  - id: change
    command:
      check: {params: &file ["{{ inputs.file }}"], script: '! grep -q old "$1" || exit 1'}
      do:
        params: *file
        script: |
          { ls "$XDG_STATE_HOME/runbook/owed"; ls "$RUNBOOK_LOCK_PLACES"/*/ | grep ^owed; } >"$1.seen" 2>&1
          cp -p "$1" "$1.kept" && echo new >"$1" && echo changed >>"$1.log"
  - id: linger
    after: [change]
    command:
      check: {params: *file, script: '[ -e "$1.go" ] || exit 1'}
      do: {params: *file, script: 'n=0; while [ ! -e "$1.go" ] && [ $n -lt 600 ]; do sleep 0.05; n=$((n + 1)); done'}
  - id: put_back
    name: Restore the old file
    always: true
    command:
      check: {params: *file, script: '[ ! -e "$1.kept" ] || exit 1'}
      do:
        params: ["{{ inputs.file }}", "{{ inputs.token }}"]
        script: 'mv -f "$1.kept" "$1" && echo "restored${2:+ with }$2" >>"$1.log"'
"""

LOOK = """\
name: look
hosts: here
diagnose:
  - {id: there, files: {paths: [/etc/passwd]}}
"""


@dataclass
class Scene:
    """The file, the playbooks and the inventory, in a directory of their own."""

    folder: Path

    def __post_init__(self) -> None:
        for name, text in (("flip.yaml", FLIP), ("look.yaml", LOOK), ("hosts.yaml", INVENTORY), ("file", "old\n")):
            (self.folder / name).write_text(text)

    @property
    def file(self) -> Path:
        return self.folder / "file"

    @property
    def log(self) -> list[str]:
        path = self.folder / "file.log"
        return path.read_text().splitlines() if path.exists() else []

    def records(self) -> list[Path]:
        """Those on this side."""
        return sorted(Path(os.environ["XDG_STATE_HOME"]).glob("runbook/owed/*"))

    def notes(self) -> list[Path]:
        """Those on the host's side."""
        return sorted(Path(os.environ["RUNBOOK_LOCK_PLACES"]).glob("*/owed-*"))

    def argv(self, *more: str, host: str = "here") -> tuple[str, ...]:
        return ("run", "flip.yaml", "-i", "hosts.yaml", "--hosts", host, "-e", f"file={self.file}", "--yes", *more)

    def run(self, *more: str) -> Said:
        return runbook(*self.argv(*more), cwd=self.folder)

    def look(self, *more: str) -> Said:
        argv = ("run", "look.yaml", "-i", "hosts.yaml", "--hosts", "here", "--dry-run", *more)
        return runbook(*argv, cwd=self.folder)

    def settle(self, *more: str) -> Said:
        return runbook("settle", *more, cwd=self.folder)

    def started(self, *more: str, host: str = "here") -> Run:
        """A run that has changed the file, and lingers."""
        before = len(self.log)
        process = begun(*self.argv(*more, host=host), cwd=self.folder)
        until(lambda: len(self.log) > before or process.poll() is not None, "the change")
        assert process.poll() is None
        return process

    def killed(self, *more: str, host: str = "here") -> None:
        """A run that was killed when it had changed the file."""
        process = self.started(*more, host=host)
        process.kill()
        self.go()

    def go(self) -> None:
        """Let whatever lingers end."""
        (self.folder / "file.go").touch()

    def record(self) -> dict:
        (path,) = self.records()
        return json.loads(path.read_text())
