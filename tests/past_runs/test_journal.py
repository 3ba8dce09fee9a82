"""The journal of a run: nothing in it is lost, and what cannot be recorded is not done."""

from __future__ import annotations

import json
import os
import resource
import threading
from dataclasses import replace

import pytest

from runbook.commands.history.recording import RunRecorder
from runbook.errors import RecordLost
from runbook.records.chain import sealed
from runbook.records.journal import Journal
from runbook.records.ledger import Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import expired, prune, verified
from runbook.records.recorded_run import RunState, read_run
from runbook.values.event import HostStarted
from tests.past_runs.recorded import RUN, change, ended, finished, host_end, journal, started, whole
from tests.support.tables import every_row


def test_a_run_comes_back_as_it_was(tmp_path):
    events = [started("a", "b"), HostStarted(host="a"), change("x"), ended("x"), host_end("a"), host_end("b")]
    folder = journal(tmp_path / "runs", *events, finished(host_end("a"), host_end("b")))
    recorded = read_run(folder, RUN)
    assert recorded.events[:-1] == tuple(events)
    assert recorded.finished == finished(host_end("a"), host_end("b"))
    assert recorded.state is RunState.FINISHED
    assert not recorded.faults
    assert (tmp_path / "runs").stat().st_mode & 0o777 == 0o700
    assert {it.stat().st_mode & 0o777 for it in (tmp_path / "runs").iterdir()} == {0o600}


def test_a_change_is_on_the_disk_before_it_is_sent(tmp_path, monkeypatch):
    """Mutants: ``SYNCED`` without ``ChangeStarted``; ``_to_disk`` that does nothing."""
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(os.fstat(number).st_size), real(number)))
    made = Journal(PrivateFolder(tmp_path), RUN)
    made.on(started())
    made.on(HostStarted(host="a"))
    before = len(synced)
    made.on(change("x"))
    assert synced[before:] == [(tmp_path / f"{RUN}.jsonl").stat().st_size]
    made.on(ended("x"))
    assert len(synced) == before + 1
    made.close()


def test_a_journal_has_its_name_once_it_has_a_line(tmp_path):
    """Wherever a run is killed, what bears a run's name can be read.  Mutant: ``_begun`` that gives the last name."""
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, RUN)
    assert folder.names(".jsonl") == []
    made.on(started())
    assert folder.names(".jsonl") == [f"{RUN}.jsonl"]
    made.close()
    with pytest.raises(RecordLost):  # of two runs with one id only one is recorded
        journal(tmp_path, started())
    left = tmp_path / ".20250101T000000Z-0001.new"
    left.write_text("")
    os.utime(left, (0, 0))
    prune(folder, [])
    assert not left.exists()


def test_half_a_surrogate_is_recorded_as_it_was(tmp_path):
    """Mutant: ``_append`` that encodes as UTF-8 alone."""
    event = replace(change("x"), summary="half \ud800 of it")
    recorded = read_run(journal(tmp_path, started(), event), RUN)
    assert recorded.events[1] == event
    assert not recorded.faults


def test_threads_do_not_disturb_each_other(tmp_path):
    """Mutant: ``_append`` without its lock."""
    made = Journal(PrivateFolder(tmp_path), RUN)
    made.on(started())

    def write(host: str) -> None:
        for number in range(100):
            made.on(change(f"s{number}", host))

    threads = [threading.Thread(target=write, args=(f"h{it}",)) for it in range(8)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    made.close()
    recorded = read_run(PrivateFolder(tmp_path), RUN)
    assert not recorded.faults
    assert len(recorded.events) == 801


@pytest.fixture
def full():
    """No file of this process grows beyond so many bytes from now on."""
    import signal

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heeded = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, heeded)


def test_a_full_disk_stops_what_changes_and_the_rest_of_the_journal_stays_whole(tmp_path, full):
    """Mutants: ``_give_up`` without ftruncate; ``_append`` that goes on after a fault; ``RunRecorder.on`` that swallows."""
    complaints: list[str] = []
    made = Journal(PrivateFolder(tmp_path), RUN)
    recording = RunRecorder(made, PrivateFolder(tmp_path), "r", complaints.append, changing=True)
    recording.on(started())
    full((tmp_path / f"{RUN}.jsonl").stat().st_size + 50)
    recording.on(HostStarted(host="a"))
    with pytest.raises(RecordLost, match="File too large"):
        recording.on(change("x"))
    full(2**30)
    with pytest.raises(RecordLost):
        recording.on(change("y"))
    recording.on(HostStarted(host="b"))
    recording.close()
    assert len(complaints) == 1
    assert "incomplete" in complaints[0]
    recorded = read_run(PrivateFolder(tmp_path), RUN)
    assert recorded.events == (started(),)
    assert (recorded.torn, recorded.faults) == (False, ())


def test_a_line_that_is_not_whole_is_left_out_and_said(tmp_path):
    folder = journal(tmp_path, started(), change("x"))
    file = tmp_path / f"{RUN}.jsonl"
    file.write_bytes(file.read_bytes()[:-30])
    recorded = read_run(folder, RUN)
    assert recorded.torn
    assert recorded.events == (started(),)
    assert verified(folder)[0] == []


