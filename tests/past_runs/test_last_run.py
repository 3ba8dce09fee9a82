"""`last` is the newest run: one whose record cannot be read is named, and never passed over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runbook.errors import ConfigError
from runbook.records.finding_runs import LAST, latest_run, named_run
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import prune
from runbook.values.result import Mode
from tests.past_runs.recorded import RUN, journal, started, whole
from tests.support.program import runbook
from tests.support.tables import every_row

NEWEST = "20260102T000000Z-0002"
SAME_SECOND = RUN[:-4] + "0000"
COMMANDS = (
    ("undo", "last", "--yes"),
    ("resume", "last", "--yes"),
    ("history", "show", "last"),
    ("exec", "@last", "--read", "--", "true"),
)


def first_line_is_no_json(file: Path) -> None:
    file.write_bytes(b"garbage\n" + b"".join(file.read_bytes().splitlines(keepends=True)[1:]))


def all_is_garbage(file: Path) -> None:
    file.write_text("garbage\n")


def second_name(file: Path) -> None:
    file.with_name("other").hardlink_to(file)


def open_to_others(file: Path) -> None:
    file.chmod(0o666)


def empty(file: Path) -> None:
    os.truncate(file, 0)


SPOILT = (first_line_is_no_json, all_is_garbage, second_name, open_to_others, empty, Path.unlink)


@every_row("command", COMMANDS)
@pytest.mark.slow
def test_no_command_takes_an_older_run_for_the_last_where_the_newest_cannot_be_read(tmp_path, monkeypatch, command):
    """Mutants: ``latest_run`` without its second loop; one that does not ask the ledger."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  a: {transport: local}\n")
    for spoil in SPOILT:
        place = tmp_path / spoil.__name__
        whole(place)
        whole(place, NEWEST)
        spoil(place / f"{NEWEST}.jsonl")
        said = runbook(
            *command[: -2 if "--" in command else None], *(("--inventory", "hosts.yaml") if command[0] != "history" else ()),
            "--records", str(place), *(command[-2:] if "--" in command else ()), cwd=tmp_path,
        )  # fmt: skip
        words = said.out + said.err
        assert said.code == 2, (spoil.__name__, words)
        assert NEWEST in words, spoil.__name__
        assert RUN not in words, spoil.__name__


def test_the_last_run_is_not_certain_where_a_damaged_one_began_in_the_same_second(tmp_path):
    """Mutants: the second loop left out; ``>`` for ``>=`` in either loop."""
    folder = whole(tmp_path)
    whole(tmp_path, SAME_SECOND)
    assert named_run(folder, LAST) == RUN
    all_is_garbage(tmp_path / f"{SAME_SECOND}.jsonl")
    with pytest.raises(ConfigError, match=SAME_SECOND):
        named_run(folder, LAST)
    (tmp_path / f"{SAME_SECOND}.jsonl").unlink()
    with pytest.raises(ConfigError, match=f"{SAME_SECOND} is gone"):
        named_run(folder, LAST)


def test_what_is_older_than_the_last_run_does_not_hinder_nor_does_what_was_pruned(tmp_path):
    """Mutants: ``missing`` without a look at times; a pruned run that counts as gone."""
    folder = whole(tmp_path)
    whole(tmp_path, NEWEST)
    (tmp_path / f"{RUN}.jsonl").unlink()
    assert named_run(folder, LAST) == NEWEST
    whole(tmp_path, "20260103T000000Z-0003")
    prune(folder, ["20260103T000000Z-0003"])
    assert named_run(folder, LAST) == NEWEST
    journal(tmp_path, started(run="20260104T000000Z-0004", mode=Mode.PLAN), run="20260104T000000Z-0004")
    assert latest_run(folder, lambda row: row.mode == Mode.RUN) == NEWEST
    assert named_run(folder, LAST) == "20260104T000000Z-0004"


def test_the_newest_run_of_all_is_the_last_one_also_where_its_record_is_damaged(tmp_path):
    """Mutant: ``latest_run`` that refuses the run that it has found."""
    folder = whole(tmp_path)
    whole(tmp_path, NEWEST)
    with (tmp_path / f"{NEWEST}.jsonl").open("a") as file:
        file.write("garbage\n")
    assert named_run(folder, LAST) == NEWEST


def test_a_ledger_that_cannot_be_read_leaves_the_last_run_unknown(tmp_path):
    """Mutant: ``latest_run`` that takes it for empty."""
    folder = PrivateFolder(tmp_path)
    whole(tmp_path)
    (tmp_path / "ledger").chmod(0o666)
    with pytest.raises(ConfigError, match="the ledger cannot be read"):
        named_run(folder, LAST)
