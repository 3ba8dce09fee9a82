"""Summarise the result of a host: cause, other findings, unknowns, changes, steps that were held back, next actions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.reporting.wording.evidence import short
from runbook.reporting.wording.grouping import HostGroup, together
from runbook.reporting.wording.step_lines import (
    EXPRESSION,
    by_name,
    finding_line,
    grouped,
    in_short,
    named,
    step_line,
)
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import Fault, HostResult, Sent, Status, StepResult, Verdict

NEXT_AFTER_CANCEL = "run it again: hosts are probed again, and what was done is not repeated"

SHOWN_ALSO = 3
"""The maximum number of further findings of a host that are shown."""
SHOWN_UNKNOWN = 2
"""The maximum number of reasons for unknown findings that are shown."""
SHOWN_NAMES = 6
"""The maximum number of ids in a list."""
SHOWN_CAUSE = 200
"""The maximum number of letters of a cause or an action here; the recap has the whole text."""

LIMIT = re.compile(r"^(limits\.\w+): .*(`runbook history [^`]+`)", re.DOTALL)
"""Matches the reason of a step that a limit over several runs holds back: the limit, and the command that lists these
runs.
"""
NOT_AS_PLANNED = "not as planned: "
"""The beginning of the error of a host that has changed since its plan was saved."""
BY_HAND = "connect by hand: `ssh -v`, with the address and the user that `runbook hosts HOST` shows"
UNREACHED = {
    "connection to the gateway .* was lost|via the gateway .*(connection refused|no answer|no SSH|timed out)": (
        "check the gateway: no host behind it can be reached without it"
    ),
    "the gateway .* refuses to connect": "allow it in the gateway's sshd_config (AllowTcpForwarding, PermitOpen)",
    "host key": "compare the key with what the machine's own console says before you trust either",
    "login as .* was refused": "check the user and the key that the inventory and ~/.ssh/config give this host",
    "no shell could be started": "log in by hand, and see what the login shell of this user does",
    "connection refused": "nothing listens on this port: check that host and sshd are up, and the address and port",
    "the name cannot be resolved": "check the address in the inventory, and whether DNS or a VPN is down here",
    "no SSH banner|handshake": "sshd hangs or is overloaded: look at the console; `--connect-timeout 1m` waits longer",
    "no answer|no route|unreachable|timed out": "check that the host is powered on, and the way to it (VPN, firewall)",
}
"""The remedies for hosts that cannot be reached; the keys are patterns of their errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line about a host."""

    text: str
    sources: Sequence[Finding | StepResult] = ()
    """The findings or steps from which the line is made; empty if it is the error of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDigest:
    """The parts of a host's result that a person reads, in the order of importance."""

    result: HostResult
    cause: Line | None = None
    """The reason for the verdict of the host in one line: the fault, or the repaired fault; None if nothing
    was wrong.
    """
    errors: Sequence[Finding] = ()
    """The present errors, the worst first."""
    warnings: Sequence[Finding] = ()
    """The present warnings."""
    cured: Sequence[Finding] = ()
    """The findings that the run has repaired, the worst first."""
    failed: Sequence[StepResult] = ()
    """The probes that did not answer."""
    found: Sequence[Line] = ()
    """The first lines: the reason for the verdict, in more detail than *cause*."""
    also: Sequence[Line] = ()
    """The other findings, which are not errors."""
    unknown: Sequence[Line] = ()
    changes: Sequence[StepResult] = ()
    """The changes that were made, that failed, or that would be made, each with a short reason."""
    held_back: Sequence[Line] = ()
    """The steps that were not done, with the reason; for a cancelled run, the extent of each change."""
    next: Sequence[str] = ()
    """The next actions for a person, in order; empty if the next action is to carry out the plan."""

    @property
    def is_well(self) -> bool:
        """Whether the host needs no action of a person and no plan."""
        return self.result.verdict.is_fine and not (self.result.verdict is Verdict.PLANNED and self.errors)

    @property
    def reason(self) -> str:
        """Return the cause without the verdict; empty if there is none."""
        return self.cause.text.removeprefix(f"{self.result.verdict} ") if self.cause else ""

    @property
    def next_line(self) -> str:
        """Return the next action of a person, or the first change of the plan; empty if there is none."""
        if self.result.verdict is Verdict.PLANNED:
            planned = [step for step in self.result.steps if step.status is Status.WOULD_CHANGE]
            return f"would change {planned[0].id}: {short(by_name(planned[0]), SHOWN_CAUSE)}" if planned else ""
        return f"next: {short(self.next[0], SHOWN_CAUSE)}" if self.next else ""


