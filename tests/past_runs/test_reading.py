"""The changes that a journal has begun are paired with their ends; what no line says is unknown, and never guessed."""

from __future__ import annotations

import time
from dataclasses import replace

from runbook.commands.history.undo_steps import undo_steps
from runbook.execution.diagnosis.verdicts import sent
from runbook.records.index import Index, RunQuery
from runbook.records.past_runs import PastRuns
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import earlier_changes, in_flight
from runbook.records.recorded_run import read_run
from runbook.values.event import ChangeStarted, StepFinished
from runbook.values.plan import Risk
from runbook.values.result import Sent, SentCommand, Status
from runbook.values.types import Unknown
from runbook.values.undo import Undo, UndoFile
from tests.past_runs.recorded import RUN, change, ended, forge, journal, started
from tests.support.tables import every_row

LATER = "20260102T000000Z-0001"
YEARS = 100 * 366 * 86400.0
FILE = Undo(parts=(UndoFile(path="/x", before="a" * 64, after="b" * 64),))


def past(folder: PrivateFolder) -> PastRuns:
    return PastRuns(folder, playbook="toy", inventory=(), now=time.time)


def with_command(status: Status, effect: str, exit_code: int | None, *, timed_out: bool = False) -> StepFinished:
    """The end of the step ``x``, which has this one command."""
    command = SentCommand(line="x", effect=effect, exit_code=exit_code, timed_out=timed_out)
    end = ended("x", status=status)
    return replace(end, result=replace(end.result, commands=(command,)))


def with_sent(status: Status, sent: Sent) -> StepFinished:
    end = ended("x", status=status)
    return replace(end, result=replace(end.result, sent=sent))


@every_row(
    ("end", "counts"),
    [
        (with_sent(Status.SKIPPED, Sent.ALL), 1),
        (with_sent(Status.BLOCKED, Sent.PART), 1),
        (with_sent(Status.CHANGED, Sent.NOTHING), 0),
        (with_sent(Status.UNKNOWN, Sent.NOTHING), 0),
        (with_sent(Status.BLOCKED, Sent.UNSAID), 0),
        (with_sent(Status.SKIPPED, Sent.UNSAID), 0),
        (with_sent(Status.UNKNOWN, Sent.UNSAID), 1),  # a fault of ours, of which nobody knows how far it had come
        (with_sent(Status.FAILED, Sent.UNSAID), 1),
        (ended("other"), 1),
    ],
)
def test_limits_count_the_changes_that_may_have_been_sent(tmp_path, end, counts):
    """Mutants: ``may_have_been_sent`` by the status alone; by ``sent`` alone; a pair by the host alone."""
    found = past(journal(tmp_path, started(), change("x"), end)).changes("a", YEARS)
    assert len(found) == counts


def test_what_a_plan_would_send_was_not_sent():
    """Mutant: ``verdicts.sent`` without ``WOULD_CHANGE``."""
    assert not sent(with_command(Status.WOULD_CHANGE, "write", None).result)
    assert sent(with_command(Status.CHANGED, "write", 0).result)


def remove(kind: str, *path: str):
    """Removes a field of each event of that kind."""

    def alter(event: dict) -> None:
        if event["kind"] == kind:
            for name in path[:-1]:
                event = event[name]
            del event[path[-1]]

    return alter


def put(kind: str, name: str, *, value: object):
    """Sets a field of each event of that kind."""
    return lambda event: event.update({name: value}) if event["kind"] == kind else None


@every_row(
    ("alter", "said"),
    [
        (remove("change_started", "step"), "line 2: KeyError: 'step'"),
        (remove("step_finished", "result", "id"), "line 3: KeyError: 'id'"),
        (remove("step_finished", "result", "status"), "line 3: KeyError: 'status'"),
        (put("change_started", "at", value="x"), "line 2: ValueError"),
        (put("change_started", "host", value=[]), "line 2: TypeError"),
        (put("change_started", "step", value=7), "line 2: AttributeError"),
    ],
)
def test_limits_take_a_line_that_lacks_something_for_unknown(tmp_path, alter, said):
    """Mutants: ``take`` that passes a fault over, or keeps the last one."""
    folder = journal(tmp_path, started(), change("x"), ended("x"))
    forge(tmp_path, alter)
    found = past(folder).changes("a", YEARS)
    assert isinstance(found, Unknown)
    assert f"the record of run {RUN} is not as it was written ({said}" in found.why


