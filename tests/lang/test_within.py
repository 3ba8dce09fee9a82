"""What is waited for: ``within`` of a change and of an assertion, with a clock that only sleeping moves."""

from __future__ import annotations

import pytest

from runbook.commands.show.steps import conditions
from runbook.errors import ConfigError
from runbook.execution.diagnosis import verdict
from runbook.execution.executor import Consent, execute
from runbook.execution.planner import make_plan
from runbook.values.command import Command, Completed
from runbook.values.plan import Presence
from runbook.values.result import Status, Verdict
from tests.lang.load_text import load, placed
from tests.support.tables import every_row
from tests.support.toy_actions import ToyHost

BOOK = """\
name: toy
diagnose:
  - {id: seen, procs: {word: zombie}}
findings:
  - {id: held, when: seen.matches, severity: error, say: there}
remediate:
  - {id: stop, for: held, ignore_failure: IGNORED, end: {word: zombie}STEP}
verify:
  - {id: gone, procs: {word: zombie}VERIFY}
"""


class Dying(ToyHost):
    """What is reported to end takes so many seconds to do so."""

    takes = 4.0
    reported = None

    def _run(self, command: Command) -> Completed:
        if command.argv[:1] == ("kill",):
            self.reported = self.clock.now()
            self.sent.append(command)
            return Completed(exit_code=0)
        if self.reported is not None and self.clock.now() - self.reported >= self.takes:
            self.procs.clear()
        return super()._run(command)


def ran(step: str = "", check: str = "", ignored: str = "false"):
    host = Dying(procs={4: (1, "zombie")})
    text = BOOK.replace("STEP", step).replace("VERIFY", check).replace("IGNORED", ignored)
    where = placed(text, host)
    host.clock = where.clock
    plan, seen = make_plan(where)
    outcome = execute(where, plan, seen, Consent.YES)
    return {it.id: it for it in outcome.steps}, outcome, where.clock.now(), host


def test_a_change_has_the_time_of_its_within_to_show():
    """Mutants: recheck.py looking once; not ending at the first probe that agrees."""
    steps, outcome, spent, host = ran(", within: 10s, every: 1s")
    assert steps["stop"].status is Status.CHANGED
    assert steps["stop"].verified is True
    assert spent == 4
    assert outcome.findings[0].status is Presence.GONE
    assert len(host.writes()) == 1, "sent once"


def test_a_change_that_does_not_show_in_time_has_failed():
    steps, _, spent, host = ran(", within: 2s, every: 1s")
    assert steps["stop"].status is Status.FAILED
    assert spent == 2
    assert len(host.writes()) == 1
    assert ran()[2] == 0, "without `within` it is inspected once"


def test_an_assertion_is_waited_for_while_a_finding_is_still_there_and_the_finding_is_looked_at_again():
    """Mutants: host_steps.py without the last probe; verification.py with no `within` while a finding is there."""
    steps, outcome, spent, _ = ran(check=", within: 10s, every: 1s")
    assert steps["gone"].status is Status.OK
    assert spent == 4
    assert outcome.findings[0].status is Presence.GONE
    book = load(BOOK.replace("STEP", "").replace("VERIFY", "").replace("IGNORED", "false"))
    assert verdict(book, outcome.steps, outcome.findings) is Verdict.RESOLVED


def test_an_assertion_that_does_not_come_true_ends_with_its_time():
    steps, outcome, spent, _ = ran(check=", within: 3s, every: 1s")
    assert steps["gone"].status is Status.FAILED
    assert spent == 3
    assert outcome.findings[0].status is Presence.PRESENT


@every_row(
    ("step", "words"),
    [
        ("{id: a, within: 5s, command: {do: {argv: [x]}}}", "no check that could show it"),
        ("{id: a, within: 5s, note: {text: x}}", "no check that could show it"),
        ("{id: a, every: 5s, command: {check: {argv: ['true']}, do: {argv: [x]}}}", "`every` needs `within` here"),
    ],
)
def test_a_within_that_nothing_could_see_is_a_mistake(step, words):
    from runbook.language.loader import load_playbook
    from runbook.plugins import discover

    with pytest.raises(ConfigError, match=words):
        load_playbook(f"name: toy\nremediate:\n  - {step}\n", "toy.yaml", discover())


def test_each_within_is_told_as_what_it_is():
    book = load(BOOK.replace("STEP", ", within: 9s").replace("VERIFY", ", within: 8s").replace("IGNORED", "false"))
    assert "After the change, probe again every 2 s until it shows, for 9 s at most." in conditions(
        book.remediate[0], found=True
    )
    assert "Probe again every 2 s until it is true, for 8 s at most." in conditions(book.verify[0], found=True)
