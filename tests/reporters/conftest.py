"""A playbook that changes three hosts, one after the other, on this machine."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.program import PROGRAM

BOOK = """name: toy
inputs: {folder: {about: Where marks are made., type: string, required: true}}
remediate:
  - id: touch
    command:
      check: {argv: [test, -e, '{{ inputs.folder }}/{{ host.name }}']}
      do: {argv: [touch, '{{ inputs.folder }}/{{ host.name }}']}
"""


@dataclass
class Toy:
    """The playbook, its hosts and the folder in which each host leaves a mark."""

    folder: Path
    marks: Path

    @property
    def argv(self) -> tuple[str, ...]:
        where = ("--hosts", "all", "-i", str(self.folder / "hosts.yaml"), "-e", f"folder={self.marks}")
        return (*PROGRAM, "run", str(self.folder / "toy.yaml"), *where, "--parallel", "1")

    def sh(self, text: str, *argv: str, **keys) -> subprocess.CompletedProcess[str]:
        """Run the program as ``"$@"`` in the shell line *text*."""
        return subprocess.run(
            ("bash", "-c", text, "bash", *self.argv, *argv),
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False, **keys,
        )  # fmt: skip

    def marked(self) -> set[str]:
        return {it.name for it in self.marks.iterdir()}


@pytest.fixture
def toy(tmp_path) -> Toy:
    (tmp_path / "marks").mkdir()
    (tmp_path / "toy.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text(
        "hosts:\n" + "".join(f"  h{number}: {{transport: local, gpu: none}}\n" for number in (1, 2, 3))
    )
    return Toy(tmp_path, tmp_path / "marks")