def test_limits_ask_nothing_of_steps_that_have_begun_no_change(tmp_path):
    """Mutant: ``_ContentReader`` that reads the end of every step."""
    folder = journal(tmp_path, started(), ended("x"))
    forge(tmp_path, remove("step_finished", "result", "status"))
    assert past(folder).changes("a", YEARS) == ()


def counted(folder: PrivateFolder) -> tuple[int, str]:
    """The changes that the index counts as sent, and the fault that it has found."""
    index = Index(folder)
    (row,) = index.runs(RunQuery())
    index.close()
    return row.sent, row.fault


def wholly(step: str, status: Status = Status.CHANGED, sent: Sent = Sent.UNSAID, *, risk: Risk = Risk.EDITS_FILES):
    """A change that can be undone, and its end."""
    return replace(change(step), undo=FILE, risk=risk), ended(step, status=status, sent=sent)


UNSENT = (
    (Status.BLOCKED, Sent.UNSAID),
    (Status.SKIPPED, Sent.UNSAID),
    (Status.FAILED, Sent.NOTHING),
    (Status.CANCELLED, Sent.NOTHING),
    (Status.UNREACHABLE, Sent.NOTHING),
)


@every_row("end", dict(enumerate(UNSENT)))
def test_a_change_of_which_nothing_was_sent_is_not_counted_and_not_undone(tmp_path, end):
    """Mutants: ``may_have_been_sent`` without one of its statuses; without ``NOTHING``."""
    status, sent = UNSENT[end]
    folder = journal(tmp_path, started(), *wholly("x", status, sent))
    assert counted(folder) == (0, "")
    assert undo_steps(read_run(folder, RUN), ["a"]) == {}


@every_row("status", [Status.CHANGED, Status.FAILED, Status.UNKNOWN, Status.CANCELLED, Status.UNREACHABLE])
def test_a_change_that_may_have_been_sent_is_counted_and_undone(tmp_path, status):
    """Mutant: ``may_have_been_sent`` for what has changed something alone."""
    folder = journal(tmp_path, started(), *wholly("x", status, Sent.PART))
    assert counted(folder) == (1, "")
    assert len(undo_steps(read_run(folder, RUN), ["a"])["a"].steps) == 1


def test_what_has_no_end_was_sent_and_what_only_reads_is_no_change(tmp_path):
    """Mutants: ``BegunChange`` that was not sent to begin with; a summary that counts what only reads."""
    begun, _ = wholly("open")
    folder = journal(tmp_path, started(), *wholly("read", risk=Risk.READS), begun)
    assert counted(folder) == (1, "")


def test_a_change_that_failed_makes_what_an_earlier_run_sent_void(tmp_path):
    """Mutant: ``earlier_changes`` that leaves the change of the earlier run."""
    first = read_run(journal(tmp_path, started(), change("x"), ended("x")), RUN)
    events = (started(run=LATER, resumes=RUN), change("x"), ended("x", status=Status.FAILED, sent=Sent.ALL))
    second = read_run(journal(tmp_path, *events, run=LATER), LATER)
    assert earlier_changes([first, second]).get("a", ()) == ()


def test_a_step_that_was_begun_again_is_in_flight_once():
    """Mutants: ``begin`` that keeps the first one in flight; ``end`` that ends none."""
    again = replace(change("x"), at="2026-01-01T00:00:09.000Z")
    assert in_flight([change("x"), change("y"), again]) == (again, change("y"))
    assert in_flight([change("x"), ended("x"), change("y"), ended("z")]) == (change("y"),)


def test_an_end_without_a_beginning_is_no_change(tmp_path):
    """Mutant: ``end`` that takes whatever ends for a change."""
    folder = journal(tmp_path, started(), ended("x"))
    assert counted(folder) == (0, "")
    assert past(folder).changes("a", YEARS) == ()
    run = read_run(folder, RUN)
    assert (earlier_changes([run]), dict(undo_steps(run, ["a"]))) == ({}, {})
    assert not [event for event in run.events if isinstance(event, ChangeStarted)]
