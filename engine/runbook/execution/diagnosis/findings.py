"""Evaluate the findings of a playbook on the states of its probes."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.errors import ConfigError
from runbook.execution.diagnosis.host_context import HostContext, States
from runbook.language.expressions.templates import Scope, evaluate, say, value_of
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import FindingRule
from runbook.values.types import Json, Unknown

_NOT_COMPARED = "not compared yet: the other hosts of the run are still being probed"


def evaluate_findings(
    context: HostContext, states: States, before: Mapping[str, Finding] | None = None
) -> tuple[Finding, ...]:
    """Evaluate every finding of the playbook, in its order; a finding that compares hosts is unknown here.

    *before*: the findings of the first diagnosis.  A finding that was present then and is absent now has the status
    ``gone``, and keeps its first text and evidence.
    """
    scopes = {part: context.scope(states, part) for part in {finding.part for finding in context.playbook.findings}}
    found: dict[str, Finding] = {}
    for rule in context.playbook.findings:
        finding = evaluated(rule, scopes[rule.part], found) if rule.across is None else _not_compared(rule)
        was = (before or {}).get(rule.id)
        if was is not None and was.status is Presence.PRESENT and finding.status is Presence.ABSENT:
            finding = Finding(
                id=was.id,
                severity=was.severity,
                status=Presence.GONE,
                say=was.say,
                why=finding.why,
                evidence=was.evidence,
                advise=(),
            )
        found[rule.id] = finding
    return tuple(found.values())


def _not_compared(rule: FindingRule) -> Finding:
    return Finding(id=rule.id, severity=rule.severity, status=Presence.UNKNOWN, say=rule.id, why=_NOT_COMPARED)


def evaluated(rule: FindingRule, scope: Scope, found: Mapping[str, Finding]) -> Finding:
    """Evaluate *rule* with the names of *scope*.  *found*: the earlier findings; one of them may explain this
    finding.
    """
    reason: str | None
    try:
        truth = evaluate(rule.when, scope)
    except ConfigError as error:
        truth = Unknown(why=f"`when` cannot be evaluated: {error}")
    superseded = [word for word in rule.unless if found[word].status is Presence.PRESENT]
    doubtful = [
        word for word in rule.unless if found[word].status is Presence.UNKNOWN and found[word].why != _NOT_COMPARED
    ]
    rests_on: tuple[str, ...] = ()
    match truth:
        case True | Unknown() if superseded:
            status, reason = Presence.ABSENT, f"explained by {', '.join(superseded)}"
        case True if doubtful and rule.across is None:
            status, reason = Presence.UNKNOWN, f"not known whether {', '.join(doubtful)} explains it"
            rests_on = tuple(dict.fromkeys(probe for word in doubtful for probe in found[word].rests_on))
        case Unknown(why=why, probe=probe):
            status, reason, rests_on = Presence.UNKNOWN, why, (probe,) if probe else ()
        case True:
            status, reason = Presence.PRESENT, None
        case _:
            status, reason = Presence.ABSENT, None
    present = status is Presence.PRESENT
    return Finding(
        id=rule.id,
        severity=rule.severity,
        status=status,
        say=_rendered(rule.say, scope) if status is not Presence.ABSENT else "",
        why=reason,
        rests_on=rests_on,
        evidence={name: _evidence(text, scope) for name, text in rule.evidence.items()} if present else {},
        advise=_advice(rule, scope) if status is not Presence.ABSENT else (),
    )


def _advice(rule: FindingRule, scope: Scope) -> tuple[str, ...]:
    """Return the advice of *rule* with its templates filled in; empty advice is left out."""
    return tuple(said for text in rule.advise if (said := _rendered(text, scope)).strip())


def _rendered(text: str, scope: Scope) -> str:
    """Return *text* with its templates filled in.

    If that fails, return *text* unfilled with the reason, so that no finding is lost because of its text.
    """
    try:
        return say(text, scope)
    except ConfigError as error:
        return f"{text} (not filled in: {error})"


def _evidence(expression: str, scope: Scope) -> Json:
    try:
        value = value_of(expression, scope, gaps=True)
    except ConfigError as error:
        return f"unknown: {error}"
    return f"unknown: {value.why}" if isinstance(value, Unknown) else value
