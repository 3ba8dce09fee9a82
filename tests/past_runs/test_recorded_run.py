"""What a journal says of a run that was interrupted, and what a later run has to know of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from runbook.commands.history.listing import Query, checked_query, export_text, list_text
from runbook.commands.history.showing import show_text
from runbook.errors import ConfigError
from runbook.records.index import Index, RunQuery
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import earlier_changes
from runbook.records.recorded_run import RunState, read_run, resumable
from runbook.values.event import HostStarted
from runbook.values.plan import Presence
from runbook.values.result import Mode, Sent, Status, Verdict
from tests.past_runs.recorded import RUN, change, ended, finding, finished, host_end, journal, started, whole
from tests.support.tables import every_row


def recorded(place, *events, run=RUN):
    return read_run(journal(place, *events, run=run), run)


def test_every_host_of_an_interrupted_run_has_a_verdict(tmp_path):
    """Mutants: ``unfinished`` that calls all the same; ``in_flight`` that forgets what has ended."""
    run = recorded(
        tmp_path,
        started("done", "flying", "between", "looking", "never"),
        *(HostStarted(host=it) for it in ("done", "flying", "between", "looking")),
        change("x", "flying"), change("x", "between"), ended("x", "between"), host_end("done"),
    )  # fmt: skip
    assert run.state is RunState.INTERRUPTED
    assert {it.host: it.verdict.value for it in run.hosts} == {
        "done": "resolved", "flying": "unknown", "between": "unknown", "looking": "cancelled", "never": "not_started",
    }  # fmt: skip
    flying = run.result_of("flying")
    assert [(it.id, it.status) for it in flying.steps] == [("x", Status.UNKNOWN)]
    assert [(it.id, it.status) for it in run.result_of("between").steps] == [("x", Status.CHANGED)]
    assert resumable(run) == ("flying", "between", "looking", "never")


def test_a_living_run_is_not_interrupted_and_a_dry_run_leaves_nothing_to_resume(tmp_path):
    assert recorded(tmp_path / "a", started("a", alive=True)).state is RunState.RUNNING
    assert resumable(recorded(tmp_path / "b", started("a", mode=Mode.PLAN))) == ()


def test_what_was_changed_or_is_in_doubt_is_known_and_what_was_not_sent_is_not(tmp_path):
    """Mutants: ``earlier_changes`` that takes every status for done, or for in doubt."""
    run = recorded(
        tmp_path,
        started(),
        change("done"), ended("done"),
        change("unknown"), ended("unknown", status=Status.UNKNOWN),
        change("cancelled"), ended("cancelled", status=Status.CANCELLED),
        change("failed"), ended("failed", status=Status.FAILED),
        change("each[0]", item={"name": "p"}), ended("each[0]"), change("each[1]", item={"name": "q"}),
        change("flying", verifiable=True),
    )  # fmt: skip
    found = earlier_changes([run])["a"]
    assert [(it.step, it.item, it.done, it.verifiable) for it in found] == [
        ("done", None, True, False),
        ("unknown", None, False, False),
        ("cancelled", None, False, False),
        ("each", {"name": "p"}, True, False),
        ("each", {"name": "q"}, False, False),
        ("flying", None, False, True),
    ]


UNSENT = ((Status.CANCELLED, Sent.NOTHING), (Status.UNREACHABLE, Sent.NOTHING), (Status.FAILED, Sent.NOTHING), (Status.BLOCKED, Sent.UNSAID))  # fmt: skip


@every_row("end", dict(enumerate(UNSENT)))
def test_a_change_that_was_not_sent_is_none_and_leaves_what_an_earlier_run_sent_as_it_was(tmp_path, end):
    """Mutants: ``may_have_been_sent`` always true; ``earlier_changes`` that takes what was begun for sent."""
    later, status, sent = "20260102T000000Z-0001", *UNSENT[end]
    unsent = [event for name in ("x", "y") for event in (change(name), ended(name, status=status, sent=sent))]
    first = recorded(tmp_path, started(), change("x"))
    second = recorded(tmp_path, started(run=later, resumes=RUN), *unsent, run=later)
    assert [(it.step, it.run, it.done) for it in earlier_changes([first, second])["a"]] == [("x", RUN, False)]


def test_a_cancelled_change_that_was_sent_or_of_which_an_older_record_says_nothing_is_in_doubt(tmp_path):
    """Mutants: ``may_have_been_sent`` for nothing that was cancelled; ``IN_DOUBT`` without one of its statuses."""
    ends = {"part": Sent.PART, "all": Sent.ALL, "old": Sent.UNSAID}
    for status in (Status.CANCELLED, Status.UNREACHABLE):
        events = [it for name, sent in ends.items() for it in (change(name), ended(name, status=status, sent=sent))]
        run = recorded(tmp_path / status, started(), *events)
        assert [(it.step, it.done) for it in earlier_changes([run])["a"]] == [(name, False) for name in ends]


def test_of_several_runs_the_last_word_on_a_change_counts(tmp_path):
    """Mutant: ``earlier_changes`` that keeps the first."""
    later = "20260102T000000Z-0001"
    first = recorded(tmp_path, started(), change("x"), change("y"), ended("y"))
    second = recorded(tmp_path, started(run=later, resumes=RUN), change("x"), ended("x"), run=later)
    assert {it.step: (it.run, it.done) for it in earlier_changes([first, second])["a"]} == {
        "x": (later, True), "y": (RUN, True),
    }  # fmt: skip


def test_the_index_answers_by_host_playbook_verdict_finding_and_time(tmp_path):
    ids = [f"2026010{it}T000000Z-0001" for it in range(1, 4)]
    whole(tmp_path, ids[0], hosts=("gpu-01", "gpu-02"))
    whole(tmp_path, ids[1], hosts=("gpu-03",), verdict=Verdict.FAILED)
    end = host_end("gpu-01", Verdict.UNRESOLVED, (finding("held"), finding("lost", Presence.ABSENT)))
    folder = journal(tmp_path, started("gpu-01", run=ids[2]), end, finished(end, run=ids[2]), run=ids[2])
    index = Index(folder)

    def found(**wanted) -> list[str]:
        return [it.run for it in index.runs(RunQuery(**wanted))]

    assert found() == ids[::-1]
    assert found(limit=1) == ids[2:]
    assert found(host="gpu-01") == [ids[2], ids[0]]
    assert found(host="gpu-0[23]") == [ids[1], ids[0]]
    assert found(verdict="failed") == [ids[1]]
    assert found(finding="held") == [ids[2]]
    assert found(finding="lost") == []
    assert found(playbook="other") == []
    assert found(since=1767312000.0) == ids[:0:-1]
    assert found(until=1767312000.0) == ids[:1]
    (row,) = index.hosts(ids[2])
    assert (row.host, row.verdict, row.findings) == ("gpu-01", "unresolved", ("held",))
    index.close()


def test_the_index_follows_the_journals_and_is_made_anew_where_it_is_damaged(tmp_path):
    """Mutants: ``_refresh`` that does not drop what is gone, or does not read what has grown; no second try."""
    folder = journal(tmp_path, started(alive=True))
    index = Index(folder)
    assert [it.state for it in index.runs(RunQuery())] == [RunState.RUNNING]
    index.close()
    (tmp_path / f"{RUN}.jsonl").unlink()
    other = "20260102T000000Z-0001"
    whole(tmp_path, other)
    index = Index(folder)
    assert [(it.run, it.state) for it in index.runs(RunQuery())] == [(other, RunState.FINISHED)]
    index.close()
    (tmp_path / "index.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    index = Index(folder)
    assert [it.run for it in index.runs(RunQuery())] == [other]
    index.close()


def test_the_index_reads_a_journal_again_that_has_grown(tmp_path):
    folder = PrivateFolder(tmp_path)
    made = Journal(folder, RUN)
    made.on(started())
    for end, state in ((None, RunState.RUNNING), (finished(host_end()), RunState.FINISHED)):
        if end:
            made.on(end)
        index = Index(folder)
        assert [it.state for it in index.runs(RunQuery())] == [state]
        index.close()
    made.close()


def test_a_journal_that_was_edited_shows_in_the_list(tmp_path):
    folder = whole(tmp_path)
    file = tmp_path / f"{RUN}.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"a"', b'"b"', 1))
    index = Index(folder)
    (row,) = index.runs(RunQuery())
    index.close()
    assert "edited" in row.fault


def test_rows_of_hosts_fit_the_query_as_their_runs_do(tmp_path):
    """Mutant: ``_host_conditions`` that is empty."""
    ends = (
        host_end("gpu-01", Verdict.UNRESOLVED, (finding("held"),)),
        host_end("gpu-02", Verdict.RESOLVED, (finding("held", Presence.GONE),)),
        host_end("gpu-03", Verdict.RESOLVED, (finding("held", Presence.ABSENT),)),
    )
    index = Index(journal(tmp_path, started("gpu-01", "gpu-02", "gpu-03"), *ends, finished(*ends)))

    def found(**wanted) -> list[str]:
        return [it.host[-1] for it in index.hosts(RUN, RunQuery(**wanted))]

    assert found() == ["1", "2", "3"]
    assert found(host="gpu-0[12]") == ["1", "2"]
    assert found(verdict="resolved") == ["2", "3"]
    assert found(finding="held") == ["1", "2"]
    assert found(finding="held", verdict="resolved", host="gpu-*") == ["2"]
    index.close()


def test_a_shown_run_names_what_it_undoes_and_who_went_on_with_it(tmp_path):
    """Mutants: ``_head`` that advises to resume what was resumed; ``_resumed_by`` that counts dry runs."""
    later, dry = "20260102T000000Z-0001", "20260103T000000Z-0001"
    folder = journal(tmp_path, started(), change("x"))
    assert f"`runbook resume {RUN}` goes on with it" in show_text(folder, RUN, "")
    journal(tmp_path, started(run=dry, resumes=RUN, mode=Mode.PLAN), run=dry)
    assert "resumed by" not in show_text(folder, RUN, "")
    journal(tmp_path, started(run=later, resumes=RUN), host_end("a"), run=later)
    shown = show_text(folder, RUN, "")
    assert f"resumed by {later}" in shown
    assert "goes on with it" not in shown
    assert "1 host: 1 unknown" in shown
    undone = "20260104T000000Z-0001"
    start = started(run=undone)
    journal(tmp_path, replace(start, origin=replace(start.origin, undoes=RUN)), run=undone)
    assert f"undoes     {RUN}" in show_text(folder, undone, "")
    options = Query(limit=1)
    assert f"undoes {RUN}" in list_text(folder, options)
    assert "1 unfinished" in list_text(folder, options)


def test_a_run_that_another_one_has_gone_on_with_is_not_listed_as_interrupted(tmp_path):
    """Mutants: index.py ``_RESUMED_BY`` that counts dry runs; that is asked of the filtered runs alone; listing.py
    ``_line`` that goes by ``state``.
    """
    second, third, dry = (f"2026010{day}T000000Z-0001" for day in (2, 3, 4))
    folder = journal(tmp_path, started("a", "b"), host_end("a"))
    journal(tmp_path, started("b", run=dry, resumes=RUN, mode=Mode.PLAN), run=dry)
    assert list_text(folder, Query(host="a")).endswith("1 resolved, 1 unfinished  INTERRUPTED")
    journal(tmp_path, started("b", run=second, resumes=RUN), run=second)
    journal(
        tmp_path, started("b", run=third, resumes=second), host_end("b"), finished(host_end("b"), run=third), run=third
    )
    lines = {it.split()[0]: it for it in list_text(folder, Query()).splitlines()}
    assert lines[RUN].endswith(f"1 unfinished  resumed by {second}")
    assert lines[second].endswith(f"1 unfinished  resumed by {third}  resumes {RUN}")
    assert lines[third].endswith(f"1 resolved  resumes {second}")
    assert list_text(folder, Query(host="a")) == lines[RUN]
    rows = json.loads(export_text(folder, Query()))
    assert [(it["state"], it["resumed_by"]) for it in rows if it["run"] == RUN] == [("interrupted", second)] * 2
    assert "ended      it was interrupted, and another run has gone on with it" in show_text(folder, RUN, "")


def test_absent_findings_of_a_host_stand_in_one_line(tmp_path):
    """Mutant: ``_host`` that lists them as it lists others."""
    found = (finding("one", Presence.ABSENT), finding("held"), finding("two", Presence.ABSENT))
    folder = journal(tmp_path, started(), host_end(findings=found))
    lines = [it for it in show_text(folder, RUN, "a").splitlines() if "finding" in it]
    assert lines == ["  finding held: present  it is there", "  findings that are absent: one, two"]


@every_row(
    ("asked", "said"),
    [
        ({"finding": "helt"}, "no record names the finding 'helt'; did you mean held?"),
        ({"playbook": "toys"}, "no record names the playbook 'toys'; did you mean toy?"),
        ({"host": "zzz"}, "no record names the host 'zzz'; there are: gpu-01, gpu-02"),
        ({"host": "gpu-*", "verdict": "failed"}, None),
    ],
)
def test_a_name_that_no_record_has_is_said_with_the_one_that_was_meant(tmp_path, asked, said):
    """Mutants: ``_unheard_of`` of every word; a host that is compared without its glob."""
    ends = host_end("gpu-01", findings=(finding("held"),)), host_end("gpu-02")
    folder = journal(tmp_path, started("gpu-01", "gpu-02"), *ends, finished(*ends))
    first, *more = list_text(folder, Query(**asked)).splitlines()
    assert first.startswith("no recorded run matches")
    assert more == ([said] if said else [])


@every_row("asked", [{"host": 5}, {"finding": ["x"]}, {"limit": -1}, {"verdict": "typo"}, {"hosts": "a"}])
def test_values_that_cannot_be_are_refused(asked):
    """Mutants: ``checked_query`` without the types; without the limit."""
    limit = asked.pop("limit", 0)
    with pytest.raises(ConfigError):
        checked_query(asked, limit=limit)
