"""The mode of a place settles, whatever it was, and whatever else becomes of the place meanwhile."""

from __future__ import annotations

import stat
import subprocess

import pytest

from runbook.language.arguments import build
from runbook.library.files import file
from runbook.onhost.writing import ask_place, make, read_place
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each, shell
from tests.support.run_step import take


def mode(path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):o}"


@pytest.mark.parametrize("name", each(["dash", "busybox", "only busybox"]))
def test_the_mode_of_a_setgid_directory_settles(tmp_path, name):
    """Mutants: writing.py by chmod of the number alone; file.py comparing bits that three digits say nothing of."""
    path = tmp_path / "shared"
    path.mkdir()
    machine = Machine(shell=shell(name, tmp_path))

    def becomes(there: int, wanted: str) -> str:
        path.chmod(there)
        made = build(file.Args, {"path": str(path), "state": "directory", "mode": wanted})
        decision = file.decide(made, drive(file.probe(made), machine))
        for it in getattr(decision, "commands", ()):
            subprocess.run([*machine.shell, "-c", it.script, "sh", *it.argv], check=True)
        assert not drive(file.probe(made), machine).needs
        return mode(path)

    assert becomes(0o6775, "0750") == "750"
    assert becomes(0o6775, "2750") == "2750"
    assert becomes(0o6775, "4750") == "4750"
    assert becomes(0o6775, "1750") == "1750"
    assert becomes(0o6775, "6750") == "6750"
    assert becomes(0o2755, "755") == "2755"
    assert becomes(0o2775, "755") in ("2755", "755")  # busybox takes it away


def test_a_file_that_grows_gets_its_mode_after_a_yes(tmp_path):
    """Mutants: file.py knowing it by its content where that stays; make() holding the content against what was seen."""
    path = tmp_path / "log"
    path.write_text("one\n")
    path.chmod(0o600)

    def grow() -> None:
        with path.open("a") as log:
            log.write("two\n")

    taken = take("file", {"path": str(path), "mode": "0644"}, between=grow)
    assert (taken.status, mode(path), path.read_text()) == ("changed", "644", "one\ntwo\n"), taken.why
    path.chmod(0o600)
    place = read_place(str(path), Machine().run(ask_place(str(path), follow=False))[0])
    grow()
    command = make(place, file.DesiredPath(mode="0644"))
    subprocess.run(["sh", "-c", command.script, "sh", *command.argv], check=True)
    assert mode(path) == "644"


def test_another_file_in_its_place_is_not_given_the_mode(tmp_path):
    """Mutants: file.py knowing a file by its path alone; make() not looking at what stands there."""
    path = tmp_path / "log"

    def another() -> None:
        (tmp_path / "new").write_text("one\n")
        (tmp_path / "new").chmod(0o600)
        (tmp_path / "new").rename(path)

    another()
    taken = take("file", {"path": str(path), "mode": "0644"}, between=another)
    assert (taken.status, taken.writes, mode(path)) == ("drifted", [], "600")
    place = read_place(str(path), Machine().run(ask_place(str(path), follow=False))[0])
    another()
    command = make(place, file.DesiredPath(mode="0644"))
    done = subprocess.run(["sh", "-c", command.script, "sh", *command.argv], check=False)
    assert (done.returncode, mode(path)) == (10, "600")
