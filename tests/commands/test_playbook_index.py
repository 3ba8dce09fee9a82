"""The index of playbooks is what a fresh reading of them would give, and costs one only where something has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runbook.commands import playbook_index, program_cache
from runbook.commands.playbook_index import PlaybookCard, playbook_cards

MINE = "name: mine\nabout: Mend {}.\nsymptom: [the flux capacitor is dry, {{pattern: 'flux=.*'}}]\n"
PART = """name: part
about: A part.
inputs:
  pace: {about: How fast., type: string, required: true}
diagnose:
  - {id: there, command: {argv: [echo, "{{ inputs.pace }}"]}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(program_cache, "_stamps", lambda _: ["the program"])
    (tmp_path / "playbooks").mkdir(mode=0o755)
    (tmp_path / "playbooks" / "mine.yaml").write_text(MINE.format("it"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def card(name: str) -> PlaybookCard:
    return next(each for each in playbook_cards() if each.name == name)


@pytest.fixture
def loads(monkeypatch) -> list[str]:
    """The playbooks that were read."""
    found: list[str] = []
    made = playbook_index._Index._made
    monkeypatch.setattr(
        playbook_index._Index, "_made", lambda self, path: [found.append(path.stem), made(self, path)][1]
    )
    return found


def test_a_second_call_reads_no_playbook_and_says_the_same(here, loads):
    """Mutants: ``recall`` of nothing; ``_tree`` without each of its fields."""
    first = playbook_cards()
    assert "mine" in loads
    assert len(loads) == len(first) > 40
    loads.clear()
    assert playbook_cards() == first
    assert loads == []


def test_what_has_changed_is_read_again_and_nothing_else(here, loads):
    """Mutants: ``recall`` without its digests; a digest of the file's name."""
    playbook_cards()
    loads.clear()
    (here / "playbooks" / "mine.yaml").write_text(MINE.format("that"))
    assert card("mine").about == "Mend that."
    assert loads == ["mine"]


def test_a_change_of_what_a_playbook_includes_counts(here, loads):
    """Mutant: ``include`` that notes no file."""
    (here / "playbooks" / "part.yaml").write_text(PART)
    (here / "playbooks" / "mine.yaml").write_text(MINE.format("it") + "diagnose:\n  - {id: a, include: part}\n")
    assert card("mine").mistakes == 1, "the included playbook needs an input"
    (here / "playbooks" / "part.yaml").write_text(PART.replace("required: true", "default: fast"))
    assert card("mine").mistakes == 0
    loads.clear()
    (here / "playbooks" / "part.yaml").write_text(PART)
    assert card("mine").mistakes == 1
    assert "mine" in loads


def test_a_playbook_that_hides_another_is_found_though_nothing_else_changed(here):
    """Mutant: an index that does not know which playbooks there are."""
    assert card("zombie-gpu").about.startswith("Free GPUs")
    (here / "playbooks" / "zombie-gpu.yaml").write_text("name: zombie-gpu\nabout: My own.\n")
    assert card("zombie-gpu").about == "My own."


def test_another_program_reads_everything_anew(here, loads, monkeypatch):
    """Mutant: ``_program`` without the program's files."""
    playbook_cards()
    loads.clear()
    monkeypatch.setattr(program_cache, "_stamps", lambda _: ["the next program"])
    monkeypatch.setattr(program_cache, "_program", program_cache._program.__wrapped__)  # as in a process of its own
    assert len(playbook_cards()) == len(loads)


def test_a_playbook_that_others_may_write_by_now_is_not_believed(here):
    """Law 9. Mutant: ``_known`` without ``find_playbook``."""
    assert card("mine").mistakes == 0
    os.chmod(here / "playbooks" / "mine.yaml", 0o666)
    assert card("mine").mistakes == 1


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"program": 1}', '{"kept": 1}', "null"])
def test_a_damaged_index_is_made_anew(here, damage):
    first = playbook_cards()
    (here / "cache" / "runbook" / "playbooks.json").write_text(damage)
    assert playbook_cards() == first
    assert json.loads((here / "cache" / "runbook" / "playbooks.json").read_text())["kept"]["kept"]


def test_a_forged_index_of_another_shape_is_made_anew(here):
    """Mutant: ``_text`` that takes anything."""
    first = playbook_cards()
    place = here / "cache" / "runbook" / "playbooks.json"
    tree = json.loads(place.read_text())
    for entry in tree["kept"]["kept"].values():
        entry["value"]["about"] = ["a list"]
    place.write_text(json.dumps(tree))
    assert playbook_cards() == first


def test_where_no_index_can_be_kept_the_answer_is_the_same(here, monkeypatch):
    first = playbook_cards()
    (here / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "file"))
    assert playbook_cards() == first


def test_an_index_that_others_can_read_is_left_alone(here, loads):
    """Law 9: whoever can enter the directory might have made it. Mutant: plain ``Path.write_text``."""
    (here / "cache" / "runbook").mkdir(parents=True, mode=0o777)
    os.chmod(here / "cache" / "runbook", 0o777)
    playbook_cards()
    assert list((here / "cache" / "runbook").iterdir()) == []
