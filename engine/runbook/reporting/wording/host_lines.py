"""The wording for hosts, findings and steps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from runbook.reporting.wording.evidence import evidence_lines, short
from runbook.values.owed import NotedIn
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostPlan, HostResult, Sent, SentCommand, Status, StepResult, Verdict, Victim

K = TypeVar("K")

NEXT_AFTER_CANCEL = "run it again: hosts are probed again, and what was done is not repeated"

ADVISED = frozenset({Verdict.UNRESOLVED, Verdict.FAILED, Verdict.UNKNOWN})
"""Verdicts under which a person reads what to do about errors; else the plan, or the run, does it."""

COUNTED = re.compile(r"\d+ items?")
"""What is said of a probe that was taken for each of a list: no news."""

EXPRESSION = re.compile(r" \(in: `[^`]*`\)")
"""The expression in which something is not known, behind the words that say what: authors find it in JSON."""

SHOWN_VICTIMS = 20
SHOWN_ADVICE = 3
"""Lines of advice under a warning or an info; an error has all of its own."""
SHOWN_DIFF = 60
"""Lines of a step's diff."""
LONGEST_LINE = 2000
"""Characters of a command line that is shown whole, so that it can be pasted."""
LONGEST_SCRIPT = 300
"""Characters of a script's name and arguments."""
SHOWN_NEW = 12
"""Lines of the diff of a file that is new: whose content is known to anybody who sends it."""


