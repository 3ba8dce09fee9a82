"""What a watcher knows follows from its events alone, and it changes a host only under the conditions of its rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, get_args, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.codec import from_json, to_json
from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import Approve, During, Freeze, Rule, RuleBreaker, Sources, Then, Times, Window
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
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import Refusal, Remembered, Source, Trigger
from runbook.watch.policy import JUST_NOW, Apply, answers, decide
from runbook.watch.windows import closed_by
from tests.watch.short_events import event

T0 = 1_800_000_000.0
"""2027-01-15 08:00 UTC, a Friday."""
HOSTS = ("gpu-01", "gpu-02", "gpu-03")
PEOPLE = ("ann", "bob", "carol")
WINDOW = Window(days=(0, 1, 2, 3, 4, 5, 6), begins=7 * 60, ends=5 * 60, text="07:00-05:00")
FREEZE = Freeze(begins="2027-01-15T10:00", ends="2027-01-15T11:00", text="2027-01-15 10:00 to 2027-01-15 11:00")
RULES = {
    "applies": Rule(
        name="applies", playbook="p", hosts="all", on=Sources(alert="A", every=60.0), then=Then.APPLY,
        risk=Risk.KILLS_PROCESSES, cooldown=300.0, during=During(windows=(WINDOW,), freeze=(FREEZE,)),
        breaker=RuleBreaker(hosts=2, within=3600.0, quiet=60.0), attempts=Times(count=3, within=86400.0), ineffective=2,
    ),
    "proposes": Rule(
        name="proposes", playbook="p", hosts="all", on=Sources(alert="B", every=30.0), then=Then.PROPOSE,
        approve=Approve(by=("ann", "bob"), count=2), ineffective=0,
    ),
    "asks-others": Rule(
        name="asks-others", playbook="p", hosts="all", on=Sources(alert="C"), then=Then.APPLY, risk=Risk.EDITS_FILES,
        approve=Approve(requester_counts=False), sustained=5.0, keep=1, ineffective=0,
    ),
    "probes": Rule(name="probes", playbook="p", hosts="all", on=Sources(every=60.0), then=Then.PROBE),
}  # fmt: skip
GONE = "gone"
"""The name of a rule of which there are events only."""

GAPS = (0.0, 1.0, 5.0, 10.0, 25.0, 31.0, 60.0, 181.0, 400.0, 4000.0)
Step = tuple[float, str, str, int]
"""Seconds since the step before, what happens, the host, and a number that chooses the rest."""


class Story:
    """A row of events, each of which may follow from those before: a plan is made for a trigger, a run for a plan."""

    def __init__(self, rule: str) -> None:
        self.rule, self.now, self.events = rule, T0, list[WatchEvent]()
        self.remembered = Remembered(RULES.values())

    def step(self, gap: float, word: str, host: str, number: int) -> None:
        """Let something happen; ``prepared`` is all that a change needs, but for what forbids it."""
        self.now += gap
        if word == "prepared":
            self.step(0.0, "ready", host, number)
            self.step(6.0, "agreed", host, number)
            return
        for made in self.what_happens(word, host, number):
            self.events.append(made)
            self.remembered.take(made)

    def what_happens(self, word: str, host: str, number: int) -> Iterator[WatchEvent]:
        """Yield the events of the step *word*."""
        at, rule, by = self.now, self.rule, PEOPLE[number % 3]
        known = self.remembered.host(rule, host)
        plan, open_run = known.proposal, next((run for run in known.runs if not run.ended), None)
        triggers = list(self.remembered.triggers(rule, host))
        trigger = triggers[number % len(triggers)] if triggers else None
        digest = plan.digest if plan and number else f"{len(self.events):064x}"
        if number == 5:  # of any plan before, also one that was refused or carried out
            digest = next((each.digest for each in self.events[::-1] if isinstance(each, Proposed)), digest)
        reading = Reading(
            host=host, presence=Presence.PRESENT, changes=1, risk=Risk.KILLS_PROCESSES, signature="ab"[number % 7 == 6]
        )
        match word:
            case "started":
                yield Started(at=at)
            case "alert" | "resolved":
                yield Alerted(
                    at=at, rule=rule, host=host, episode=f"a{number % 3}", since=at - number, firing=word == "alert"
                )
            case "asked":
                yield Asked(at=at, rule=rule, host=host, by=by)
            case "present":
                yield Probed(at=at, rule=rule, readings=(reading,), well=number % 3, whole=number % 2 == 0)
            case "absent" | "unknown" | "gone":
                yield Probed(at=at, rule=rule, readings=(Reading(host=host, presence=Presence(word)),), whole=False)
            case "plan":
                yield Proposed(
                    at=at,
                    rule=rule,
                    host=host,
                    episode=trigger.episode if trigger else "a0",
                    digest=f"{len(self.events):064x}",
                    file="f",
                    until=at + (600.0, 30.0, -1.0)[number % 3 if number < 3 else 0],
                    risk=list(Risk)[2 + (number % 5 == 4)],
                    signature=known.seen.signature if known.seen else "a",
                    say="s",
                    requester=by if number % 2 else "",
                )
            case "no-plan":
                yield NotProposed(at=at, rule=rule, host=host, episode=trigger.episode if trigger else "a0", why="no")
            case "approved":
                yield Approved(at=at, rule=rule, host=host, digest=digest, by=by)
            case "rejected":
                episode = plan.episode if plan else "a0"
                yield Rejected(at=at, rule=rule, host=host, episode=episode, digest=digest, by=by)
            case "began":
                yield Began(at=at, rule=rule, host=host, episode=trigger.episode if trigger else "a0", digest=digest)
            case "ended":
                yield Ended(
                    at=at,
                    rule=rule,
                    host=host,
                    digest=open_run.digest if open_run else digest,
                    run="r",
                    verdict="v",
                    cured=number % 3 == 0,
                    changed=number % 3 != 2,
                    locked=number % 3 == 2,
                )
            case "held":
                yield Held(at=at, host=host, until=at + 60.0 * number, by=by)
            case "released":
                yield Released(at=at, host=host, by=by)
            case "tripped":
                yield Tripped(at=at, rule=rule, why="w")
            case "reset":
                yield BreakerReset(at=at, rule=rule, by=by)
            case "answered":
                words = ("ignore", "wait", "escalate")
                yield Answered(
                    at=at,
                    rule=rule,
                    host=host,
                    episode=trigger.episode if trigger else "",
                    question="",
                    decision=words[number % 3],
                    why="",
                )
            case "ready":  # what leads to a change, so that many stories come to one
                yield Alerted(at=at, rule=rule, host=host, episode=f"b{len(self.events)}", since=at, firing=True)
                yield from self.what_happens("present", host, 4)
            case "agreed":
                made = next(iter(self.what_happens("plan", host, 3 * (number % 2))))
                yield made
                yield from (
                    Approved(at=at, rule=rule, host=host, digest=made.digest, by=name)
                    for name in PEOPLE[: 1 + number % 3]
                )
                yield from self.what_happens("present", host, 4)
            case "other":
                other = "applies" if rule == "proposes" else "proposes"
                run = next((run for run in self.remembered.host(other, host).runs if not run.ended), None)
                if run:
                    yield Ended(
                        at=at, rule=other, host=host, digest=run.digest, run="r", verdict="v", cured=True, changed=True
                    )
                else:
                    yield Began(at=at, rule=other, host=host, episode="o", digest=f"{len(self.events):064x}")
            case _:
                raise AssertionError(word)  # fmt: skip


WORDS = (
    *["prepared"] * 8,
    *("present", "ready", "agreed", "absent", "unknown", "gone", "alert", "resolved", "asked", "started"),
    *("plan", "no-plan", "approved", "rejected", "began", "ended", "held", "released", "tripped", "reset"),
    *("answered", "other"),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(GAPS), st.sampled_from(WORDS), st.sampled_from(HOSTS), st.integers(0, 6)), max_size=20
)
NAMES = st.sampled_from([*RULES, GONE])


def story(rule: str, steps: Sequence[Step]) -> Story:
    """Return the story in which *steps* happen."""
    made = Story(rule)
    made.step(0.0, "started", HOSTS[0], 0)
    for step in steps:
        made.step(*step)
    return made


def all_known(remembered: Remembered) -> dict[str, Any]:
    """Return everything that *remembered* tells."""
    places = sorted((rule, host) for rule in [*RULES, GONE] for host in HOSTS)
    return {
        "memory": [remembered.memory(*place) for place in places],
        "triggers": [list(remembered.triggers(*place)) for place in places],
        "answers": [remembered.answer(*place) for place in places],
        "faulty": [remembered.faulty(rule) for rule in [*RULES, GONE]],
        "hosts": sorted(remembered.remembered_hosts()),
        "proposals": remembered.proposals(),
    }


def folded(*rows: Sequence[WatchEvent]) -> Remembered:
    """Return what is known after all events of *rows*."""
    made = Remembered(RULES.values())
    for row in rows:
        for each in row:
            made.take(each)
    return made


@settings(max_examples=150)
@given(NAMES, STEPS, st.integers(0, 40))
def test_what_was_known_before_a_restart_is_known_after_it(rule, steps, cut):
    """Mutants: a field of ``Remembered`` that ``take`` does not fill; a random or a present time in memory.py."""
    told = story(rule, steps)
    texts = [json.dumps(to_json(each)) for each in told.events[:cut]]
    read = [from_json(type(each), json.loads(text)) for each, text in zip(told.events, texts, strict=False)]
    assert all_known(folded(read, told.events[cut:])) == all_known(told.remembered) == all_known(folded(told.events))


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Return any value of *kind*, as far as events have it."""
    if kind is str:
        return st.text(max_size=20)
    if kind is float:
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind is int:
        return st.integers(-(10**9), 10**12)
    if kind is bool:
        return st.booleans()
    if kind in (Presence, Risk):
        return st.sampled_from(list(kind))
    if kind is Reading:
        return any_of(Reading)
    inner, ellipsis = get_args(kind)
    assert ellipsis is Ellipsis
    return st.lists(values(inner), max_size=3).map(tuple)


