"""Random histories of a watcher: people, alerts, faults and restarts in any order, and what must hold whatever happens."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from runbook.language.watch_rules import load_rule
from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import Rule, Then
from runbook.watch.cycle import OF_ONE_EPISODE
from runbook.watch.events import (
    Alerted,
    Approved,
    Asked,
    Began,
    BreakerReset,
    Ended,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Rejected,
    Released,
    Started,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import EVERY_HOST, Proposal, Trigger
from runbook.watch.policy import Answer, Apply, Escalate, Ignore, Probe, Propose, Wait, decide
from tests.watch.virtual_fleet import T0, SimulatedHost, VirtualFleet

APPLIES = "then: apply\nrisk: kills-processes\n"
KINDS = (
    f"on: {{alert: A}}\n{APPLIES}",
    f"on: {{alert: A, every: 60s}}\n{APPLIES}cooldown: 5m\n",
    "on: {alert: A, every: 60s}\napprove: {count: 2, not: requester, within: 1h}\n",
    "on: {alert: A}\nfor: 3m\n",
    f"on: {{every: 60s}}\nfor: 2m\n{APPLIES}keep: 1\nbreaker: {{hosts: 2, within: 1h, quiet: 5m}}\n",
    f"on: {{every: 60s}}\n{APPLIES}attempts: {{count: 2, within: 1h}}\nineffective: 0\n",
    f"on: {{alert: A}}\n{APPLIES}breaker: {{hosts: 2, within: 1h, quiet: 5m}}\n",
)
PEOPLE = ("ann", "bob", "carl")
FOREVER = float("inf")
MOST_STEPS = 20_000


class Fleet(VirtualFleet):
    """A fleet whose plans and runs take any time, and fail now and then."""

    def __init__(self, rules: list[Rule], hosts: dict[str, SimulatedHost], chance: random.Random) -> None:
        self.chance = chance
        super().__init__(rules, hosts)

    def plan(self, rule: Rule, trigger: Trigger) -> None:
        number = next(self._number)

        def made() -> WatchEvent:
            host = self.hosts[trigger.host]
            if self.chance.random() < 0.2 or not host.faulty or not host.answers:
                return NotProposed(at=self.now, rule=rule.name, host=trigger.host, episode=trigger.episode, why="no")
            return Proposed(
                at=self.now, rule=rule.name, host=trigger.host, episode=trigger.episode, digest=f"{number:064x}",
                file="f", until=self.now + rule.approve.within, risk=host.risk, signature=host.work, say="s",
                requester=trigger.by, rule_digest=rule.digest,
            )  # fmt: skip

        self._after(self.chance.choice([0.5, 2, 20, 100]), made)

    def apply(self, rule: Rule, proposal: Proposal) -> None:
        host, how = (
            self.hosts[proposal.host],
            self.chance.choice(["cures", "cures", "cures", "fails", "blocked", "locked"]),
        )
        host.runs.append(self.now)

        def ended() -> WatchEvent:
            if how == "cures":
                host.faulty = False
            return self.end(rule.name, proposal.host, proposal.digest, how)

        self._after(self.chance.choice([1, 5, 60, 400]), ended)

    def end(self, rule: str, host: str, digest: str, how: str) -> Ended:
        return Ended(
            at=self.now, rule=rule, host=host, digest=digest, run="r", verdict="v", cured=how == "cures",
            changed=how in ("cures", "fails"), locked=how == "locked",
        )  # fmt: skip

    def follow(self) -> None:
        """Let the ends of the runs be heard that an earlier watcher began."""
        for rule, host in self.cycle.remembered.remembered_hosts():
            for run in self.cycle.remembered.host(rule, host).runs:
                if not run.ended:
                    how = self.chance.choice(["cures", "fails"])
                    self._after(
                        self.chance.choice([0.1, 100]),
                        lambda rule=rule, host=host, run=run, how=how: self.end(rule, host, run.digest, how),  # type: ignore[misc]
                    )


class History:
    """What happened up to a run, as far as it says whether the run was permitted."""

    def __init__(self, events: list[WatchEvent], began: Began) -> None:
        self.before, self.began = events, began

    def of(self, *kinds: type) -> list[WatchEvent]:
        """Return the events of *kinds* about the host of the run, by its rule."""
        rule, host = self.began.rule, self.began.host
        return [
            each
            for each in self.before
            if isinstance(each, kinds) and getattr(each, "rule", rule) == rule and getattr(each, "host", host) == host
        ]

    def wrong(self, rule: Rule) -> Iterator[str]:
        """Yield the reasons why the run should not have been begun."""
        began, host = self.began, self.began.host
        holds: dict[tuple[str, str], float] = {}
        running: set[str] = set()
        for each in self.before:
            match each:
                case Held():
                    holds[(each.host, each.by)] = each.until
                case Released():
                    holds = {key: until for key, until in holds.items() if key[0] != each.host}
                case Began(host=other) if other == host:
                    running.add(each.digest)
                case Ended(host=other) if other == host:
                    running.discard(each.digest)
        if any(name in (host, EVERY_HOST) and until > began.at for (name, _), until in holds.items()):
            yield "a hold"
        if running:
            yield "another run is at work"
        plan = self.of(Proposed)[-1]
        assert isinstance(plan, Proposed)
        if plan.digest != began.digest or plan.episode != began.episode or began.at > plan.until:
            yield "not the plan that waits"
        if any(getattr(each, "episode", "") == began.episode for each in self.of(Rejected)):
            yield "a refusal"
        changed = {each.digest for each in self.of(Ended) if isinstance(each, Ended) and each.changed}
        if any(
            isinstance(each, Began) and each.episode == began.episode and each.digest in changed
            for each in self.of(Began)
        ):
            yield "the episode was acted upon"
        if any(
            isinstance(each, Alerted) and each.episode == began.episode and not each.firing for each in self.of(Alerted)
        ):
            yield "the alert is resolved"
        words = [each for each in self.before if isinstance(each, Tripped | BreakerReset) and each.rule == began.rule]
        if words and isinstance(words[-1], Tripped):
            yield "the breaker has tripped"
        seen = self.seen()
        if began.at - seen > 30.01:
            yield "not just seen"
        if rule.then is Then.APPLY and rule.risk.at_least(plan.risk):
            return
        words_of = {
            each.by: each.at for each in self.of(Approved) if isinstance(each, Approved) and each.digest == plan.digest
        }
        good = {by for by in words_of if rule.approve.requester_counts or by != plan.requester}
        if len(good) < rule.approve.count:
            yield "not approved"
        if any(at > seen for at in words_of.values()):
            yield "not seen since the approval"

    def seen(self) -> float:
        """Return when the fault was last seen, with nothing that ends what was seen after it."""
        seen = 0.0
        for each in self.before:
            match each:
                case Started():
                    seen = 0.0
                case Ended(host=host) if host == self.began.host:
                    seen = 0.0
                case Proposed(rule=rule, host=host) if (rule, host) == (self.began.rule, self.began.host):
                    seen = each.at
                case Probed(rule=rule) if rule == self.began.rule:
                    for reading in each.readings:
                        if reading.host == self.began.host:
                            seen = each.at if reading.presence is Presence.PRESENT else 0.0
        return seen


def history(seed: int) -> tuple[Fleet, list[str]]:
    """Let anything happen, in an order that follows from *seed*; returns the fleet and what was wrong."""
    chance = random.Random(seed)
    texts = chance.sample(KINDS, chance.choice([1, 1, 2]))
    rules = [_rule(f"r{number}", text) for number, text in enumerate(texts)]
    if chance.random() < 0.2:
        rules.append(_rule("probation", "on: {cured_by: r0, after: 5m}\n"))
    it = Fleet(rules, {f"h{number}": SimulatedHost() for number in range(chance.choice([1, 2, 4]))}, chance)
    it.probe_takes = chance.choice([0.5, 3, 50])
    wrong: list[str] = []

    def looked_at(event: WatchEvent) -> None:
        if isinstance(event, Began):
            about = f"{event.rule} {event.host} at {event.at - T0:.1f}"
            wrong.extend(f"{about}: {why}" for why in History(it.kept[:-1], event).wrong(it.rules[event.rule]))

    it.after_store = looked_at
    lasts = chance.choice([1500, 4000, 9000])
    alerts: list[Alerted] = []
    for _ in range(chance.choice([5, 15, 40])):
        it.at(chance.uniform(0, lasts), lambda: _something(it, chance, alerts))

    def calm() -> None:
        for host in it.hosts.values():
            host.answers = True
        for name in (*it.hosts, EVERY_HOST):
            it.say(Released(at=it.now, host=name, by="ann"))

    it.at(lasts + 1, calm)
    it.run_until(lasts + 1500)
    if it.steps > MOST_STEPS:
        wrong.append(f"{it.steps} steps: the cycle runs in circles")
    return it, [*wrong, *_at_rest(it)]


def _rule(name: str, text: str) -> Rule:
    return load_rule(f"name: {name}\nplaybook: stuck-node\nhosts: all\n{text}", f"{name}.yaml")


def _something(it: Fleet, chance: random.Random, alerts: list[Alerted]) -> None:
    """Let one thing happen: to a host, by Alertmanager, by a person, or to the watcher."""
    name, rule, by, now = chance.choice([*it.hosts]), chance.choice([*it.rules]), chance.choice(PEOPLE), it.now
    host, plans = it.hosts[name], it.cycle.remembered.proposals()
    plan = chance.choice(plans) if plans else None
    runs = [run for run in it.cycle.remembered.host(rule, name).runs if not run.ended]
    place = chance.choice([name, EVERY_HOST])

    def sometimes_faulty() -> None:
        host.faulty = chance.random() < 0.7

    def alerted() -> None:
        if alerts and chance.random() < 0.5:
            it.say(replace(chance.choice(alerts), at=now, firing=chance.random() < 0.4))
            return
        since = now - chance.choice([0, 1, 30, 600])
        episode = f"fp{chance.randrange(len(alerts) + 1)}@{len(alerts)}"
        alerts.append(Alerted(at=now, rule=rule, host=name, episode=episode, since=since, firing=True))
        it.say(alerts[-1])

    def restarted() -> None:
        it.restart()
        it.follow()

    def says(event: WatchEvent | None) -> Callable[[], object]:
        return lambda: it.say(event) if event else None

    what: dict[Callable[[], object], int] = {
        sometimes_faulty: 20,
        lambda: setattr(host, "answers", not host.answers): 5,
        lambda: setattr(host, "work", chance.choice("abc")): 4,
        lambda: setattr(host, "risk", chance.choice([Risk.KILLS_PROCESSES, Risk.REBOOTS])): 4,
        alerted: 17,
        says(Asked(at=now, rule=rule, host=name, by=by)): 8,
        says(plan and Approved(at=now, rule=plan.rule, host=plan.host, digest=plan.digest, by=by)): 17,
        says(
            plan and Rejected(at=now, rule=plan.rule, host=plan.host, episode=plan.episode, digest=plan.digest, by=by)
        ): 5,
        says(Held(at=now, host=place, until=now + chance.choice([10, 600]), by=by)): 5,
        says(Released(at=now, host=place, by=by)): 5,
        says(BreakerReset(at=now, rule=rule, by=by)): 4,
        says(Stopped(at=now, rule=rule, host=name, digest=runs[-1].digest, by=by) if runs else None): 3,
        restarted: 3,
    }
    chance.choices([*what], [*what.values()])[0]()


def _at_rest(it: Fleet) -> Iterator[str]:
    """Yield what is wrong when nothing has happened for long: work that nobody takes up, and answers that are untrue."""
    cycle, known, now = it.cycle, it.cycle.remembered, it.now
    for rule, host in {*known.remembered_hosts(), *((rule, host) for rule in it.rules for host in it.hosts)}:
        if (rule, host) in cycle._at_work or rule in cycle._probing:
            continue
        due, said = cycle._due.get((rule, host), FOREVER), known.answer(rule, host)
        answers: list[Answer] = []
        for trigger in known.triggers(rule, host):
            answers.append(decide(it.rules[rule], trigger, known.memory(rule, host, at=now), now))
            decision = answers[-1].decision
            if isinstance(decision, Propose | Apply | Probe) and due == FOREVER and not _is_quiet(trigger, decision):
                yield f"{rule} {host}: nobody takes up {decision} ({trigger.source}), last said {said}"
            if isinstance(decision, Wait | Escalate) and decision.until < FOREVER and due > decision.until + 61:
                yield f"{rule} {host}: is not decided again at the end of {decision}"
            if not isinstance(decision, Ignore) and answers[-1].question not in OF_ONE_EPISODE:
                break
        if answers and said and due > now + 1.1:
            true = {(str(each.question), type(each.decision).__name__.lower()) for each in answers}
            if said.decision == "escalate" and any(decision == "escalate" for _, decision in true):
                continue  # a person has to look, for whichever reason
            if (said.question, said.decision) not in true and not any(
                isinstance(each.decision, Probe) for each in answers
            ):
                yield f"{rule} {host}: said {said.question} {said.decision} {said.why}, but {answers}"
        if said and not answers and said.decision in ("wait", "probe", "propose", "apply"):
            yield f"{rule} {host}: says {said.question} {said.decision} {said.why} about nothing"
    for plan in known.proposals():
        if plan.until > now and all(each.episode != plan.episode for each in known.triggers(plan.rule, plan.host)):
            yield f"{plan.rule} {plan.host}: a plan waits for an episode that is over"


def _is_quiet(trigger: Trigger, decision: object) -> bool:
    """Whether a reading is only old: the clock probes again, and what it has cured is not asked about for ever."""
    return isinstance(decision, Probe) and trigger.source in ("clock", "cure")


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(120), id="gate"),
        pytest.param(range(1000, 6000), id="soak", marks=[pytest.mark.soak, pytest.mark.longest]),
    ],
)
def test_whatever_happens_nothing_is_done_that_must_not_be_and_nothing_is_forgotten(seeds):
    """Mutants: a limit of the policy that does not hold; a place that is not decided again; an answer that stays."""
    found = {seed: wrong for seed in seeds if (wrong := history(seed)[1])}
    assert found == {}
