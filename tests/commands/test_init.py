"""The files that one begins with are good as they are, and nothing that is there is written over."""

from __future__ import annotations

import os

import pytest
import yaml

from tests.support.program import runbook
from tests.support.tables import every_row


def test_what_init_writes_is_good_and_is_what_its_words_say(tmp_path):
    """Mutants: ``init_text`` without one of its files; a text with a mistake in it."""
    said = runbook("init", str(tmp_path / "fleet"))
    assert said.code == 0, said.err
    home = tmp_path / "fleet"
    written = sorted(str(it.relative_to(home)) for it in home.rglob("*") if it.is_file())
    assert written == [
        ".github/workflows/playbooks.yaml",
        "inventory/distributed_hosts.yaml",
        "playbooks/stuck-training.yaml",
    ]
    assert all(str(home / it) in said.out for it in written)
    assert yaml.safe_load((home / written[0]).read_text())["jobs"]["check"]["steps"][-1] == {
        "run": "runbook check --strict playbooks"
    }
    checked = runbook("check", "--strict", "playbooks", cwd=home)
    assert (checked.code, checked.out) == (0, "playbooks/stuck-training.yaml: good (2 steps, 1 finding)\n")
    hosts = runbook("hosts", cwd=home)
    assert "gpu-01  ubuntu@192.0.2.11" in hosts.out


def test_init_writes_nothing_where_something_is(tmp_path):
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/stuck-training.yaml").write_text("mine")
    said = runbook("init", cwd=tmp_path)
    assert said.code == 2
    assert "playbooks/stuck-training.yaml is there already; nothing was written" in said.err
    assert [str(it.relative_to(tmp_path)) for it in tmp_path.rglob("*") if it.is_file()] == [
        "playbooks/stuck-training.yaml"
    ]


def test_a_new_playbook_is_good_and_is_not_written_twice(tmp_path):
    said = runbook("new", "idle-kernels", cwd=tmp_path)
    assert said.out.startswith("wrote playbooks/idle-kernels.yaml\n"), said.err
    assert runbook("check", "--strict", "idle-kernels", cwd=tmp_path).code == 0
    (tmp_path / "playbooks/idle-kernels.yaml").write_text("mine")
    again = runbook("new", "idle-kernels", cwd=tmp_path)
    assert (again.code, "is there already" in again.err) == (2, True)
    assert (tmp_path / "playbooks/idle-kernels.yaml").read_text() == "mine"


@every_row(
    ("name", "words"),
    [
        ("Idle", "is no name for a playbook"),
        ("../x", "is no name for a playbook"),
        ("a--b", "is no name for a playbook"),
        ("zombie-gpu", "the library has a playbook 'zombie-gpu'"),
    ],
)
def test_a_name_that_a_playbook_cannot_have_is_refused(tmp_path, name, words):
    said = runbook("new", name, cwd=tmp_path)
    assert (said.code, words in said.err) == (2, True), said.err
    assert not (tmp_path / "playbooks").exists()


@pytest.mark.parametrize("given", [["books"], ["books", "books/bad.yaml"], []])
def test_check_takes_directories_and_without_any_those_of_the_directory_playbooks(tmp_path, given):
    """Mutants: ``named_files`` that takes the first file only, or every file."""
    folder = tmp_path / (given[0] if given else "playbooks")
    folder.mkdir()
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text(f"name: {name}\nremediate: [{{note: {{text: x}}}}]\n")
    (folder / "notes.txt").write_text("no playbook")
    (folder / "bad.yaml").write_text("name: bad\nremediate: [{nte: {text: x}}]\n")
    said = runbook("check", *given, cwd=tmp_path)
    assert said.code == 2
    assert [line.split(":")[0] for line in said.out.splitlines()] == [
        f"{folder.name}/{it}.yaml" for it in ("one", "two")
    ]
    assert said.err.count(f"{folder.name}/bad.yaml:2:14") == (2 if len(given) == 2 else 1), said.err


def test_check_says_where_no_playbook_is(tmp_path):
    (tmp_path / "empty").mkdir()
    assert "no playbook in empty" in runbook("check", "empty", cwd=tmp_path).err
    assert "there is no directory ./playbooks here" in runbook("check", cwd=tmp_path).err


STRANGER = 4242


@pytest.mark.real("root")
@every_row("name", ["inventory", "playbooks", ".github"])
@every_row("kind", ["link", "dangling link", "directory"])
def test_nothing_is_written_where_another_user_leads(tmp_path, name, kind):
    """Mutants: ``init_text`` and ``_write`` without ``refuse_foreign``; ``new`` that skips links that lead nowhere."""
    home, theirs = tmp_path / "home", tmp_path / "theirs"
    home.mkdir()
    if kind == "link":
        theirs.mkdir()
    if kind == "directory":
        (home / name).mkdir()
    else:
        (home / name).symlink_to(theirs)
    os.chown(home / name, STRANGER, STRANGER, follow_symlinks=False)
    commands = [("init",), ("init", str(home)), *([("new", "bar")] if name == "playbooks" else [])]
    for command in commands:
        said = runbook(*command, cwd=home)
        assert (said.code, "belongs to the user 4242" in said.err) == (2, True), said.out + said.err
        assert "in a directory that only you can write to" in said.err
    assert [it for it in tmp_path.rglob("*") if it.is_file()] == []


def test_nothing_is_written_where_others_can_write(tmp_path):
    """Mutant: ``refuse_foreign`` with ``new`` that looks at what is there only."""
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks").chmod(0o777)
    for command in (("init",), ("new", "bar")):
        said = runbook(*command, cwd=tmp_path)
        assert (said.code, "other users can write to " in said.err) == (2, True), said.err
    assert not list((tmp_path / "playbooks").iterdir())


def test_a_directory_for_all_may_hold_what_is_new_in_it(tmp_path):
    """As /tmp is.  Mutant: ``refuse_foreign`` that refuses a sticky directory which the file does not lie in."""
    tmp_path.chmod(0o1777)
    assert runbook("new", "bar", cwd=tmp_path).code == 0
    assert (tmp_path / "playbooks" / "bar.yaml").is_file()
