"""A directory with an inventory of hosts on this machine, and playbooks with names."""

from __future__ import annotations

from pathlib import Path

import pytest

TUNE = """\
name: tune
about: Write a file.
inputs:
  text: {about: What stands in it., type: string, default: new}
  count: {about: A number., type: integer, default: 1}
  token: {about: A secret., secret: true, default: ''}
  place: {about: A host., type: string, default: here}
remediate:
  - {id: write, file: {path: "%s", content: "{{ inputs.text }} {{ inputs.count }}\\n"}}
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "scene"
    (made / "playbooks").mkdir(parents=True)
    (made / "target").mkdir()
    (made / "hosts.yaml").write_text("hosts: {here: {transport: local}, there: {transport: local}}\n")
    (made / "playbooks" / "tune.yaml").write_text(TUNE % (made / "target" / "conf"))
    return made
