"""The memory of a watcher, as a fold over its events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum
from typing import assert_never

from runbook.dataclass import dataclass
from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import Rule
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Asked,
    Began,
    BreakerReset,
    Ended,
    Faulted,
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

LONGEST_GAP = 180.0
"""Seconds between two readings after which what was seen before does not count as seen all the while; more if the
rule probes less often.
"""
MOST_RUNS = 50
"""The runs of a rule on a host that are remembered, and its episodes that a person has refused."""
MOST_ALERTS = 500
"""The alerts of a host that are remembered."""
MOST_TIMES = 100
"""The times at which a fault began on a host that are remembered."""
ANOTHER_PLAN = 60.0
"""Seconds after which a plan is tried again that could not be made; twice as many after each further try."""
LONGEST_PAUSE = 24 * 3600.0
ALERT_LASTS = 24 * 3600.0
"""Seconds after which an alert that was not heard of again does not count as firing."""


EVERY_HOST = "all"
"""The name in a hold of all hosts: no host is called so, for it is a pattern."""


class Source(StrEnum):
    """Where a trigger comes from."""

    CLOCK = "clock"
    ALERT = "alert"
    PERSON = "person"
    CURE = "cure"
    """A run of another rule has cured the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A hint that something may be wrong with a host; it never says what to do, and gives no arguments."""

    rule: str
    host: str
    source: Source
    episode: str
    """The identity of what may be wrong: the same as long as it lasts."""
    since: float
    """The time when it began."""
    heard: float = 0.0
    """The time when an alert was last heard of; 0: it is no alert."""
    firing: bool = True
    by: str = ""
    """The person who asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRun:
    """A run of a rule on a host."""

    rule: str
    episode: str
    digest: str
    began: float
    ended: float = 0.0
    """0: it is not known to have ended."""
    run: str = ""
    verdict: str = ""
    cured: bool = False
    changed: bool = True
    locked: bool = False
    """Whether nothing was done because another run was at work on the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan that waits."""

    rule: str
    host: str
    episode: str
    digest: str
    file: str
    at: float
    until: float
    risk: Risk
    signature: str
    say: str
    requester: str = ""
    rule_digest: str = ""
    approvals: tuple[tuple[str, float], ...] = ()
    """The people who agreed, each with the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A person's refusal of a plan."""

    episode: str
    by: str
    at: float
    stopped: bool = False
    """Whether the person has interrupted the run of the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A host that people want to be left alone."""

    host: str
    until: float
    by: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMemory:
    """The memory of one host for one rule."""

    alerts: tuple[Trigger, ...] = ()
    asked: Trigger | None = None
    seen: Reading | None = None
    """The last reading that counts."""
    seen_at: float = 0.0
    present_since: float = 0.0
    """The time of the first reading with the fault, since it was last absent; 0: it is absent, or was never seen."""
    present_for: float = 0.0
    """Seconds between readings with the fault; the time around an unknown reading does not count."""
    began: tuple[float, ...] = ()
    """The times at which the fault began."""
    runs: tuple[PastRun, ...] = ()
    proposal: Proposal | None = None
    certain: Presence | None = None
    """The last answer to whether the fault is there; None: there was none."""
    work: str = ""
    """The signature of the last reading with the fault."""
    no_plan: str = ""
    """The reason why no plan could be made for this work."""
    no_plan_tries: int = 0
    no_plan_until: float = 0.0
    """The time at which it is tried again."""
    rejected: tuple[Refusal, ...] = ()
    """The refusals of people."""
    refused: Refusal | None = None
    """The last refusal, if the fault was not seen to be absent since, and no run has changed the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleMemory:
    """The memory of all hosts of one rule."""

    well: int = 0
    """The hosts on which the fault was absent when all were last probed."""
    well_at: float = 0.0
    unwell: frozenset[str] = frozenset()
    """The hosts on which the fault was present or unknown then."""
    changed: tuple[tuple[float, str], ...] = ()
    """The hosts that runs of the rule have changed, each with the time."""
    tripped: str = ""
    """The reason why the breaker has tripped; empty: it has not, or a person has reset it."""
    reset_at: float = 0.0
    reset_by: str = ""
    calm_since: float = 0.0
    """After a reset: the time since which fewer hosts have the fault than the breaker permits to be changed; 0: that
    has lasted long enough, or need not.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """All that a decision about one trigger rests on."""

    is_host_known: bool = True
    host: HostMemory = field(default_factory=HostMemory)
    rule: RuleMemory = field(default_factory=RuleMemory)
    runs_of_others: tuple[PastRun, ...] = ()
    """The runs of other rules on the host."""
    hold: Hold | None = None
    started: float = 0.0
    """The time when the watcher was last started."""
    faulty: int = 0
    """The number of the rule's hosts that have the fault, or for which an alert fires."""
    others_well: int = 0
    """The number of the rule's other hosts that are well, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The state of one host for one rule."""

    rule: str
    host: str
    known: HostMemory
    answer: Answered | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that follows from the events up to one of them."""

    started: float
    holds: tuple[Hold, ...]
    places: tuple[Place, ...]
    rules: Mapping[str, RuleMemory]


Change = Callable[[HostMemory], HostMemory]
ChangeRule = Callable[[RuleMemory], RuleMemory]


class Remembered:
    """Everything that a watcher knows; ``take`` is the only way to change it."""

    def __init__(self, rules: Iterable[Rule], state: State | None = None) -> None:
        """*state* is what was known before; None: nothing."""
        self.rules: Mapping[str, Rule] = {rule.name: rule for rule in rules}
        self.started = state.started if state else 0.0
        self._holds: tuple[Hold, ...] = state.holds if state else ()
        self._hosts: dict[tuple[str, str], HostMemory] = {}
        self._of_host: dict[str, set[str]] = {}
        self._rules: dict[str, RuleMemory] = {}
        self._answers: dict[tuple[str, str], Answered] = {}
        self._faulty: dict[str, dict[str, float]] = {}
        """The hosts that have the fault of each rule, each with the time until which that holds if nothing is heard."""
        if state:
            self._rules |= state.rules
            for place in state.places:
                self._restore(place)

    def _restore(self, place: Place) -> None:
        key = (place.rule, place.host)
        self._change(*key, lambda _: place.known)
        if place.answer:
            self._answers[key] = place.answer
        if until := _faulty_until(place.known):
            self._faulty.setdefault(place.rule, {})[place.host] = until

    def state(self) -> State:
        """Return everything that is known, to go on from there."""
        return State(
            started=self.started,
            holds=self._holds,
            places=tuple(
                Place(rule=rule, host=host, known=known, answer=self._answers.get((rule, host)))
                for (rule, host), known in self._hosts.items()
            ),
            rules=dict(self._rules),
        )

    def memory(self, rule: str, host: str, *, is_host_known: bool = True, at: float = 0.0) -> Memory:
        """Return what a decision about *host* by *rule* rests on at the time *at*; 0: when it last heard something."""
        others = (self.host(other, host).runs for other in sorted(self._of_host.get(host, ())) if other != rule)
        known, faulty = self.rule(rule), self.faulty(rule, at)
        not_well_any_more = (faulty | {host}) - known.unwell
        return Memory(
            is_host_known=is_host_known,
            host=self.host(rule, host),
            rule=known,
            runs_of_others=tuple(run for runs in others for run in runs),
            hold=self.hold(host, at),
            started=self.started,
            faulty=len(faulty),
            others_well=max(0, known.well - len(not_well_any_more)),
        )

    def host(self, rule: str, host: str) -> HostMemory:
        """Return what is known of *host* for *rule*."""
        return self._hosts.get((rule, host), NOTHING)

    def hold(self, host: str, at: float) -> Hold | None:
        """Return the hold of *host*, or of all hosts, that lasts longest, of those that last at the time *at*."""
        found = (each for each in self._holds if each.host in (host, EVERY_HOST) and each.until > at)
        return max(found, key=lambda each: each.until, default=None)

    def holds(self, at: float) -> list[Hold]:
        """Return all holds that last at the time *at*, by host."""
        return sorted((each for each in self._holds if each.until > at), key=lambda each: (each.host, each.until))

    def answer(self, rule: str, host: str) -> Answered | None:
        """Return the last answer about *host* by *rule*; None: there was none."""
        return self._answers.get((rule, host))

    def rule(self, rule: str) -> RuleMemory:
        """Return what is known of all hosts of *rule*."""
        return self._rules.get(rule, NO_HOST)

    def faulty(self, rule: str, at: float = 0.0) -> frozenset[str]:
        """Return the hosts that have the fault of *rule*, as last read, or for which an alert fires at the time *at*.

        0: when it last heard something.
        """
        return frozenset(host for host, until in self._faulty.get(rule, {}).items() if until >= at)

    def proposals(self) -> list[Proposal]:
        """Return the plans that wait for a person, the oldest first; one whose trigger is over does not."""
        found = (known.proposal for (rule, _), known in self._hosts.items() if rule in self.rules)
        live = (each for each in found if each and self.is_live(each.rule, each.host, each.episode))
        return sorted(live, key=lambda each: (each.at, each.host))

    def is_live(self, rule: str, host: str, episode: str) -> bool:
        """Whether there is a trigger of *rule* for *host* with *episode*."""
        return any(each.episode == episode for each in self.triggers(rule, host))

    def running(self, digest: str) -> tuple[str, str] | None:
        """Return the rule and the host of the run of the plan *digest* that is not over; None: there is none."""
        open_runs = (
            place
            for place, known in self._hosts.items()
            for run in known.runs
            if run.digest == digest and not run.ended
        )
        return next(open_runs, None)

    def remembered_hosts(self) -> Iterator[tuple[str, str]]:
        """Yield each rule and host of which something is known."""
        yield from tuple(self._hosts)

    def triggers(self, rule: str, host: str) -> Iterator[Trigger]:
        """Yield the triggers of *rule* for *host* that are not over: of people, of alerts, of the clock."""
        known = self.host(rule, host)
        if known.asked:
            yield known.asked
        yield from (alert for alert in known.alerts if alert.firing)
        there = self.rules.get(rule)
        if there and (there.on.every or there.on.cron) and known.present_since:
            since = known.present_since
            yield Trigger(rule=rule, host=host, source=Source.CLOCK, episode=seen_episode(since), since=since)
        if there and there.on.cured_by and (cured := self._cured(there.on.cured_by, host)):
            episode, since = f"cured@{cured.digest[:16]}", cured.ended + there.on.after
            yield Trigger(rule=rule, host=host, source=Source.CURE, episode=episode, since=since)

    def _begins_again(self, event: Alerted) -> bool:
        """Whether the alert fired before, so that it was over since, although nobody heard of its end."""
        return any(
            each.firing and each.since < event.since and _fingerprint(each.episode) == _fingerprint(event.episode)
            for each in self.host(event.rule, event.host).alerts
        )

    def _sees(self, name: str, host: str) -> bool:
        """Whether probes by the clock see the fault on *host*, so that it goes on whatever an alert says."""
        rule = self.rules.get(name)
        return bool(rule and (rule.on.every or rule.on.cron) and self.host(name, host).present_since)

    def _cured(self, rule: str, host: str) -> PastRun | None:
        """Return the last run of *rule* on *host* if it has cured it, and the fault was not seen again."""
        known = self.host(rule, host)
        last = known.runs[-1] if known.runs else None
        return last if last and last.ended and last.cured and last.changed and not known.present_since else None

    def take(self, event: WatchEvent) -> None:
        """Take in what happened."""
        match event:
            case Started():
                self.started = event.at
                for place in self._hosts:  # time in which nobody probed does not count
                    self._change(*place, lambda it: _started(it, event.at))
                for name in self._rules:
                    self._change_rule(
                        name,
                        lambda it: replace(it, reset_at=min(it.reset_at, event.at), well_at=min(it.well_at, event.at)),
                    )
            case Alerted():
                waiting = self.host(event.rule, event.host).proposal
                if waiting and waiting.episode == event.episode and not event.firing:
                    self._withdraw(event.rule, event.host)
                if (not event.firing or self._begins_again(event)) and not self._sees(event.rule, event.host):
                    self._change(event.rule, event.host, lambda it: replace(it, refused=None))
                self._change(event.rule, event.host, lambda it: _alerted(it, event))
                self._count(event.rule, event.host, event.at)
            case Asked():
                asked = Trigger(
                    rule=event.rule, host=event.host, source=Source.PERSON, episode=f"asked@{event.at:.3f}",
                    since=event.at, by=event.by,
                )  # fmt: skip
                self._change(event.rule, event.host, lambda it: replace(it, asked=asked, no_plan=""))
            case Probed():
                self._probed(event)
            case Proposed():
                self._propose(event)
            case NotProposed():
                self._not_proposed(event)
            case Approved():
                self._change(event.rule, event.host, lambda it: _approved(it, event))
            case Rejected():
                self._change(event.rule, event.host, lambda it: _rejected(it, event))
            case Began():
                self._begin(event)
            case Ended():
                self._end(event)
            case Held():
                made = Hold(host=event.host, until=event.until, by=event.by, why=event.why)
                others = (each for each in self._holds if (each.host, each.by) != (made.host, made.by))
                self._holds = (*(each for each in others if each.until > event.at), made)
            case Released():
                self._holds = tuple(each for each in self._holds if each.host != event.host)
            case Tripped():
                self._change_rule(event.rule, lambda it: replace(it, tripped=event.why))
            case BreakerReset():
                self._change_rule(
                    event.rule,
                    lambda it: replace(
                        it, tripped="", reset_at=event.at, reset_by=event.by, calm_since=event.at, changed=()
                    ),
                )
            case Answered():
                self._answers[(event.rule, event.host)] = event
                self._change(event.rule, event.host, lambda it: _answered(it, event))
            case Stopped():
                self._change(event.rule, event.host, lambda it: _stopped(it, event))
            case Faulted():
                pass
            case _:
                assert_never(event)

    def _change(self, rule: str, host: str, change: Change) -> None:
        self._hosts[(rule, host)] = change(self.host(rule, host))
        self._of_host.setdefault(host, set()).add(rule)

    def _change_rule(self, rule: str, change: ChangeRule) -> None:
        self._rules[rule] = change(self.rule(rule))

    def _withdraw(self, rule: str, host: str) -> None:
        self._change(rule, host, lambda it: replace(it, proposal=None))

    def _not_proposed(self, event: NotProposed) -> None:
        """Take in that no plan could be made; what was asked for by a trigger that is over says nothing of others."""
        waiting = self.host(event.rule, event.host).proposal
        if waiting and waiting.episode == event.episode:
            self._withdraw(event.rule, event.host)
        if self.is_live(event.rule, event.host, event.episode):
            self._change(event.rule, event.host, lambda it: _without_plan(it, event))

    def _propose(self, event: Proposed) -> None:
        made = Proposal(
            rule=event.rule, host=event.host, episode=event.episode, digest=event.digest, file=event.file, at=event.at,
            until=event.until, risk=event.risk, signature=event.signature, say=event.say, requester=event.requester,
            rule_digest=event.rule_digest,
        )  # fmt: skip
        before = self.host(event.rule, event.host).seen
        say = before.say if before else event.say
        seen = Reading(
            host=event.host, presence=Presence.PRESENT, say=say, changes=1, risk=event.risk, signature=event.signature
        )
        self._read(event.rule, seen, event.at, self._gap(event.rule))  # a plan is a probe, too
        if self.is_live(event.rule, event.host, event.episode):  # else it comes too late
            self._change(event.rule, event.host, lambda it: replace(it, proposal=made, no_plan=""))
        self._count(event.rule, event.host, event.at)

    def _probed(self, event: Probed) -> None:
        gap = self._gap(event.rule)
        for reading in event.readings:
            self._read(event.rule, reading, reading.at or event.at, gap)
            self._count(event.rule, reading.host, event.at)
        if event.whole:
            unwell = frozenset(each.host for each in event.readings if each.presence is not Presence.ABSENT)
            self._change_rule(event.rule, lambda it: replace(it, well=event.well, well_at=event.at, unwell=unwell))
        self._calm(event.rule, event.at)

    def _gap(self, name: str) -> float:
        rule = self.rules.get(name)
        return max(LONGEST_GAP, 3 * rule.on.every) if rule else LONGEST_GAP

    def _count(self, rule: str, host: str, at: float) -> None:
        """Count *host* among the hosts that have the fault, or not."""
        faulty, until = self._faulty.setdefault(rule, {}), _faulty_until(self.host(rule, host))
        if until < at:
            faulty.pop(host, None)
        self._calm(rule, at)  # how it was before this host has joined
        if until >= at:
            faulty[host] = until
        self._calm(rule, at)

    def _calm(self, name: str, at: float) -> None:
        rule, known = self.rules.get(name), self.rule(name)
        limit = rule.breaker if rule else None
        if not limit or not known.calm_since:
            return
        if len(self.faulty(name, at)) >= limit.hosts:
            self._change_rule(name, lambda it: replace(it, calm_since=at))
        elif at - known.calm_since >= limit.quiet:
            self._change_rule(name, lambda it: replace(it, calm_since=0.0))

    def _read(self, rule: str, reading: Reading, at: float, gap: float) -> None:
        of_host = (self.host(other, reading.host).runs for other in self._of_host.get(reading.host, ()))
        changed = max((run.ended for runs in of_host for run in runs if run.changed), default=0.0)
        if at >= changed:  # else it says how the host was before
            self._change(rule, reading.host, lambda it: _read(it, reading, at, gap))

    def _begin(self, event: Began) -> None:
        begun = PastRun(
            rule=event.rule, episode=event.episode, digest=event.digest, began=event.at,
        )  # fmt: skip
        self._withdraw(event.rule, event.host)
        self._change(event.rule, event.host, lambda it: replace(it, runs=(*it.runs, begun)[-MOST_RUNS:]))
        self._change_rule(event.rule, lambda it: replace(it, changed=(*it.changed, (event.at, event.host))[-1000:]))

    def _end(self, event: Ended) -> None:
        if all(run.ended or run.digest != event.digest for run in self.host(event.rule, event.host).runs):
            return  # its end is known
        self._change(event.rule, event.host, lambda it: _ended(it, event))
        for other in self._of_host.get(event.host, ()):
            self._change(other, event.host, _unseen)
            self._count(other, event.host, event.at)
        if not event.changed:
            self._change_rule(event.rule, lambda it: replace(it, changed=_without_last(it.changed, event.host)))


def seen_episode(since: float) -> str:
    """Return the identity of a fault that the watcher's own probes have seen since the time *since*."""
    return f"seen@{since:.3f}"


