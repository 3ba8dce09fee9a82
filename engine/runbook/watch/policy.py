"""Decide what a trigger leads to: one fixed order of questions, of which the first with an answer decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import assert_never

from runbook.dataclass import dataclass
from runbook.values.plan import Presence
from runbook.values.types import plural, seconds
from runbook.values.watch_rule import Rule, Then
from runbook.watch.memory import ALERT_LASTS, Memory, PastRun, Proposal, Source, Trigger
from runbook.watch.windows import closed_by, opens_at

FRESH = 60.0
"""Seconds for which a reading is fresh enough to decide by; more if the rule probes less often."""
JUST_NOW = 30.0
"""Seconds before a change within which the fault must have been seen once more."""
AFTERMATH = 300.0
"""Seconds after a run in which an alert that begins may come from the run itself."""
WAITING = 300.0
"""Seconds between two probes of a host whose plan waits for a person: it vanishes when the fault is gone."""
AGAIN = 60.0
"""Seconds after which a question is asked again whose answer no event announces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The host must be probed first."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose:
    """A plan must be made for the host."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Apply:
    """The plan with the digest *plan* is to be carried out now."""

    plan: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing is done before the time *until*, or before something is heard."""

    until: float
    """Seconds since the epoch; infinity: only an event ends it."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """The trigger leads to nothing."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Escalate:
    """A person has to look."""

    why: str
    until: float = float("inf")
    """The time at which it is decided again, if nothing is heard before; seconds since the epoch."""


Decision = Probe | Propose | Apply | Wait | Ignore | Escalate


class Question(StrEnum):
    """The questions, in their order."""

    KNOWN_RULE = "known rule"
    KNOWN_HOST = "known host"
    FIRING = "firing"
    NEW_EPISODE = "new episode"
    OWN_DOING = "our own doing"
    FREEZE = "freeze"
    BREAKER = "breaker"
    LOCK = "lock"
    COOLDOWN = "cooldown"
    ATTEMPTS = "attempts"
    KEEP = "keep"
    PROBE = "probe"
    SUSTAINED = "sustained"
    APPROVAL = "risk and approval"
    PROBE_AGAIN = "probe again"
    APPLY = "apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision, and the question that led to it."""

    question: Question
    decision: Decision


def decide(rule: Rule | None, trigger: Trigger, memory: Memory, now: float) -> Answer:
    """Return what *trigger* leads to at the time *now* (seconds since the epoch).

    The same arguments always give the same answer.
    """
    return [*answers(rule, trigger, memory, now)][-1]


def answers(rule: Rule | None, trigger: Trigger, memory: Memory, now: float) -> Iterator[Answer]:
    """Yield the answer to each question up to the one that decides; those before it say why they did not."""
    if rule is None:
        yield Answer(question=Question.KNOWN_RULE, decision=Ignore(why=f"there is no rule {trigger.rule!r}"))
        return
    facts = _Facts(rule=rule, trigger=trigger, memory=memory, now=now)
    for question, ask in QUESTIONS:
        found = ask(facts)
        passed = isinstance(found, str)
        yield Answer(question=question, decision=Ignore(why=found) if isinstance(found, str) else found)
        if not passed:
            return
    raise AssertionError("the last question always decides")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    rule: Rule
    trigger: Trigger
    memory: Memory
    now: float

    @property
    def runs(self) -> tuple[PastRun, ...]:
        return self.memory.host.runs

    @property
    def all_runs(self) -> tuple[PastRun, ...]:
        """The runs of all rules on the host."""
        return (*self.runs, *self.memory.runs_of_others)

    @property
    def changes(self) -> bool:
        """Whether the rule may lead to a change."""
        return self.rule.then is not Then.PROBE

    @property
    def plan(self) -> Proposal | None:
        """The plan that waits, if it is still good."""
        plan = self.memory.host.proposal
        seen = self.memory.host.seen
        good = plan and self.now <= plan.until and plan.episode == self.trigger.episode
        good = good and plan and plan.rule_digest in ("", self.rule.digest)
        return plan if good and plan and seen and seen.signature == plan.signature else None


_ONLY_PROBES = "the rule changes nothing"


def _known_rule(facts: _Facts) -> Decision | str:
    return f"{facts.rule.name}, in {facts.rule.where}" if facts.rule.where.file else facts.rule.name


