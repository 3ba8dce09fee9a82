"""A day of a watcher over a simulated fleet: the daemon that ends stuck jobs, its limits, and its restarts."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest

from runbook.language.watch_rules import load_rule
from runbook.values.plan import Presence
from runbook.values.watch_rule import Rule
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Asked,
    Began,
    BreakerReset,
    Ended,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Reading,
    Rejected,
    Released,
    Started,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import Proposal, Trigger
from tests.watch.virtual_fleet import T0, SimulatedHost, VirtualFleet

DAEMON = """\
on: {every: 60s}
for: 600s
then: apply
risk: kills-processes
cooldown: 300s
keep: 2
"""
"""The rule of the seed's daemon: every 60 s, stuck for 600 s, a cooldown of 300 s, two nodes are kept."""
BY_ALERT = "on: {alert: GpuStuck}\nthen: apply\nrisk: kills-processes\n"
BOTH = "on: {alert: GpuStuck, every: 60s}\nthen: apply\nrisk: kills-processes\n"
DAY = 86400.0


def rule(text: str) -> Rule:
    """Return the rule with the keys in *text*."""
    return load_rule(f"name: stuck\nplaybook: stuck-node\nhosts: all\n{text}", "stuck.yaml")


def fleet(text: str, number: int) -> VirtualFleet:
    """Return a watcher with the rule in *text* over *number* healthy hosts."""
    return VirtualFleet([rule(text)], {f"gpu-{each:03}": SimulatedHost() for each in range(number)})


def approval(it: VirtualFleet, plan: WatchEvent, by: str) -> Approved:
    """Return that *by* approves *plan*."""
    assert isinstance(plan, Proposed)
    return Approved(at=it.now, rule=plan.rule, host=plan.host, digest=plan.digest, by=by)


def refusal(it: VirtualFleet, plan: WatchEvent) -> Rejected:
    """Return that a person refuses *plan*."""
    assert isinstance(plan, Proposed)
    return Rejected(at=it.now, rule=plan.rule, host=plan.host, episode=plan.episode, digest=plan.digest, by="ann")


def turn(it: VirtualFleet, host: str, *, faulty: bool) -> None:
    """Give *host* the fault, or take it away."""
    it.hosts[host].faulty = faulty


def fault(it: VirtualFleet, seconds: float, *hosts: str) -> None:
    """Let the fault begin on *hosts* so many seconds after the start."""
    for host in hosts:
        it.at(seconds, partial(turn, it, host, faulty=True))


def alert(
    it: VirtualFleet, seconds: float, host: str, episode: str = "a1", *, firing: bool = True, since: float | None = None
) -> None:
    """Let an alert for *host* begin, be sent again, or end."""

    def sent() -> None:
        began = T0 + (seconds if since is None else since)
        it.say(Alerted(at=it.now, rule="stuck", host=host, episode=episode, since=began, firing=firing))

    it.at(seconds, sent)


def alert_now(it: VirtualFleet, host: str) -> None:
    """Let an alert for *host* begin at once."""
    it.say(Alerted(at=it.now, rule="stuck", host=host, episode="a1", since=it.now, firing=True))


def all_runs(it: VirtualFleet) -> dict[str, list[float]]:
    """Return when each host was changed, of those that were."""
    return {name: it.runs(name) for name, host in it.hosts.items() if host.runs}


def most_at_work(it: VirtualFleet) -> int:
    """Return the most runs that were at work at the same time."""
    number = most = 0
    for event in it.kept:
        number += isinstance(event, Began) - isinstance(event, Ended)
        most = max(most, number)
    return most


def test_the_daemon_ends_what_is_stuck_for_ten_minutes_all_day():
    """Mutants: policy.py ``_sustained`` without ``rule.sustained``; cycle.py, a step that returns the present time."""
    it = fleet(DAEMON, 40)
    begins = {f"gpu-{number:03}": 1000.0 + 2000.0 * number for number in range(40)}
    for host, seconds in begins.items():
        fault(it, seconds, host)
    it.run_until(DAY)
    runs = all_runs(it)
    assert runs.keys() == begins.keys()
    assert all(len(each) == 1 for each in runs.values())
    late = {host: each[0] - begins[host] for host, each in runs.items()}
    assert all(600.0 <= seconds <= 600.0 + 2 * 60.0 + 10.0 for seconds in late.values()), late
    assert not any(host.faulty for host in it.hosts.values())
    assert it.steps < 3 * DAY / 60 + 40 * 20  # a probe begins and ends each minute, and 20 are decided about in a step
    assert len(it.kept) < DAY / 60 + 40 * 20


def test_a_healthy_day_keeps_nothing_but_probes():
    it = fleet(DAEMON, 3)
    it.run_until(DAY)
    assert {type(event) for event in it.kept} == {Started, Probed}
    assert len(it.of(Probed)) == DAY / 60
    assert it.steps <= 2 * DAY / 60 + 2


