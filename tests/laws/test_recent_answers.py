"""While a plan is made the same is not asked twice; before a change, after it, and in a later look, it is."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from runbook.errors import ProbeError
from runbook.execution.diagnosis.diagnose import _waves, diagnose, probe_again
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.diagnosis.retries import probe_with_retries
from runbook.execution.executor import Consent, execute
from runbook.execution.planner import make_plan
from runbook.values.command import Command, Completed, Effect
from runbook.values.plan import Change, NoChange, Risk
from runbook.values.playbook import Phase, Playbook, Retry, Step
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, Since, ToyHost, WordArgs, action, book, site, with_run

VALID = 10.0


OWN = {"smi": {"hangs": "smi"}, "timeout": {"timeout": 7.0}, "env": {"env": (("X", "x"),)}, "slow": {"waits": 2.0}}


def question(**keys) -> Command:
    return Command(**{"argv": ("count",), "effect": Effect.READ, "valid_for": VALID} | keys)


def probe_count(args):
    """Its word says how often it asks, and what of the question is its own."""
    times, _, own = args.word.partition(" ")
    answer = Completed(exit_code=0)
    if own == "later":
        yield Command(argv=("ps",), effect=Effect.READ)
    for _ in range(int(times)):
        answer = yield question(**OWN.get(own, {}))
        if own == "strict" and answer.exit_code:
            raise ProbeError("no answer")
    if answer.timed_out:
        raise ProbeError("no answer in time")
    return Since(since=int(answer.stdout))


def decide_more(args, state):
    change = Command(argv=("raise",), effect=Effect.WRITE)
    return (
        Change(summary="raise it", commands=(change,), risk=Risk.EDITS_FILES)
        if state.since < 100
        else NoChange(why="high")
    )


@dataclass
class Counting(ToyHost):
    """A host that says how often it was asked."""

    asked: int = 0
    blind_at: int = 0
    """The number of the question to which there is no answer."""

    def _run(self, command: Command) -> Completed:
        if command.argv[0] != "count":
            return super()._run(command)
        self.asked += 1
        return Completed(exit_code=int(self.asked == self.blind_at), stdout=str(self.asked))


@pytest.fixture
def host() -> Counting:
    return Counting(procs={})


@pytest.fixture
def place(host):
    made = action("count", Args=WordArgs, State=Since, probe=probe_count, decide=decide_more)
    here = with_run(site(book(), host), actions={**ACTIONS, "count": made})
    with here.recent.while_planning():
        yield here


def ask(word: str, phase: Phase = Phase.DIAGNOSE) -> ProbeRequest:
    return ProbeRequest(step=Step(id="c", phase=phase, action="count", args={"word": word}), args={"word": word})


def seen(place, *words: str, planning: bool = True) -> list[int]:
    probed = run_probes([ask(word) for word in words], place, planning=planning)
    assert all(isinstance(it.outcome, ProbeAnswer) for it in probed)
    return [it.outcome.state.since for it in probed]


def test_a_plan_rests_on_what_the_diagnosis_was_told(host, place):
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "1") == [1]
    assert seen(place, "1 timeout") == [1], "how long it may take has no part in the answer"
    assert host.asked == 1


def test_what_is_not_planning_asks_anew(host, place):
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "1", planning=False) == [2]


def test_a_probe_that_asks_twice_is_given_two_answers(host, place):
    """Mutants: recent_answers.py that does not look at the number, or keeps one; probing.py that notes nothing."""
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "2") == [2]
    assert seen(place, "2", "3", "1") == [2, 3, 1]
    assert seen(place, "3") == [3]


def test_what_waits_on_the_host_is_sent_last(host, place):
    """So that what the others saw and what it saw last are as near to each other as can be.  Mutant: as it was asked."""
    assert seen(place, "1 slow", "1", planning=False) == [2, 1]


def test_another_environment_is_another_question(host, place):
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "1 env") == [2]


def test_an_answer_grows_old(host, place):
    assert seen(place, "1", planning=False) == [1]
    place.clock.sleep(VALID + 0.1)
    assert seen(place, "1") == [2]


def test_a_fault_is_no_answer_for_another(host, place):
    host.blind_at = 1
    run_probes([ask("1")], place)
    assert seen(place, "1") == [2]


def test_what_is_not_said_to_be_valid_is_asked_anew(host, place, monkeypatch):
    monkeypatch.setitem(globals(), "VALID", 0.0)
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "1") == [2]


def test_what_was_not_sent_is_not_told_as_sent(host, place):
    seen(place, "1", planning=False)
    (probed,) = run_probes([ask("1")], place, planning=True)
    assert probed.commands == ()


def test_a_plan_asks_once_and_what_comes_after_it_asks_again(host, place):
    """Mutants: planner.py that does not say that it plans; recent_answers.py that keeps what comes later, or forgets nothing."""
    diagnose = (Step(id="d", phase=Phase.DIAGNOSE, action="count", args={"word": "1"}),)
    remediate = (Step(id="r", phase=Phase.REMEDIATE, action="count", args={"word": "1"}),)
    there = replace(place, playbook=book(*remediate, diagnose=diagnose))
    plan, _ = make_plan(there)
    assert isinstance(plan.steps[0].decision, Change)
    assert host.asked == 1
    assert seen(there, "1") == [2]
    assert seen(there, "1") == [3], "nothing is kept once the plan is made"


@pytest.mark.parametrize(("consent", "asked"), [(Consent.YES, 1), (Consent.SHOWN, 2)])
def test_a_plan_that_is_carried_out_at_once_is_not_asked_for_again_until_something_has_changed(
    consent, asked, host, place
):
    """Mutants: host_steps.py that never reuses; that does so after a person's yes; after a write."""
    diagnose = (Step(id="d", phase=Phase.DIAGNOSE, action="count", args={"word": "1"}),)
    remediate = (Step(id="r", phase=Phase.REMEDIATE, action="count", args={"word": "1"}),)
    there = replace(place, playbook=book(*remediate, diagnose=diagnose))
    with there.recent.while_carried_out_at_once():
        plan, found = make_plan(there)
        assert host.asked == 1
        execute(there, plan, found, consent)
    assert host.asked == asked
    assert seen(there, "1") == [asked + 1]