def lines_of(folder: PrivateFolder, run: str = RUN) -> list[bytes]:
    return (folder.path / f"{run}.jsonl").read_bytes().splitlines(keepends=True)


@every_row(
    ("what", "fault"),
    [
        (lambda it: [*it[:1], it[1].replace(b'"a"', b'"b"'), *it[2:]], "was edited"),
        (lambda it: [*it[:1], *it[2:]], "removed"),
        (lambda it: [*it[:2], *it[1:]], "removed, added or moved"),
        (lambda it: [it[0], it[2], it[1], *it[3:]], "moved"),
        (lambda it: it[:-1], "missing at its end"),
        (lambda it: [*it[:-1], it[-1].replace(b'"exit_code": 0', b'"exit_code": 1')], "was edited"),
        (lambda it: [*it, it[-1]], "added"),
        (lambda it: [*it[:-1], it[-1][:-9]], "not whole"),
        (lambda it: [*it[:2], b"\x00\xff\n", *it[3:]], "not JSON"),
    ],
)
def test_verify_finds_what_was_done_to_a_journal(tmp_path, what, fault):
    folder = whole(tmp_path)
    assert verified(folder) == ([], f"1 record in {tmp_path}: as written")
    (tmp_path / f"{RUN}.jsonl").write_bytes(b"".join(what(lines_of(folder))))
    faults, _ = verified(folder)
    assert any(fault in it for it in faults), faults


def test_verify_finds_a_line_that_was_added_with_a_digest_that_fits(tmp_path):
    folder = whole(tmp_path)
    last = json.loads(lines_of(folder)[-1])
    line, _ = sealed(json.dumps({"n": last["n"] + 1, "event": {}}), last["sha"])
    with (tmp_path / f"{RUN}.jsonl").open("a") as file:
        file.write(line + "\n")
    assert any("lines were added" in it for it in verified(folder)[0])


def test_verify_finds_a_journal_that_is_gone_or_was_exchanged(tmp_path):
    """Mutants: ``_missing`` that says nothing; ``_faults_of`` that does not compare with the ledger's digest."""
    folder, other = whole(tmp_path / "a"), whole(tmp_path / "b", hosts=("z",))
    (tmp_path / "a" / f"{RUN}.jsonl").write_bytes(b"".join(lines_of(other)))
    assert any("not the line that the ledger knows" in it for it in verified(folder)[0])
    (tmp_path / "a" / f"{RUN}.jsonl").unlink()
    assert verified(folder)[0] == [f"{RUN}: its journal is gone, and was not removed by `runbook history prune`"]


def test_what_was_pruned_is_not_missed_and_a_living_run_stays(tmp_path):
    """Mutant: ``_going`` that takes living runs."""
    living = "20260101T000000Z-aaaa"
    folder = whole(tmp_path)
    journal(tmp_path, started(run=living, alive=True), run=living)
    going = expired(folder, "", "0")
    assert going == [RUN]
    prune(folder, going)
    assert verified(folder)[0] == []
    assert folder.names(".jsonl") == [f"{living}.jsonl"]


def test_the_oldest_go_first_until_the_rest_is_small_enough(tmp_path):
    runs = [f"2026010{it}T000000Z-0001" for it in range(1, 5)]
    for number, run in enumerate(runs):
        folder = whole(tmp_path, run)
        os.utime(tmp_path / f"{run}.jsonl", (number, number))
    size = (tmp_path / f"{runs[0]}.jsonl").stat().st_size
    assert expired(folder, "", str(2 * size)) == runs[:2]
    assert expired(folder, "1h", "") == runs


def test_a_ledger_that_was_edited_is_found_and_a_torn_line_is_cut_off(tmp_path):
    folder = whole(tmp_path)
    ledger = tmp_path / "ledger"
    ledger.write_bytes(ledger.read_bytes() + b'{"n":3,"ru')
    whole(tmp_path, "20260102T000000Z-0001")
    assert verified(folder)[0] == []
    assert [it.what for it in Ledger(folder).entries()[0]] == ["run_started", "run_finished"] * 2
    ledger.write_bytes(ledger.read_bytes().replace(b'"lines": 1', b'"lines": 0', 1))
    assert any("edited" in it for it in verified(folder)[0])


def test_another_users_directory_or_link_is_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    (tmp_path / "theirs").mkdir()
    if os.geteuid() == 0:
        os.chown(tmp_path / "theirs", 65534, 65534)
        with pytest.raises(RecordLost, match="another user"):
            Journal(PrivateFolder(tmp_path / "theirs"), RUN)
        os.chown(tmp_path / "link", 65534, 65534, follow_symlinks=False)
        with pytest.raises(RecordLost, match="owned by the user"):
            Journal(PrivateFolder(tmp_path / "link"), RUN)
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordLost):
        Journal(PrivateFolder(tmp_path / "file"), RUN)