def _without_last(changed: tuple[tuple[float, str], ...], host: str) -> tuple[tuple[float, str], ...]:
    last = max((number for number, (_, name) in enumerate(changed) if name == host), default=-1)
    return tuple(each for number, each in enumerate(changed) if number != last)


def _alerted(known: HostMemory, event: Alerted) -> HostMemory:
    made = Trigger(
        rule=event.rule, host=event.host, source=Source.ALERT, episode=event.episode, since=event.since,
        heard=event.at, firing=event.firing,
    )  # fmt: skip
    before = next((each for each in known.alerts if each.episode == event.episode), None)
    if before and not before.firing:  # a resolved episode stays so, whatever comes late
        return known
    same = [each for each in known.alerts if _fingerprint(each.episode) == _fingerprint(event.episode)]
    if any(each.since > made.since for each in same):  # it has begun again since
        made = replace(made, firing=False)
    over = {each.episode for each in same if each.since < made.since}
    kept = tuple(
        made if each.episode == event.episode else replace(each, firing=False) if each.episode in over else each
        for each in known.alerts
        if each.episode == event.episode or event.at - each.heard <= 2 * ALERT_LASTS
    )
    return replace(known, alerts=(kept if before else (*kept, made))[-MOST_ALERTS:])


def _fingerprint(episode: str) -> str:
    """Return the alert of *episode*, which fires once at a time."""
    return episode.partition("@")[0]