def any_of(kind: type) -> st.SearchStrategy[Any]:
    """Return any event of *kind*."""
    hints = get_type_hints(kind)
    return st.builds(kind, **{each.name: values(hints[each.name]) for each in fields(kind) if each.name != "kind"})


KINDS = get_args(WatchEvent)


@settings(max_examples=300)
@given(st.sampled_from(KINDS).flatmap(any_of))
def test_each_event_survives_json(made):
    assert from_json(type(made), json.loads(json.dumps(to_json(made)))) == made


def test_the_kinds_of_events_have_names_of_their_own():
    names = [next(each.default for each in fields(kind) if each.name == "kind") for kind in KINDS]
    assert len(set(names)) == len(names) == 17


def test_an_event_is_read_back_without_knowing_its_kind():
    made = Started(at=1.0)
    assert from_json(WatchEvent, to_json(made)) == made


def every_trigger(told: Story, rule: str) -> Iterator[Trigger]:
    """Yield the triggers there are, and others that there might have been a moment ago."""
    for host in HOSTS:
        yield from told.remembered.triggers(rule, host)
        for source in Source:
            for firing in (True, False):
                yield Trigger(
                    rule=rule, host=host, source=source, episode="a1", since=told.now, heard=told.now, firing=firing
                )


@settings(max_examples=150)
@given(NAMES, STEPS)
def test_every_situation_has_one_answer_and_always_the_same(rule, steps):
    """Mutants: an ``assert`` of policy.py before the question that makes it true."""
    told = story(rule, steps)
    for trigger in every_trigger(told, rule):
        memory = told.remembered.memory(rule, trigger.host)
        for now in (told.now, told.now + 61.0, told.now - 1000.0):
            answer = decide(RULES.get(rule), trigger, memory, now)
            assert (
                answer
                == decide(RULES.get(rule), trigger, memory, now)
                == [*answers(RULES.get(rule), trigger, memory, now)][-1]
            )
            assert answer.decision.why