def probes(**needs: str) -> Playbook:
    return Playbook(
        name="x",
        diagnose=tuple(Step(id=name, phase=Phase.DIAGNOSE, action="x", when=when) for name, when in needs.items()),
    )


@every_row(
    ("written", "waves"),
    [
        ({"a": "", "b": ""}, [["a", "b"]]),
        ({"kernel": "", "held": "kernel.x", "gpus": ""}, [["kernel"], ["held", "gpus"]]),
        ({"a": "", "b": "a.x", "c": "b.x", "d": "", "e": "d.x"}, [["a"], ["b", "d"], ["c", "e"]]),
        ({"a": "", "b": "a.x", "c": "a.x and b.x"}, [["a"], ["b"], ["c"]]),
        ({}, []),
    ],
)
def test_looks_are_taken_as_late_as_can_be_so_that_they_see_one_moment(written, waves):
    assert [[it.id for it in wave] for wave in _waves(probes(**written))] == waves


def test_a_probe_is_not_given_its_own_answer_again(host, place):
    """Mutants: probing.py that does not note the number of an answer that has just come."""
    assert seen(place, "2") == [2]


def test_what_one_probe_has_heard_another_has_not(host, place):
    """Mutants: probing.py that notes an answer for probes that have not asked."""
    assert seen(place, "1", planning=False) == [1]
    assert seen(place, "1", "1 later") == [1, 1]
    place.recent.forget()
    assert seen(place, "1", "1 later") == [2, 2]


def test_what_is_tried_again_is_not_told_to_others(host, place):
    """What an author asks for again was not good enough.  Mutants: retries.py that does not forget."""
    host.blind_at = 2
    step = Step(
        id="c", phase=Phase.DIAGNOSE, action="count", args={"word": "2 strict"}, retry=Retry(times=1, every=1.0)
    )
    (probed,) = probe_with_retries([ProbeRequest(step=step, args=step.args)], place)
    assert probed.outcome.state.since == 4
    assert seen(place, "1") == [3]


def test_what_is_looked_at_again_is_not_told_as_it_was(host, place):
    """Mutants: diagnose.py whose `probe_again` does not forget."""
    look = Step(id="d", phase=Phase.DIAGNOSE, action="count", args={"word": "1"})
    there = replace(place, playbook=book(diagnose=(look,)))
    with there.recent.while_planning():
        first = diagnose(there)
        again = probe_again(there, first, {"d"})
        assert (first.states["d"]["since"], again.states["d"]["since"]) == (1, 2)
        assert seen(there, "1") == [2]


def test_a_program_that_has_hung_since_is_not_said_to_answer(host, place):
    """Mutants: probing.py that prefers what was answered before."""
    assert seen(place, "1 smi", planning=False) == [1]
    place.hangs.note("", question(hangs="smi", timeout=30.0), Completed(exit_code=None, timed_out=True, seconds=30.0))
    (probed,) = run_probes([ask("1 smi")], place, planning=True)
    assert isinstance(probed.outcome, ProbeFailure)


def test_of_samples_the_last_is_what_a_plan_goes_on_from(host, place):
    """Mutants: sampling.py that does not forget."""
    look = Step(id="d", phase=Phase.DIAGNOSE, action="count", args={"word": "1"}, samples={"times": 3, "every": "1s"})
    there = replace(place, playbook=book(diagnose=(look,)))
    with there.recent.while_planning():
        diagnose(there)
        assert seen(there, "1") == [3]
