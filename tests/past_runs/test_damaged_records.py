"""Records that were damaged or edited: each is named, none keeps the others or later runs from working."""

from __future__ import annotations

import json
import os
import sqlite3

import pytest

from runbook.commands.history.listing import Query, export_text, list_text
from runbook.errors import ConfigError
from runbook.records.chain import START, sealed
from runbook.records.index import Index, RunQuery
from runbook.records.journal import Journal
from runbook.records.ledger import Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import size_of, verified
from tests.past_runs.recorded import RUN, finished, forge, host_end, journal, started, whole
from tests.support.program import runbook
from tests.support.tables import every_row

OTHER = "20260102T000000Z-0002"
OPTIONS = Query()


def at(*path: str, value: object):
    """Sets a field of the event that begins with that kind."""

    def change(event: dict) -> None:
        if event["kind"] == path[0]:
            for name in path[1:-1]:
                event = event[name]
            event[path[-1]] = value

    return change


@every_row(
    "change",
    [
        at("run_started", "origin", "by", value={}),
        at("run_started", "origin", "reason", value="\ud800"),
        at("run_started", "origin", "process", value={"machine": [], "pid": "1"}),
        at("run_started", "origin", value=[1]),
        at("run_started", "at", value=None),
        at("run_started", "hosts", value=7),
        at("run_started", "playbook", value=["x"]),
        at("run_finished", "result", "seconds", value={"a": 1}),
        at("run_finished", "result", "seconds", value=10**400),
        at("run_finished", "result", "seconds", value=float("nan")),
        at("run_finished", "result", "exit_code", value={"a": 1}),
        at("run_finished", "result", "exit_code", value=10**399),
        at("run_finished", "result", value=None),
        at("host_finished", "result", "verdict", value={}),
        at("host_finished", "result", "host", value="\udfff"),
        at("host_finished", "result", "steps", value=[3]),
        at("host_finished", "result", "findings", value={"a": 1}),
    ],
)
def test_a_damaged_journal_is_a_row_with_its_fault_and_hides_no_other(tmp_path, change):
    """Mutants: ``_Fields`` whose methods return what is there."""
    folder = whole(tmp_path)
    whole(tmp_path, OTHER)
    forge(tmp_path, change)
    index = Index(folder)
    other, damaged = index.runs(RunQuery())
    index.hosts(RUN)
    index.close()
    assert (other.run, other.fault) == (OTHER, "")
    assert (damaged.run, damaged.started) == (RUN, "2026-01-01T00:00:00.000Z")
    assert "is missing, or not of its type" in damaged.fault
    assert f"NOT AS IT WAS WRITTEN: {damaged.fault}" in list_text(folder, OPTIONS)
    for form in ("csv", "json", "jsonl"):
        assert OTHER in export_text(folder, OPTIONS, form)


def test_a_journal_that_cannot_be_summarised_is_a_row(tmp_path, monkeypatch):
    """Mutant: ``_refresh`` that does not catch what SQLite refuses."""
    folder = whole(tmp_path)
    whole(tmp_path, OTHER)
    monkeypatch.setattr(
        "runbook.records.run_summary.RunSummary._host", lambda self, result: self.hosts.append((10**30,))
    )
    index = Index(folder)
    assert ["cannot be summarised" in it.fault for it in index.runs(RunQuery())] == [True, True]
    index.close()


@every_row(
    "damage",
    [
        "UPDATE runs SET totals = 'x'",
        "UPDATE runs SET totals = '[]'",
        """UPDATE runs SET totals = '{"a": "b"}'""",
        "UPDATE runs SET started = NULL",
        "UPDATE runs SET started = x'ff'",
        "UPDATE runs SET playbook = CAST(x'ff' AS TEXT)",
        "UPDATE runs SET hosts = 'many', fault = NULL",
        "UPDATE runs SET process = '[', ended = 0",
        "UPDATE hosts SET seconds = NULL",
        "UPDATE findings SET finding = NULL",
        "ALTER TABLE runs DROP COLUMN fault",
        "DROP TABLE hosts",
        "DROP TABLE runs",
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW v AS SELECT 1",
        "PRAGMA user_version = 77",
    ],
)
def test_a_damaged_index_is_made_anew(tmp_path, damage):
    """Mutants: ``_provide_tables`` that compares nothing; ``_answer`` that asks once; ``_typed`` that checks nothing."""
    folder = whole(tmp_path)

    def asked():
        index = Index(folder)
        rows = index.runs(RunQuery())
        hosts = index.hosts(RUN)
        index.close()
        return rows, hosts

    expected = asked()
    with sqlite3.connect(tmp_path / "index.sqlite") as base:
        if "findings" in damage:
            base.execute("INSERT INTO findings VALUES (?, 'a', 'x', 'error', 'present')", (RUN,))
        base.execute(damage)
    base.close()
    assert asked() == expected
    with sqlite3.connect(tmp_path / "index.sqlite") as base:
        assert [it[0] for it in base.execute("SELECT run FROM runs")] == [RUN]
        assert not base.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchall()
        assert base.execute("PRAGMA user_version").fetchone() != (77,)
    base.close()