def _known_host(facts: _Facts) -> Decision | str:
    if not facts.memory.is_host_known:
        return Ignore(why=f"none of the rule's hosts ({facts.rule.hosts}) is called {facts.trigger.host!r}")
    return facts.trigger.host


def _firing(facts: _Facts) -> Decision | str:
    trigger = facts.trigger
    if not trigger.firing:
        return Ignore(why="it is resolved")
    if trigger.source is Source.CURE and trigger.since > facts.now:
        words = "on probation: the host was cured, and must stay well until then"
        return Wait(until=trigger.since, why=words)
    if trigger.source is Source.ALERT and (silent := facts.now - trigger.heard) > ALERT_LASTS:
        return Ignore(why=f"nothing was heard of the alert for {seconds(silent)}")
    asked = f", asked for by {trigger.by}" if trigger.by else ""
    return f"since {seconds(max(0.0, facts.now - trigger.since))}{asked}"


def _new_episode(facts: _Facts) -> Decision | str:
    episode = facts.trigger.episode
    for refusal in facts.memory.host.rejected:
        if refusal.episode == episode:
            return Ignore(why=f"a person refused to act on it: {refusal.by}")
    refused = facts.memory.host.refused
    if refused and facts.trigger.source is not Source.PERSON:
        if refused.stopped:
            return Ignore(why=f"a person has interrupted the run, and it was there ever since: {refused.by}")
        return Ignore(why=f"a person refused to act on the same fault, and it was there ever since: {refused.by}")
    for run in facts.runs:
        if run.episode != episode or not run.ended or not run.changed:
            continue
        if run.cured:
            return Ignore(why=f"run {run.run} has cured it; it waits for the alert to be resolved")
        return Escalate(why=f"{_run(run)} did not cure it ({run.verdict}), and one run for an episode is the most")
    return "no run has changed the host for it"


def _own_doing(facts: _Facts) -> Decision | str:
    for run in facts.all_runs:
        if not run.ended:
            return Wait(until=float("inf"), why=f"a run of the rule {run.rule} is at work on the host")
        over = run.ended + AFTERMATH
        if (
            run.changed
            and facts.trigger.source is Source.ALERT
            and run.began <= facts.trigger.since < over
            and facts.now < over
        ):
            return Wait(until=over, why=f"it began while, or just after, {_run(run)} changed the host")
    return "no run of ours is at work, or has just been"


def _freeze(facts: _Facts) -> Decision | str:
    if not facts.changes:
        return _ONLY_PROBES
    hold = facts.memory.hold
    if hold and facts.now < hold.until:
        words = f": {hold.why}" if hold.why else ""
        return Wait(until=hold.until, why=f"{hold.by} wants the host to be left alone{words}")
    if why := closed_by(facts.rule.during, facts.now):
        return Wait(until=opens_at(facts.rule.during, facts.now), why=why)
    return "changes are permitted now"


def _breaker(facts: _Facts) -> Decision | str:
    limit, known = facts.rule.breaker, facts.memory.rule
    if not facts.changes or limit is None:
        return _ONLY_PROBES if not facts.changes else "the rule has none"
    if known.tripped:
        reset = f"`runbook watch reset {facts.rule.name}` resets it"
        return Escalate(why=f"the breaker has tripped: {known.tripped}; {reset}")
    if known.calm_since and facts.memory.faulty >= limit.hosts:
        words = f"{plural(facts.memory.faulty, 'host')} have the fault, and fewer than {limit.hosts} must"
        return Wait(until=facts.now + AGAIN, why=f"{known.reset_by} has reset the breaker, but {words}")
    if known.calm_since and facts.now < (calm := known.calm_since + limit.quiet):
        few = f"fewer than {plural(limit.hosts, 'host')} must have the fault for {seconds(limit.quiet)}"
        return Wait(until=calm, why=f"{known.reset_by} has reset the breaker, and {few} first")
    recent = {host for at, host in known.changed if facts.now - at < limit.within}
    if facts.trigger.host not in recent and len(recent) >= limit.hosts:
        words = f"the rule has changed {plural(len(recent), 'host')} within {seconds(limit.within)}"
        return Escalate(why=f"the breaker trips: {words}, and {limit.hosts} is the most")
    return f"{len(recent)} of {plural(limit.hosts, 'host')} changed within {seconds(limit.within)}"