def _read(known: HostMemory, reading: Reading, at: float, gap: float) -> HostMemory:
    """Return *known* after *reading*: a healthy one clears the fault, an unknown one neither counts nor clears."""
    if reading.presence is Presence.PRESENT:
        broken = not known.present_since or at - known.seen_at > gap
        before = known.seen.presence if known.seen else None
        counted = at - known.seen_at if before is Presence.PRESENT and not broken else 0.0
        return replace(
            known,
            seen=reading,
            seen_at=at,
            present_since=at if broken else known.present_since,
            present_for=counted if broken else known.present_for + counted,
            began=known.began if known.certain is Presence.PRESENT else (*known.began, at)[-MOST_TIMES:],
            certain=Presence.PRESENT,
            work=reading.signature,
            no_plan=known.no_plan if known.work == reading.signature else "",
        )
    if reading.presence is Presence.UNKNOWN:
        return replace(known, seen=reading, seen_at=at)
    return replace(
        known,
        seen=reading,
        seen_at=at,
        present_since=0.0,
        present_for=0.0,
        certain=Presence.ABSENT,
        proposal=None,
        no_plan="",
        refused=None,
    )


def _approved(known: HostMemory, event: Approved) -> HostMemory:
    waiting = known.proposal
    if waiting is None or waiting.digest != event.digest:
        return known
    if event.at > waiting.until or any(name == event.by for name, _ in waiting.approvals):
        return known
    return replace(known, proposal=replace(waiting, approvals=(*waiting.approvals, (event.by, event.at))))


