"""What is read from the journals of earlier runs: what was sent counts, what may have been sent counts too."""

from __future__ import annotations

import json
import time
from dataclasses import replace

from runbook.records import past_runs
from runbook.records.chain import START, sealed
from runbook.records.past_runs import PastRuns
from runbook.records.private_folder import PrivateFolder
from runbook.values.result import Sent, Status, Verdict
from runbook.values.types import Unknown
from tests.past_runs.recorded import RUN, change, ended, finished, host_end, journal, started, step
from tests.support.tables import every_row

NOW = time.time()
YEARS = 10 * 366 * 86400.0


def past(folder: PrivateFolder, **more) -> PastRuns:
    return PastRuns(folder, **{"playbook": "toy", "inventory": (), "now": lambda: NOW, **more})


def written(name: str, *, sent: bool, status: Status = Status.CHANGED):
    return replace(ended(name), result=replace(step(name, status), sent=Sent.ALL if sent else Sent.NOTHING))


@every_row(
    ("end", "counts"),
    [
        (written("one", sent=True), 1),
        (written("one", sent=True, status=Status.FAILED), 1),
        (written("one", sent=False, status=Status.FAILED), 0),
        (None, 1),
    ],
)
def test_a_change_counts_unless_it_is_known_not_to_have_been_sent(tmp_path, end, counts):
    folder = journal(tmp_path, started(), change("one"), *([end] if end else []))
    found = past(folder).changes("a", YEARS)
    assert [it.step for it in found] == ["one"] * counts
    assert bool(past(folder).last_change("a")) is bool(counts)
    assert past(folder).changed_hosts(YEARS) == frozenset("a" * counts)


def test_the_run_that_asks_is_no_earlier_one(tmp_path):
    """Mutant: a list of journals that has our own."""
    folder = journal(tmp_path, started(), change("one"), written("one", sent=True))
    assert past(folder, own=RUN).changes("a", YEARS) == ()


@every_row("other", [{"playbook": "tool"}, {"inventory": ("/etc/hosts.yaml",)}])
def test_other_playbooks_and_inventories_are_others(tmp_path, other):
    folder = journal(tmp_path, started(), change("one"), written("one", sent=True))
    assert past(folder, **other).changes("a", YEARS) == ()
    assert past(folder).changes("b", YEARS) == ()


def test_a_first_line_that_was_written_anew_is_not_the_one_that_the_ledger_knows(tmp_path):
    """Mutant: a head that is not compared with the ledger."""
    folder = journal(tmp_path, started(), change("one"), written("one", sent=True))
    path = folder.path / f"{RUN}.jsonl"
    first, *rest = path.read_text().splitlines()
    value = json.loads(first)
    event = {**value["event"], "playbook": "another"}
    line, _ = sealed(json.dumps({"n": 1, "event": event}), START)
    path.write_text("\n".join([line, *rest]) + "\n")
    found = past(folder).changes("a", YEARS)
    assert isinstance(found, Unknown)
    assert "not the line that the ledger knows" in found.why


def test_too_many_records_are_unknown(tmp_path, monkeypatch):
    folder = journal(tmp_path, started(), host_end(), finished(host_end()))
    assert past(folder).changes("a", YEARS) == ()
    monkeypatch.setattr(past_runs, "MAX_JOURNALS", 0)
    assert isinstance(past(folder).changes("a", YEARS), Unknown)
    assert isinstance(past(folder).last_change("a"), Unknown)
    monkeypatch.undo()
    monkeypatch.setattr(past_runs, "MAX_JOURNAL_BYTES", 10)
    assert isinstance(past(folder).answer("a", "seen"), Unknown)


def test_nothing_is_read_before_the_first_question(tmp_path):
    folder = journal(tmp_path, started())
    asked = past(folder)
    (folder.path / f"{RUN}.jsonl").unlink()
    assert isinstance(asked.changes("a", YEARS), Unknown)


def test_no_records_at_all_are_a_fact(tmp_path):
    asked = past(PrivateFolder(tmp_path / "none"))
    assert asked.changes("a", YEARS) == ()
    assert asked.last_change("a") is None
    assert asked.answer("a", "seen") is None


NEXT, LAST = "20260101T000001Z-0002", "20260101T000002Z-0003"


def interrupted(folder, run: str, verdict: Verdict | None, resumes: str = "", *, sent: bool = True, hosts=("a",)):
    """A run that has sent a change to ``a``, and its end there; None: it was killed."""
    end = [host_end(verdict=verdict)] if verdict else []
    events = [change("one"), written("one", sent=True)] if sent else []
    return journal(folder, started(*hosts, run=run, resumes=resumes), *events, *end, run=run)


@every_row(
    ("verdict", "same"),
    [
        (None, True),
        (Verdict.CANCELLED, True),
        (Verdict.UNREACHABLE, True),
        (Verdict.UNKNOWN, True),
        (Verdict.DRIFTED, True),
        (Verdict.FAILED, False),
        (Verdict.UNRESOLVED, False),
        (Verdict.RESOLVED, False),
    ],
)
def test_going_on_with_an_interrupted_run_is_the_same_attempt(tmp_path, verdict, same):
    """Mutants: ``_attempt`` that goes by no verdict; ``Content`` without ``ends``."""
    folder = interrupted(tmp_path, RUN, verdict)
    assert past(folder, own=NEXT, resumes=RUN).attempt("a") == (RUN if same else "")
    assert past(folder, own=NEXT).attempt("a") == ""
    interrupted(tmp_path, NEXT, Verdict.RESOLVED, RUN)
    assert {it.attempt for it in past(folder).changes("a", YEARS)} == ({RUN} if same else {RUN, NEXT})


def test_an_attempt_goes_on_over_several_runs_and_over_those_without_the_host(tmp_path):
    """Mutants: ``_attempt`` that ends at a run without the host, or with the newest run."""
    interrupted(tmp_path, RUN, None, hosts=("a", "b"))
    interrupted(tmp_path, NEXT, None, RUN, sent=False, hosts=("b",))
    folder = interrupted(tmp_path, LAST, Verdict.CANCELLED, NEXT)
    assert past(folder, own="20260101T000009Z-0009", resumes=LAST).attempt("a") == RUN


def test_a_host_that_was_not_changed_yet_is_in_no_attempt(tmp_path):
    """Mutant: ``attempt`` without the changes."""
    assert past(interrupted(tmp_path, RUN, None, sent=False), own=NEXT, resumes=RUN).attempt("a") == ""


def test_a_record_that_is_not_believed_is_no_attempt(tmp_path):
    """Mutant: ``_attempt`` that takes what it cannot read."""
    folder = interrupted(tmp_path, RUN, None)
    file = folder.path / f"{RUN}.jsonl"
    file.write_bytes(file.read_bytes().replace(b"do one", b"do two"))
    assert past(folder, own=NEXT, resumes=RUN).attempt("a") == ""


def test_runs_that_go_on_with_each_other_end(tmp_path):
    interrupted(tmp_path, RUN, None, NEXT)
    folder = interrupted(tmp_path, NEXT, None, RUN)
    assert past(folder, own=LAST, resumes=NEXT).attempt("a") == RUN