def test_an_index_that_is_whole_is_kept(tmp_path):
    """Mutant: ``_provide_tables`` that takes every database for damaged."""
    folder = whole(tmp_path)
    Index(folder).close()
    inode = (tmp_path / "index.sqlite").stat().st_ino
    with sqlite3.connect(tmp_path / "index.sqlite") as base:
        base.execute("UPDATE runs SET reason = 'kept'")
    base.close()
    index = Index(folder)
    assert [it.reason for it in index.runs(RunQuery())] == ["kept"]
    index.close()
    assert (tmp_path / "index.sqlite").stat().st_ino == inode


def test_the_index_is_readable_for_its_user_alone_and_is_never_reached_through_a_link(tmp_path):
    """Mutants: ``_kept`` that opens by the path alone, or without ``fchmod``."""
    folder = whole(tmp_path / "runs")
    place = tmp_path / "runs" / "index.sqlite"
    mask = os.umask(0o022)
    Index(folder).close()
    os.umask(mask)
    assert place.stat().st_mode & 0o777 == 0o600
    place.chmod(0o644)
    Index(folder).close()
    assert place.stat().st_mode & 0o777 == 0o600
    place.unlink()
    (tmp_path / "theirs").write_bytes(b"")
    for link in (place.symlink_to, place.hardlink_to):
        link(tmp_path / "theirs")
        index = Index(folder)
        assert [it.run for it in index.runs(RunQuery())] == [RUN]
        index.close()
        assert (tmp_path / "theirs").read_bytes() == b""
        assert not place.is_symlink()
        assert place.stat().st_nlink == 1
        place.unlink()


def test_an_index_that_lies_does_not_outlive_verify(tmp_path):
    """Mutant: ``verified`` that leaves the index."""
    folder = whole(tmp_path)
    Index(folder).close()
    for lie in ("UPDATE runs SET playbook = 'lie'", "UPDATE runs SET run = 'no'", "UPDATE hosts SET verdict = 'x'"):
        with sqlite3.connect(tmp_path / "index.sqlite") as base:
            base.execute(lie)
        base.close()
        assert verified(folder, RUN[:10])[0] == []
        index = Index(folder)
        assert [(it.run, it.playbook) for it in index.runs(RunQuery())] == [(RUN, "toy")]
        assert [it.verdict for it in index.hosts(RUN)] == ["resolved"]
        index.close()


@every_row(
    "line",
    [b"[" * 5000, b"x", b"", b"{}", b'{"n": 3}', b"\xff", b"z" * 100_000, b'{"n": [],"sha":"' + b"0" * 64 + b'"}'],
)
def test_a_ledger_whose_last_line_cannot_be_read_stops_no_run_and_says_so_for_ever(tmp_path, line):
    """Mutants: ``enter`` that raises; ``_read`` that says nothing of ``BROKEN``; ``_lines`` that counts none."""
    folder = whole(tmp_path)
    with (tmp_path / "ledger").open("ab") as file:
        file.write(line + b"\n")
    whole(tmp_path, OTHER)
    whole(tmp_path, "20260103T000000Z-0003")
    faults, _ = verified(folder)
    assert len(faults) == 2, faults
    assert faults[0].startswith("ledger: line 3: ")
    assert faults[1] == (
        "ledger: line 4: the line before it could not be read when it was written: the chain begins again here"
    )
    assert len(Ledger(folder).entries()[0]) == 6
    kept = (tmp_path / "ledger").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger").write_bytes(b"".join([*kept[:2], *kept[3:]]))
    assert any("begins again" in it for it in verified(folder)[0])


@every_row("size", [10, 8191, 8192, 8193, 9000, 70_000])
def test_a_torn_line_of_any_length_is_cut_off_and_nothing_else(tmp_path, size):
    """Mutant: ``_behind_newline`` that reads one block."""
    folder = whole(tmp_path)
    before = (tmp_path / "ledger").read_bytes()
    (tmp_path / "ledger").write_bytes(before + b"x" * size)
    (torn,) = verified(folder)[0]
    assert "its last line is not whole" in torn
    whole(tmp_path, OTHER)
    assert (tmp_path / "ledger").read_bytes().startswith(before)
    assert verified(folder)[0] == []


