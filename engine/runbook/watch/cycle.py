"""Go through all triggers again and again: decide each that is due, hand out the work, and keep what happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, assert_never

from runbook.values.watch_rule import Rule
from runbook.watch.events import (
    Alerted,
    Answered,
    Asked,
    Began,
    Ended,
    NotProposed,
    Probed,
    Proposed,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import Proposal, Remembered, Trigger
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

Place = tuple[str, str]
"""The name of a rule, and that of a host."""


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
        keep: Callable[[WatchEvent], None],
        work: Work,
        next_cron: Callable[[str, float], float] = lambda text, after: FOREVER,
    ) -> None:
        """Prepare the cycle.  *hosts*: the hosts of each rule.

        *keep* stores an event, or raises.  Whatever is stored, also by others, is taken in by *remembered*, and then
        handed to ``note``.

        *next_cron* returns the next time of five fields of cron after a time.
        """
        self.remembered, self.hosts = remembered, hosts
        self._keep, self._work, self._next_cron = keep, work, next_cron
        self._due: dict[Place, float] = dict.fromkeys(remembered.remembered_hosts(), 0.0)
        self._clock: dict[str, float] = {}
        self._probing: set[str] = set()
        """The rules with a probe under way."""
        self._at_work: set[Place] = set()
        self._answered: dict[Place, dict[str, tuple[str, str]]] = {}
        """The last answer to each episode of a place that has a trigger."""
        self._waiting: dict[Place, str] = {}
        """The digest of the plan that waits at a place; empty: none does."""

    def note(self, event: WatchEvent) -> None:
        """Have decided again what *event*, which is stored and taken in, may have changed."""
        match event:
            case Probed():
                self._probing.discard(event.rule)
                for reading in event.readings:
                    self._due[(event.rule, reading.host)] = 0.0
            case Proposed() | NotProposed() | Ended():
                self._at_work.discard((event.rule, event.host))
                self._due |= {place: 0.0 for place in self._due if place[1] == event.host}
                self._due[(event.rule, event.host)] = 0.0
            case Answered():
                for rule in self.remembered.rules.values():
                    if rule.on.cured_by == event.rule:
                        self._due[(rule.name, event.host)] = 0.0
            case Alerted() | Asked() | Began():
                self._due[(event.rule, event.host)] = 0.0
            case _:  # a person's word may concern every host
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
            self._decide(place, now, asked)
        for rule, hosts in asked.items():
            self._probe(self.remembered.rules[rule], tuple(hosts), whole=False)
        return min([*self._clock.values(), *self._due.values()], default=FOREVER)

    def _probe_by_clock(self, now: float) -> None:
        for rule in self.remembered.rules.values():
            due = self._clock.setdefault(rule.name, self._next_by_clock(rule, now, first=True))
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
        """Decide about the first trigger of *place* that leads to something; those that lead to nothing are skipped."""
        name, host = place
        rule = self.remembered.rules.get(name)
        if place in self._at_work:
            self._due[place] = FOREVER
            return
        given: dict[str, tuple[str, str]] = {}
        for trigger in self.remembered.triggers(name, host):
            known = host in self.hosts.get(name, ())
            memory = self.remembered.memory(name, host, is_host_known=known, at=now)
            answer = decide(rule, trigger, memory, now)
            given[trigger.episode] = self._note(trigger, answer, now)
            if not isinstance(answer.decision, Ignore):
                assert rule
                self._due[place] = FOREVER
                self._act(rule, trigger, answer, now, asked)
                break
        else:
            self._due[place] = FOREVER
        self._note_end(place, given, now)
        self._answered[place] = given

    def _note_end(self, place: Place, given: Mapping[str, tuple[str, str]], now: float) -> None:
        """Keep that there is nothing to decide about *place* any more, or that the plan that waited is gone."""
        name, host = place
        known, before = self.remembered.host(name, host), self._waiting.get(place, "")
        self._waiting[place] = known.proposal.digest if known.proposal else ""
        taken_back = before and not known.proposal and all(run.digest != before for run in known.runs)
        last = self._answered.get(place, {})
        is_over = last and not given
        if not is_over and not taken_back:
            return
        words = "there is nothing to act on any more" if is_over else "it is decided again"
        back = f"plan {before[:8]} is taken back; " if taken_back else ""
        episode = next(iter({**last, **given}), "")
        self._keep(
            Answered(
                at=now, rule=name, host=host, episode=episode, question=Question.FIRING, decision="ignore",
                why=f"{back}{words}",
            )
        )  # fmt: skip

    def _act(self, rule: Rule, trigger: Trigger, answer: Answer, now: float, asked: dict[str, list[str]]) -> None:
        place = (rule.name, trigger.host)
        match answer.decision:
            case Wait(until=until):
                self._due[place] = max(until, now + 1.0)
            case Probe() if rule.name in self._probing or (rule.name in asked and trigger.host in asked[rule.name]):
                self._due[place] = now + 1.0
            case Probe():
                asked.setdefault(rule.name, []).append(trigger.host)
            case Propose() | Apply() if len(self._at_work) >= MOST_AT_WORK:
                self._due[place] = now + 1.0
            case Propose():
                self._at_work.add(place)
                self._work.plan(rule, trigger)
            case Apply():
                self._apply(rule, trigger, now)
            case Escalate(why=why):
                if answer.question is Question.BREAKER and not self.remembered.rule(rule.name).tripped:
                    self._keep(Tripped(at=now, rule=rule.name, why=why.removeprefix("the breaker trips: ")))
                self._due[place] = FOREVER
            case Ignore():
                pass
            case _:
                assert_never(answer.decision)

    def _apply(self, rule: Rule, trigger: Trigger, now: float) -> None:
        proposal = self.remembered.host(rule.name, trigger.host).proposal
        assert proposal
        self._keep(
            Began(
                at=now,
                rule=rule.name,
                host=trigger.host,
                episode=trigger.episode,
                digest=proposal.digest,
                approved_by=counting_approvals(rule, proposal),
            )
        )
        self._at_work.add((rule.name, trigger.host))
        self._work.apply(rule, proposal)

    def _note(self, trigger: Trigger, answer: Answer, now: float) -> tuple[str, str]:
        """Keep *answer* if it is another one than the last to this trigger.  Returns what tells it from others."""
        decision = answer.decision
        made = Answered(
            at=now,
            rule=trigger.rule,
            host=trigger.host,
            episode=trigger.episode,
            question=answer.question,
            decision=type(decision).__name__.lower(),
            why=decision.why,
            until=decision.until if isinstance(decision, Wait) and decision.until < FOREVER else 0.0,
        )
        is_word = answer.question is Question.FREEZE  # of a person, which may change
        identity = (made.question, f"{made.decision} {made.why} {made.until}" if is_word else made.decision)
        if self._answered.get((trigger.rule, trigger.host), {}).get(trigger.episode) != identity:
            self._keep(made)
        return identity
