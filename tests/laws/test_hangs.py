"""A program that hangs is waited for once on a host, not once per probe; a change, time and patience ask it again."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from runbook.errors import ProbeError
from runbook.execution.diagnosis.host_context import RESTS
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.diagnosis.retries import probe_with_retries
from runbook.execution.executor.apply import send
from runbook.values.command import Command, Completed, Effect
from runbook.values.plan import Change, Risk
from runbook.values.playbook import Phase, Retry, Step
from tests.support.toy_actions import ACTIONS, Since, ToyHost, WordArgs, action, book, site, with_run


def probe_smi(args):
    """Asks about its word, in words of its own, after a round that always answers."""
    yield Command(argv=("ps",), effect=Effect.READ)
    answer = yield Command(argv=("smi", args.word), effect=Effect.READ, hangs="smi")
    if answer.timed_out:
        raise ProbeError(f"smi did not answer within {answer.seconds:g} s: {answer.stdout}")
    return Since(since=1)


@dataclass
class Hanging(ToyHost):
    """A host on which one program never answers, and takes its time over that."""

    well: bool = False
    asked: list[str] = field(default_factory=list)

    def _run(self, command: Command) -> Completed:
        if command.argv[0] != "smi":
            return super()._run(command)
        self.asked.append(command.argv[1])
        if self.well:
            return Completed(exit_code=0, stdout="1")
        return Completed(exit_code=None, timed_out=True, seconds=30.0, stdout=f"half of {command.argv[1]}")


@pytest.fixture
def host() -> Hanging:
    return Hanging(procs={})


@pytest.fixture
def place(host):
    return with_run(
        site(book(), host), actions={**ACTIONS, "smi": action("smi", Args=WordArgs, State=Since, probe=probe_smi)}
    )


def ask(word: str, **keys) -> ProbeRequest:
    step = Step(id=word, phase=Phase.DIAGNOSE, action="smi", args={"word": word}, **keys)
    return ProbeRequest(step=step, args={"word": word})


def test_looks_after_one_that_hung_do_not_wait_for_the_program_again(host, place):
    (first,) = run_probes([ask("a")], place)
    (second,) = run_probes([ask("b")], place)
    assert host.asked == ["a"]
    assert isinstance(second.outcome, ProbeFailure)
    assert "did not answer within 30 s" in second.outcome.why
    assert "half of a" in first.outcome.why
    assert "half of" not in second.outcome.why, "what one probe had got so far is no answer to another"


def test_what_was_not_sent_is_not_told_as_sent(host, place):
    run_probes([ask("a")], place)
    (second,) = run_probes([ask("b")], place)
    assert [it.line for it in second.commands] == ["ps"]


def test_a_change_may_be_what_makes_it_answer(host, place):
    run_probes([ask("a")], place)
    step = Step(id="x", phase=Phase.REMEDIATE, action="restart", args={})
    send(
        place, step, Change(summary="", commands=(Command(argv=("restart",), effect=Effect.WRITE),), risk=Risk.UNKNOWN)
    )
    host.well = True
    (again,) = run_probes([ask("b")], place)
    assert isinstance(again.outcome, ProbeAnswer)


def test_after_a_while_it_is_asked_anew(host, place):
    run_probes([ask("a")], place)
    host.well = True
    place.clock.sleep(RESTS)
    assert isinstance(run_probes([ask("b")], place)[0].outcome, ProbeFailure)
    place.clock.sleep(1)
    assert isinstance(run_probes([ask("b")], place)[0].outcome, ProbeAnswer)


def test_a_look_with_more_patience_asks_itself(host, place):
    run_probes([ask("a", timeout=5.0)], place)
    run_probes([ask("b", timeout=60.0)], place)
    run_probes([ask("c", timeout=60.0)], place)
    assert host.asked == ["a", "b"]


def test_a_retry_is_a_try(host, place):
    probe_with_retries([ask("a", retry=Retry(times=2, every=1.0))], place)
    assert host.asked == ["a", "a", "a"]


def test_what_answers_is_asked_by_everybody(host, place):
    host.well = True
    assert all(isinstance(it.outcome, ProbeAnswer) for it in run_probes([ask("a"), ask("b")], place))
    run_probes([ask("a")], place)
    assert host.asked == ["a", "b", "a"]
