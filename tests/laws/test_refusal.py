"""The result of a step that does not run, and what is tried again."""

from __future__ import annotations

from typing import Any

from runbook.execution.diagnosis.polling import poll
from runbook.execution.diagnosis.refusal import cut_off, owing, refused_result, refused_step, unchanged_result
from runbook.values.event import Waiting
from runbook.values.plan import Blocked, NoChange, PlannedStep, Skip
from runbook.values.playbook import Step
from runbook.values.result import Fault, Sent, Status, StepResult
from tests.support.tables import every_row
from tests.support.toy_actions import ToyHost, book, restart, site

BLOCKED = Blocked(why="it is in the way", rests_on=("seen",))
SKIPPED = Skip(why="nobody needs it")


def plain(step: Step) -> StepResult:
    return StepResult.of(step)


@every_row(
    ("refusal", "status", "ignored", "rests_on"),
    [(BLOCKED, Status.BLOCKED, True, ("seen",)), (SKIPPED, Status.SKIPPED, False, ())],
)
def test_only_what_is_blocked_is_a_failure_that_may_be_ignored(refusal, status, ignored, rests_on):
    """Mutants: a skipped step that is ignored; what it rests on left out."""
    result = refused_result(plain(restart("r")), refusal, ignored=True)
    assert (result.status, result.why, result.ignored, result.rests_on) == (status, refusal.why, ignored, rests_on)


@every_row(
    ("refusal", "fault"),
    [(Blocked(why="x", malformed=True), Fault.ARGUMENTS), (Blocked(why="x"), Fault.PROBE), (SKIPPED, Fault.NONE)],
)
def test_the_fault_is_that_of_the_arguments_or_of_a_probe(refusal, fault):
    assert refused_step(restart("r"), refusal).fault is fault


@every_row(
    ("decision", "status"),
    [
        (NoChange(why="well"), Status.OK),
        (Blocked(why="sent, perhaps", in_doubt=True), Status.UNKNOWN),
        (Blocked(why="not as shown", drifted=True), Status.DRIFTED),
        (BLOCKED, Status.BLOCKED),
        (SKIPPED, Status.SKIPPED),
    ],
)
def test_a_step_that_changes_nothing_says_why(decision, status):
    step = restart("r")
    assert unchanged_result(step, decision, plain(step)).status is status


def test_clean_up_that_was_cut_off_or_cannot_be_asked_for_is_owed():
    """Mutants: `cut_off` without `always`; `owing` of what would have been skipped; not told that nothing was sent."""
    always, other = restart("z", always=True), restart("r")
    for result in (
        cut_off(always, plain(always), Status.UNREACHABLE, "the line is lost"),
        owing(PlannedStep(id="z", decision=NoChange(why="well")), plain(always), "the line is lost"),
    ):
        assert (result.status, result.sent) == (Status.OWED, Sent.NOTHING)
        assert result.why == "pending: this `always` step could not run: the line is lost"
    ended = cut_off(other, plain(other), Status.CANCELLED, "interrupted")
    assert (ended.status, ended.why, ended.sent) == (Status.CANCELLED, "interrupted", Sent.NOTHING)
    needless = owing(PlannedStep(id="z", decision=SKIPPED), plain(always), "the line is lost")
    assert (needless.status, needless.why) == (Status.SKIPPED, "nobody needs it")


@every_row(
    ("ends_at", "within", "attempts", "time"),
    [(1, 9.0, 1, 0.0), (3, 9.0, 3, 4.0), (99, 4.0, 3, 4.0), (99, 0.0, 1, 0.0)],
)
def test_an_attempt_is_repeated_until_it_ends_or_its_time_is_up(ends_at, within, attempts, time):
    """Mutants: without the time; without a pause; said at each pause."""
    events: list[Any] = []
    where = site(book(), ToyHost(procs={}), events)
    made = iter(range(1, 20))
    given = poll(
        where, lambda: next(made), lambda it: it >= ends_at, within=within, every=2.0, waiting=lambda it: f"for {it}"
    )
    assert (given, where.clock.now()) == (attempts, time)
    assert [it.why for it in events if isinstance(it, Waiting)] == (["for 1"] if attempts > 1 else [])