def test_a_host_that_stays_stuck_is_left_to_a_person_after_two_runs():
    """Mutant: ``ineffective`` is not counted."""
    it = fleet(DAEMON, 5)
    it.hosts["gpu-001"].cures = False
    fault(it, 100, "gpu-001")
    it.run_until(DAY)
    assert len(it.runs("gpu-001")) == 2
    answered = [event for event in it.of(Answered) if isinstance(event, Answered)]
    assert (answered[-1].decision, answered[-1].question) == ("escalate", "attempts")


def test_two_runs_on_a_host_are_a_cooldown_apart():
    """Mutant: ``_cooldown`` compares with the beginning of the run, or with half of the time."""
    it = fleet(DAEMON.replace("for: 600s\n", "") + "ineffective: 0\n", 5)
    it.hosts["gpu-001"].cures = False
    fault(it, 100, "gpu-001")
    it.run_until(3600)
    runs = it.runs("gpu-001")
    assert len(runs) > 8
    assert all(5.0 + 300.0 <= later - earlier <= 5.0 + 300.0 + 70.0 for earlier, later in pairwise(runs))


def test_the_last_two_well_nodes_are_kept():
    """Mutant: ``_keep`` compares with one more, or one less."""
    it = fleet(DAEMON, 5)
    for number in range(5):
        it.hosts[f"gpu-{number:03}"].cures = False
    fault(it, 100, "gpu-000", "gpu-001", "gpu-002", "gpu-003")
    it.run_until(3000)
    assert all_runs(it) == {}
    it.at(3001, partial(turn, it, "gpu-003", faulty=False))
    it.run_until(3200)
    assert set(all_runs(it)) == {"gpu-000", "gpu-001", "gpu-002"}


def test_one_run_after_the_other_takes_no_well_node_away():
    it = fleet(DAEMON, 4)
    fault(it, 100, "gpu-000", "gpu-001")
    fault(it, 5000, "gpu-002", "gpu-003")
    it.run_until(DAY)
    assert {host: len(runs) for host, runs in all_runs(it).items()} == dict.fromkeys(it.hosts, 1)


@pytest.mark.parametrize("minutes", [1, 5, 60])
def test_a_cycle_without_any_answer_goes_on_and_clears_nothing(minutes):
    """Mutant: memory.py ``_read`` clears the fault after a reading without an answer."""
    it = fleet(DAEMON, 10)

    def answers(*, whether: bool) -> None:
        for host in it.hosts.values():
            host.answers = whether

    fault(it, 90, "gpu-001")
    it.at(330, partial(answers, whether=False))
    it.at(330 + 60 * minutes, partial(answers, whether=True))
    it.run_until(DAY)
    silent = [
        event
        for event in it.of(Probed)
        if isinstance(event, Probed) and all(read.presence is Presence.UNKNOWN for read in event.readings)
    ]
    assert len(silent) >= minutes
    [run] = it.runs("gpu-001")
    assert 90 + 600 + 60 * minutes <= run <= 90 + 600 + 60 * minutes + 200


def test_a_fault_that_comes_and_goes_is_never_acted_upon():
    """Mutant: a healthy reading leaves ``present_for``."""
    it = fleet(DAEMON, 5)
    for number in range(100):
        fault(it, 100 + 600 * number, "gpu-001")
        it.at(400 + 600 * number, partial(turn, it, "gpu-001", faulty=False))
    it.run_until(DAY)
    assert all_runs(it) == {}
    assert not it.of(Proposed)


def test_a_fault_that_comes_and_goes_counts_where_the_rule_says_so():
    it = fleet(DAEMON.replace("for: 600s", "threshold: {count: 3, within: 1h}"), 5)
    for number in range(3):
        fault(it, 100 + 600 * number, "gpu-001")
        it.at(400 + 600 * number, partial(turn, it, "gpu-001", faulty=False))
    it.run_until(1300)
    assert all_runs(it) == {}
    it.run_until(1500)
    assert len(it.runs("gpu-001")) == 1


def test_only_so_many_hosts_are_worked_on_at_the_same_time_and_none_is_forgotten():
    """Mutant: ``MOST_AT_WORK`` is not looked at."""
    it = fleet(DAEMON, 60)
    fault(it, 100, *[f"gpu-{number:03}" for number in range(50)])
    it.run_until(3000)
    assert len(all_runs(it)) == 50
    assert most_at_work(it) == 8


def test_a_rule_has_one_probe_at_a_time_however_long_it_takes():
    """Mutants: ``_probe_by_clock`` and ``_act`` without ``_probing``."""
    it = fleet(BOTH, 5)
    it.probe_takes = 100.0
    it.at(10, partial(alert_now, it, "gpu-001"))
    it.at(20, partial(alert_now, it, "gpu-002"))
    it.run_until(3600)
    assert it.most_probing == 1
    assert sum(isinstance(event, Probed) and event.whole for event in it.kept) > 10
    assert it.steps < 3 * 3600


