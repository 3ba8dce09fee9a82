"""A directory that is open to other users is no place for records: it is refused, and left as it is."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from runbook.records.private_folder import PrivateFolder, Unsafe
from tests.past_runs.recorded import whole
from tests.support.program import runbook
from tests.support.tables import every_row

COMMANDS = (
    ("history", "list"),
    ("history", "show", "last"),
    ("history", "verify"),
    ("history", "export", "--format", "json"),
    ("history", "prune", "--older-than", "1d"),
    ("undo", "last", "--yes"),
    ("resume", "last", "--yes"),
    ("exec", "h1", "--read", "--inventory", "hosts.yaml", "--", "true"),
    ("exec", "h1", "--yes", "--inventory", "hosts.yaml", "--", "touch", "changed"),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@every_row("command", COMMANDS)
@pytest.mark.slow
def test_no_command_closes_a_directory_that_it_has_not_made(tmp_path, command):
    """Mutants: ``_opened`` that changes the mode; one that takes any mode; ``Index`` that raises OSError."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  h1: {transport: local}\n")
    for open_to in (0o755, 0o1777, 0o710):
        place = tmp_path / f"{open_to:o}"
        place.mkdir(exist_ok=True)
        place.chmod(open_to)
        before = list(place.iterdir())
        said = runbook(*command, cwd=tmp_path, RUNBOOK_RECORDS=str(place))
        words = said.out + said.err
        assert (mode(place), list(place.iterdir())) == (open_to, before), words
        assert f"chmod go= {place}" in words
        assert "Traceback" not in words
        reads = command[0] == "exec" and "--read" in command
        assert (said.code == 0) is reads, words
    assert not (tmp_path / "changed").exists()


def test_the_advice_is_a_line_to_paste_and_does(tmp_path):
    """Mutants: the path without quotes; a check of other bits than those of the advice."""
    place = tmp_path / "a place"
    whole(place)
    place.chmod(0o777)
    with pytest.raises(Unsafe) as refused:
        PrivateFolder(place).entries("")
    assert str(refused.value.strerror).endswith(f"chmod go= '{place}'")
    place.chmod(mode(place) & 0o700)
    assert PrivateFolder(place).entries("")