def readings_of(event: WatchEvent, host: str) -> Iterator[tuple[float, Reading]]:
    """Yield what *event* says of the fault of *host*; a plan is a probe, too."""
    if isinstance(event, Probed):
        yield from ((event.at, read) for read in event.readings if read.host == host)
    if isinstance(event, Proposed) and event.host == host:
        yield event.at, Reading(host=host, presence=Presence.PRESENT, changes=1, signature=event.signature)


def objections(rule: Rule, trigger: Trigger, told: Story, now: float, digest: str) -> Iterator[str]:
    """Yield why *digest* must not be carried out now, by the events alone."""
    host = trigger.host
    ours = [each for each in told.events if getattr(each, "rule", rule.name) == rule.name]
    here = [each for each in ours if getattr(each, "host", host) == host]
    started = max(each.at for each in ours if isinstance(each, Started))
    readings = [reading for each in here for reading in readings_of(each, host)]
    at, seen = readings[-1]
    if seen.presence is not Presence.PRESENT or not seen.changes:
        yield "the last reading has no fault, or no step"
    if at <= started or now - at > JUST_NOW:
        yield "the last reading is old"
    runs = [each for each in told.events if isinstance(each, Began) and each.host == host]
    ends = [each for each in told.events if isinstance(each, Ended) and each.host == host]
    if any((run.rule, run.digest) not in {(end.rule, end.digest) for end in ends} for run in runs):
        yield "a run is at work"
    if any(end.at > at for end in ends):
        yield "it was not seen since a run"
    yield from objections_of_time(rule, told, host, now)
    if rule.breaker:
        yield from objections_of_breaker(rule, rule.breaker, ours, host, now)
    own = [
        end for end in ends if end.rule == rule.name and end.changed and any(run.digest == end.digest for run in runs)
    ]
    if any(now - end.at < rule.cooldown for end in own):
        yield "cooldown"
    plan = [each for each in here if isinstance(each, Proposed)][-1]
    if plan.digest != digest or now > plan.until or plan.episode != trigger.episode or plan.signature != seen.signature:
        yield "another plan, or an old one"
    if any(isinstance(each, Rejected) and each.digest == digest for each in told.events):
        yield "refused"
    agreed = {
        each.by
        for each in told.events[told.events.index(plan) :]
        if isinstance(each, Approved) and each.digest == digest and each.at <= plan.until
        and (not rule.approve.by or each.by in rule.approve.by)
        and (rule.approve.requester_counts or each.by != plan.requester)
    }  # fmt: skip
    permitted = rule.then is Then.APPLY and list(Risk).index(plan.risk) <= list(Risk).index(rule.risk)
    if not permitted and len(agreed) < rule.approve.count:
        yield "nobody permitted it"
    if rule.then is Then.PROBE:
        yield "the rule only probes"