def host_digest(host: HostResult) -> HostDigest:
    """Return the summary of *host*."""
    present = _with(host, Presence.PRESENT)
    digest = HostDigest(
        result=host,
        errors=_worst_first(finding for finding in present if finding.severity.drives),
        warnings=[finding for finding in present if finding.severity is Severity.WARNING],
        cured=_worst_first(_with(host, Presence.GONE)),
        failed=[step for step in host.steps if step.phase is Phase.DIAGNOSE and step.status.is_broken],
    )
    digest = replace(digest, cause=_cause(digest), next=_next(host))
    return _cancelled(digest) if host.verdict is Verdict.CANCELLED else _with_lines(digest)


def _with_lines(digest: HostDigest) -> HostDigest:
    """Return *digest* with all its lines; without a finding, an unknown or a failed step is the cause."""
    host, advice = digest.result, _advised(digest.result)
    found, also, unknown = [*_found(digest)], [*_also(digest)], [*_unknown(digest)]
    changes, held_back = ([], []) if says_all(host) else ([*_changes(digest)], [*_held_back(digest)])
    if not found and host.verdict is Verdict.UNKNOWN and advice and advice[0].severity is Severity.WARNING:
        found, also = [replace(line, text=line.text.partition(" ")[2]) for line in also], []
    if not found:
        found, unknown = unknown[:1], unknown[1:]
    if not found and host.verdict is Verdict.FAILED and digest.cause:
        found = [digest.cause]
        changes = [step for step in changes if step.id not in {source.id for source in digest.cause.sources}]
    return replace(digest, found=found, also=also, unknown=unknown, changes=changes, held_back=held_back)


def says_all(host: HostResult) -> bool:
    """Whether the error of *host* already says everything about its steps."""
    same = all(step.why.startswith(host.error or "") for step in host.steps)
    return bool(host.error) and (same or host.verdict is Verdict.NOT_STARTED)


def _with(host: HostResult, status: Presence) -> list[Finding]:
    return [finding for finding in host.findings if finding.status is status]


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity), reverse=True)


def _cause(digest: HostDigest) -> Line | None:
    """Return the reason for the verdict of the host; every host that is not fine has a reason."""
    host = digest.result
    if digest.is_well:
        errors = [finding for finding in digest.cured if finding.severity.drives] or digest.cured
        cured = Line(text="; ".join(map(_gone, errors)), sources=errors)
        return cured if errors and host.verdict is Verdict.RESOLVED and not host.error else None
    if host.error:
        return Line(text=host.error)
    if host.verdict in (Verdict.UNRESOLVED, Verdict.PLANNED) and digest.errors:
        present = [finding for finding in host.findings if finding in digest.errors]
        return Line(text="; ".join(map(named, present)), sources=present)
    ended = [step for status in ENDED_BADLY for step in host.steps if step.status is status]
    judged = [step for step in ended if not step.ignored]
    lines = (
        *(_step(step) for step in judged if step.status.is_broken),
        *_unknown_causes(host),
        *map(_step, [*judged, *ended]),
    )
    return next(iter(lines), Line(text="no step and no finding says why: see --output json"))


ENDED_BADLY = (
    Status.FAILED,
    Status.TIMEOUT,
    Status.UNKNOWN,
    Status.DRIFTED,
    Status.OWED,
    Status.BLOCKED,
    Status.CANCELLED,
)
"""The statuses of steps that can be the cause; the first of them that occurs is used."""


def _step(step: StepResult) -> Line:
    return Line(text=step_line(step), sources=(step,))


def _unknown_causes(host: HostResult) -> list[Line]:
    """Return the unknown findings; if the verdict is unknown, findings with advice come before them."""
    unknown = [
        Line(text=f"{finding.id} is unknown: {EXPRESSION.sub('', finding.why or '')}", sources=(finding,))
        for finding in _with(host, Presence.UNKNOWN)
    ]
    advised = _advised(host) if host.verdict is Verdict.UNKNOWN and unknown else []
    warned = [finding for finding in advised if finding.severity is not Severity.INFO]
    return [*(Line(text=named(finding), sources=[finding]) for finding in warned), *unknown]


def _advised(host: HostResult) -> list[Finding]:
    """Return the findings of *host* that have advice: errors first, then warnings."""
    there = [finding for finding in _with(host, Presence.PRESENT) if finding.advise]
    return sorted(there, key=lambda each: (not each.severity.drives, each.severity is not Severity.WARNING))


def _gone(finding: Finding) -> str:
    return f"{finding.id} is gone (was: {finding.say or finding.id})"


def _found(digest: HostDigest) -> Iterator[Line]:
    if digest.result.error:
        yield Line(text=digest.result.error)
    if digest.errors:
        yield Line(text=named(digest.errors[0]), sources=digest.errors[:1])
    if further := digest.errors[1:]:
        yield Line(text=f"also {listed([*map(named, further)])}", sources=further)
    if digest.cured:
        yield Line(text=listed([*map(_gone, digest.cured)]), sources=digest.cured)


