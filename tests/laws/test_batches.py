"""Batches and ``stop_after``: a change that harms is stopped early, and every host is reported."""

from __future__ import annotations

from collections import Counter

import pytest

from runbook.errors import ConfigError
from runbook.execution.diagnosis import exit_code
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.language.loader import load_playbook
from runbook.values.playbook import Share
from runbook.values.result import Verdict
from tests.laws.toy_fleet import fleet
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS


@every_row(
    ("batches", "sizes"),
    [("[1, 10%, 100%]", [1, 2, 17]), ("[1, 4]", [1, 4, 4, 4, 4, 3]), ("['50%']", [10, 10]), ("[1, 200]", [1, 19])],
)
def test_a_batch_begins_when_the_one_before_has_ended(batches, sizes):
    made, hosts, diary, _ = fleet(20, batches, parallel=64)
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert [it.verdict for it in results] == [Verdict.RESOLVED] * 20
    at = 0
    for size in sizes:  # within a batch in any order, across batches never
        batch = {f"h{number:02}" for number in range(at, at + size)}
        assert {it[1:] for it in diary.order[2 * at : 2 * (at + size)]} == batch
        at += size


@every_row(("stop_after", "begun"), [("1", 2), ("2", 4), ("'10%'", 4), ("'95%'", 20)])
def test_with_too_many_unwell_no_further_host_is_begun_and_every_one_is_reported(stop_after, begun):
    names = [f"h{number:02}" for number in range(20)]
    well = (names[0], names[2])  # a batch in which every host is unwell would stop the run, too
    made, hosts, _, machines = fleet(20, "[2, 2, 16]", stop_after, broken=[it for it in names if it not in well])
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert [it.host for it in results] == names
    ends = [Verdict.RESOLVED if it in well else Verdict.FAILED for it in names[:begun]]
    late = results[begun - 2]  # the last batch: the other one may have failed before this one was begun
    if begun < 20 and late.verdict is Verdict.NOT_STARTED:
        ends[begun - 2] = Verdict.NOT_STARTED
    assert [it.verdict for it in results] == ends + [Verdict.NOT_STARTED] * (20 - begun)
    changed = [it.host for it in results if it.verdict is not Verdict.NOT_STARTED]
    assert [name for name in names if machines[name].writes()] == changed
    over = bool(made.stop.spent)
    assert over == (begun < 20), "what stopped nothing is no reason for the exit code"
    assert exit_code(results, interrupted=False, over=over, detailed=False) == (5 if over else 1)
    for it in results[begun:]:
        assert it.error.startswith(f"stop_after {stop_after.strip(chr(39))}: ")
        assert "failed: h01" in it.error
        assert {step.id for step in it.steps} == {"seen", "stop"}


def test_those_at_work_when_it_is_too_much_come_to_their_end():
    made, hosts, _, machines = fleet(6, "[6]", "1", broken=["h00"], parallel=3)
    results = made.plan_and_carry_out(hosts, Consent.YES)
    verdicts = Counter(it.verdict for it in results)
    assert verdicts[Verdict.FAILED] == 1
    assert verdicts[Verdict.CANCELLED] == 0
    assert verdicts[Verdict.RESOLVED] + verdicts[Verdict.NOT_STARTED] == 5
    assert all(not machines[it.host].writes() for it in results if it.verdict is Verdict.NOT_STARTED)


def test_hosts_that_cannot_be_reached_count_and_healthy_ones_do_not():
    made, hosts, _, _ = fleet(6, "[1]", "2", lost=["h01", "h03"], idle=["h00", "h02"])
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert [it.verdict.value for it in results] == [
        "healthy", "unreachable", "healthy", "unreachable", "not_started", "not_started"
    ]  # fmt: skip


def test_what_was_shown_is_done_in_batches_of_hosts_that_have_something_to_do():
    names = [f"h{number:02}" for number in range(6)]
    made, hosts, diary, machines = fleet(6, "[1, 5]", "1", broken=["h04", "h05"], idle=names[:4])
    planned = made.plan(hosts)
    assert [it.result.verdict for it in planned] == [Verdict.HEALTHY] * 4 + [Verdict.PLANNED] * 2
    results = made.carry_out(planned, Consent.SHOWN)
    assert [it.verdict.value for it in results] == ["healthy"] * 4 + ["failed", "not_started"]
    assert not machines["h05"].writes()
    assert diary.order[-2:] == ["-h04", "-h05"]


def test_a_plan_looks_at_all_hosts_whatever_the_batches():
    made, hosts, _, _ = fleet(6, "[1]", "1", lost=["h00"])
    planned = made.plan(hosts)
    assert [it.result.verdict for it in planned] == [Verdict.UNREACHABLE] + [Verdict.PLANNED] * 5
    assert not made.stop.spent


def test_an_interrupt_ends_batches_too():
    made, hosts, _, _ = fleet(4, "[1]")
    made.stop.ask("interrupted by SIGINT")
    results = made.plan_and_carry_out(hosts, Consent.YES)
    assert {it.verdict for it in results} == {Verdict.NOT_STARTED}
    assert {it.error for it in results} == {"interrupted by SIGINT"}


@every_row(
    ("limits", "words"),
    [
        ("{batches: []}", "must not be empty"),
        ("{batches: 3}", "expected a list"),
        ("{batches: [0]}", "batches: 0 is not a share of the hosts"),
        ("{batches: [1, '0%']}", "toy.yaml:2:23: batches: '0%'"),
        ("{batches: ['101%']}", "101%"),
        ("{batches: [1.5]}", "expected text or a whole number"),
        ("{batches: ['1.5']}", "is not a share of the hosts"),
        ("{stop_after: -1}", "stop_after: -1 is not a share"),
        ("{stop_after: some}", "write a whole number from 1, or 1% to 100%"),
        ("{attempts: 3}", "attempts: expected a mapping"),
        ("{attempts: {per_host: 2}}", "'within' is missing"),
        ("{attempts: {per_host: 2, within: soon}}", "within: 'soon' is not a duration"),
        ("{cooldown: 0s}", "cooldown: '0s' is too short"),
        ("{breaker: {hosts: 0, within: 1h}}", "breaker: 0 is not a share of the hosts"),
        ("{breaker: {host: 3, within: 1h}}", "did you mean hosts?"),
    ],
)
def test_mistakes_with_limits_are_named(limits, words):
    with pytest.raises(ConfigError) as caught:
        load_playbook(f"name: toy\nlimits: {limits}\n", "toy.yaml", ACTIONS)
    assert words in str(caught.value)


@every_row(("share", "total", "hosts"), [("10%", 38, 4), ("10%", 5, 1), ("100%", 7, 7), ("3", 38, 3), ("0.1%", 10, 1)])  # fmt: skip
def test_a_share_of_hosts_is_rounded_up(share, total, hosts):
    assert Share(number=float(share.rstrip("%")), percent=share.endswith("%")).of(total) == hosts


def test_the_deadline_is_no_wish_of_a_person_and_the_first_wish_after_it_ends_no_write():
    """Mutants: cancellation.py counting the deadline as a first wish; forgetting who asked."""
    stop = Cancellation()
    stop.ask("the deadline is over", level=1, over=True)
    assert (stop.level(), stop.asked, stop.over) == (1, 0, True)
    stop.ask("interrupted by SIGINT")
    assert (stop.level(), stop.asked) == (1, 1)
    stop.ask("interrupted by SIGINT")
    assert (stop.level(), stop.asked) == (2, 2)