def objections_of_time(rule: Rule, told: Story, host: str, now: float) -> Iterator[str]:
    """Yield whether the host is held, or the rule may not change anything now."""
    held = [each for each in told.events if isinstance(each, Held | Released) and each.host == host]
    if held and isinstance(held[-1], Held) and now < held[-1].until:
        yield "held"
    if closed_by(rule.during, now):
        yield "closed"


def objections_of_breaker(
    rule: Rule, limit: RuleBreaker, ours: Sequence[WatchEvent], host: str, now: float
) -> Iterator[str]:
    """Yield whether the breaker forbids a change."""
    words = [each for each in ours if isinstance(each, Tripped | BreakerReset)]
    if words and isinstance(words[-1], Tripped):
        yield "tripped"
    resets = [number for number, each in enumerate(ours) if isinstance(each, BreakerReset)]
    if resets and now - ours[resets[-1]].at < limit.quiet:
        yield "not quiet"
    since = ours[resets[-1] + 1 :] if resets else ours
    unchanged = {each.digest for each in ours if isinstance(each, Ended) and not each.changed}
    changed = {
        each.host
        for each in since
        if isinstance(each, Began) and now - each.at < limit.within and each.digest not in unchanged
    }
    if len(changed | {host}) > limit.hosts:
        yield "too many hosts"


def test_a_change_is_made_only_if_nothing_is_to_be_said_against_it():
    """Mutants: policy.py without one of its questions; ``JUST_NOW`` doubled; ``counting_approvals`` without ``by``."""
    reached: dict[str, int] = dict.fromkeys(RULES, 0)

    @settings(max_examples=400)
    @given(st.sampled_from([*RULES]), STEPS)
    def hold(name: str, steps: Sequence[Step]) -> None:
        told = Story(name)
        told.step(0.0, "started", HOSTS[0], 0)
        for step in steps:
            told.step(*step)
            for trigger, now in (
                (each, told.now + later) for each in told.remembered.triggers(name, step[2]) for later in (0.0, 9.0)
            ):
                decision = decide(RULES[name], trigger, told.remembered.memory(name, trigger.host), now).decision
                if isinstance(decision, Apply):
                    reached[name] += 1
                    assert list(objections(RULES[name], trigger, told, now, decision.plan)) == []

    hold()
    assert min(reached["applies"], reached["proposes"], reached["asks-others"]) > 10
    assert reached["probes"] == 0