def _lock(facts: _Facts) -> Decision | str:
    last = facts.runs[-1] if facts.runs else None
    if last and last.locked and facts.now < (over := last.ended + AGAIN):
        return Wait(until=over, why="another run is at work on the host")
    return "no other run is known to be at work on the host"


def _cooldown(facts: _Facts) -> Decision | str:
    changed = [run for run in facts.runs if run.changed]
    if not facts.rule.cooldown or not changed:
        return "no run has changed the host" if not changed else "the rule has none"
    over = max(run.ended for run in changed) + facts.rule.cooldown
    if facts.now < over:
        return Wait(until=over, why=f"cooldown: {_run(changed[-1])} ended {seconds(facts.now - changed[-1].ended)} ago")
    return f"the last run ended {seconds(facts.now - changed[-1].ended)} ago"


def _attempts(facts: _Facts) -> Decision | str:
    row = 0
    tried = [run for run in facts.runs if not run.locked]
    for run in reversed(tried):
        if run.cured:
            break
        row += 1
    has_looked = facts.trigger.source is Source.PERSON  # which the others wait for
    if facts.rule.ineffective and row >= facts.rule.ineffective and not has_looked:
        last = tried[-1]
        return Escalate(why=f"the last {plural(row, 'run')} did not cure the host ({_run(last)}: {last.verdict})")
    limit = facts.rule.attempts
    if limit is None:
        return "the rule has no limit"
    recent = [run for run in tried if facts.now - run.began < limit.within]
    if len(recent) >= limit.count:
        many = f"{plural(len(recent), 'run')} on the host within {seconds(limit.within)}"
        until = sorted(run.began for run in recent)[-limit.count] + limit.within
        return Escalate(why=f"{many}, and {limit.count} is the most", until=until)
    return f"{len(recent)} of {plural(limit.count, 'run')} within {seconds(limit.within)}"


def _keep(facts: _Facts) -> Decision | str:
    least, known = facts.rule.keep, facts.memory.rule
    if not facts.changes or not least:
        return _ONLY_PROBES if not facts.changes else "the rule needs no other host to be well"
    if known.well_at <= facts.memory.started or facts.now - known.well_at > _fresh(facts.rule):
        return Wait(until=facts.now + AGAIN, why="it is not known now how many other hosts are well")
    well = facts.memory.others_well
    if well < least:
        return Wait(until=facts.now + AGAIN, why=f"{plural(well, 'other host')} well, and {least} must be")
    return f"{plural(well, 'other host')} well"


def _probe(facts: _Facts) -> Decision | str:
    known, now = facts.memory.host, facts.now
    seen, at = known.seen, known.seen_at
    if seen is None or at <= max(facts.memory.started, facts.memory.rule.reset_at):
        return Probe(why="what was seen before does not count")
    if facts.trigger.source is Source.PERSON and at < facts.trigger.since:
        return Probe(why=f"{facts.trigger.by} asked")
    if now - at > _fresh(facts.rule):
        return Probe(why=f"the host was last probed {seconds(now - at)} ago")
    match seen.presence:
        case Presence.UNKNOWN:
            return Wait(until=at + _fresh(facts.rule), why=f"the probe has no answer: {seen.say}")
        case Presence.ABSENT | Presence.GONE:
            if facts.trigger.source is Source.ALERT:
                return Wait(until=at + _fresh(facts.rule), why="it is not seen on the host, although the alert fires")
            return Ignore(why="it is not seen on the host")
        case Presence.PRESENT:
            return seen.say or "it is seen on the host"
    assert_never(seen.presence)


def _sustained(facts: _Facts) -> Decision | str:
    known, rule = facts.memory.host, facts.rule
    if facts.trigger.source is Source.PERSON:
        return "a person asked, so that it need not have lasted"
    if (left := rule.sustained - known.present_for) > 0:
        words = f"seen for {seconds(known.present_for)} of {seconds(rule.sustained)}"
        if facts.now - known.seen_at > _pace(rule):
            return Probe(why=words)
        return Wait(until=min(facts.now + left, known.seen_at + _pace(rule)), why=words)
    if limit := rule.threshold:
        recent = [at for at in known.began if facts.now - at < limit.within]
        if len(recent) < limit.count:
            words = f"it has begun {plural(len(recent), 'time')} within {seconds(limit.within)}"
            return Wait(until=known.seen_at + _fresh(rule), why=f"{words}, and {limit.count} times count")
    return f"seen for {seconds(known.present_for)}"


