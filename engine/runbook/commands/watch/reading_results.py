"""Read the state of a host for a rule from a dry run, and the outcome of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from runbook.codec import from_json
from runbook.dataclass import dataclass
from runbook.onhost.host_lock import AGAIN
from runbook.text.printable import on_one_line
from runbook.text.timestamps import iso
from runbook.values.plan import Presence, Risk
from runbook.values.playbook import Severity
from runbook.values.result import HostResult, RunResult, Status, StepResult, Verdict
from runbook.values.run_origin import ProcessIdentity
from runbook.values.watch_rule import Rule
from runbook.watch.events import Reading

LONGEST_SAY = 500
"""The characters of a finding that are kept."""
UNASKED = (Verdict.UNREACHABLE, Verdict.CANCELLED, Verdict.NOT_STARTED)
"""The verdicts of hosts whose findings say nothing."""
CURED = (Verdict.RESOLVED, Verdict.HEALTHY)


def readings_in(rule: Rule, lines: Iterator[str]) -> Iterator[Reading]:
    """Yield what a dry run says of its hosts, from its events in *lines*, of ``--output jsonl``.  Raises ValueError."""
    ended: dict[str, float] = {}
    for event in _events(lines):
        if event.get("kind") == "host_finished":
            result = event.get("result")
            name = result.get("host") if isinstance(result, Mapping) else None
            ended[str(name)] = iso(str(event.get("at"))) or 0.0
        elif event.get("kind") == "run_finished":
            for host in from_json(RunResult, event.get("result")).hosts:
                yield reading_of(rule, host, ended.get(host.host, 0.0))


def reading_of(rule: Rule, host: HostResult, at: float = 0.0) -> Reading:
    """Return what the dry run on *host*, which ended at the time *at*, says of the fault that *rule* is about."""
    changes = [step for step in host.steps if step.status is Status.WOULD_CHANGE]
    presence, say = _presence(rule, host, has_changes=bool(changes))
    return Reading(
        host=host.host,
        presence=presence,
        say=on_one_line(say, LONGEST_SAY),
        changes=len(changes),
        risk=worst(changes),
        signature=signature(changes) if changes else "",
        at=at,
    )


def worst(changes: list[StepResult]) -> Risk:
    """Return the worst risk of *changes*; a change without one is of unknown risk."""
    order = list(Risk)
    return max((step.risk or Risk.UNKNOWN for step in changes), key=order.index, default=Risk.READS)


def signature(changes: list[StepResult]) -> str:
    """Return a digest of the work of *changes*: their steps, targets, and commands to send; not their words, in which
    the age of a process may stand.
    """
    work = [
        [
            step.id,
            step.diff,
            [(victim.pid, victim.command) for victim in step.victims],
            [sent.line for sent in step.commands if sent.exit_code is None],
        ]
        for step in changes
    ]
    return sha256(json.dumps(work).encode()).hexdigest()[:32]


def _presence(rule: Rule, host: HostResult, *, has_changes: bool) -> tuple[Presence, str]:
    if host.error or host.verdict in UNASKED:
        return Presence.UNKNOWN, host.error or host.verdict.value
    if rule.finding:
        found = next((each for each in host.findings if each.id == rule.finding), None)
        if found is None:
            return Presence.UNKNOWN, f"the finding {rule.finding} was not evaluated"
        match found.status:
            case Presence.PRESENT:
                return Presence.PRESENT, found.say
            case Presence.UNKNOWN:
                return Presence.UNKNOWN, found.why or "it is not known"
        return Presence.ABSENT, ""
    if host.verdict is Verdict.UNKNOWN:
        unknown = next((each for each in host.findings if each.status is Presence.UNKNOWN), None)
        return Presence.UNKNOWN, (unknown.why if unknown else "") or "it is not known"
    errors = [each for each in host.findings if each.status is Presence.PRESENT and each.severity is Severity.ERROR]
    if has_changes or (errors and host.verdict is not Verdict.HEALTHY):
        return Presence.PRESENT, errors[0].say if errors else "there is work to do"
    return Presence.ABSENT, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of carrying out a plan."""

    run: str = ""
    """The id of the run; empty: none was begun, or it is not known."""
    verdict: str = "unknown"
    cured: bool = False
    is_over: bool = False
    """Whether the run has said its last word."""
    locked: bool = False
    process: ProcessIdentity | None = None
    """The process that carries it out; None: it is not known."""


def outcome_of(lines: Iterator[str]) -> Outcome:
    """Return the outcome of the run whose events are in *lines*, of ``--output jsonl``; they may break off."""
    found = Outcome()
    for event in _events(lines):
        if event.get("kind") == "run_started":
            found = Outcome(run=str(event.get("run", "")), process=_process(event.get("origin")))
        elif event.get("kind") == "run_finished":
            found = _finished(event.get("result"), found)
    return found


def _events(lines: Iterator[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the events in *lines*, which may break off."""
    for line in lines:
        try:
            event: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, Mapping):
            yield event


def _process(origin: Any) -> ProcessIdentity | None:
    try:
        return from_json(ProcessIdentity, origin["process"])
    except (ValueError, TypeError, LookupError):
        return None


def _finished(tree: Any, before: Outcome) -> Outcome:
    try:
        result = from_json(RunResult, tree)
    except ValueError:
        return before
    verdicts = [host.verdict for host in result.hosts]
    held = [step for host in result.hosts for step in host.steps if step.status is Status.BLOCKED and AGAIN in step.why]
    return Outcome(
        run=result.run,
        verdict=min(verdicts, key=list(Verdict).index).value if verdicts else "unknown",
        cured=bool(verdicts) and all(verdict in CURED for verdict in verdicts),
        is_over=True,
        locked=bool(held),
        process=before.process,
    )