def _rejected(known: HostMemory, event: Rejected) -> HostMemory:
    """Return *known* after a refusal; it holds for the episode, also if the plan is another one by now."""
    refused = Refusal(episode=event.episode, by=event.by, at=event.at)
    asked = known.asked if known.asked and known.asked.episode != event.episode else None
    waiting = known.proposal if known.proposal and known.proposal.episode != event.episode else None
    rejected = (*known.rejected, refused)[-MOST_RUNS:]
    return replace(known, proposal=waiting, asked=asked, rejected=rejected, refused=refused)


def _without_plan(known: HostMemory, event: NotProposed) -> HostMemory:
    """Return *known* after a plan could not be made; the pause until the next try grows from try to try."""
    tries = known.no_plan_tries + 1 if known.no_plan else 1
    pause = min(ANOTHER_PLAN * 2 ** (tries - 1), LONGEST_PAUSE)
    return replace(known, no_plan=event.why, no_plan_tries=tries, no_plan_until=event.at + pause)


def _started(known: HostMemory, at: float) -> HostMemory:
    """Return *known* after a start at the time *at*; what lies after it was seen by a clock that was put back since."""
    return replace(
        known,
        seen=None,
        present_for=0.0,
        no_plan="",
        runs=tuple(replace(run, ended=min(run.ended, at)) for run in known.runs),
        proposal=known.proposal if known.proposal and known.proposal.at <= at else None,
    )


