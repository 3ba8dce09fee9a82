"""The time limit of the work on one host: what it ends, what it leaves alone, and what is not counted.

Mutants: cancellation.py counting the time in which a host waits; `passed` never true; host_guards.py sending after the
deadline, or without the words; a clock whose sleeps go on after it; host_work.py calling such a host unreachable.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from runbook.commands.one_run import SystemClock
from runbook.errors import Cancelled, Unreachable
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.executor.cancellation import Cancellation
from runbook.execution.fleet import Fleet
from runbook.execution.fleet.host_work import HostClock, UntilDeadline
from runbook.language.loader import load_playbook
from runbook.values.command import read
from runbook.values.inventory import Host
from runbook.values.result import Status, Verdict
from tests.fleet.toy_run import BOOK, ran
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost


def test_past_it_nothing_begins_on_the_host_and_others_go_on():
    stop = Cancellation()
    done = ran({"a": "cured", "b": "cured", "c": "idle"}, "{host_deadline: 3s}", slow={"a": 3.2}, clock=SystemClock(stop), stop=stop)  # fmt: skip
    assert done.ends() == {"cancelled": ["a"], "resolved": ["b"], "healthy": ["c"]}
    (late, *_) = done.results
    assert late.error == "the host's deadline of 3 s has passed; not sent any more: ps"
    assert {it.status for it in late.steps} == {Status.CANCELLED}
    assert {it.why for it in late.steps} == {late.error}
    assert not done.machines["a"].writes()
    assert not done.stop.spent
    assert not done.stop.level()


def test_the_time_in_which_a_host_waits_is_not_counted():
    """A person takes their time over the plan; and a host waits for its turn."""
    stop, clock = Cancellation(), ToyClock()
    machine = ToyHost(procs={4: (1, "zombie")})
    fleet = Fleet(playbook=load_playbook(f"{BOOK}limits: {{host_deadline: 1s}}\n", "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=lambda event: None), connect=lambda host: machine, clock=clock, stop=stop)  # fmt: skip
    planned = fleet.plan([Host(name="h")])
    clock.sleep(100)
    (result,) = fleet.carry_out(planned, Consent.SHOWN)
    assert result.verdict is Verdict.RESOLVED


def test_the_work_before_and_after_the_wait_is_counted_together():
    own, clock = Cancellation().of("h"), ToyClock()
    own.allow(10.0, clock)
    own.begin()
    clock.sleep(6)
    own.pause()
    clock.sleep(100)
    own.allow(10.0, clock)
    own.begin()
    assert own.left() == 4.0
    clock.sleep(4)
    assert own.passed
    assert own.level() == 1


def test_a_sleep_ends_with_the_deadline_and_the_run_is_more_urgent():
    stop, clock = Cancellation(), ToyClock()
    own = stop.of("h")
    own.allow(10.0, clock)
    own.begin()
    HostClock(clock, own).sleep(60)
    assert clock.now() == 10.0
    assert own.is_why
    stop.ask("interrupted")
    assert not own.is_why
    stop.ask("interrupted")
    assert own.level() == 2
    assert stop.of("other").level() == 2
    assert Cancellation().of("h").left() == float("inf")


def test_a_change_that_runs_is_not_cut_and_the_next_step_does_not_begin():
    stop, clock = Cancellation(), ToyClock()

    class Slow(ToyHost):
        def _run(self, command):
            if command.argv[0] == "kill":
                clock.sleep(0.5)
            return super()._run(command)

    machine = Slow(procs={4: (1, "zombie"), 5: (1, "ghost")})
    text = BOOK + "  - {id: more, end: {word: ghost}}\nlimits: {host_deadline: 400ms}\n"
    fleet = Fleet(playbook=load_playbook(text, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=lambda event: None), connect=lambda host: machine, clock=clock, stop=stop)  # fmt: skip
    (result,) = fleet.plan_and_carry_out([Host(name="h")], Consent.YES)
    assert result.verdict is Verdict.CANCELLED
    assert 4 not in machine.procs, "the change came to its end"
    assert len(machine.writes()) == 1
    words = {it.id: it.why for it in result.steps}
    assert "the host's deadline of 0.4 s has passed" in words["stop"]
    assert "the host's deadline of 0.4 s has passed" in words["more"]


def test_a_probe_that_was_ended_says_whose_deadline_it_was():
    class Ended(ToyHost):
        def run(self, *commands):
            raise Cancelled("asked to stop; this probe was ended on the host: ps", sent=True)

    stop, clock = Cancellation(), ToyClock()
    own, probe = stop.of("h"), read("ps")
    own.allow(10.0, clock)
    own.begin()
    with pytest.raises(Cancelled, match=r"^asked to stop; "):
        UntilDeadline(Ended(procs={}), own).run(probe)
    clock.sleep(10)
    own.pause()  # what is left stays what it is
    with pytest.raises(Cancelled, match=r"^the host's deadline of 10 s has passed; not sent any more: ps"):
        UntilDeadline(Ended(procs={}), own).run(probe)
    with pytest.raises(
        Cancelled, match=r"^the host's deadline of 10 s has passed: asked to stop; this probe"
    ) as caught:
        UntilDeadline(Ended(procs={}), own).run(replace(probe, owed=True))
    assert caught.value.sent


@every_row("error", [Unreachable("asked to stop"), Cancelled("asked to stop")])
def test_a_host_that_was_being_connected_to_or_probed_says_that_it_was_too_slow(error):
    stop, clock = Cancellation(), ToyClock()

    def connect(host):
        clock.sleep(30)
        raise error

    fleet = Fleet(playbook=load_playbook(f"{BOOK}limits: {{host_deadline: 20s}}\n", "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=lambda event: None), connect=connect, clock=clock, stop=stop)  # fmt: skip
    (result,) = fleet.plan_and_carry_out([Host(name="h")], Consent.YES)
    assert result.verdict is Verdict.CANCELLED
    if isinstance(error, Unreachable):
        assert result.error == "the host's deadline of 20 s has passed while the host was being connected to"
