"""A run and those that have gone on with it: none is missed, whatever became of its record or of the clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.commands.history.showing import show_text
from runbook.commands.resume import _hosts
from runbook.commands.undo import _checked
from runbook.errors import ConfigError
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import prune
from runbook.records.reading import earlier_changes
from runbook.records.recorded_run import read_run
from runbook.records.run_chain import chain_from, root_of
from runbook.values.result import Mode, Verdict
from tests.past_runs.recorded import change, ended, finished, host_end, journal, started
from tests.support.tables import every_row

FIRST, SECOND, THIRD = "20260101T000005Z-0001", "20260101T000009Z-0002", "20260101T000001Z-0003"
"""In the order in which they were begun; before the third one the clock was set back."""


def chain(place: Path) -> PrivateFolder:
    """A run that was killed, a second one that has gone on with it, and a third one that has done its host."""
    journal(place, started(run=FIRST), change("x"), run=FIRST)
    end = host_end(verdict=Verdict.UNKNOWN)
    journal(place, started(run=SECOND, resumes=FIRST), change("x"), end, finished(end, run=SECOND), run=SECOND)
    done = started(run=THIRD, resumes=SECOND), change("x"), ended("x"), host_end(), finished(host_end(), run=THIRD)
    return journal(place, *done, run=THIRD)


def names(folder: PrivateFolder) -> list[str]:
    return [it.run for it in chain_from(folder, root_of(folder, THIRD))]


def test_a_clock_that_was_set_back_hides_no_run_and_changes_no_order(tmp_path):
    """Mutants: ``_names`` by time; a chain in the order of its times."""
    folder = chain(tmp_path)
    assert names(folder) == [FIRST, SECOND, THIRD]
    assert _hosts(chain_from(folder, FIRST)) == ()
    assert [it.done for it in earlier_changes(chain_from(folder, FIRST))["a"]] == [True]


def test_a_dry_run_goes_on_with_nothing(tmp_path):
    """Mutants: ``_resumed_by`` and ``_resumed`` without the mode."""
    folder = chain(tmp_path)
    dry = "20260101T000011Z-0004"
    journal(tmp_path, started(run=dry, resumes=THIRD, mode=Mode.PLAN), run=dry)
    assert names(folder) == [FIRST, SECOND, THIRD]


def gone(folder: PrivateFolder) -> None:
    folder.remove(f"{SECOND}.jsonl")


def pruned(folder: PrivateFolder) -> None:
    prune(folder, [SECOND])


def garbled(folder: PrivateFolder) -> None:
    file = folder.path / f"{SECOND}.jsonl"
    file.write_bytes(b"\0" * 40 + file.read_bytes()[40:])


def empty(folder: PrivateFolder) -> None:
    (folder.path / f"{SECOND}.jsonl").write_bytes(b"")


def cut(folder: PrivateFolder) -> None:
    file = folder.path / f"{SECOND}.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:1]))


def of_another_run(folder: PrivateFolder) -> None:
    file = folder.path / f"{SECOND}.jsonl"
    file.write_bytes((folder.path / f"{FIRST}.jsonl").read_bytes())


def writable(folder: PrivateFolder) -> None:
    (folder.path / f"{SECOND}.jsonl").chmod(0o666)


def linked(folder: PrivateFolder) -> None:
    file = folder.path / f"{SECOND}.jsonl"
    file.rename(folder.path / "elsewhere")
    file.symlink_to(folder.path / "elsewhere")


@every_row("harm", [gone, pruned, garbled, empty, cut, of_another_run, writable, linked])
def test_a_chain_with_a_record_that_is_not_believed_is_not_gone_on_with(tmp_path, harm):
    """What that run has done would be done a second time.

    Mutants: ``_resumed`` by the index alone; ``believed`` without the faults; ``read_run`` without ``unlike_ledger``.
    """
    folder = chain(tmp_path)
    harm(folder)
    with pytest.raises(ConfigError, match=f"{SECOND}.* so that nobody knows what was done; run the playbook again"):
        chain_from(folder, FIRST)


def test_a_chain_is_known_without_the_ledger_too(tmp_path):
    """Mutant: ``_resumed`` by the ledger alone."""
    folder = chain(tmp_path)
    folder.remove("ledger")
    assert sorted(names(folder)) == sorted([FIRST, SECOND, THIRD])


def test_a_damaged_record_that_the_ledger_does_not_know_may_be_of_any_run(tmp_path):
    """Mutant: ``_resumed`` that takes it for one that goes on with none."""
    folder = chain(tmp_path)
    folder.remove("ledger")
    garbled(folder)
    with pytest.raises(ConfigError, match=f"the record of run {SECOND} is damaged, and may be of one that has gone on"):
        chain_from(folder, FIRST)


def test_the_damaged_record_of_a_run_that_went_on_with_none_keeps_no_other_from_being_resumed(tmp_path):
    """Mutant: ``_resumed`` that refuses every damaged record."""
    folder = chain(tmp_path)
    other = "20260101T000020Z-0005"
    journal(tmp_path, started(run=other), run=other)
    (tmp_path / f"{other}.jsonl").write_bytes(b"x\n")
    assert names(folder) == [FIRST, SECOND, THIRD]


def test_a_damaged_record_does_not_say_where_it_belongs(tmp_path):
    """Mutant: ``root_of`` that goes by what a damaged record says."""
    folder = chain(tmp_path)
    file = tmp_path / f"{THIRD}.jsonl"
    file.write_bytes(file.read_bytes().replace(SECOND.encode(), b"20260101T000009Z-0009"))
    with pytest.raises(ConfigError, match=f"run {THIRD} cannot be resumed"):
        root_of(folder, THIRD)


@every_row("name", ["../elsewhere", "\ud800", "", "a\n", f"{FIRST}/"])
def test_what_a_record_goes_on_with_is_no_path(tmp_path, name):
    """Mutant: ``read_run`` without ``RUN``."""
    journal(tmp_path, started(run=FIRST), run=FIRST)
    with pytest.raises(ConfigError, match="is not the id of a run"):
        read_run(PrivateFolder(tmp_path / "nothing"), name)


@every_row("number", ["1e400", "-1e999"])
def test_a_number_that_no_record_has_is_a_fault_and_no_crash(tmp_path, number):
    """Mutant: codec.py without ``_finite``."""
    folder = chain(tmp_path)
    file = tmp_path / f"{THIRD}.jsonl"
    file.write_text(file.read_text().replace('"seconds": 0.0', f'"seconds": {number}'))
    assert "run_finished" in file.read_text()
    assert "FAULT " in show_text(folder, THIRD, "a")
    assert any(it.startswith("line 4: not a ") for it in read_run(folder, THIRD).faults)


def test_a_record_that_was_cut_off_is_said_to_be_and_not_undone(tmp_path):
    """Mutant: ``read_run`` that does not compare the journal with the ledger."""
    folder = chain(tmp_path)
    cut(folder)
    missing = "it has 1 line, and had 4: lines are missing at its end"
    assert f"FAULT      {missing}" in show_text(folder, SECOND, "")
    with pytest.raises(ConfigError, match="cannot be undone"):
        _checked(read_run(folder, SECOND))


def test_a_ledger_that_cannot_be_read_is_a_fault_of_every_run(tmp_path):
    """Mutant: ``_noted`` that says nothing of it."""
    folder = chain(tmp_path)
    (tmp_path / "ledger").chmod(0o666)
    assert "the ledger cannot be read" in read_run(folder, THIRD).faults[0]
    with pytest.raises(ConfigError, match="ledger cannot be read"):
        root_of(folder, THIRD)


def test_a_run_that_ends_while_it_is_read_has_no_fault(tmp_path, monkeypatch):
    """Mutant: ``read_run`` that reads the journal before the ledger."""
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, FIRST)
    made.on(started(run=FIRST))
    real = PrivateFolder.opened

    def ends_meanwhile(self, name):
        if name == f"{FIRST}.jsonl":
            monkeypatch.setattr(PrivateFolder, "opened", real)
            answer = real(self, name)
            return _Ending(answer, lambda: made.on(finished(run=FIRST)))
        return real(self, name)

    monkeypatch.setattr(PrivateFolder, "opened", ends_meanwhile)
    assert read_run(folder, FIRST).faults == ()
    made.close()


class _Ending:
    """A context in which something happens at its end."""

    def __init__(self, inner, at_end) -> None:
        self._inner, self._at_end = inner, at_end

    def __enter__(self):
        return self._inner.__enter__()

    def __exit__(self, *error):
        self._at_end()
        return self._inner.__exit__(*error)
