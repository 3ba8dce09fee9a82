"""Rules, plans, answers and events as trees of JSON, for the API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runbook.codec import to_json
from runbook.commands.serve.desk import Desk
from runbook.commands.watch.event_store import Stored
from runbook.commands.watch.wording import DECISIONS, answer_words, event_words
from runbook.values.watch_rule import Rule
from runbook.watch.events import Answered
from runbook.watch.memory import Proposal
from runbook.watch.policy import counting_approvals

NOT_ACTED = ("wait", "ignore", "escalate")
"""The decisions after which nothing is done."""


def proposal_tree(desk: Desk, plan: Proposal) -> dict[str, Any]:
    """Return *plan*, which waits for a person."""
    rule = desk.known.rules.get(plan.rule)
    return {
        "digest": plan.digest,
        "rule": plan.rule,
        "host": plan.host,
        "risk": str(plan.risk),
        "say": plan.say,
        "made": plan.at,
        "expires": plan.until,
        "requester": plan.requester,
        "approved_by": [name for name, _ in plan.approvals],
        "approvals": len(counting_approvals(rule, plan)) if rule else 0,
        "approvals_needed": rule.approve.count if rule else 0,
    }


def waiting(desk: Desk, now: float) -> list[Proposal]:
    """Return the plans that wait for a person and have not expired, the oldest first."""
    return [plan for plan in desk.known.proposals() if now <= plan.until]


def rule_tree(desk: Desk, rule: Rule) -> dict[str, Any]:
    """Return *rule* with what is known of all its hosts."""
    known = desk.known.remembered.rule(rule.name)
    return {
        "rule": to_json(rule),
        "hosts": len(desk.hosts.get(rule.name, ())),
        "well": known.well,
        "well_at": known.well_at,
        "faulty": sorted(desk.known.remembered.faulty(rule.name)),
        "tripped": known.tripped,
    }


def answers(desk: Desk) -> Iterator[Answered]:
    """Yield the last answer of each rule about each host."""
    remembered = desk.known.remembered
    for rule, host in sorted(remembered.remembered_hosts()):
        if answer := remembered.answer(rule, host):
            yield answer


def answer_tree(answer: Answered) -> dict[str, Any]:
    """Return *answer*, also in words."""
    return {
        **_plain(to_json(answer)),
        "acted": answer.decision not in NOT_ACTED,
        "means": DECISIONS.get(answer.decision, answer.decision),
        "words": answer_words(answer),
    }


def stored_tree(stored: Stored) -> dict[str, Any]:
    """Return an event with its number, also in words."""
    return {"number": stored.number, "words": event_words(stored.event), "event": to_json(stored.event)}


def _plain(tree: Any) -> dict[str, Any]:
    assert isinstance(tree, dict)
    return tree
