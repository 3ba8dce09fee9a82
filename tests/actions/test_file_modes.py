"""The mode of a place settles, whatever it was, and whatever else becomes of the place meanwhile."""

from __future__ import annotations

import stat
import subprocess

import pytest
from stage import Machine, drive, shell

from engine.actions import file
from engine.lang.arguments import build


def mode(path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):o}"


@pytest.mark.parametrize("name", ["dash", "busybox", "only busybox"])
def test_the_mode_of_a_setgid_directory_settles(tmp_path, name):
    """Mutants: file_writing.py by chmod of the number alone; file.py comparing bits that three digits say nothing of."""
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
