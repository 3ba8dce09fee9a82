"""Evaluate the findings that compare hosts, once all hosts of a run are probed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from runbook.codec import to_json
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.execution.diagnosis.findings import evaluated
from runbook.execution.diagnosis.host_context import HostContext, States
from runbook.language.expressions.comparison import ACROSS, Compared, Share, compare
from runbook.language.expressions.templates import Scope, value_of
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import FindingRule, Playbook
from runbook.values.types import Json, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The values that a host contributes to one finding with ``across``, and the names that the finding's
    expressions may use.
    """

    value: Json | Unknown
    group: Json | Unknown
    scope: Scope


Offers = Mapping[str, Offer]
"""The offers of a host, keyed by finding id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A host of the run, with its own findings and its contributions to the comparison; *why*: why it was not
    probed.
    """

    host: str
    findings: tuple[Finding, ...] = ()
    offers: Offers | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of a comparison for one host; *fields*: the values of ``across.`` in expressions."""

    seen: Compared | Unknown | None
    fields: Mapping[str, Json] = field(default_factory=dict)


def offers_of(context: HostContext, states: States) -> Offers:
    """Return the contribution of the host of *context* to every finding that compares."""
    return {rule.id: _offer(rule, context.scope(states, rule.part)) for rule in context.playbook.comparisons}


def compared(playbook: Playbook, hosts: Sequence[Candidate]) -> Mapping[str, tuple[Finding, ...]]:
    """Evaluate the findings that compare hosts (``across``); return the findings of every probed host, keyed by host.

    Each finding is evaluated on all hosts before the next finding.  So a finding can ask on which hosts an earlier
    finding is present.
    """
    offers = {candidate.host: candidate.offers for candidate in hosts if candidate.offers is not None}
    found = {
        candidate.host: {one.id: one for one in candidate.findings}
        for candidate in hosts
        if candidate.offers is not None
    }
    present: dict[str, tuple[str, ...]] = {}
    for rule in playbook.findings:
        seen = (
            _observations(compare([_share(rule, candidate) for candidate in hosts]), _own_names(present, rule))
            if rule.across
            else {}
        )
        for host, own in found.items():
            if rule.across:
                own[rule.id] = _finding(rule, offers[host][rule.id].scope, seen[host], own)
            else:
                own[rule.id] = _unless_explained(own[rule.id], rule, own)
        present[rule.id] = tuple(sorted(word for word in found if found[word][rule.id].status is Presence.PRESENT))
    return {host: tuple(own[rule.id] for rule in playbook.findings) for host, own in found.items()}


def _own_names(present: Mapping[str, tuple[str, ...]], rule: FindingRule) -> Mapping[str, tuple[str, ...]]:
    """Return *present* with each finding id as the included playbook of *rule* writes it: without the prefix of the
    part.
    """
    prefix = f"{rule.part}_" if rule.part else ""
    return {name.removeprefix(prefix): hosts for name, hosts in present.items() if name.startswith(prefix)}


def _offer(rule: FindingRule, scope: Scope) -> Offer:
    assert rule.across
    value = _value(rule.across.value, scope)
    return Offer(value=value, group=_value(rule.across.by, scope) if rule.across.by else None, scope=scope)


def _value(expression: str, scope: Scope) -> Json | Unknown:
    try:
        return value_of(expression, scope)
    except ConfigError as error:
        return Unknown(why=f"`across` cannot be evaluated: {error}")


def _share(rule: FindingRule, host: Candidate) -> Share:
    if host.offers is None:
        return Share(host=host.host, value=Unknown(why=host.why), group=Unknown(why=host.why))
    return Share(host=host.host, value=host.offers[rule.id].value, group=host.offers[rule.id].group)


def _unless_explained(finding: Finding, rule: FindingRule, found: Mapping[str, Finding]) -> Finding:
    """Return *finding*, which uses only its own host; absent if a finding named in ``unless`` is present and
    explains it.
    """
    explained = [name for name in rule.unless if found[name].status is Presence.PRESENT]
    if not explained or finding.status is Presence.ABSENT:
        return finding
    why = f"explained by {', '.join(explained)}"
    return Finding(id=rule.id, severity=rule.severity, status=Presence.ABSENT, why=why)


def _observations(
    seen: Mapping[str, Compared | Unknown | None], present: Mapping[str, tuple[str, ...]]
) -> Mapping[str, Observation]:
    """Return, for each host, its comparison from *seen* and the fields that expressions can read.

    *present*: the hosts of all groups on which each earlier finding is present.  Hosts of one group share most fields.
    """
    shared: dict[int, Mapping[str, Json]] = {}
    observations = {}
    for host, it in seen.items():
        if not isinstance(it, Compared):
            observations[host] = Observation(seen=it)
            continue
        if id(it.hosts) not in shared:
            there = {one.host for one in it.hosts}
            here = {name: tuple(host for host in hosts if host in there) for name, hosts in present.items()}
            made = to_json(replace(it, found=here))
            assert isinstance(made, Mapping)
            shared[id(it.hosts)] = made
        observations[host] = Observation(
            seen=it, fields={**shared[id(it.hosts)], "value": to_json(it.value), "alike": it.alike}
        )
    return observations


def _finding(rule: FindingRule, scope: Scope, observation: Observation, found: Mapping[str, Finding]) -> Finding:
    """Evaluate *rule*, a finding with ``across``, for one host; *found*: the findings evaluated before it."""
    match observation.seen:
        case None:
            why = "not compared: no other host of the run takes part, or this one does not"
            return Finding(id=rule.id, severity=rule.severity, status=Presence.ABSENT, why=why)
        case Unknown(why=why):
            unknown: Json | Unknown = Unknown(why=why)
            return evaluated(rule, replace(scope, states={**scope.states, ACROSS: unknown}), found)
        case Compared() as seen:
            made = evaluated(rule, replace(scope, states={**scope.states, ACROSS: observation.fields}), found)
            return _with_reach(made, seen)


def _with_reach(finding: Finding, seen: Compared) -> Finding:
    """Return *finding* with the number of compared hosts as evidence; if hosts are missing, the number is added to
    its text.
    """
    if finding.status is not Presence.PRESENT:
        return finding
    say = f"{finding.say} (compared among {seen.words})" if seen.missing else finding.say
    return replace(finding, say=say, evidence={**finding.evidence, "compared": seen.words})
