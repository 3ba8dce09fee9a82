"""A host on which a run is cancelled at any of its commands: what is said to be done, not done and in doubt."""

from __future__ import annotations

from dataclasses import dataclass

from runbook.errors import Cancelled
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.executor.cancellation import Cancellation
from runbook.execution.fleet import Fleet
from runbook.language.loader import load_playbook
from runbook.reporting.wording.host_digest import NEXT_AFTER_CANCEL
from runbook.reporting.wording.host_lines import host_lines
from runbook.values.inventory import Host
from runbook.values.result import HostResult, Sent
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS, ToyClock, ToyHost

BOOK = """\
name: toy
remediate:
  - {id: stop, end: {word: zombie}}
  - {id: last, always: true, end: {word: other}}
"""


@dataclass
class Cut(ToyHost):
    """A host to which nothing goes any more from one of its commands on; that one was *sent* all the same, or not."""

    stop: Cancellation | None = None
    at: int = 0
    was_sent: bool = False

    def _run(self, command):
        assert self.stop
        number = len(self.sent)
        if number < self.at:
            return super()._run(command)
        self.sent.append(command)
        self.stop.ask("interrupted by SIGTERM", signal=True)
        raise Cancelled(f"asked to stop at: {command.argv[0]}", sent=self.was_sent and number == self.at)


def worked_on(at: int, *, was_sent: bool = False) -> tuple[Cut, HostResult]:
    """A host at whose command number *at* the run was cancelled, and its result."""
    stop = Cancellation()
    host = Cut(procs={4: (1, "zombie"), 5: (1, "other")}, stop=stop, at=at, was_sent=was_sent)
    fleet = Fleet(playbook=load_playbook(BOOK, "toy.yaml", ACTIONS), run=RunContext(inputs={}, facts={}, actions=ACTIONS, emit=lambda event: None), connect=lambda _: host, clock=ToyClock(), stop=stop)  # fmt: skip
    (result,) = fleet.plan_and_carry_out([Host(name="h")], Consent.YES)
    return host, result


def first_change() -> int:
    """The number of the command that is the first change."""
    host, _ = worked_on(100)
    return host.sent.index(host.writes()[0])


CHANGE = first_change()
REASON = "interrupted by SIGTERM"
NONE = "done: nothing was changed"
BOTH = "not done: stop, last"
ENDS = {
    "a probe of the plan": (worked_on(0), ["nothing", "nothing"], [REASON, NONE, BOTH]),
    "the step's own probe": (worked_on(CHANGE - 1), ["nothing", "nothing"], [REASON, NONE, BOTH]),
    "before the change": (worked_on(CHANGE), ["nothing", "nothing"], [REASON, NONE, BOTH]),
    "in the change": (
        worked_on(CHANGE, was_sent=True), ["part", "nothing"],
        [REASON, "not known, perhaps done, or half: stop", "not done: last"],
    ),
    "after the change": (worked_on(CHANGE + 1), ["all", "nothing"], [REASON, "done, and not probed again: stop", "not done: last"]),
}  # fmt: skip


@every_row("at", ENDS)
def test_a_cancelled_host_says_how_far_each_change_had_come(at):
    """Mutants: host_steps.py ``_changed`` without ``extent``, ``cut_off`` and ``owing`` without ``Sent.NOTHING``;
    host_lines.py with "nothing was changed" wherever nothing is done; host_work.py with the refused probe as the reason.
    """
    (_, result), sent, lines = ENDS[at]
    assert [step.sent for step in result.steps if step.phase == "remediate"] == [Sent(word) for word in sent]
    assert host_lines(result) == ["cancelled", *lines, f"next: {NEXT_AFTER_CANCEL}"]
