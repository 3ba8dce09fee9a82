"""What is found by its name may not be another user's work: a playbook, an inventory, and what a playbook includes."""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

from runbook.cli import completing as completion
from runbook.commands import input_files
from runbook.commands.input_files import (
    DEFAULT_INVENTORY,
    find_playbook,
    inventory_paths,
    known_playbooks,
    open_included,
    read_beside,
)
from runbook.commands.listings import list_text
from runbook.errors import ConfigError
from runbook.foreign_files import refuse_foreign
from runbook.plugins import discover
from tests.support.tables import every_row

MALLORY = 4242
TEXT = "name: zombie-gpu\n"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory of ours that is the current one, with a playbook that hides the library's, and an inventory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RUNBOOK_INVENTORY", raising=False)
    for name in ("zombie-gpu.yaml", "playbooks/zombie-gpu.yaml", DEFAULT_INVENTORY):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(TEXT)
    return tmp_path


def by_name():
    return find_playbook("zombie-gpu.yaml")


def beside():
    return find_playbook("zombie-gpu")


def included():
    return open_included("zombie-gpu", "outer.yaml")


def inventory():
    return inventory_paths(())


FOUND = {by_name: "zombie-gpu.yaml", beside: "playbooks/zombie-gpu.yaml", inventory: DEFAULT_INVENTORY}


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775], ids=oct)
@pytest.mark.parametrize("find", [by_name, included])
def test_nothing_is_taken_by_name_from_a_directory_that_others_can_write_to(here, find, mode):
    here.chmod(mode)
    with pytest.raises(ConfigError, match=f"may be another user's work: other users can write to {here}"):
        find()


@pytest.mark.parametrize("find", FOUND, ids=lambda it: it.__name__)
def test_a_file_that_others_can_write_to_is_not_taken_by_name(here, find):
    assert find()
    (here / FOUND[find]).chmod(0o666)
    with pytest.raises(ConfigError, match=f"`chmod go-w {here / FOUND[find]}`"):
        find()


def test_a_path_that_was_typed_is_taken(here):
    here.chmod(0o777)
    assert str(find_playbook("./playbooks/zombie-gpu.yaml")) == "playbooks/zombie-gpu.yaml"
    assert find_playbook(str(here / "zombie-gpu.yaml"))
    assert inventory_paths([f"./{DEFAULT_INVENTORY}"])


def test_the_library_is_not_asked(here):
    here.chmod(0o777)
    assert find_playbook("docker-recover")


def test_a_refused_playbook_is_listed_as_such_and_the_librarys_is_named(here):
    here.chmod(0o777)
    (line,) = (it for it in list_text().splitlines() if it.startswith("zombie-gpu "))
    assert line.endswith("cannot be used: 1 mistake (runbook check zombie-gpu)")
    with pytest.raises(ConfigError, match=r"that of the library is /.*/zombie-gpu\.yaml"):
        beside()


@pytest.mark.real("root")
@pytest.mark.parametrize("find", FOUND, ids=lambda it: it.__name__)
def test_what_belongs_to_another_user_is_not_taken_by_name(here, find):
    os.chown(here / FOUND[find], MALLORY, MALLORY)
    with pytest.raises(ConfigError, match=r"belongs to the user 4242 .*(by its path: \./|of the library is)"):
        find()


@pytest.mark.real("root")
def test_a_link_of_another_user_is_not_followed_and_a_directory_of_theirs_counts(here, tmp_path_factory):
    theirs = tmp_path_factory.mktemp("theirs")
    link = theirs / "link.yaml"
    link.symlink_to(here / "zombie-gpu.yaml")
    assert refuse_foreign(link) == link
    os.lchown(link, MALLORY, MALLORY)
    with pytest.raises(ConfigError, match=r"link\.yaml belongs to"):
        refuse_foreign(link)
    os.lchown(link, 0, 0)
    os.chown(theirs, MALLORY, MALLORY)
    with pytest.raises(ConfigError, match=f"{theirs} belongs to"):
        refuse_foreign(link)


@pytest.mark.real("root")
def test_no_link_on_the_way_is_another_users(here, tmp_path_factory):
    """Mutant: only the written path and where it ends are looked at."""
    shared = tmp_path_factory.mktemp("shared")
    shared.chmod(0o1777)
    (here / "own").mkdir()
    (here / "own" / "zombie-gpu.yaml").write_text(TEXT)
    (shared / "theirs").symlink_to(here / "own")
    os.lchown(shared / "theirs", MALLORY, MALLORY)
    (here / "linked").symlink_to(shared / "theirs")
    with pytest.raises(ConfigError, match=f"{shared}/theirs belongs to"):
        refuse_foreign(here / "linked" / "zombie-gpu.yaml")
    os.lchown(shared / "theirs", 0, 0)
    assert refuse_foreign(here / "linked" / "zombie-gpu.yaml")


def test_nor_is_what_a_playbook_of_ours_sends_from_beside_it(here):
    (here / "playbooks" / "files").mkdir()
    (here / "playbooks" / "files" / "s.sh").write_text("echo x\n")
    assert read_beside("files/s.sh", "playbooks/zombie-gpu.yaml") == "echo x\n"
    (here / "playbooks" / "files").chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to"):
        read_beside("files/s.sh", "playbooks/zombie-gpu.yaml")


@pytest.mark.real("root")
def test_whoever_uses_sudo_is_no_other_user(here, monkeypatch):
    os.chown(here / "zombie-gpu.yaml", MALLORY, MALLORY)
    monkeypatch.setenv("SUDO_UID", str(MALLORY))
    assert find_playbook("zombie-gpu.yaml")


def complete():
    return completion._tree({"playbook": "zombie-gpu"})


@pytest.mark.real("root")
@every_row("read", [list_text, lambda: known_playbooks(discover()), complete])
def test_another_users_playbooks_are_not_even_read(here, monkeypatch, read):
    """Mutants: ``known_playbooks``, ``list_text`` or ``_tree`` of completion.py without ``find_playbook``."""
    os.chown("playbooks/zombie-gpu.yaml", MALLORY, MALLORY)
    opened = []
    real = input_files.read_text
    monkeypatch.setattr(input_files, "read_text", lambda path, *rest: opened.append(str(path)) or real(path, *rest))
    with suppress(ConfigError):
        read()
    assert [path for path in opened if path.startswith("playbooks/")] == []
    assert opened or read is complete