@every_row("torn", [0, 20])
def test_verify_misses_the_end_of_a_run_in_the_ledger(tmp_path, torn):
    """Mutant: ``faults_of`` that does not compare the last event."""
    folder = whole(tmp_path)
    first, second = (tmp_path / "ledger").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger").write_bytes(first + second[:torn])
    faults, _ = verified(folder)
    assert f"{RUN}: its end is not in the ledger, although the run had ended" in faults
    whole(tmp_path, OTHER)  # a later run continues the chain, and heals nothing
    assert verified(folder)[0] == [f"{RUN}: its end is not in the ledger, although the run had ended"]


def test_a_run_that_was_killed_before_it_was_in_the_ledger_is_no_fault(tmp_path):
    """It has sent nothing.  Mutants: ``faults_of`` that says so of one line; of none."""
    folder = journal(tmp_path, started())
    folder.remove("ledger")
    whole(tmp_path, OTHER)
    assert verified(folder)[0] == []
    folder.remove("ledger")
    assert verified(folder)[0] == [f"{OTHER}: the ledger does not know it"]


def test_a_run_that_is_being_finished_is_no_fault(tmp_path):
    """Mutant: ``_over`` that says yes."""
    folder = journal(tmp_path, started(alive=True), host_end(), finished(host_end()))
    ledger = (tmp_path / "ledger").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger").write_bytes(ledger[0])
    assert verified(folder)[0] == []


def test_a_run_that_ends_while_it_is_verified_is_no_fault(tmp_path, monkeypatch):
    """Mutant: ``verified`` that does not read the ledger once more."""
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, RUN)
    made.on(started())
    real = Ledger.torn

    def ends_meanwhile(self):
        made.on(finished())
        made.close()
        monkeypatch.setattr(Ledger, "torn", real)
        return real(self)

    monkeypatch.setattr(Ledger, "torn", ends_meanwhile)
    assert verified(folder)[0] == []


@every_row("line", [0, 1, -1])
def test_verify_looks_at_every_byte_of_a_line(tmp_path, line):
    """Mutants: ``_SEALED`` without its end; ``_link`` that decodes with replacements."""
    folder = journal(tmp_path, started("\ufffd"), host_end("\ufffd"), finished(host_end("\ufffd")))
    file = tmp_path / f"{RUN}.jsonl"
    original = file.read_bytes().splitlines(keepends=True)
    for find, other in ((b'"}\n', b"XY\n"), (b'"}\n', b'" \n'), ("\ufffd".encode(), b"\xff")):
        changed = list(original)
        changed[line] = changed[line].replace(find, other)
        file.write_bytes(b"".join(changed))
        assert bool(verified(folder)[0]) == (changed != original)
    assert b"\xef\xbf\xbd" in original[0]


@every_row("kept", [True, False])
def test_entries_of_the_ledger_that_name_no_line_are_faults(tmp_path, kept):
    folder = whole(tmp_path)
    if not kept:
        (tmp_path / f"{RUN}.jsonl").write_bytes(b"")
    for lines in (0, -5, "x", 10**300):
        (tmp_path / "ledger").write_text(
            sealed(json.dumps({"n": 1, "run": RUN, "what": "run_started", "lines": lines, "last": "x"}), START)[0]
            + "\n"
        )
        assert verified(folder)[0]


@every_row(
    ("option", "value", "said"),
    [
        ("--limit", "99999999999999999999", "1000000"),
        ("--since", "99999999d", "between 1970 and the end of the year 9999"),
        ("--until", "99999999d", "between 1970 and the end of the year 9999"),
        ("--since", "@99999999999999999", "between 1970 and the end of the year 9999"),
        ("--verdict", "helthy", "unreachable, cancelled, not_started"),
    ],
)
def test_what_no_run_can_match_is_a_mistake_of_the_command_line(tmp_path, option, value, said):
    """Mutants: ``_moment`` without bounds; ``--limit`` without its highest; ``_verdict`` that takes every word."""
    answer = runbook("history", "list", option, value, "--records", str(tmp_path))
    assert answer.code == 2
    assert option in answer.err
    assert said in answer.err
    assert "Traceback" not in answer.err


def test_values_out_of_range_are_answered_by_the_index(tmp_path):
    folder = whole(tmp_path)
    index = Index(folder)
    assert [it.run for it in index.runs(RunQuery(limit=10**30, since=-1e30, until=1e30))] == [RUN]
    assert index.runs(RunQuery(host="\udcff")) == []
    index.close()
    with pytest.raises(ConfigError, match="is no size"):
        size_of("9" * 5000)