def _also(digest: HostDigest) -> Iterator[Line]:
    """Yield the findings that are not errors; mere information only if there is nothing worse and nothing was
    changed.
    """
    is_news = not digest.errors and digest.result.verdict is not Verdict.RESOLVED
    if shown := digest.warnings or (_with(digest.result, Presence.PRESENT) if is_news else []):
        yield Line(text=f"{shown[0].severity} {listed([*map(named, shown)])}", sources=shown)


def _unknown(digest: HostDigest) -> Iterator[Line]:
    """Yield the unknowns with their reasons: first the probes that did not answer, then the findings that depend on
    them.
    """
    host, failed = digest.result, digest.failed
    if says_all(host):
        yield from _sampled(host, host.steps)
        return
    reported = _without_times(" ".join(finding.say for finding in digest.errors))
    for step in failed:
        if not step.ignored and _without_times(step.why) not in reported:
            yield _step(step)
    unknown = [finding for finding in _with(host, Presence.UNKNOWN) if finding.severity.drives]
    silent, left_out = {step.id for step in failed}, _left_out(host)
    if follows := [finding.id for finding in unknown if silent.intersection(finding.rests_on)]:
        yield Line(text=f"not known, as {_names([step.id for step in failed])} did not answer: {_names(follows)}")
    if unmeasured := [finding.id for finding in unknown if left_out.intersection(finding.rests_on)]:
        yield Line(text=f"not measured in a dry run without --scratch: {_names(unmeasured)}")
    others = [finding for finding in unknown if not (silent | left_out).intersection(finding.rests_on)]
    reasons = [*grouped((in_short(finding, ()), finding.id) for finding in others).items()]
    for why, names in reasons[:SHOWN_UNKNOWN]:
        yield Line(text=f"unknown: {_names(names)}: {why}")
    if left := [name for _, names in reasons[SHOWN_UNKNOWN:] for name in names]:
        yield Line(text=f"unknown, too: {_names(left)} (-v: why)")
    if held := _held_by_blindness(digest):
        yield Line(text=f"not done, as that is not known: {_names(held)}")


def _sampled(host: HostResult, steps: Iterable[StepResult]) -> Iterator[Line]:
    """Yield the results of probes that ended in the middle of their samples."""
    return (
        Line(text=f"{step.id}: {step.why.removeprefix(f'{host.error}; ')}", sources=(step,))
        for step in steps
        if step.state
    )


def _without_times(text: str) -> str:
    return re.sub(r"\d+(?:\.\d+)? s\b", "", text)


def _left_out(host: HostResult) -> set[str]:
    """Return the probes of *host* that a dry run leaves out."""
    return {step.id for step in host.steps if step.fault is Fault.SCRATCH}


def _held_by_blindness(digest: HostDigest) -> list[str]:
    """Return the changes that depend on a probe without an answer, and the changes that come after such a change."""
    silent = {step.id for step in digest.failed} | _left_out(digest.result)
    held: list[str] = []
    for step in digest.result.steps:
        if step.phase is not Phase.DIAGNOSE and step.status.is_held_back and silent.intersection(step.rests_on):
            held.append(step.id)
            silent.add(step.id)
    return held


def _steps(digest: HostDigest) -> list[StepResult]:
    """Return all steps except the probes, each with a short reason."""
    steps = (step for step in digest.result.steps if step.phase is not Phase.DIAGNOSE)
    return [replace(step, why=in_short(step, digest.failed)) for step in steps]


def _changes(digest: HostDigest) -> Iterator[StepResult]:
    """Yield the changes that were made or failed, those of a plan, and a restart that does not apply."""
    steps = _steps(digest)
    planned = any(step.status is Status.WOULD_CHANGE for step in steps)
    changing = planned or any(step.planned for step in steps)
    for step in steps:
        match step.status:
            case Status.SKIPPED:
                is_told = bool(step.condition and planned) or (step.inapplicable and changing)
            case Status.OK:  # it was called for, and found nothing to do
                called_for = digest.result.verdict is Verdict.UNRESOLVED and step.phase is Phase.REMEDIATE
                is_told = called_for and bool(step.why)
            case _:
                is_told = not step.status.is_held_back
        if is_told:
            yield step


def _held_back(digest: HostDigest) -> Iterator[Line]:
    """Yield the steps that were held back; steps with the same reason share one line."""
    follows = _held_by_blindness(digest)
    held = [step for step in _steps(digest) if step.status.is_held_back and step.id not in follows]
    for why, names in grouped((step.why, step.id) for step in held).items():
        yield Line(text=f"not done: {_names(names)}: {why}", sources=[step for step in held if step.why == why])


def listed(texts: Sequence[str]) -> str:
    """Return the first *texts* as one text, with the number of the others."""
    more = [f"{len(texts) - SHOWN_ALSO} more (-v)"] if len(texts) > SHOWN_ALSO else []
    return "; ".join([*texts[:SHOWN_ALSO], *more])


