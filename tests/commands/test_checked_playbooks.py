"""A playbook that this program has checked is checked again only where something has changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runbook.commands import program_cache
from runbook.commands.check import Checked
from runbook.commands.check import checked as check_files
from runbook.commands.input_files import FilesRead, read_playbook
from runbook.errors import ConfigError
from runbook.language import checks
from runbook.plugins import discover

WHOLE = "name: whole\ndiagnose:\n  - {id: part, include: part}\n  - {id: there, command: {argv: [echo, hi]}}\n"
PART = "name: part\ndiagnose:\n  - {id: inner, command: {argv: [echo, hi]}}\n"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(program_cache, "_stamps", lambda _: ["the program"])
    (tmp_path / "whole.yaml").write_text(WHOLE)
    (tmp_path / "part.yaml").write_text(PART)
    return tmp_path


@pytest.fixture
def checked(monkeypatch) -> list[str]:
    """The playbooks that were checked."""
    found: list[str] = []
    made = checks.check
    monkeypatch.setattr(checks, "check", lambda book, *rest: [found.append(book.name), made(book, *rest)][1])
    return found


def read(here: Path, **keys):
    return read_playbook(here / "whole.yaml", discover(), **keys)


def test_the_second_time_nothing_is_checked_and_the_playbook_is_the_same(here, checked):
    """Mutants: ``read_playbook`` that never reads its cache, or never writes it."""
    first = read(here)
    assert sorted(checked) == ["part", "whole"]
    assert read(here) == first
    assert sorted(checked) == ["part", "whole"]
    noted = FilesRead()
    assert read(here, files=noted) == first
    assert len(checked) == 4
    assert sorted(Path(name).name for name in noted.digests) == ["part.yaml", "whole.yaml"]


def test_what_a_run_beside_it_has_checked_meanwhile_is_kept(here, checked, monkeypatch):
    """Mutant: what was read before the check, written after it."""
    made = checks.check
    (here / "beside.yaml").write_text(PART.replace("part", "beside"))

    def while_another_checks(book, *rest):
        if book.name == "whole":
            read_playbook(here / "beside.yaml", discover())
        return made(book, *rest)

    monkeypatch.setattr(checks, "check", while_another_checks)
    read(here)
    assert sorted(checked) == ["beside", "part", "whole"]
    read_playbook(here / "beside.yaml", discover())
    read(here)
    assert sorted(checked) == ["beside", "part", "whole"]


@pytest.mark.parametrize("file", ["whole", "part"])
def test_a_changed_playbook_is_checked(here, file):
    """Mutants: ``known`` by the path alone; without the digest of what is included."""
    read(here)
    path = here / f"{file}.yaml"
    path.write_text(path.read_text().replace("argv:", "argvs:"))
    with pytest.raises(ConfigError, match="argvs"):
        read(here)


def test_the_same_text_in_another_place_is_checked(here):
    """What it includes is another file there, and its name has to be that of its file. Mutant: without the path."""
    read(here)
    (here / "other.yaml").write_text(WHOLE)
    with pytest.raises(ConfigError, match="its file"):
        read_playbook(here / "other.yaml", discover())


def test_another_program_and_other_actions_check_it(here, checked, monkeypatch):
    """Mutants: a cache for every program; a digest without the actions."""
    read(here)
    monkeypatch.setattr(program_cache, "_stamps", lambda _: ["the next program"])
    monkeypatch.setattr(program_cache, "_program", program_cache._program.__wrapped__)  # as in a process of its own
    read(here)
    assert len(checked) == 4
    fewer = {name: action for name, action in discover().items() if name == "command"}
    read_playbook(here / "whole.yaml", fewer)
    assert len(checked) == 6


@pytest.mark.parametrize("kept", ["[]", '{"x": 1}', "null", '"x"'])
def test_a_damaged_cache_counts_for_nothing(here, checked, kept):
    first = read(here)
    place = here / "cache" / "runbook" / "checked.json"
    tree = json.loads(place.read_text())
    place.write_text(json.dumps({**tree, "kept": json.loads(kept)}))
    assert read(here) == first
    assert len(checked) == 4


def test_a_cache_that_others_can_write_is_not_believed(here, checked):
    """Law 9."""
    read(here)
    os.chmod(here / "cache" / "runbook", 0o777)
    read(here)
    assert len(checked) == 4


def said(here: Path) -> Checked:
    (only,) = check_files([str(here / "whole.yaml")])
    return only


def test_a_good_playbook_is_not_checked_a_second_time_by_the_command(here, checked):
    """Mutants: ``keep`` without ``write``; ``recall`` of nothing; ``warned`` that is not kept."""
    whole = here / "whole.yaml"
    whole.write_text(WHOLE + "  - {id: late, command: {argv: [echo, hi]}, when: 1 == 1}\n")
    first = said(here)
    assert first.good
    assert len(checked) == 2
    assert said(here) == first
    assert len(checked) == 2


@pytest.mark.parametrize("file", ["whole", "part"])
def test_the_command_checks_a_changed_playbook(here, file):
    """Mutants: ``recall`` without the digests; ``include`` that notes no file."""
    assert said(here).good
    path = here / f"{file}.yaml"
    path.write_text(path.read_text().replace("argv:", "argvs:"))
    assert not said(here).good
    path.write_text(path.read_text().replace("argvs:", "argv:"))
    assert said(here).good


def test_a_playbook_that_is_saved_while_it_is_checked_is_checked_again(here, monkeypatch):
    """Mutant: the digests of the files as they are afterwards."""
    whole, made = here / "whole.yaml", checks.check
    broken = WHOLE.replace("argv:", "argvs:")
    monkeypatch.setattr(checks, "check", lambda *given: [whole.write_text(broken), made(*given)][1])
    assert said(here).good
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(here / "cache"))
    monkeypatch.setattr(program_cache, "_stamps", lambda _: ["the program"])
    assert not said(here).good


def test_a_playbook_that_others_may_write_by_now_is_refused_by_the_command(here, monkeypatch):
    """Law 9. Mutant: ``checked`` that recalls before ``find_playbook``."""
    (here / "playbooks").mkdir(mode=0o755)
    monkeypatch.chdir(here)
    mine = here / "playbooks" / "part.yaml"
    mine.write_text(PART)
    assert [each.good for each in check_files(["part"])] == [True]
    os.chmod(mine, 0o666)
    assert [each.good for each in check_files(["part"])] == [False]


@pytest.mark.parametrize("kept", ["[]", '{"there": 1}', "null", '{"there": "x", "kept": {"a": 1}}'])
def test_a_damaged_cache_of_the_command_counts_for_nothing(here, checked, kept):
    first = said(here)
    place = here / "cache" / "runbook" / "checks.json"
    tree = json.loads(place.read_text())
    place.write_text(json.dumps({**tree, "kept": json.loads(kept)}))
    assert said(here) == first
    assert len(checked) == 4
