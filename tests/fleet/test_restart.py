"""A host that reboots is connected to again and again until it is in another boot; one that is not is distinguished."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from runbook.errors import Cancelled, ConnectionLost, Unreachable
from runbook.execution.diagnosis.earlier_runs import continued
from runbook.execution.executor.apply import SendResult
from runbook.execution.executor.restart import may_have_begun, not_back, objection, wait_until_back
from runbook.execution.fleet.host_work import Renewable
from runbook.execution.planner import _clear_the_way, _Draft
from runbook.values.command import Command, Completed, Effect
from runbook.values.earlier_change import EarlierChange
from runbook.values.inventory import Host
from runbook.values.plan import Blocked, Change, NoChange, Restart, Risk, Skip, Target
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import Fault, SentCommand, Status, StepResult
from tests.support.tables import every_row
from tests.support.toy_actions import ToyClock, ToyHost, site, with_run

OLD, NEW = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
RESTART = Restart(boot_id=OLD, within=60)
STEP = Step(id="reboot", phase=Phase.REMEDIATE, action="reboot")


@dataclass
class Rebooting:
    """A host that fares as *fate* says at each attempt; the last word holds for ever."""

    fate: list[str]
    tries: int = 0
    closed: int = 0
    seen: list[str] = field(default_factory=list)

    def connect(self):
        self.tries += 1
        word = self.fate.pop(0) if len(self.fate) > 1 else self.fate[0]
        self.seen.append(word)
        if word == "refused":
            raise Unreachable("connection refused")
        if word == "interrupted":
            raise Cancelled("interrupted")
        return self

    def run(self, *commands):
        if self.seen[-1] == "drops":
            raise ConnectionLost("the line was lost")
        texts = {"old": OLD, "new": NEW, "dumb": ""}
        return tuple(Completed(exit_code=0, stdout=f"{texts[self.seen[-1]]}\n") for _ in commands)

    def close(self):
        self.closed += 1


def waited(*fate: str):
    host = Rebooting(["old", *fate])
    line = Renewable(host.connect)
    clock = ToyClock()
    place = replace(site(Playbook(name="one"), ToyHost({})), connection=line, renew=line.renew, clock=clock)
    return wait_until_back(place, RESTART, 2.0), host, clock


def test_a_host_is_back_once_it_answers_in_another_boot():
    """Mutants: ``_look`` that takes any answer, or gives up at a lost line."""
    found, host, clock = waited("old", "drops", "refused", "refused", "dumb", "new")
    assert found is None
    assert (host.tries, clock.time) == (7, 12.0)


def test_a_host_that_stays_in_its_boot_has_not_rebooted():
    found, _, clock = waited("old")
    assert (found.reached, clock.time) == (True, 60.0)
    ended = not_back(StepResult.of(STEP), RESTART, found)
    assert (ended.status, ended.fault) == (Status.FAILED, Fault.COMMAND)
    assert "did not reboot within 60 s" in ended.why


def test_a_host_that_does_not_come_back_is_unreachable_and_what_to_do_is_said():
    found, _, clock = waited("old", "refused")
    assert (found.reached, clock.time) == (False, 60.0)
    ended = not_back(StepResult.of(STEP), RESTART, found)
    assert ended.status is Status.UNREACHABLE
    assert "BMC" in ended.why
    assert "stays drained" in ended.why


def test_an_interrupt_ends_the_wait():
    with pytest.raises(Cancelled):
        waited("refused", "interrupted")


@every_row(
    ("sent", "status", "code", "begun"),
    [
        (True, Status.CHANGED, 0, True),
        (True, Status.UNKNOWN, None, True),
        (True, Status.FAILED, 143, True),
        (True, Status.FAILED, None, True),
        (True, Status.FAILED, 12, False),
        (True, Status.FAILED, 127, False),
        (True, Status.CANCELLED, None, False),
        (False, Status.FAILED, None, False),
    ],
)
def test_a_command_that_the_shutdown_has_ended_was_not_refused(sent, status, code, begun):
    command = SentCommand(line="reboot", effect="write", exit_code=code)
    assert may_have_begun(SendResult(status=status, sent=sent, commands=[command])) is begun


def test_an_old_line_is_given_up_before_a_new_one_is_opened():
    host = Rebooting(["old"])
    line = Renewable(host.connect)
    line.renew()
    assert (host.tries, host.closed) == (2, 1)


def test_neither_this_machine_nor_a_host_behind_on_is_rebooted():
    here = site(Playbook(name="one"), ToyHost({}))
    assert objection(here, STEP, None) == objection(here, STEP, RESTART) == ""
    assert "by `on`" in objection(here, Step(id="x", phase=Phase.REMEDIATE, action="reboot", on="other"), RESTART)
    local = replace(here, host=Host(name="h", transport="local"))
    assert "runs on" in objection(local, STEP, RESTART)


# --- going on with a run

DUE = Change(
    summary="reboot the host",
    commands=(),
    risk=Risk.REBOOTS,
    targets=(Target(kind="host", key=f"boot:{NEW}", say="boot 99999999"),),
    restart=Restart(boot_id=NEW, within=60),
)


def gone_on(decision, boot_id, *, done=False, assumed=False, repeats=()):
    place = site(Playbook(name="one"), ToyHost({}))
    earlier = EarlierChange(
        run="R", at="T", step="reboot", done=done, assumed=assumed, boot_id=boot_id, verifiable=True
    )
    place = replace(with_run(place, repeats=frozenset(repeats)), earlier=(earlier,))
    return continued(place, STEP, None, decision, equal=(0,))


@every_row("decision", [DUE, Blocked(why="rebooted a minute ago", then=DUE)])
@every_row("done", [True, False])
def test_a_reboot_that_has_happened_is_not_sent_again(decision, done):
    found = gone_on(decision, OLD, done=done)
    assert isinstance(found, NoChange)
    assert "has rebooted since" in found.why


@every_row("decision", [DUE, Blocked(why="sent a minute ago", then=DUE)])
def test_a_reboot_that_has_not_happened_is_in_doubt_and_not_sent_again(decision):
    found = gone_on(decision, NEW)
    assert isinstance(found, Blocked)
    assert found.in_doubt
    assert "--repeat reboot" in found.why


def test_a_person_may_say_what_became_of_it():
    assert gone_on(DUE, NEW, repeats=("reboot",)) is DUE
    assert isinstance(gone_on(DUE, NEW, done=True, assumed=True), NoChange)


# --- the plan

DRAIN = Step(id="drain", phase=Phase.REMEDIATE, action="scheduler")
AFTER = Step(id="reboot", phase=Phase.REMEDIATE, action="reboot", after=("drain",))


@every_row(
    ("step", "blocked", "restless", "planned"),
    [
        (AFTER, Blocked(why="not drained", then=DUE, clears=True), [DRAIN], True),
        (AFTER, Blocked(why="a container", then=DUE), [DRAIN], False),
        (AFTER, Blocked(why="not drained", clears=True), [DRAIN], False),
        (AFTER, Blocked(why="not drained", then=DUE, clears=True), [], False),
        (STEP, Blocked(why="not drained", then=DUE, clears=True), [DRAIN], False),
    ],
)
def test_a_step_that_waits_for_an_earlier_ones_change_is_planned_for_its_turn(step, blocked, restless, planned):
    draft = _Draft(step=step, decision=blocked)
    _clear_the_way(draft, restless)
    assert isinstance(draft.decision, Skip) is draft.awaits is planned
    assert (draft.reach == DUE.targets) is planned


def test_a_command_that_a_connection_was_lost_with_has_the_rest_of_its_time():
    """Mutants: the whole timeout once more, or the rest of it twice; that of another command; a default made 1 s."""
    clock, sent = ToyClock(), []

    class Line:
        def run(self, *commands):
            sent.append([it.timeout for it in commands])
            clock.time += 25.0
            raise ConnectionLost("the line went dead")

        def close(self):
            """Nothing."""

    hung, other = (Command(argv=(it,), effect=Effect.READ, timeout=30.0) for it in ("hung", "other"))
    spent = ((), 0.0)
    for _ in range(2):
        line = Renewable(Line, spent, clock.now)
        with pytest.raises(ConnectionLost):
            line.run(hung)
        spent = line.spent
    for again in (hung, other, replace(hung, timeout=0.0)):
        with pytest.raises(ConnectionLost):
            line.run(again)
    assert sent == [[30.0], [5.0], [30.0], [30.0], [0.0]]
    with pytest.raises(ConnectionLost):
        Renewable(Line, ((replace(hung, timeout=0.0),), 25.0), clock.now).run(replace(hung, timeout=0.0))
    assert sent[-1] == [0.0], "the default of its effect"