def grouped(pairs: Iterable[tuple[K, str]]) -> Mapping[K, list[str]]:
    """The names that go with each key, in the order in which they come."""
    groups: dict[K, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def host_lines(host: HostResult) -> list[str]:
    """Everything on a host that a person should read: its verdict, the cause and what to do about it, then the rest."""
    lines = [str(host.verdict)]
    if host.verdict is Verdict.CANCELLED:
        return [*lines, *cancelled_lines(host), *owed_lines(host)]
    if host.error:
        lines.append(host.error)
        if all(step.why.startswith(host.error) or host.verdict is Verdict.NOT_STARTED for step in host.steps):
            return [*lines, *sampled_lines(host, host.steps), *owed_lines(host)]
    lines += _findings_with_advice(host)
    failed = [step for step in host.steps if step.phase is Phase.DIAGNOSE and step.status in BROKEN]
    lines += [line for step in failed for line in step_lines(step)]
    unknown = [finding for finding in host.findings if finding.status is Presence.UNKNOWN]
    for why, ids in grouped((in_short(finding, failed), finding.id) for finding in unknown).items():
        lines.append(f"unknown: {', '.join(ids)}: {why}")
    return [*lines, *_other_steps(host, failed), *believed_lines(host), *owed_lines(host)]


def believed_lines(host: HostResult) -> list[str]:
    """That probes of authors could have written, in one line; the reason is the same for all of them on a host."""
    believed = [(command.unconfined, step.id) for step in host.steps for command in step.commands if command.unconfined]
    if not believed:
        return []
    probes = ", ".join(dict.fromkeys(id for _, id in believed))
    return [f"believed, not enforced, to only read: {probes} ({believed[0][0]})"]


def sampled_lines(host: HostResult, steps: Iterable[StepResult]) -> Iterator[str]:
    """What is known of probes that were ended in the middle of their samples."""
    return (f"{step.id}: {step.why.removeprefix(f'{host.error}; ')}" for step in steps if step.state)


def _other_steps(host: HostResult, failed: Sequence[StepResult]) -> Iterator[str]:
    """The lines of every step but the *failed* probes."""
    planned = any(step.status is Status.WOULD_CHANGE for step in host.steps)
    changing = planned or any(step.planned for step in host.steps)
    for step in (replace(other, why=in_short(other, failed)) for other in host.steps if other not in failed):
        if step.inapplicable and changing and step.phase is Phase.REMEDIATE:  # a restart that its author counts on
            yield step_line(step)
        elif planned or step.status is not Status.SKIPPED or step.phase is Phase.DIAGNOSE:
            yield from step_lines(step)


def cancelled_lines(host: HostResult) -> list[str]:
    """Why the run was ended here, what was found, what was done, what nobody knows, what was not done, what is next."""
    changes = [step for step in host.steps if step.phase is not Phase.DIAGNOSE]
    groups = {key: ", ".join(ids) for key, ids in grouped((_end(step), step.id) for step in changes).items()}
    touched = any(_end(step) in TOUCHED or (step.status is Status.FAILED and step.sent in SOME) for step in changes)
    lines = [
        host.error or "",
        *map(_finding_line, driving(host)),
        *sampled_lines(host, [step for step in host.steps if step.status is Status.CANCELLED]),
        "" if touched else "done: nothing was changed",
        *(f"{end}: {groups[end]}" for end in ENDS if end in groups),
        f"next: {NEXT_AFTER_CANCEL}",
    ]
    return [line for line in lines if line]


DONE, UNPROBED, FAILED, DOUBTFUL, LEFT = ENDS = (
    "done",
    "done, and not probed again",
    "failed",
    "not known, perhaps done, or half",
    "not done",
)
"""Groups of the steps of a host on which the run was ended."""
TOUCHED = (DONE, UNPROBED, DOUBTFUL)
SOME = (Sent.PART, Sent.ALL)


def _end(step: StepResult) -> str:
    """The group of a step of a host on which the run was ended; empty: there was nothing to do."""
    match step.status:
        case Status.CHANGED:
            return DONE
        case Status.FAILED:
            return FAILED
        case Status.UNKNOWN | Status.CANCELLED if step.sent is Sent.ALL:
            return UNPROBED
        case Status.CANCELLED if step.sent is Sent.NOTHING:
            return LEFT
        case Status.UNKNOWN | Status.CANCELLED:
            return DOUBTFUL
        case Status.BLOCKED | Status.DRIFTED | Status.OWED:
            return LEFT
    return ""


CANCELLED_AFTER = {Sent.NOTHING: "not sent", Sent.PART: "perhaps half done", Sent.ALL: "done, and not probed again"}


def extent_notes(step: StepResult) -> list[str]:
    """How far the change of a cancelled step had come, in words."""
    cancelled = step.status is Status.CANCELLED and step.phase is Phase.REMEDIATE and step.sent is not Sent.UNSAID
    return [CANCELLED_AFTER[step.sent]] if cancelled else []


def driving(host: HostResult) -> list[Finding]:
    """The findings that are there and that something has to be done about."""
    return [finding for finding in host.findings if finding.severity.drives and finding.status is Presence.PRESENT]


def in_short(result: Finding | StepResult, failed: Sequence[StepResult]) -> str:
    """Why *result* is as it is; where it rests on one of the *failed* probes, which tell why they did: their names."""
    why = EXPRESSION.sub("", result.why or "")
    causes = [step for step in failed if step.id in result.rests_on or (why and step.why == why)]
    return " and ".join(f"{step.id} {step.status}" for step in causes) or why


def owed_lines(host: HostResult) -> list[str]:
    """The clean-ups that are owed to *host*, a line each, and what to do about them."""
    lines = []
    for owed in host.owed:
        by = f", by {owed.by}" if owed.by else ""
        lines.append(
            f"clean-up owed by run {owed.run} of {owed.playbook}{by}, since {owed.since}: {'; '.join(owed.steps)}"
        )
    here = any(NotedIn.CONTROLLER in owed.noted for owed in host.owed)
    where = "" if here else ", on the machine of the user who started that run"
    return [*lines, f"next: `runbook settle --hosts {host.host}`{where}"] if lines else []


def cause(host: HostResult) -> str:
    """Why a host is not fine, in one line; never empty for one that is not."""
    if host.error:
        return host.error
    present = [finding for finding in host.findings if finding.severity.drives and finding.status is Presence.PRESENT]
    if host.verdict in (Verdict.UNRESOLVED, Verdict.PLANNED) and present:
        return "; ".join(f"{finding.id}: {finding.say or finding.id}" for finding in present)
    judged = [step for step in host.steps if not step.ignored]
    causes = (
        *_lines_with(BROKEN, judged),
        *_unknown_causes(host),
        *_lines_with(HELD_UP, judged),
        *_lines_with((*BROKEN, *HELD_UP), host.steps),
    )
    return next(iter(causes), "no step and no finding says why: see --output json")


BROKEN = (Status.FAILED, Status.UNKNOWN, Status.DRIFTED, Status.OWED)
HELD_UP = (Status.BLOCKED, Status.CANCELLED)


def _lines_with(statuses: Iterable[Status], steps: Sequence[StepResult]) -> list[str]:
    """The lines of the steps with one of *statuses*, in the order of these."""
    return [step_line(step) for status in statuses for step in steps if step.status is status]


def _unknown_causes(host: HostResult) -> list[str]:
    """The findings that are not known; before them, where that is the verdict, what is found and has advice."""
    blind = (finding for finding in host.findings if finding.status is Presence.UNKNOWN)
    unknown = [f"{finding.id} is unknown: {EXPRESSION.sub('', finding.why or '')}" for finding in blind]
    if host.verdict is not Verdict.UNKNOWN or not unknown:
        return unknown
    found = (finding for finding in advised(host) if finding.severity is not Severity.INFO)
    return [*(f"{finding.id}: {finding.say or finding.id}" for finding in found), *unknown]


def advised(host: HostResult) -> list[Finding]:
    """What is found on *host* and has advice: errors first, then warnings."""
    there = [finding for finding in host.findings if finding.status is Presence.PRESENT and finding.advise]
    return sorted(there, key=lambda it: (not it.severity.drives, it.severity is not Severity.WARNING))


def advice(host: HostResult) -> tuple[str, ...]:
    """What a person can do about *host*, the first thing first; empty where nothing is advised.

    Where no error is found, which may be because something is not known, a warning has to do.
    """
    found = advised(host)
    wanted = found and (host.verdict in ADVISED or found[0].severity is Severity.WARNING)
    return found[0].advise if wanted else ()


def _findings_with_advice(host: HostResult) -> list[str]:
    """The findings of *host*: errors first, for they are the cause, each with what to do right below it."""
    order = sorted(
        host.findings, key=lambda finding: not (finding.severity.drives and finding.status is Presence.PRESENT)
    )
    lines: list[str] = []
    said: set[str] = set()
    shown: set[str] = set()
    for finding in order:
        wanted = finding.status is Presence.PRESENT and (not finding.severity.drives or host.verdict in ADVISED)
        advice = [word for word in dict.fromkeys(finding.advise) if word not in said] if wanted else []
        said.update(advice)
        lines += _finding_lines(finding, shown, advice)
    return lines


def _finding_lines(finding: Finding, shown: set[str], advice: Sequence[str] = ()) -> list[str]:
    """A finding with its evidence; a process of which *shown* knows is only named."""
    if finding.status in (Presence.ABSENT, Presence.UNKNOWN):
        return []
    if finding.status is Presence.GONE:
        return [f"gone: {finding.id} (was: {finding.say or finding.id})"]
    evidence = [line for name, value in finding.evidence.items() for line in evidence_lines(name, value, shown)]
    return [_finding_line(finding), *_advice_lines(finding, advice), *evidence]


def _finding_line(finding: Finding) -> str:
    return f"{finding.severity} {finding.id}: {finding.say or finding.id}"


def _advice_lines(finding: Finding, advice: Sequence[str]) -> list[str]:
    """What to do about *finding*: all of it for an error, the first lines for what only informs."""
    shown = [" ".join(word.split()) for word in (advice if finding.severity.drives else advice[:SHOWN_ADVICE])]
    if len(advice) == 1:
        return [f"  next: {shown[0]}"]
    more = [f"    ... {len(advice) - len(shown)} more: see --output json"] if len(shown) < len(advice) else []
    lines = [f"    {number}. {it}" for number, it in enumerate(shown, 1)]
    return ["  next:", *lines, *more] if advice else []


def step_lines(step: StepResult) -> list[str]:
    """What a person should read of a step: nothing where there is no news."""
    if is_exec(step):
        head = [] if step.status in (Status.OK, Status.CHANGED) else [step_line(step)]
        return [*head, *output_lines(step)]
    if step.phase is Phase.DIAGNOSE and step.status in (Status.OK, Status.SKIPPED):
        return [f"{step.id}: {step.why}"] if _is_news(step.why) else []
    if step.status is Status.SKIPPED and not step.condition:
        return []
    return [
        step_line(step),
        *(f"  {line}" for line in _victims(step.victims)),
        *(f"  | {line}" for line in _diff_lines(step.diff or "")),
        *(f"  {line}" for line in _planned_commands(step)),
    ]


def is_exec(step: StepResult) -> bool:
    """Whether this is the step of ``runbook exec``, whose output is what was asked for."""
    return step.id == "exec" and step.action == "command" and bool(step.commands)


def _is_news(why: str) -> bool:
    """Whether what a probe came to is more than a condition that did not hold, or a number of items."""
    return bool(why) and not why.startswith("when:") and not COUNTED.fullmatch(why)


def _planned_commands(step: StepResult) -> list[str]:
    """The commands that the step would send; none where its victims say what it does."""
    if step.victims or not (step.status is Status.WOULD_CHANGE or step.condition):
        return []
    return [_shown(command) for command in step.commands if command.effect == "write" and command.exit_code is None]


def _shown(command: SentCommand) -> str:
    """A command that would be sent: whole where it is to be pasted, unless it is endless."""
    most = LONGEST_LINE if command.shown.startswith("$ ") else LONGEST_SCRIPT
    line = command.shown or f"$ {command.line}"
    return line if len(line) <= most else f"{line[:most]}… ({len(line)} characters: see --output json)"


def output_lines(step: StepResult) -> list[str]:
    """What the last command of a step printed, stderr after stdout."""
    sent = step.commands[-1]
    if step.status is Status.WOULD_CHANGE:
        return [f"$ {sent.line}"]
    text = sent.stdout + ("" if sent.stdout.endswith("\n") or not sent.stdout else "\n") + sent.stderr
    return [f"| {line}" for line in text.splitlines()]


def step_line(step: StepResult) -> str:
    """What became of a step, in one line."""
    word = {Status.WOULD_CHANGE: "would change"}.get(step.status, str(step.status))
    notes = [str(step.risk)] if step.risk and step.status is Status.WOULD_CHANGE else []
    notes += [step.condition] if step.condition and step.status in (Status.WOULD_CHANGE, Status.SKIPPED) else []
    notes += ["failure ignored"] if step.ignored else []
    notes += extent_notes(step)
    notes += ["not verified"] if step.status is Status.CHANGED and not step.verified else []
    said = by_name(step)
    why = "" if said and notes and notes[0].startswith(said) else said
    return f"{word} {step.id}: {why}" + (f"{' ' if why else ''}[{'; '.join(notes)}]" if notes else "")


def by_name(step: StepResult) -> str:
    """Why a step ended as it did; a script of several commands is called what its author calls the step."""
    scripted = step.name and step.planned and step.planned.startswith("run ") and ";" in step.planned
    return EXPRESSION.sub("", step.why.replace(step.planned or "", step.name or "") if scripted else step.why)


def _diff_lines(diff: str) -> list[str]:
    """A diff as far as a person reads it on a screen: of a script that is new, its path and how long it is."""
    lines = diff.removesuffix("\n").split("\n") if diff else []
    if lines[:1] == ["--- /dev/null"] and any(line.startswith("+#!") for line in lines[2:4]):
        return [lines[1], f"{sum(line[:1] == '+' for line in lines[2:])} new lines: --report or --output json has them"]
    most = SHOWN_NEW if diff.startswith("--- /dev/null") else SHOWN_DIFF
    if len(lines) <= most + 1:  # a line that says "1 more" takes its place
        return lines
    return [*lines[:most], f"... {len(lines) - most} more lines: --report or --output json has all"]


def _victims(victims: tuple[Victim, ...]) -> list[str]:
    lines = [
        f"pid {victim.pid} ({victim.user}) {short(victim.command)}{_owner(victim)}"
        for victim in victims[:SHOWN_VICTIMS]
    ]
    if len(victims) > SHOWN_VICTIMS:
        lines.append(f"... and {len(victims) - SHOWN_VICTIMS} more: see --output json")
    return lines


def _owner(victim: Victim) -> str:
    return f"  owner: {victim.owner}" if victim.owner else ""


def plan_lines(plan: HostPlan) -> list[str]:
    """What is found on a host, and what would be done; nothing where nothing would be done."""
    planned = [
        line
        for result in plan.results
        if result.status is Status.WOULD_CHANGE or result.condition
        for line in step_lines(result)
    ]
    shown: set[str] = set()
    return (
        [*(line for finding in plan.findings for line in _finding_lines(finding, shown)), *planned] if planned else []
    )
