"""What earlier runs leave to a run: when a refused host may be changed again, and the limits in sentences."""

from __future__ import annotations

from dataclasses import replace

from runbook.commands.show.steps import limits
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.change_limits import ChangeLimits
from runbook.reporting.wording.limits import limit_lines
from runbook.values.inventory import Host
from runbook.values.playbook import Attempts, Breaker, Limits, Share
from runbook.values.recorded_change import RecordedChange
from runbook.values.types import Unknown
from tests.support.tables import every_row


class Past:
    """Earlier runs, each with a change so many seconds ago, the newest first."""

    def __init__(self, *ago: float) -> None:
        self.made = tuple(RecordedChange(run=f"run-{it:g}", step="x", ago=it) for it in sorted(ago))

    def attempt(self, host: str) -> str:
        return "run-1" if host == "half" else ""

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...]:
        return tuple(it for it in self.made if it.ago <= within)


@every_row(
    ("per_host", "ago", "left"),
    [
        (1, (5,), "95 s"),
        (2, (30, 90), "10 s"),
        (2, (30, 60, 90), "40 s"),
        (1, (30, 90), "70 s"),
        (2, (30, 30, 90), "10 s"),
    ],
)
def test_a_refused_host_is_named_with_the_time_when_it_may_be_changed_again(per_host, ago, left):
    """The run that is the *per_host*-th newest has to leave the window.  Mutants: the oldest run; the newest one."""
    attempts = Attempts(per_host=per_host, within=100.0)
    refused = ChangeLimits(Limits(attempts=attempts), Past(*ago), "toy", 1).refused("h0")
    assert (
        f"; it may be changed again in {left}; a person has to look at it: `runbook history list --host h0" in refused
    )


def test_fewer_runs_than_the_limit_are_not_refused():
    assert ChangeLimits(Limits(attempts=Attempts(per_host=2, within=100.0)), Past(30, 120), "toy", 1).refused("h") == ""


def test_a_host_in_the_middle_of_an_attempt_is_finished_whatever_the_limits_say():
    """Mutant: ``_held`` without ``_goes_on``."""
    share = Breaker(hosts=Share(number=1.0), within=3600.0)
    limits = ChangeLimits(
        Limits(attempts=Attempts(per_host=1, within=100.0), cooldown=60.0, breaker=share), Past(5), "toy", 1
    )
    assert "limits.attempts" in limits.refused("h")
    assert [limits.refused("half"), limits.begin("half")] == ["", ""]


def test_runs_of_one_attempt_count_once():
    """Mutant: ``_attempts`` by run."""
    attempts = Limits(attempts=Attempts(per_host=2, within=100.0))
    past = Past(5, 6)
    past.made = tuple(replace(it, attempt="run-6") for it in past.made)
    assert ChangeLimits(attempts, past, "toy", 1).refused("h") == ""


def test_limits_over_several_runs_are_shown_in_sentences():
    """Mutants: ``limits`` without one of the three."""
    share = Share(number=20.0, percent=True)
    every = Limits(
        attempts=Attempts(per_host=2, within=604800.0), cooldown=1800.0, breaker=Breaker(hosts=share, within=3600.0)
    )
    assert limits(every) == (
        "At most 2 runs may change the same host within 7 d. A host is not changed again within 30 min of its last "
        "change. All runs together change at most 20% of the hosts within 60 min."
    )
    assert "at most 1 host within" in limits(Limits(breaker=Breaker(hosts=Share(number=1.0), within=3600.0)))


class Fleet:
    """Earlier runs of several hosts: how long ago each changed it; nobody knows of ``lost``."""

    def __init__(self, **ago: tuple[float, ...]) -> None:
        self.made = ago

    def attempt(self, host: str) -> str:
        return ""

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...] | Unknown:
        if host == "lost":
            return Unknown(why="a record was edited")
        found = [RecordedChange(run=f"{host}-{it:g}", step="x", ago=it) for it in self.made.get(host, ())]
        return tuple(it for it in found if it.ago <= within)

    def last_change(self, host: str) -> RecordedChange | None | Unknown:
        found = self.changes(host, 1e9)
        return found if isinstance(found, Unknown) else min(found, key=lambda it: it.ago, default=None)

    def changed_hosts(self, within: float) -> frozenset[str]:
        return frozenset(host for host, ago in self.made.items() if min(ago) <= within)


EVERY = Limits(
    attempts=Attempts(per_host=2, within=604800.0),
    cooldown=1800.0,
    breaker=Breaker(hosts=Share(number=20.0, percent=True), within=3600.0),
)


def shown(*hosts: str, limits: Limits = EVERY, **ago: tuple[float, ...]) -> list[str]:
    """What is said of *limits* before a run on *hosts* of 15."""
    used = ChangeLimits(limits, Fleet(**ago), "toy", 15).used(hosts)
    applied = Bounds.of(limits, [Host(name=it) for it in hosts]).applied(len(hosts), 0.0, 15)
    return [it.removeprefix("limits:").strip() for it in limit_lines(replace(applied, used=used))]


def test_what_earlier_runs_have_used_up_is_shown_before_a_run():
    """Mutants: ``used`` of one host; attempts of all time; a cooldown that is over; a share of the hosts of this run."""
    assert shown("h1", "h2", "h3", "h4", h1=(600.0, 9000.0), h2=(4000.0,), h3=(1200.0, 700000.0), h9=(60.0,)) == [
        "attempts: 2 per host within 7 d; 2 used on h1; 1 used on h[2-3]",
        "cooldown: 30 min; h[1,3] must rest for 10 min to 20 min",
        "breaker: 3 hosts within 60 min; 3 used",
    ]
    assert shown("h1") == [
        "attempts: 2 per host within 7 d; none used",
        "cooldown: 30 min; no host must rest",
        "breaker: 3 hosts within 60 min; 0 used",
    ]


def test_what_the_records_do_not_say_is_said_once():
    """Mutant: ``used`` without *unknown*."""
    limits = replace(EVERY, breaker=None)
    assert shown("lost", "h1", limits=limits)[-1] == "unknown, so that nothing is changed: a record was edited"
    assert len(shown("lost", "h1", limits=limits)) == 3


def test_limits_within_one_run_say_nothing_of_earlier_ones():
    assert shown("h1", limits=Limits(approvals=1)) == ["approvals: 1"]
