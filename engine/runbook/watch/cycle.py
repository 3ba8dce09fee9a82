"""Go through all triggers again and again: decide each that is due, hand out the work, and keep what happened."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol, assert_never

from runbook.values.watch_rule import Rule
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Asked,
    Began,
    Ended,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Rejected,
    Released,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import EVERY_HOST, Proposal, Remembered, Source, Trigger
from runbook.watch.policy import (
    Answer,
    Apply,
    Escalate,
    Ignore,
    Probe,
    Propose,
    Question,
    Wait,
    counting_approvals,
    decide,
)

MOST_DECISIONS = 20
"""The decisions of one step: others wait for what a step holds."""
MOST_AT_WORK = 8
"""The plans that are made or carried out at the same time."""
FOREVER = float("inf")

NOTHING_LEFT = "there is nothing to act on any more"
OF_ONE_EPISODE = (Question.FIRING, Question.NEW_EPISODE, Question.OWN_DOING)
"""The questions whose answer says nothing of other triggers for the same host."""
_NUMBERS = re.compile(r"(?:\d[\d.]*(?: (?:ms|s|min|h|d)\b)? ?)+")

Place = tuple[str, str]
"""The name of a rule, and that of a host."""
Identity = tuple[str, str, str]
"""A question, a decision, and its reason without numbers."""


class Work(Protocol):
    """Does what was decided, in the background; each call leads to one event, whatever happens."""

    def probe(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> None:
        """Probe *hosts*; leads to ``Probed`` with a reading of each of them, or, if *whole*, of those that matter."""
        ...

    def plan(self, rule: Rule, trigger: Trigger) -> None:
        """Make a plan for the host of *trigger*; leads to ``Proposed`` or ``NotProposed``."""
        ...

    def apply(self, rule: Rule, proposal: Proposal) -> None:
        """Carry out *proposal*; leads to ``Ended``."""
        ...


class Cycle:
    """The work of a watcher, step by step; it has no clock and no thread of its own."""

    def __init__(
        self,
        remembered: Remembered,
        hosts: Mapping[str, tuple[str, ...]],
        keep: Callable[[WatchEvent], bool],
        work: Work,
        next_cron: Callable[[str, float], float] = lambda text, after: FOREVER,
    ) -> None:
        """Prepare the cycle.  *hosts*: the hosts of each rule.

        *keep* stores an event, or raises; it returns False, and stores nothing, if others have stored something
        meanwhile.  Whatever is stored is taken in by *remembered*, and then handed to ``note``.

        *next_cron* returns the next time of five fields of cron after a time.
        """
        self.remembered, self.hosts = remembered, hosts
        self._keep, self._work, self._next_cron = keep, work, next_cron
        self._due: dict[Place, float] = dict.fromkeys(remembered.remembered_hosts(), 0.0)
        self._clock: dict[str, float] = {}
        self._probing: set[str] = set()
        """The rules with a probe under way."""
        self._at_work: set[Place] = set()
        self._answered: dict[Place, dict[str, Identity]] = {}
        """The last answer to each episode of a place that has a trigger."""
        self._waiting: dict[Place, str] = {}
        """The digest of the plan that waits at a place; empty: none does."""
        for place in self._due:
            if (last := remembered.answer(*place)) and last.why != NOTHING_LEFT:
                self._answered[place] = {last.episode: _identity(last)}
        for plan in remembered.proposals():
            self._waiting[(plan.rule, plan.host)] = plan.digest

    def note(self, event: WatchEvent) -> None:
        """Have decided again what *event*, which is stored and taken in, may have changed."""
        match event:
            case Probed():
                self._probing.discard(event.rule)
                for reading in event.readings:
                    self._due[(event.rule, reading.host)] = 0.0
            case Proposed() | NotProposed() | Ended():
                if isinstance(event, NotProposed):
                    self._waiting[(event.rule, event.host)] = ""
                self._at_work.discard((event.rule, event.host))
                self._due |= {place: 0.0 for place in self._due if place[1] == event.host}
                self._due[(event.rule, event.host)] = 0.0
            case Answered():
                for rule in self.remembered.rules.values():
                    if rule.on.cured_by == event.rule:
                        self._due[(rule.name, event.host)] = 0.0
            case Alerted() | Asked():
                self._due[(event.rule, event.host)] = 0.0
            case Began() | Rejected() | Stopped():  # which say themselves what becomes of the plan
                self._waiting[(event.rule, event.host)] = ""
                self._due |= {place: 0.0 for place in self._due if place[1] == event.host}
            case Approved():
                self._forget_answers((event.rule, event.host))
                self._due[(event.rule, event.host)] = 0.0
            case Held() | Released():
                for place in [place for place in self._due if event.host in (place[1], EVERY_HOST)]:
                    self._forget_answers(place)
                    self._due[place] = 0.0
            case _:
                self._due = dict.fromkeys(self._due, 0.0)

    def know_hosts(self, hosts: Mapping[str, tuple[str, ...]]) -> None:
        """Take *hosts* for the hosts of each rule from now on."""
        if hosts != self.hosts:
            self.hosts = hosts
            self._due = dict.fromkeys(self._due, 0.0)

    def release(self) -> None:
        """Forget the work under way, of which nothing will be heard."""
        self._probing.clear()
        self._at_work.clear()

    def step(self, now: float) -> float:
        """Do what is due at *now*.  Returns the time of the next step, if nothing happens before."""
        self._probe_by_clock(now)
        asked: dict[str, list[str]] = {}
        due = sorted(
            (place for place, at in self._due.items() if at <= now), key=lambda place: (self._due[place], place)
        )
        for place in due[:MOST_DECISIONS]:
            try:
                self._decide(place, now, asked)
            except BaseException:  # perhaps it could not be stored
                self._due[place] = now
                raise
        for rule, hosts in asked.items():
            self._probe(self.remembered.rules[rule], tuple(hosts), whole=False)
        return min([*self._clock.values(), *self._due.values()], default=FOREVER)

    def _probe_by_clock(self, now: float) -> None:
        for rule in self.remembered.rules.values():
            if rule.name not in self._clock:
                self._clock[rule.name] = self._next_by_clock(rule, now, first=True)
            due = self._clock[rule.name]
            if now >= due and rule.name not in self._probing:
                self._clock[rule.name] = self._next_by_clock(rule, now)
                self._probe(rule, self.hosts.get(rule.name, ()), whole=True)
            elif now >= due:  # the one before takes long
                self._clock[rule.name] = now + 1.0

    def _next_by_clock(self, rule: Rule, now: float, *, first: bool = False) -> float:
        every = (now if first else now + rule.on.every) if rule.on.every else FOREVER
        return min(every, self._next_cron(rule.on.cron, now) if rule.on.cron else FOREVER)

    def _probe(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> None:
        if hosts:
            self._probing.add(rule.name)
            self._work.probe(rule, hosts, whole=whole)

    def _decide(self, place: Place, now: float, asked: dict[str, list[str]]) -> None:
        """Decide about each trigger of *place* up to the first that leads to something, or has to wait."""
        name, host = place
        rule = self.remembered.rules.get(name)
        self._due[place] = FOREVER
        if place in self._at_work:
            return
        if not self._note_taken_back(place, now):
            self._due[place] = now
            return
        given: dict[str, Identity] = {}
        last: tuple[Trigger, Answer] | None = None
        for trigger in self.remembered.triggers(name, host):
            known = host in self.hosts.get(name, ())
            memory = self.remembered.memory(name, host, is_host_known=known, at=now)
            answer = decide(rule, trigger, memory, now)
            if (noted := self._note(trigger, answer, now)) is None:
                self._answered[place] = {**self._answered.get(place, {}), **given}
                self._due[place] = now
                return
            is_over = trigger.source is Source.PERSON and isinstance(answer.decision, Ignore | Escalate)
            if not is_over:  # a person's question has one answer
                given[trigger.episode], last = noted, (trigger, answer)
            if isinstance(answer.decision, Ignore):
                continue
            assert rule
            self._act(rule, trigger, answer, now, asked)
            if is_over:
                self._wake(place, now)
            if answer.question not in OF_ONE_EPISODE:
                break
        if self._note_the_last(place, last, given, now):
            self._answered[place] = given
        else:
            self._due[place] = now

    def _note_the_last(
        self, place: Place, last: tuple[Trigger, Answer] | None, given: Mapping[str, Identity], now: float
    ) -> bool:
        """Keep the last answer once more if the one that was kept is about a trigger that is over.

        Returns False if it must be decided again.
        """
        if last is None:
            return not self._answered.get(place) or self._said(place, now, NOTHING_LEFT)
        stored = self.remembered.answer(*place)
        return stored is None or stored.episode in given or self._keep(_answered(*last, now))

    def _note_taken_back(self, place: Place, now: float) -> bool:
        """Keep that the plan which waited at *place* does not any more; returns False if it must be decided again."""
        known, before = self.remembered.host(*place), self._waiting.get(place, "")
        plan = known.proposal
        is_live = plan is not None and self.remembered.is_live(*place, plan.episode)
        if before and not is_live and all(run.digest != before for run in known.runs):
            if not self._said(place, now, f"plan {before[:8]} is taken back"):
                return False
            self._forget_answers(place)
        self._waiting[place] = plan.digest if plan and is_live else ""
        return True

    def _said(self, place: Place, now: float, why: str) -> bool:
        """Keep *why* as the answer at *place*; returns False if it must be decided again."""
        rule, host = place
        made = Answered(at=now, rule=rule, host=host, episode="", question=Question.FIRING, decision="ignore", why=why)
        return self._keep(made)

    def _forget_answers(self, place: Place) -> None:
        """Have the next answers at *place* kept, also if they are as before."""
        self._answered[place] = dict.fromkeys(self._answered.get(place, {}), ("", "", ""))

    def _wake(self, place: Place, at: float) -> None:
        """Decide about *place* at the time *at*, if not before."""
        self._due[place] = min(self._due[place], at)

    def _act(self, rule: Rule, trigger: Trigger, answer: Answer, now: float, asked: dict[str, list[str]]) -> None:
        place = (rule.name, trigger.host)
        match answer.decision:
            case Wait(until=until):
                self._wake(place, max(until, now + 1.0))
            case Probe() if rule.name in self._probing or (rule.name in asked and trigger.host in asked[rule.name]):
                self._wake(place, now + 1.0)
            case Probe():
                asked.setdefault(rule.name, []).append(trigger.host)
            case Propose() | Apply() if len(self._at_work) >= MOST_AT_WORK:
                self._wake(place, now + 1.0)
            case Propose():
                self._at_work.add(place)
                self._work.plan(rule, trigger)
            case Apply():
                self._apply(rule, trigger, now)
            case Escalate(until=until, why=why):
                if answer.question is Question.BREAKER and not self.remembered.rule(rule.name).tripped:
                    tripped = Tripped(at=now, rule=rule.name, why=why.removeprefix("the breaker trips: "))
                    until = until if self._keep(tripped) else now
                self._wake(place, until)
            case Ignore():
                pass
            case _:
                assert_never(answer.decision)

    def _apply(self, rule: Rule, trigger: Trigger, now: float) -> None:
        proposal = self.remembered.host(rule.name, trigger.host).proposal
        assert proposal
        began = Began(
            at=now,
            rule=rule.name,
            host=trigger.host,
            episode=trigger.episode,
            digest=proposal.digest,
            approved_by=counting_approvals(rule, proposal),
        )
        if not self._keep(began):  # a hold, perhaps
            self._wake((rule.name, trigger.host), now)
            return
        self._at_work.add((rule.name, trigger.host))
        self._work.apply(rule, proposal)

    def _note(self, trigger: Trigger, answer: Answer, now: float) -> Identity | None:
        """Keep *answer* if it is another one than the last to this trigger.

        Returns what tells it from others; None: something was stored meanwhile, so that it must be decided again.
        """
        made = _answered(trigger, answer, now)
        identity = _identity(made)
        is_new = self._answered.get((trigger.rule, trigger.host), {}).get(trigger.episode) != identity
        return None if is_new and not self._keep(made) else identity


def _answered(trigger: Trigger, answer: Answer, now: float) -> Answered:
    decision = answer.decision
    return Answered(
        at=now,
        rule=trigger.rule,
        host=trigger.host,
        episode=trigger.episode,
        question=answer.question,
        decision=type(decision).__name__.lower(),
        why=decision.why,
        until=decision.until if isinstance(decision, Wait) and decision.until < FOREVER else 0.0,
    )


def _identity(answer: Answered) -> Identity:
    """Return what tells *answer* from others: not the numbers in its reason, which move with the clock."""
    return answer.question, answer.decision, _NUMBERS.sub("#", answer.why)