def test_a_plan_is_made_once_whatever_is_heard_meanwhile():
    """Mutant: ``_decide`` without ``_at_work``."""
    it = fleet("on: {alert: GpuStuck}\n", 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001")
    alert(it, 101.5, "gpu-001", since=100)  # the plan is begun at 101 and takes two seconds
    it.run_until(1000)
    assert len(it.of(Proposed)) == 1


def test_cron_probes_all_hosts_as_a_clock_does():
    it = fleet('on: {cron: "0 * * * *"}\nthen: apply\nrisk: kills-processes\n', 3)
    it.next_cron = lambda text, after: (after // 3600 + 1) * 3600 if text == "0 * * * *" else 0.0
    fault(it, 4000, "gpu-001")
    it.run_until(10_000)
    assert [event.at - T0 for event in it.of(Probed) if isinstance(event, Probed) and event.whole] == [3601.0, 7201.0]
    assert len(it.runs("gpu-001")) == 1


def test_an_alert_for_a_host_that_is_not_the_rules_leads_to_nothing():
    it = fleet(BY_ALERT, 3)
    alert(it, 100, "$(reboot)")
    it.run_until(1000)
    assert [type(event) for event in it.kept] == [Started, Alerted, Answered]


def test_the_end_of_a_run_wakes_the_other_rules_of_the_host():
    other = load_rule(f"name: other\nplaybook: p\nhosts: all\n{BY_ALERT}", "other.yaml")
    it = VirtualFleet([rule(BY_ALERT), other], {"gpu-001": SimulatedHost(faulty=True, cures=False)})
    for name, seconds in (("stuck", 100.0), ("other", 90.0)):
        event = Alerted(at=T0 + 100, rule=name, host="gpu-001", episode="a1", since=T0 + seconds, firing=True)
        it.at(100, partial(it.say, event))
    it.run_until(3600)
    assert {event.rule for event in it.of(Began) if isinstance(event, Began)} == {"stuck", "other"}


def test_an_answer_that_stays_the_same_is_stored_once():
    """Mutant: ``_note`` keeps each answer."""
    it = fleet("on: {every: 60s}\nfor: 600s\napprove: {within: 1d}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(3600)
    answers = [(event.question, event.decision) for event in it.of(Answered) if isinstance(event, Answered)]
    assert len(set(answers)) == len(answers) == 3


def test_a_breaker_trips_once_and_goes_on_after_a_reset_and_a_quiet_time():
    it = fleet(DAEMON + "breaker: {hosts: 3, within: 1d}\n", 10)
    fault(it, 100, *[f"gpu-{number:03}" for number in range(5)])
    it.run_until(3000)
    assert len(all_runs(it)) == 3
    assert len(it.of(Tripped)) == 1
    it.say(BreakerReset(at=it.now, rule="stuck", by="ann"))
    it.run_until(3590)
    assert len(all_runs(it)) == 3
    it.run_until(3800)
    assert len(all_runs(it)) == 5
    assert len(it.of(Tripped)) == 1


def test_a_held_host_is_left_alone_until_its_release():
    it = fleet(DAEMON, 5)
    it.at(50, lambda: it.say(Held(at=it.now, host="gpu-001", until=T0 + DAY, by="ann")))
    fault(it, 100, "gpu-001", "gpu-002")
    it.run_until(3000)
    assert set(all_runs(it)) == {"gpu-002"}
    it.say(Released(at=it.now, host="gpu-001", by="ann"))
    it.run_until(3100)
    assert set(all_runs(it)) == {"gpu-001", "gpu-002"}


def test_an_alert_leads_to_a_probe_and_only_a_fault_to_a_run():
    it = fleet(BY_ALERT, 5)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001")
    alert(it, 100, "gpu-002")
    it.run_until(1000)
    assert set(all_runs(it)) == {"gpu-001"}
    probed = [read.host for event in it.of(Probed) if isinstance(event, Probed) for read in event.readings]
    assert set(probed) == {"gpu-001", "gpu-002"}
    number = len(it.kept)
    alert(it, 1001, "gpu-002", firing=False)
    it.run_until(DAY)
    assert len(it.kept) <= number + 3


def test_a_plan_waits_for_a_person_and_the_fault_is_seen_again_before_it_is_carried_out():
    """Mutant: ``_probe_again`` passes on."""
    it = fleet("on: {alert: GpuStuck}\napprove: {count: 2}\n", 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001")
    it.run_until(1000)
    [plan] = [event for event in it.of(Proposed) if isinstance(event, Proposed)]
    it.say(approval(it, plan, "ann"))
    it.run_until(1200)
    assert all_runs(it) == {}
    it.say(approval(it, plan, "bob"))
    it.run_until(1300)
    [began] = [event for event in it.of(Began) if isinstance(event, Began)]
    assert began.approved_by == ("ann", "bob")
    last = max(event.at for event in it.of(Probed) if event.at <= began.at)
    assert T0 + 1200 < last <= began.at


def test_a_plan_of_which_the_fault_has_gone_is_not_carried_out():
    it = fleet("on: {alert: GpuStuck}\n", 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001")
    it.run_until(1000)
    it.hosts["gpu-001"].faulty = False
    [plan] = [event for event in it.of(Proposed) if isinstance(event, Proposed)]
    it.say(approval(it, plan, "ann"))
    it.run_until(DAY)
    assert all_runs(it) == {}


def test_a_person_asks_and_gets_an_answer_for_a_host_that_is_well_and_one_that_is_not():
    it = fleet(DAEMON, 5)
    it.hosts["gpu-001"].faulty = True
    for host in ("gpu-001", "gpu-002"):
        it.at(100, lambda host=host: it.say(Asked(at=it.now, rule="stuck", host=host, by="ann")))
    it.run_until(300)
    assert set(all_runs(it)) == {"gpu-001"}  # it need not have lasted
    answers = {event.host: event.decision for event in it.of(Answered) if isinstance(event, Answered)}
    assert answers["gpu-002"] == "ignore"


# ---- restarts --------------------------------------------------------------------------------------------------------


def test_a_restart_with_a_hundred_open_episodes_does_nothing_before_all_hosts_are_probed():
    """Mutants: ``_probe`` and ``_keep`` without ``started``."""
    it = fleet(DAEMON, 110)
    fault(it, 100, *[f"gpu-{number:03}" for number in range(100)])
    it.run_until(700)  # in this minute they would be acted upon
    assert all_runs(it) == {}
    it.now += 30.0
    it.restart()
    number = len(it.kept)
    it.run_until(DAY)
    after = it.kept[number:]
    first = next(place for place, event in enumerate(after) if isinstance(event, Began))
    probed = [event for event in after[:first] if isinstance(event, Probed) and event.whole]
    assert probed
    assert len(all_runs(it)) == 100
    assert all(len(runs) == 1 for runs in all_runs(it).values())


def test_a_restart_after_a_long_time_does_not_count_what_was_seen_before():
    it = fleet(DAEMON, 110)
    fault(it, 100, *[f"gpu-{number:03}" for number in range(100)])
    it.run_until(650)
    it.now += 400.0
    it.restart()
    it.run_until(650 + 400 + 600)
    assert all_runs(it) == {}
    it.run_until(DAY)
    assert len(all_runs(it)) == 100


class Killed(BaseException):
    """The watcher's process was ended."""


def killed_after(it: VirtualFleet, number: int) -> Callable[[WatchEvent], None]:
    """Return what ends the watcher as soon as *number* events are stored."""

    def check(event: WatchEvent) -> None:
        if len(it.kept) == number:
            raise Killed

    return check


def by_the_records(it: VirtualFleet, *, went_on: bool) -> Iterator[Ended]:
    """Yield the ends of runs that the watcher did not see: of one that was never begun, or that went on without it."""
    ended = {event.digest for event in it.of(Ended) if isinstance(event, Ended)}
    for event in it.of(Began):
        assert isinstance(event, Began)
        if event.digest in ended:
            continue
        host = it.hosts[event.host]
        begun = any(at == event.at for at in host.runs)
        if begun and went_on:
            host.faulty = False
        yield Ended(
            at=it.now, rule=event.rule, host=event.host, digest=event.digest, run="run" if begun else "",
            verdict="resolved" if begun and went_on else "unknown", cured=begun and went_on, changed=begun,
        )  # fmt: skip


STORY = 5400.0
"""Seconds that the story lasts."""


def story(text: str) -> VirtualFleet:
    """Return a fleet in which ten hosts have a fault, one after the other, each with an alert that ends at last."""
    it = fleet(text, 13)
    for number in range(10):
        host, seconds = f"gpu-{number:03}", 130.0 + 350.0 * number
        fault(it, seconds, host)
        alert(it, seconds + 30, host, f"a{number}")
        alert(it, STORY - 60, host, f"a{number}", firing=False, since=seconds + 30)
    return it


def run_with_a_death(text: str, number: int, seed: int, *, went_on: bool) -> VirtualFleet:
    """Return the fleet of ``story`` at its end, with a restart after the event *number*."""
    it, chance = story(text), random.Random(seed)
    it.after_store = killed_after(it, number)
    try:
        it.run_until(STORY)
    except Killed:
        it.now += chance.choice([0.0, 1.0, 30.0, 150.0, 400.0])
        it.after_store = lambda event: None
        it.restart()
        for event in by_the_records(it, went_on=went_on):
            it.say(event)
        it.run_until(STORY)
    return it


def acted_upon(it: VirtualFleet) -> list[tuple[str, str]]:
    """Return the host and the episode of each run that changed something."""
    changed = {event.digest for event in it.of(Ended) if isinstance(event, Ended) and event.changed}
    return [
        (event.host, event.episode) for event in it.of(Began) if isinstance(event, Began) and event.digest in changed
    ]


@pytest.mark.parametrize("text", [DAEMON, BY_ALERT, BOTH], ids=["by clock", "by alert", "by both"])
@pytest.mark.parametrize("went_on", [True, False], ids=["the run goes on", "the run dies"])
def test_at_whatever_moment_it_is_killed_no_episode_is_acted_upon_twice_or_forgotten(text, went_on):
    """Mutants: ``_own_doing`` without a run at work; ``Began`` stored after ``apply``; ``_new_episode`` passes on."""
    whole = story(text)
    whole.run_until(STORY)
    assert {host: len(runs) for host, runs in all_runs(whole).items()} == {
        f"gpu-{number:03}": 1 for number in range(10)
    }
    chance = random.Random(5)
    kinds = (Began, Proposed, Ended, Alerted)
    moments = {number for number, event in enumerate(whole.kept, 1) if isinstance(event, kinds)}
    others = sorted(set(range(2, len(whole.kept))) - moments)
    died_at = sorted(chance.sample(sorted(moments), 25) + chance.sample(others, 25))
    wrong = []
    for seed, number in enumerate(died_at):
        it = run_with_a_death(text, number, seed, went_on=went_on)
        acted = acted_upon(it)
        if len(set(acted)) != len(acted):
            wrong.append((number, "acted upon twice", acted))
        runs = {host: len(each) for host, each in all_runs(it).items()}
        if went_on and runs != {f"gpu-{each:03}": 1 for each in range(10)}:
            wrong.append((number, "not one run for each fault", runs))
        open_now = [name for name, host in it.hosts.items() if host.faulty]
        left_to_people = {
            event.host for event in it.of(Answered) if isinstance(event, Answered) and event.decision == "escalate"
        }
        if not set(open_now) <= left_to_people:
            wrong.append((number, "forgotten", open_now))
    assert wrong == []


def test_nothing_is_carried_out_of_which_the_beginning_cannot_be_stored():
    """Mutant: ``_apply`` calls the work before it keeps ``Began``."""
    it = fleet(BOTH, 3)

    def full(event: WatchEvent) -> None:
        if isinstance(event, Began):
            raise OSError("no space left on device")

    it.before_store = full
    fault(it, 100, "gpu-001")
    with pytest.raises(OSError, match="no space left"):
        it.run_until(1000)
    assert all_runs(it) == {}
    assert it.of(Began) == []
    assert it.cycle.remembered.host("stuck", "gpu-001").runs == ()


def test_an_alert_whose_answer_could_not_be_stored_is_not_forgotten():
    it = fleet(BY_ALERT, 3)
    it.hosts["gpu-001"].faulty = True
    failures = iter([OSError("no space left on device")])

    def full(event: WatchEvent) -> None:
        if isinstance(event, Answered) and (error := next(failures, None)):
            raise error

    it.before_store = full
    alert(it, 100, "gpu-001")
    with pytest.raises(OSError, match="no space left"):
        it.run_until(1000)
    it.run_until(1000)
    assert len(it.runs("gpu-001")) == 1


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_what_a_person_has_refused_is_not_proposed_again_for_another_trigger():
    it = fleet("on: {alert: GpuStuck, every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    alert(it, 110, "gpu-001")
    it.run_until(1000)
    plan = it.of(Proposed)[-1]
    assert isinstance(plan, Proposed)
    number = len(it.of(Proposed))
    it.say(refusal(it, plan))
    it.run_until(2000)
    assert len(it.of(Proposed)) == number


def test_a_refusal_lasts_over_a_restart():
    it = fleet("on: {every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(1000)
    [plan] = it.of(Proposed)
    assert isinstance(plan, Proposed)
    it.say(refusal(it, plan))
    it.run_until(1100)
    it.now += 400.0
    it.restart()
    it.run_until(2000)
    assert len(it.of(Proposed)) == 1


def test_answers_that_do_not_change_are_stored_once():
    it = fleet(BOTH.replace("then: apply\nrisk: kills-processes", "then: propose"), 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001", "a1")
    it.run_until(1000)
    it.say(refusal(it, it.of(Proposed)[-1]))
    it.run_until(1100)
    number = len(it.of(Answered))
    it.run_until(3600)
    assert len(it.of(Answered)) <= number + 2


def test_a_plan_that_waits_is_not_withdrawn_because_an_alert_is_heard_of_again():
    it = fleet("on: {alert: GpuStuck}\n", 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001", "a1")
    alert(it, 110, "gpu-001", "a2")
    alert(it, 500, "gpu-001", "a1", since=100)
    alert(it, 600, "gpu-001", "a2", since=110)
    it.run_until(1000)
    assert len(it.of(Proposed)) == 1


def without_plans(it: VirtualFleet, fails: Callable[[int], bool], why: str = "the host refuses sudo") -> list[float]:
    """Let the tries to make a plan fail for which *fails* says so; returns the times of all tries, which grows."""
    tried: list[float] = []
    makes = it.plan

    def plan(rule: Rule, trigger: Trigger) -> None:
        tried.append(it.now - T0)
        if not fails(len(tried)):
            makes(rule, trigger)
            return
        host, episode = trigger.host, trigger.episode
        it._after(2.0, lambda: NotProposed(at=it.now, rule="stuck", host=host, episode=episode, why=why))

    it.plan = plan  # type: ignore[method-assign]
    return tried


def last_answer(it: VirtualFleet, host: str = "gpu-001") -> str:
    answer = it.cycle.remembered.answer("stuck", host)
    return f"{answer.question}: {answer.decision}: {answer.why}" if answer else ""


def test_a_plan_that_cannot_be_made_is_tried_again_after_growing_pauses():
    """Mutants: a plan that is tried each minute; one that is never tried again; a pause that does not grow."""
    it = fleet(DAEMON, 5)
    tried = without_plans(it, lambda number: True)
    fault(it, 100, "gpu-001")
    it.run_until(DAY)
    pauses = [round((later - before) / 60) for before, later in pairwise(tried)]
    assert pauses == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert "no plan can be made: the host refuses sudo" in last_answer(it)


@pytest.mark.parametrize("by", ["time", "a person", "a restart"])
def test_a_plan_that_failed_for_a_passing_reason_is_made_again(by):
    """Mutants: a reason that no question of a person, and no restart, ends."""
    it = fleet("on: {every: 60s}\n", 3)
    tried = without_plans(it, lambda number: number == 1, "ssh: connection timed out")
    fault(it, 100, "gpu-001")
    it.run_until(140)
    assert (len(tried), it.of(Proposed)) == (1, [])
    if by == "a person":
        it.say(Asked(at=it.now, rule="stuck", host="gpu-001", by="ann"))
    if by == "a restart":
        it.restart()
    it.run_until(400 if by == "time" else 170)
    assert len(it.of(Proposed)) == 1


def test_an_answer_of_which_a_person_must_hear_is_not_covered_by_a_smaller_one():
    """Mutants: a plan that is said to be taken back after the answer to why; after a refusal."""
    it = fleet("on: {every: 60s}\n", 3)
    without_plans(it, lambda number: number > 1)
    fault(it, 100, "gpu-001")
    it.at(1000, lambda: setattr(it.hosts["gpu-001"], "work", "kill 2"))
    it.run_until(1300)
    assert last_answer(it).startswith("risk and approval: escalate: no plan can be made")
    it = fleet("on: {every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(1000)
    it.say(refusal(it, it.of(Proposed)[-1]))
    it.run_until(4000)
    assert last_answer(it) == "new episode: ignore: a person refused to act on it: ann"


def test_a_plan_whose_trigger_is_over_when_it_comes_waits_for_nobody():
    """Mutant: a proposal that waits whatever it was made for."""
    it = fleet("on: {alert: GpuStuck}\n", 3)
    fault(it, 50, "gpu-001")
    alert(it, 100, "gpu-001")
    alert(it, 102.5, "gpu-001", firing=False)
    it.run_until(2000)
    assert len(it.of(Proposed)) == 1
    assert it.cycle.remembered.proposals() == []


def test_a_limit_that_time_lifts_is_asked_about_again():
    """Mutant: an escalation that nothing but an event ends."""
    limits = "attempts: {count: 1, within: 1h}\nineffective: 0\n"
    it = fleet(f"{BY_ALERT}{limits}", 2)
    fault(it, 10, "gpu-001")
    alert(it, 20, "gpu-001", "a1")
    alert(it, 600, "gpu-001", "a1", firing=False)
    fault(it, 700, "gpu-001")
    alert(it, 800, "gpu-001", "a2")
    it.run_until(20_000)
    first, second = all_runs(it)["gpu-001"]
    assert first < 600
    assert 3600 + first <= second < 3700 + first


def test_a_question_of_a_person_does_not_stop_the_time_of_an_alert():
    """Mutant: a place that is not decided again after the answer to a person."""
    for asks in (False, True):
        it = fleet(f"{BY_ALERT}for: 5m\n", 2)
        it.hosts["gpu-001"].faulty = True
        alert(it, 20, "gpu-001")
        reading = it.reading

        def without_steps(name: str, of: VirtualFleet = it, read: Callable[[str], Reading] = reading) -> Reading:
            seen = read(name)
            return replace(seen, changes=0) if of.now < T0 + 160 and seen.presence is Presence.PRESENT else seen

        it.reading = without_steps  # type: ignore[method-assign]
        if asks:
            it.at(100, partial(asked_by, it, "ann"))
        it.run_until(2000)
        (run,) = all_runs(it)["gpu-001"]
        assert run < 500


def asked_by(it: VirtualFleet, by: str) -> None:
    it.say(Asked(at=it.now, rule="stuck", host="gpu-001", by=by))


def test_an_alert_is_not_kept_from_its_run_by_another_one_that_is_over_for_us():
    """Mutant: a host whose first trigger decides for all."""
    it = fleet(BY_ALERT, 2)
    fault(it, 5, "gpu-001")
    it.hosts["gpu-001"].cures = False
    alert(it, 10, "gpu-001", "a1")
    it.at(1000, lambda: setattr(it.hosts["gpu-001"], "cures", True))
    alert(it, 1200, "gpu-001", "b1")
    it.run_until(3000)
    assert len(all_runs(it)["gpu-001"]) == 2


def test_an_alert_that_has_begun_again_ends_the_one_before():
    """Mutant: an episode whose end was lost, and that fires for a day."""
    it = fleet(BY_ALERT, 2)
    alert(it, 10, "gpu-001", "fp@1")
    alert(it, 3600, "gpu-001", "fp@2")
    alert(it, 4000, "gpu-001", "fp@2", firing=False)
    fault(it, 20 * 3600, "gpu-001")
    it.run_until(DAY)
    assert all_runs(it) == {}


def test_a_shorter_hold_of_another_person_does_not_end_a_longer_one():
    """Mutant: one hold for a host, the last one."""
    it = fleet("on: {every: 60s}\nthen: apply\nrisk: kills-processes\n", 2)
    it.say(Held(at=T0, host="gpu-001", until=T0 + 4 * 3600, by="bob", why="its board is exchanged"))
    it.say(Held(at=T0, host="all", until=T0 + 600, by="carl"))
    it.say(Held(at=T0 + 1, host="gpu-001", until=T0 + 300, by="ann"))
    fault(it, 30, "gpu-001")
    it.run_until(2 * 3600)
    assert all_runs(it) == {}
    assert "bob wants the host to be left alone" in last_answer(it)
    it.say(Held(at=it.now, host="gpu-001", until=it.now + 60, by="bob"))
    it.run_until(3 * 3600)
    assert len(all_runs(it)["gpu-001"]) == 1


@pytest.mark.parametrize("changed", [True, False])
def test_a_run_that_a_person_interrupts_is_not_begun_again(changed):
    """Mutant: an interruption that nothing follows from."""
    it = fleet("on: {every: 60s}\nthen: apply\nrisk: kills-processes\n", 2)
    fault(it, 5, "gpu-001")

    def interrupted(rule: Rule, plan: Proposal) -> None:
        it.hosts[plan.host].runs.append(it.now)

        def ends() -> WatchEvent:
            it.say(Stopped(at=it.now, rule="stuck", host=plan.host, digest=plan.digest, by="bob"))
            return Ended(
                at=it.now, rule="stuck", host=plan.host, digest=plan.digest, run="r", verdict="cancelled", cured=False,
                changed=changed,
            )  # fmt: skip

        it._after(2.0, ends)

    it.apply = interrupted  # type: ignore[method-assign]
    it.run_until(3600)
    assert len(all_runs(it)["gpu-001"]) == 1
    assert "a person has interrupted the run" in last_answer(it)
    asked_by(it, "ann")
    it.run_until(3700)
    assert len(all_runs(it)["gpu-001"]) == 2


@pytest.mark.parametrize("word", ["hold", "refusal"])
def test_a_word_that_others_store_right_before_a_run_counts(word):
    """Mutants: a run that is stored whatever was stored since the decision; a decision that is not taken again."""
    it = fleet("on: {every: 60s}\nthen: apply\nrisk: kills-processes\n", 2)
    fault(it, 5, "gpu-001")
    said: list[WatchEvent] = []

    def says(event: WatchEvent) -> list[WatchEvent]:
        if not isinstance(event, Began) or said:
            return []
        plan = it.of(Proposed)[-1]
        hold = Held(at=it.now, host="gpu-001", until=it.now + 600, by="bob")
        said.append(hold if word == "hold" else refusal(it, plan))
        return said

    it.others_say = says
    it.run_until(500)
    assert said
    assert all_runs(it) == {}
    it.run_until(1500)
    assert len(all_runs(it).get("gpu-001", ())) == (1 if word == "hold" else 0)


def test_the_last_answer_is_true_when_its_reason_changes():
    """Mutants: answers that are compared without their reason; a reason whose approvals are those of before."""
    it = fleet("on: {every: 60s}\nthen: apply\nrisk: kills-processes\nkeep: 2\n", 3)
    it.hosts["gpu-000"].answers = False
    fault(it, 0, "gpu-001")
    it.run_until(30)
    it.restart()
    it.run_until(7200)
    assert "1 other host well, and 2 must be" in last_answer(it)
    it = fleet("on: {every: 60s}\napprove: {count: 2}\n", 2)
    fault(it, 10, "gpu-001")
    it.run_until(100)
    it.say(approval(it, it.of(Proposed)[0], "ann"))
    it.run_until(1000)
    assert "(has 1 of 2)" in last_answer(it)


def test_an_answer_does_not_outlive_its_alert_over_a_restart():
    """Mutant: a cycle that begins without the last answers."""
    it = fleet("on: {alert: GpuStuck}\n", 2)
    it.hosts["gpu-001"].answers = False
    alert(it, 20, "gpu-001")
    it.run_until(200)
    resolved = Alerted(at=it.now, rule="stuck", host="gpu-001", episode="a1", since=T0 + 20, firing=False)
    it.kept.append(resolved)
    it.restart()
    it.run_until(400)
    assert "there is nothing to act on any more" in last_answer(it)
    number = len(it.kept)
    it.restart()
    it.run_until(600)
    assert len(it.of(Answered)) == len([each for each in it.kept[:number] if isinstance(each, Answered)])


def test_a_question_has_its_answer_although_a_plan_is_taken_back_meanwhile():
    """Mutant: a plan that is said to be taken back as the answer to a person."""
    it = fleet("on: {alert: GpuStuck}\n", 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001")
    it.at(200, lambda: asked_by(it, "ann"))
    alert(it, 200.5, "gpu-001", firing=False, since=100)
    it.run_until(400)
    assert [plan.requester for plan in it.cycle.remembered.proposals()] == ["ann"]


def test_a_clock_that_is_put_back_does_not_hide_what_is_seen():
    """Mutant: the end of a run in the future, after which no reading counts."""
    it = fleet(BY_ALERT, 3)
    it.hosts["gpu-001"].faulty = True
    alert(it, 7200, "gpu-001", "a1")
    it.run_until(7310)
    assert len(all_runs(it)["gpu-001"]) == 1
    it.now = T0 + 3600
    it.restart()
    it.hosts["gpu-001"].faulty = True
    probes = len(it.of(Probed))
    it.say(Alerted(at=it.now, rule="stuck", host="gpu-001", episode="b1", since=it.now, firing=True))
    it.run_until(4800)
    assert len(all_runs(it)["gpu-001"]) == 2
    assert len(it.of(Probed)) < probes + 30


@pytest.mark.parametrize("ends", ["begins again", "cured"])
def test_a_refusal_does_not_outlive_its_fault(ends):
    """Mutants: a refusal that only a resolved alert ends; an interruption that a cure does not end."""
    it = fleet("on: {alert: GpuStuck}\n" if ends == "begins again" else BY_ALERT, 2)
    it.hosts["gpu-001"].faulty = True
    alert(it, 100, "gpu-001", "fp@1")
    if ends == "begins again":
        it.run_until(200)
        it.say(refusal(it, it.of(Proposed)[0]))
    else:
        it.run_until(104.5)
        (began,) = it.of(Began)
        assert isinstance(began, Began)
        it.say(Stopped(at=it.now, rule="stuck", host="gpu-001", digest=began.digest, by="ann"))
    it.run_until(4000)
    it.hosts["gpu-001"].faulty = True
    number = len(it.of(Proposed))
    alert(it, 5000, "gpu-001", "fp@2" if ends == "begins again" else "other@2")
    it.run_until(6000)
    assert len(it.of(Proposed)) > number


def test_a_host_that_comes_back_to_its_rule_is_decided_about():
    """Mutant: hosts that are exchanged without a word."""
    it = fleet(BY_ALERT, 2)
    it.hosts["gpu-001"].faulty = True
    it.at(99, lambda: it.cycle.know_hosts({"stuck": ("gpu-000",)}))
    alert(it, 100, "gpu-001")
    it.at(160, lambda: it.cycle.know_hosts({"stuck": ("gpu-000", "gpu-001")}))
    it.run_until(1000)
    assert len(all_runs(it)["gpu-001"]) == 1


def test_a_plan_that_is_taken_back_is_said():
    """Mutant: ``_note_end`` that keeps nothing."""
    it = fleet("on: {every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(1000)
    (plan,) = it.of(Proposed)
    assert isinstance(plan, Proposed)
    it.hosts["gpu-001"].faulty = False
    it.run_until(1200)
    said = [answer.why for answer in it.of(Answered)[-2:] if isinstance(answer, Answered)]
    assert said == [f"plan {plan.digest[:8]} is taken back", "there is nothing to act on any more"]
    number = len(it.of(Answered))
    it.run_until(5000)
    assert len(it.of(Answered)) == number


def test_a_refusal_counts_against_an_alert_that_comes_later_for_the_same_fault():
    """Mutant: a refusal that an alert with a later beginning ends."""
    it = fleet("on: {alert: GpuStuck, every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(1000)
    (plan,) = it.of(Proposed)
    assert isinstance(plan, Proposed)
    it.say(refusal(it, plan))
    alert(it, 1100, "gpu-001", "later")
    it.run_until(3000)
    assert len(it.of(Proposed)) == 1


def test_a_plan_of_another_rule_of_the_same_name_does_not_count():
    """Mutant: a plan whose rule is not compared."""
    it = fleet("on: {every: 60s}\n", 3)
    fault(it, 100, "gpu-001")
    it.run_until(1000)
    (plan,) = it.of(Proposed)
    assert isinstance(plan, Proposed)
    it.say(replace(plan, at=it.now, rule_digest="of another text"))
    it.say(approval(it, plan, "ann"))
    it.run_until(1500)
    assert all_runs(it) == {}
