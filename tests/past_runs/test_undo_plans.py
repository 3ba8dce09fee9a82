"""An undo of a run that needed approval: saved as a plan, approved by another person, applied once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.past_runs.scene import resealed
from tests.support.program import Said, runbook
from tests.support.sshd import make_key

pytestmark = pytest.mark.real("ssh")

LIMITS = "limits: {approvals: 1}\n"
BOOK = 'name: tune\n%sremediate:\n  - {id: write, file: {path: %s, content: "new\\n"}}\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A run has changed a file, and its playbook asks for an approval by now."""
    made = tmp_path / "scene"
    (made / "host").mkdir(parents=True)
    monkeypatch.chdir(made)
    monkeypatch.setenv("RUNBOOK_INVENTORY", "hosts.yaml")
    (made / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    (made / "host" / "conf").write_text("old\n")
    (made / "tune.yaml").write_text(BOOK % ("", made / "host" / "conf"))
    key = make_key(made / "carol")
    (made / "allowed_signers").write_text(
        f"carol@example.com {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n"
    )
    (made / "allowed_signers").chmod(0o644)
    assert runbook("run", "tune.yaml", "--hosts", "here", "--yes").code == 0
    (made / "tune.yaml").write_text(BOOK % (LIMITS, made / "host" / "conf"))
    return made


def conf(folder) -> str:
    return (folder / "host" / "conf").read_text()


def saved(*words: str) -> Said:
    return runbook("undo", "last", "--plan", "undo.json", *words)


def test_it_is_applied_with_the_approval_of_another_person_once(folder):
    """Mutants: ``limits_of_undo`` without approvals; an apply that does not say what it undoes; a plan without ``undoes``."""
    refused = runbook("undo", "last", "--yes")
    assert refused.code == 2
    assert "--plan undo.json`, have it approved: `runbook approve undo.json`" in refused.err
    made = saved()
    assert made.code == 0, made.err
    assert "it needs 1 approval of others" in made.err
    assert conf(folder) == "new\n", "a plan changes nothing"
    without = runbook("apply", "undo.json", "--yes")
    assert (without.code, "undo.json needs 1 approval, and has 0" in without.err) == (2, True), without.err
    assert runbook("approve", "undo.json", "--yes", "--key", "carol").code == 0
    shown = runbook("show", "undo.json").out
    assert "which it undoes" in shown
    assert "approved by carol@example.com" in shown
    done = runbook("apply", "undo.json", "--yes")
    assert done.code == 0, done.err
    assert conf(folder) == "old\n"
    assert "undoes " in runbook("history", "list").out
    assert "already applied" in runbook("apply", "undo.json", "--yes").err
    again = saved()
    assert "`last` is run" in again.err, "an applied undo is an undo: the newest change is still that of the run"
    assert "no host would be changed" in again.err


@pytest.mark.parametrize("what", ["the file", "the record", "the plan", "the approvals", "the inventory"])
def test_what_has_changed_since_is_not_undone_unseen(folder, what):
    """Mutants: an undo's plan without a digest; one that is not compared; approvals of the plan that are believed."""
    assert saved().code == 0
    assert runbook("approve", "undo.json", "--yes", "--key", "carol").code == 0
    match what:
        case "the file":
            (folder / "host" / "conf").write_text("of somebody else\n")
        case "the record":
            for journal in Path(os.environ["XDG_STATE_HOME"], "runbook", "runs").glob("*.jsonl"):
                journal.write_text(journal.read_text().replace("old", "odd").replace("conf", "cnof"))
        case "the plan":
            tree = json.loads((folder / "undo.json").read_text())
            tree["undoes"] = "20260101T000000Z-0001"
            (folder / "undo.json").write_bytes(resealed(tree))
        case "the approvals":
            tree = json.loads((folder / "undo.json").read_text())
            tree["approvals"] = 0
            (folder / "undo.json").write_bytes(resealed(tree))
        case "the inventory":
            (folder / "hosts.yaml").write_text("hosts:\n  here: {transport: local, role: x}\n")
    before = conf(folder)
    done = runbook("apply", "undo.json", "--yes")
    assert done.code != 0, done.out
    assert conf(folder) == before
