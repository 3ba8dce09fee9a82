"""The user of a run is the one whom its process runs as, whatever the environment says."""

from __future__ import annotations

import json
import os
import pwd
import socket
from pathlib import Path

import pytest

from runbook.records.process_identity import process_user
from tests.support.program import runbook

OWNER = """\
name: owner
about: Say whose run this is.
diagnose:
  - {id: seen, command: {argv: [echo, "{{ run.by }}"]}}
"""


@pytest.mark.slow
def test_a_record_names_the_user_of_the_process(tmp_path):
    """Mutants: rests_on.py, or one_run.py, with ``getpass.getuser``."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  a: {transport: local}\n")
    (tmp_path / "owner.yaml").write_text(OWNER)
    lies = dict.fromkeys(("LOGNAME", "USER", "LNAME", "USERNAME"), "somebody-else")
    words = (
        "run",
        "./owner.yaml",
        "--inventory",
        "hosts.yaml",
        "--hosts",
        "a",
        "--yes",
        "--records",
        str(tmp_path / "r"),
    )
    said = runbook(*words, "--output", "json", cwd=tmp_path, **lies)
    assert said.code == 0, said.out + said.err
    (journal,) = Path(tmp_path, "r").glob("*.jsonl")
    by = f"{pwd.getpwuid(os.geteuid()).pw_name}@{socket.gethostname()}"
    assert json.loads(journal.read_text().splitlines()[0])["event"]["origin"]["by"] == by
    assert "somebody-else" not in journal.read_text() + said.out
    assert by in said.out


def test_a_user_without_a_name_has_a_number(monkeypatch):
    """Mutant: ``process_user`` that raises KeyError."""
    monkeypatch.setattr(os, "geteuid", lambda: 3_999_999_999)
    assert process_user() == "uid 3999999999"