def _names(names: Sequence[str]) -> str:
    """Return the first *names* as one text, with the number of the others."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more


def _cancelled(digest: HostDigest) -> HostDigest:
    """Return *digest* with the lines of a cancelled run: why it ended, its findings, and what was done, is in doubt,
    or was not done.
    """
    host, errors = digest.result, [finding for finding in digest.result.findings if finding in digest.errors]
    cut_off = [step for step in host.steps if step.status is Status.CANCELLED]
    ends = [(_end(step), step) for step in host.steps if step.phase is not Phase.DIAGNOSE]
    untouched = not any(end in ENDS[:4] and (end != "failed" or step.sent in SOME) for end, step in ends)
    groups = grouped((end, step.id) for end, step in ends)
    lines = [f"{end}: {', '.join(groups[end])}" for end in ENDS if end in groups]
    return replace(
        digest,
        found=[Line(text=host.error)] if host.error else [],
        also=[Line(text=finding_line(finding), sources=[finding]) for finding in errors],
        unknown=[*_sampled(host, cut_off)],
        held_back=[Line(text=line) for line in [*(["done: nothing was changed"] if untouched else []), *lines]],
    )


ENDS = ("done", "done, and not probed again", "failed", "not known, perhaps done, or half", "not done")
"""The groups of the steps of a host whose run was cancelled."""
SOME = (Sent.PART, Sent.ALL)


def _end(step: StepResult) -> str:
    """Return the group of *step* on a host whose run was cancelled; empty if there was nothing to do."""
    match step.status:
        case Status.CHANGED:
            return "done"
        case Status.FAILED | Status.TIMEOUT:
            return "failed"
        case Status.UNKNOWN | Status.CANCELLED if step.sent is Sent.ALL:
            return "done, and not probed again"
        case Status.CANCELLED if step.sent is Sent.NOTHING:
            return "not done"
        case Status.UNKNOWN | Status.CANCELLED:
            return "not known, perhaps done, or half"
        case Status.BLOCKED | Status.DRIFTED | Status.OWED:
            return "not done"
    return ""


def _next(host: HostResult) -> Sequence[str]:
    """Return the next actions of a person, according to the verdict, the steps that were held back, or the advice."""
    match host.verdict:
        case Verdict.UNREACHABLE:
            known = (way for error, way in UNREACHED.items() if re.search(error, host.error or "", re.IGNORECASE))
            return [next(known, BY_HAND).replace("HOST", host.host)]
        case Verdict.PLANNED:
            return []
        case Verdict.DRIFTED:
            return [_after_drift(host)]
        case Verdict.CANCELLED:
            return [NEXT_AFTER_CANCEL]
    blocked = [step.why for step in host.steps if step.status is Status.BLOCKED]
    if any(why.startswith("needs --yes") for why in blocked):
        return ["nothing was changed without a yes: run it again with --yes, or on a terminal"]
    advised = _advised(host)  # a warning where no error is found, perhaps as something is unknown
    if advised and (host.verdict.needs_advice or advised[0].severity is Severity.WARNING):
        return advised[0].advise
    if limit := next(filter(None, map(LIMIT.search, blocked)), None):
        return [f"{limit[1]} holds the host back; see what the earlier runs did: {limit[2]}"]
    unmeasured = host.verdict is Verdict.UNKNOWN and _left_out(host)
    return ["measure it, too: the same with --scratch"] if unmeasured else []


def _after_drift(host: HostResult) -> str:
    """Return the advice for a host that has changed since its plan was shown, or since the run to undo."""
    if any(step.status is Status.DRIFTED and step.action == "restore_file" for step in host.steps):
        return "read what differs; to restore the file all the same, copy it by hand from where its step says"
    if (host.error or "").startswith(NOT_AS_PLANNED):
        again = f"`runbook plan PLAYBOOK --hosts {host.host} -o FILE`"
        return f"nothing was sent to this host; see what has changed there, and make a new plan: {again}"
    return "see what has changed on the host, then run it again and read the new plan"


def causes(hosts: Iterable[HostResult]) -> list[HostGroup]:
    """Return the hosts grouped by cause, the worst first; hosts without a fault, now or before the run, are
    left out.
    """
    digests = sorted(map(host_digest, hosts), key=lambda digest: digest.result.verdict.rank)
    verdicts = {digest.result.host: digest.result.verdict for digest in digests}
    lines = (
        (host.host, (host.verdict,), [f"{host.verdict}: {digest.cause.text}", digest.next_line], True)
        for digest in digests
        if digest.cause and (host := digest.result)
    )
    return [
        HostGroup(hosts=names, verdict=verdicts[names[0]], lines=[line for line in group if line])
        for names, group in together(lines)
    ]