def _approval(facts: _Facts) -> Decision | str:
    rule, known = facts.rule, facts.memory.host
    if rule.then is Then.PROBE:
        return Ignore(why="the rule only probes")
    assert known.seen
    if not known.seen.changes:
        return Escalate(why="the playbook has no step for it now", until=known.seen_at + WAITING)
    if known.no_plan and facts.now < known.no_plan_until:
        return Escalate(why=f"no plan can be made: {known.no_plan}", until=known.no_plan_until)
    plan = facts.plan
    if plan is None:
        before = known.proposal
        is_same_episode = before and before.episode == facts.trigger.episode and facts.now <= before.until
        is_same_episode = is_same_episode and before and before.rule_digest in ("", rule.digest)
        if before and is_same_episode and facts.now < (again := before.at + AGAIN):  # work that is never the same twice
            return Wait(until=again, why=f"{_why_no_plan(facts)}; a new plan is made a minute after the last")
        return Propose(why=_why_no_plan(facts))
    if rule.then is Then.APPLY and rule.risk.at_least(plan.risk):
        return f"its risk is {plan.risk}, and {rule.risk} needs no approval"
    good = counting_approvals(rule, plan)
    if len(good) < rule.approve.count:
        has = f" (has {len(good)} of {rule.approve.count})" if rule.approve.count > 1 else ""
        until = min(plan.until, known.seen_at + WAITING)
        return Wait(until=until, why=f"plan {plan.digest[:8]} ({plan.risk}) waits for an approval{has}")
    return f"approved by {', '.join(good)}"


def _why_no_plan(facts: _Facts) -> str:
    plan = facts.memory.host.proposal
    if plan is None:
        return "there is no plan yet"
    if facts.now > plan.until:
        return "the plan has expired"
    if plan.rule_digest not in ("", facts.rule.digest):
        return "the rule has changed since the plan was made"
    return "the plan was made for another episode" if plan.episode != facts.trigger.episode else "other work is due now"


def counting_approvals(rule: Rule, plan: Proposal) -> tuple[str, ...]:
    """Return the people whose approval of *plan* counts."""
    return tuple(
        name
        for name, at in plan.approvals
        if plan.at <= at <= plan.until
        and (not rule.approve.by or name in rule.approve.by)
        and (rule.approve.requester_counts or name != plan.requester)
    )


def _probe_again(facts: _Facts) -> Decision | str:
    known = facts.memory.host
    plan = facts.plan
    assert plan
    agreed = max((at for _, at in plan.approvals), default=0.0)
    if known.seen_at < max(agreed, plan.at) or facts.now - known.seen_at > JUST_NOW:
        return Probe(why="the fault must be seen once more right before a change")
    return f"seen {seconds(facts.now - known.seen_at)} ago"


def _apply(facts: _Facts) -> Decision | str:
    plan = facts.plan
    assert plan
    return Apply(plan=plan.digest, why=plan.say)


def _run(run: PastRun) -> str:
    return f"run {run.run}" if run.run else f"the run of plan {run.digest[:8]}"


def _pace(rule: Rule) -> float:
    """Return the seconds between two probes of a host of which something is not decided yet."""
    return rule.on.every or FRESH


def _fresh(rule: Rule) -> float:
    return max(FRESH, 1.5 * rule.on.every)


Ask = Callable[[_Facts], Decision | str]
"""Returns a decision; or a text that says why the question does not decide."""

QUESTIONS: tuple[tuple[Question, Ask], ...] = (
    (Question.KNOWN_RULE, _known_rule),
    (Question.KNOWN_HOST, _known_host),
    (Question.FIRING, _firing),
    (Question.NEW_EPISODE, _new_episode),
    (Question.OWN_DOING, _own_doing),
    (Question.FREEZE, _freeze),
    (Question.BREAKER, _breaker),
    (Question.LOCK, _lock),
    (Question.COOLDOWN, _cooldown),
    (Question.ATTEMPTS, _attempts),
    (Question.KEEP, _keep),
    (Question.PROBE, _probe),
    (Question.SUSTAINED, _sustained),
    (Question.APPROVAL, _approval),
    (Question.PROBE_AGAIN, _probe_again),
    (Question.APPLY, _apply),
)