def _stopped(known: HostMemory, event: Stopped) -> HostMemory:
    """Return *known* after a person has interrupted a run, who does not want it to be begun again."""
    run = next((run for run in known.runs if run.digest == event.digest and not run.ended), None)
    if run is None:
        return known
    asked = known.asked if known.asked and known.asked.episode != run.episode else None
    return replace(known, asked=asked, refused=Refusal(episode=run.episode, by=event.by, at=event.at, stopped=True))


def _ended(known: HostMemory, event: Ended) -> HostMemory:
    """Return *known* after the end of a run; a question that was asked meanwhile is still one."""
    open_run = next((run for run in known.runs if run.digest == event.digest and not run.ended), None)
    if open_run is None:
        return known
    ended = replace(
        open_run,
        ended=event.at,
        run=event.run,
        verdict=event.verdict,
        cured=event.cured,
        changed=event.changed,
        locked=event.locked,
    )
    return replace(
        known,
        runs=tuple(ended if run is open_run else run for run in known.runs),
        asked=None if known.asked and known.asked.episode == open_run.episode else known.asked,
        certain=Presence.ABSENT if event.cured else known.certain,
        refused=None
        if event.cured or (event.changed and not (known.refused and known.refused.stopped))
        else known.refused,
    )


def _faulty_until(known: HostMemory) -> float:
    """Return the time until which the host counts as faulty; 0: it does not."""
    heard = (alert.heard + ALERT_LASTS for alert in known.alerts if alert.firing)
    return float("inf") if known.present_since else max(heard, default=0.0)


def _answered(known: HostMemory, event: Answered) -> HostMemory:
    over = known.asked and known.asked.episode == event.episode and event.decision in OVER
    return replace(known, asked=None) if over else known


def _unseen(known: HostMemory) -> HostMemory:
    """Return *known* without what was seen before a change of the host."""
    return replace(known, seen=None, seen_at=0.0, present_since=0.0, present_for=0.0)


OVER = ("ignore", "escalate")
"""The decisions after which a person's question is answered."""
NOTHING = HostMemory()
NO_HOST = RuleMemory()
