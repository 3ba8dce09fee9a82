"""The table of a run, from its journal, and what follows it live."""

from __future__ import annotations

from contextlib import closing

import pytest

from runbook.commands.serve import streams
from runbook.commands.serve.access import Role
from runbook.commands.serve.run_matrix import JournalTail, Matrix, read_matrix
from runbook.commands.serve.site import Refused
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RunState
from runbook.values.event import HostFinished, HostPlanned, HostStarted, RunStarted, StepFinished, StepStarted
from runbook.values.playbook import Phase
from runbook.values.result import HostPlan, HostResult, Mode, Status, StepResult, Verdict
from tests.serve.fake_desk import served
from tests.serve.page_reader import Page
from tests.support.sample_runs import STEPS, finished, sample_of, step

RUN = "20270115T080000Z-abcd"
AT = "2027-01-15T08:00:00.000Z"


def planned(host: str) -> HostPlanned:
    looks = tuple(step(phase, name, Status.OK) for phase, name in STEPS if phase is Phase.DIAGNOSE)
    others = tuple(step(phase, name, Status.WOULD_CHANGE) for phase, name in STEPS if phase is not Phase.DIAGNOSE)
    return HostPlanned(at=AT, plan=HostPlan(host=host, looks=looks, results=others))


def begun(journal: Journal, *hosts: str) -> None:
    journal.on(RunStarted(at=AT, run=RUN, playbook="zombie-gpu", mode=Mode.RUN, hosts=hosts))


def result(host: str, *steps: StepResult, verdict: Verdict = Verdict.RESOLVED) -> HostFinished:
    return HostFinished(at=AT, result=HostResult(host=host, verdict=verdict, steps=steps))


def test_a_run_that_goes_on_is_a_table_of_hosts_and_steps(tmp_path):
    made = served(tmp_path)
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, "gpu-1", "gpu-2", "gpu-3")
        journal.on(HostStarted(at=AT, host="gpu-1"))
        journal.on(planned("gpu-1"))
        journal.on(StepStarted(at=AT, host="gpu-1", step="stop_leftovers", action="pkill"))
        journal.on(HostStarted(at=AT, host="gpu-2"))
        page = Page(made.client(Role.VIEW).get(f"/runs/{RUN}").text)
        listed = Page(made.client(Role.VIEW).get("/runs").text)
    main = page.all("main")[0]
    assert main["data-run"] == f"/runs/{RUN}/events"
    assert main["data-after"] == "5"
    assert page.rows()[0] == ["Host", "Verdict", *(name for _, name in STEPS)]
    assert page.rows()[1][:9] == ["gpu-1", "probed", *["ok"] * 5, "running", "would_change"]
    assert page.rows()[2] == ["gpu-2", "started", *[""] * 12]
    assert page.rows()[3] == ["gpu-3", "", *[""] * 12]
    assert "State running" in page.text
    assert f"/runs/{RUN}" in [each["href"] for each in page.all("a")]
    assert "Running (1)" in listed.text


def test_a_run_that_has_ended_is_not_followed(tmp_path):
    made = served(tmp_path)
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, "gpu-1")
        journal.on(result("gpu-1", step(Phase.DIAGNOSE, "gpus", Status.OK)))
        journal.on(finished(run=RUN))
    page = Page(made.client(Role.VIEW).get(f"/runs/{RUN}").text)
    assert page.rows()[1] == ["gpu-1", "resolved", "ok"]
    assert "data-run" not in page.all("main")[0]
    assert "State finished" in page.text


def test_a_run_whose_process_is_gone_was_interrupted(tmp_path):
    folder = PrivateFolder(tmp_path)
    with closing(Journal(folder, RUN)) as journal:
        begun(journal, "gpu-1")
        assert read_matrix(folder, RUN).state is RunState.RUNNING
    assert read_matrix(folder, RUN).state is RunState.INTERRUPTED


def test_the_items_of_a_step_share_a_column_that_shows_the_worst():
    made = Matrix(run=RUN)
    for number, status in enumerate(("ok", "failed", "changed")):
        made.take(("gpu-1", f"stop[{number}]", status))
    assert made.columns() == ["stop"]
    assert [*made.rows()] == [("gpu-1", "", ["failed"])]