def take(*lines: str) -> Remembered:
    """Return what is known after the events in *lines*."""
    made = Remembered([replace(RULES["proposes"], name="rule")])
    for line in lines:
        made.take(event(line, T0))
    return made


def test_a_refusal_names_who_refused():
    assert take("-5s alert a1", "-3s plan p1", "-1s rejected p1 by='ann lee'").host("rule", "gpu-01").rejected == (
        Refusal(episode="a1", by="ann lee", at=T0 - 1),
    )


def test_a_refusal_counts_whatever_the_person_is_called():
    known = take("-9s started", "-5s alert a1", "-4s present", "-3s plan p1", "-1s rejected p1 by='ann by proxy'")
    trigger = next(known.triggers("rule", "gpu-01"))
    assert decide(known.rules["rule"], trigger, known.memory("rule", "gpu-01"), T0).question == "new episode"


def test_an_alert_that_is_heard_of_again_keeps_its_place():
    known = take("-9s alert a1", "-8s alert a2", "-5s alert a1 since=-9s")
    assert [each.episode for each in known.triggers("rule", "gpu-01")] == ["a1", "a2"]


def test_a_question_asked_while_a_run_is_at_work_is_not_forgotten():
    known = take("-60s alert a1", "-50s began p1", "-20s asked by=bob", "-10s ended p1 how=uncured")
    assert Source.PERSON in [each.source for each in known.triggers("rule", "gpu-01")]


def test_a_probe_without_an_answer_is_no_reason_for_another_plan():
    known = take("-10s alert a1", "-9s present", "-8s no-plan 'no sudo'", "-5s unknown", "-1s present")
    assert known.host("rule", "gpu-01").no_plan == "no sudo"


def test_the_question_of_a_person_is_over_after_the_run_that_it_led_to():
    known = take("-60s asked by=bob", "-50s began p1 for=asked@1799999940.000", "-10s ended p1 how=uncured")
    assert list(known.triggers("rule", "gpu-01")) == []


def test_a_refusal_of_the_plan_for_an_alert_leaves_the_question_of_a_person():
    known = take("-60s alert a1", "-50s plan p1", "-20s asked by=bob", "-10s rejected p1")
    assert [each.source for each in known.triggers("rule", "gpu-01")] == [Source.PERSON, Source.ALERT, Source.CLOCK]


def test_only_so_much_is_remembered_of_a_host():
    lines = [f"-{1000 - number}s alert a{number}" for number in range(600)]
    assert len(take(*lines).host("rule", "gpu-01").alerts) == 500
    old = take("-3d alert a1", "-1s alert a2")
    assert [each.episode for each in old.host("rule", "gpu-01").alerts] == ["a2"]
    begins: list[str] = []
    for number in range(150):
        begins += [f"-{2000 - 2 * number}s present", f"-{1999 - 2 * number}s absent"]
    assert len(take(*begins).host("rule", "gpu-01").began) == 100


def test_a_plan_that_could_not_be_made_again_does_not_wait_any_more():
    known = take("-9s present", "-8s plan p1", "-5s no-plan 'no sudo'")
    assert known.host("rule", "gpu-01").proposal is None
    assert known.proposals() == []


def test_a_plan_that_is_carried_out_twice_has_two_runs():
    """Mutant: ``_ended`` ends every run of the plan."""
    known = take("-9s began p1", "-8s ended p1 how=locked run=", "-5s began p1", "-4s ended p1 run=r2")
    runs = known.host("rule", "gpu-01").runs
    assert [(run.ended - T0, run.run, run.locked, run.cured) for run in runs] == [
        (-8.0, "", True, False),
        (-4.0, "r2", False, True),
    ]


def test_a_run_that_changed_nothing_is_taken_from_the_breakers_count():
    """Mutant: ``_without_last`` takes the first."""
    known = take("-9s began p1", "-8s ended p1", "-7s began p2 host=gpu-02", "-5s began p3", "-4s ended p3 how=locked")
    assert known.rule("rule").changed == ((T0 - 9, "gpu-01"), (T0 - 7, "gpu-02"))
