"""Describe the events and the plans of the watcher in lines for people."""

from __future__ import annotations

from typing import assert_never

from runbook.text.printable import on_one_line
from runbook.text.timestamps import utc
from runbook.values.plan import Presence
from runbook.values.types import plural, seconds
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
    Rejected,
    Released,
    Started,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import Proposal

DECISIONS = {
    "probe": "probe first",
    "propose": "make a plan",
    "apply": "apply the plan",
    "wait": "not acted",
    "ignore": "not acted",
    "escalate": "not acted, a person has to look",
}
"""The words for the decisions."""


def event_line(event: WatchEvent) -> str:
    """Return *event* as a line; empty if it says nothing to people."""
    said = event_words(event)
    return on_one_line(f"{utc(event.at)} {said}") if said else ""


def event_words(event: WatchEvent) -> str:
    """Return *event* in words; empty if it says nothing to people."""
    match event:
        case Started():
            return "the watcher was started"
        case Alerted(rule=rule, host=host, firing=firing):
            return f"{rule} {host}: an alert {'fires' if firing else 'is resolved'}"
        case Asked(rule=rule, host=host, by=by):
            return f"{rule} {host}: {by} asked for it to be looked at"
        case Probed():
            return _probed(event)
        case Proposed(rule=rule, host=host, digest=digest, risk=risk, say=say):
            return f"{rule} {host}: plan {digest[:8]} was made ({risk}): {say}"
        case NotProposed(rule=rule, host=host, why=why):
            return f"{rule} {host}: no plan was made: {why}"
        case Approved(rule=rule, host=host, digest=digest, by=by):
            return f"{rule} {host}: {by} approved plan {digest[:8]}"
        case Rejected(rule=rule, host=host, digest=digest, by=by, why=why):
            return f"{rule} {host}: {by} refused plan {digest[:8]}{f': {why}' if why else ''}"
        case Began(rule=rule, host=host, digest=digest, approved_by=people):
            agreed = f", approved by {', '.join(people)}" if people else ""
            return f"{rule} {host}: plan {digest[:8]} is carried out{agreed}"
        case Ended(rule=rule, host=host, run=run, verdict=verdict):
            return f"{rule} {host}: {f'run {run}' if run else 'the run'} ended: {verdict}"
        case Stopped(rule=rule, host=host, digest=digest, by=by):
            return f"{rule} {host}: {by} interrupted the run of plan {digest[:8]}"
        case Held(host=host, by=by, until=until, why=why):
            return f"{host}: {by} wants it to be left alone until {utc(until)}{f': {why}' if why else ''}"
        case Released(host=host, by=by):
            return f"{host}: {by} lets rules act on it again"
        case Tripped(rule=rule, why=why):
            return f"{rule}: the breaker has tripped: {why}"
        case BreakerReset(rule=rule, by=by):
            return f"{rule}: {by} has reset the breaker"
        case Answered():
            return f"{event.rule} {event.host}: {answer_words(event)}"
        case Faulted(rule=rule, why=why):
            return f"{rule or 'the watcher'}: failed: {why}"
    assert_never(event)


def answer_words(answer: Answered) -> str:
    """Return *answer* in words: ``not acted (cooldown) until 03:14: ...``."""
    until = f" until {utc(answer.until)}" if answer.until else ""
    return f"{DECISIONS.get(answer.decision, answer.decision)} ({answer.question}){until}: {answer.why}"


def proposal_lines(plan: Proposal, now: float) -> list[str]:
    """Return *plan*, which waits for a person, in lines."""
    asked = f", asked for by {plan.requester}" if plan.requester else ""
    agreed = f", approved by {', '.join(name for name, _ in plan.approvals)}" if plan.approvals else ""
    made = f"rule {plan.rule}, made {seconds(now - plan.at)} ago{asked}{agreed}"
    return [
        f"{plan.digest[:8]}  {plan.host}  {plan.risk}  {made}",
        f"  {plan.say}",
        f"  it expires in {seconds(plan.until - now)}: `runbook watch approve {plan.digest[:8]}` or `reject`; "
        f"`runbook show {plan.file}` shows it whole",
    ]


def _probed(event: Probed) -> str:
    found = [each for each in event.readings if each.presence is Presence.PRESENT]
    unknown = [each for each in event.readings if each.presence is Presence.UNKNOWN]
    said = [
        *(f"{each.host}: {each.say}" for each in found),
        *(f"{each.host} is not known: {each.say}" for each in unknown),
    ]
    return f"{event.rule}: {plural(event.well, 'host')} well{'; ' if said else ''}{'; '.join(said)}" if said else ""
