"""What commands print can be had as JSON, by the same option everywhere; playbooks of one's own lie in any directory."""

from __future__ import annotations

import json

import pytest

from tests.support.program import runbook

BOOK = """
name: mine
about: A playbook of my own.
hosts: all
diagnose:
  - {id: up, command: {argv: ["true"]}}
"""


@pytest.fixture
def here(tmp_path):
    (tmp_path / "hosts.yaml").write_text(
        "hosts:\n  a: {transport: local, token: hunter22, groups: [x]}\n  b: {ssh_host: 127.0.0.1, status: broken}\n"
    )
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "mine.yaml").write_text(BOOK)

    def run(*words, code=0, **env):
        said = runbook(
            *words, cwd=tmp_path, XDG_STATE_HOME=str(tmp_path / "state"), RUNBOOK_PLAYBOOKS=str(folder), **env
        )
        assert code is None or said.code == code, said.out + said.err
        return said

    return run


def test_hosts_are_printed_as_json_without_their_variables(here):
    """Mutants: listings.py ``_host_fields`` with ``vars``; a selection without those left out."""
    said = here("hosts", "all", "-i", "hosts.yaml", "--output", "json")
    data = json.loads(said.out)
    assert [(it["name"], it["transport"], it["status"]) for it in data["hosts"]] == [("a", "local", "ready")]
    assert data["left_out"] == [{"host": "b", "why": "status: broken"}], data["left_out"]
    assert "hunter22" not in said.out


def test_a_playbook_lies_in_any_directory_that_the_environment_names(here):
    """Mutants: input_files.py ``own_folders`` without the variable."""
    listed = json.loads(here("list", "--output", "json").out)["playbooks"]
    (own,) = [it for it in listed if it["name"] == "mine"]
    assert (own["about"], own["mistakes"], own["path"].endswith("shared/mine.yaml")) == (
        "A playbook of my own.",
        0,
        True,
    )
    assert "mine" in here("list").out
    assert "good (1 step" in here("check", "mine").out
    here("run", "mine", "--hosts", "a", "-i", "hosts.yaml")
    said = here("run", "nine", "--hosts", "a", "-i", "hosts.yaml", code=2)
    assert "not in ./playbooks, not in " in said.err
    assert "did you mean mine?" in said.err


def test_recorded_runs_are_printed_as_json_and_a_diagnosis_is_among_them(here):
    """Mutants: diagnose.py without ``recording_of``; without its origin; listing.py that prints the lines of the console."""
    here("run", "mine", "--hosts", "a", "-i", "hosts.yaml")
    here("diagnose", "--hosts", "a", "-i", "hosts.yaml", "--reason", "ticket 7", code=None)  # whatever this machine has
    runs = json.loads(here("history", "list", "--output", "json").out)["runs"]
    assert [(it["playbook"], it["command"], it["mode"], it["state"]) for it in runs] == [
        ("diagnose", "diagnose", "plan", "finished"), ("mine", "run", "run", "finished"),
    ]  # fmt: skip
    assert (runs[0]["reason"], runs[0]["hosts"]) == ("ticket 7", 1)
    here("diagnose", "--hosts", "a", "-i", "hosts.yaml", "--no-record", code=None)
    here("run", "mine", "--hosts", "a", "-i", "hosts.yaml", "--records", "elsewhere")
    said = here(
        "diagnose", "--hosts", "@last:healthy", "-i", "hosts.yaml", "--records", "elsewhere", "--no-record", code=None
    )
    assert said.code in (0, 1), said.err  # 2: the run is not known there
    assert len(json.loads(here("history", "list", "--output", "json").out)["runs"]) == 2