def test_a_client_that_comes_back_gets_the_status_that_the_table_shows(tmp_path):
    folder = PrivateFolder(tmp_path)
    with closing(Journal(folder, RUN)) as journal:
        begun(journal, "gpu-1")
        for name, status in (("stop", "skipped"), ("stop[0]", "failed"), ("look", "ok"), ("stop[1]", "changed")):
            result_of = step(Phase.REMEDIATE, name, Status(status))
            journal.on(StepFinished(at=AT, host="gpu-1", result=result_of))
        for after in range(5):  # a client that has lost its connection after each line
            assert JournalTail(folder, RUN).lines(after, 10)[-1].cells == (("gpu-1", "stop", "failed"),)
        assert [*read_matrix(folder, RUN).rows()] == [("gpu-1", "", ["failed", "ok"])]
        journal.on(StepFinished(at=AT, host="gpu-1", result=step(Phase.REMEDIATE, "stop[0]", Status.OK)))
        assert JournalTail(folder, RUN).lines(5, 10)[-1].cells == (("gpu-1", "stop", "changed"),)
        assert [*read_matrix(folder, RUN).rows()] == [("gpu-1", "", ["changed", "ok"])]


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_client_is_told_once_that_a_run_was_interrupted(tmp_path, monkeypatch, is_finished):
    made, left = served(tmp_path), [5]

    async def never() -> None:
        """Pause for no time."""

    def is_closing() -> bool:
        left[0] -= 1
        return left[0] < 0

    monkeypatch.setattr(streams, "_pause", never)
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, "gpu-1")
        journal.on(HostStarted(at=AT, host="gpu-1"))
        if is_finished:
            journal.on(finished(run=RUN))
    made.desk.is_closing = is_closing
    text = made.client(Role.VIEW).get(f"/runs/{RUN}/events?after={2 + is_finished}").text
    assert text.count("interrupted") == (not is_finished)
    assert "finished" not in text  # the client has that line


def test_a_thousand_hosts_with_twelve_steps_are_shown(tmp_path):
    made = served(tmp_path)
    whole = sample_of(1000)
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, *(host.host for host in whole.hosts))
        for host in whole.hosts:
            journal.on(HostFinished(at=AT, result=host))
    answer = made.client(Role.VIEW).get(f"/runs/{RUN}")
    assert answer.status_code == 200
    assert len(answer.content) < 2_000_000
    rows = Page(answer.text).rows()
    assert len(rows) == 1001
    assert {len(row) for row in rows} == {len(rows[0])}


def test_a_damaged_journal_is_shown_with_its_damage(tmp_path):
    made = served(tmp_path)
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, "gpu-1")
        journal.on(HostStarted(at=AT, host="gpu-1"))
    file = made.records.path / f"{RUN}.jsonl"
    file.write_bytes(file.read_bytes().replace(b"host_started", b"host_stopped") + b'[1]\n{"event": 3}\n\xff\n{"ev')
    page = Page(made.client(Role.VIEW).get(f"/runs/{RUN}").text)
    assert "The record is damaged: line 2" in page.text
    assert [line.number for line in JournalTail(made.records, RUN).lines(0, 10)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("run", [RUN, "%2e%2e", "x", "20270115T080000Z-abcd.jsonl", "..%2Fetc%2Fpasswd"])
def test_a_run_that_is_not_there_is_not_found(tmp_path, run):
    client = served(tmp_path).client(Role.VIEW)
    assert client.get(f"/runs/{run}").status_code == 404
    assert client.get(f"/runs/{run}/events").status_code == 404


def test_the_tail_of_a_journal_has_each_line_once(tmp_path):
    folder = PrivateFolder(tmp_path)
    with pytest.raises(Refused):
        JournalTail(folder, RUN)
    with closing(Journal(folder, RUN)) as journal:
        begun(journal, "gpu-1", "gpu-2")
        tail = JournalTail(folder, RUN)
        assert [line.number for line in tail.lines(0, 10)] == [1]
        assert tail.lines(1, 10) == []
        for host in ("gpu-1", "gpu-2"):
            journal.on(HostStarted(at=AT, host=host))
            journal.on(StepFinished(at=AT, host=host, result=step(Phase.DIAGNOSE, "gpus", Status.OK)))
        assert [line.number for line in tail.lines(1, 2)] == [2, 3]
        assert [line.cells for line in tail.lines(3, 10)] == [(("gpu-2", "", "started"),), (("gpu-2", "gpus", "ok"),)]
        assert [line.number for line in tail.lines(2, 10)] == [3, 4, 5]  # a client that comes back
        assert [line.number for line in JournalTail(folder, RUN).lines(4, 10)] == [5]
        journal.on(finished(run=RUN))
        assert [line.is_last for line in tail.lines(5, 10)] == [True]
        half = (tmp_path / f"{RUN}.jsonl").read_bytes() + b'{"n":7'
        (tmp_path / f"{RUN}.jsonl").write_bytes(half)
        assert tail.lines(6, 10) == []
        (tmp_path / f"{RUN}.jsonl").write_bytes(half + b"}\n")
        assert [line.number for line in tail.lines(6, 10)] == [7]


def test_the_text_of_a_run_is_escaped(tmp_path):
    made = served(tmp_path)
    evil = "gpu-1\"'><script>alert(1)</script>\x1b\u202e"
    with closing(Journal(made.records, RUN)) as journal:
        begun(journal, evil)
        journal.on(result(evil, step(Phase.DIAGNOSE, evil, Status.OK)))
        text = made.client(Role.VIEW).get(f"/runs/{RUN}").text
        made.desk.closing = True
        stream = made.client(Role.VIEW).get(f"/runs/{RUN}/events")
    assert [each["src"] for each in Page(text).all("script")] == ["/static/live.js"]
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert stream.headers["content-type"].startswith("text/event-stream")
