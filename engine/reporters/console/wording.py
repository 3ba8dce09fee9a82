"""The words in which a person reads about a host, a finding and a step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from engine.reporters.console.evidence import evidence_lines, short
from engine.values.plan import Finding, Presence
from engine.values.playbook import Phase, Severity
from engine.values.result import HostPlan, HostResult, SentCommand, Status, StepResult, Verdict, Victim

K = TypeVar("K")

ADVISED = frozenset({Verdict.UNRESOLVED, Verdict.FAILED, Verdict.UNKNOWN})
"""Verdicts under which a person reads what to do about errors; else the plan, or the run, does it."""

COUNTED = re.compile(r"\d+ items?")
"""What is said of a look that was taken for each of a list: no news."""

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
"""Lines of the diff of a file that is new: whose content is known to whoever sends it."""


def grouped(pairs: Iterable[tuple[K, str]]) -> Mapping[K, list[str]]:
    """The names that go with each key, in the order in which they come."""
    groups: dict[K, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return groups


def host_lines(host: HostResult) -> list[str]:
    """Everything on a host that a person should read: its verdict, the cause and what to do about it, then the rest."""
    lines = [str(host.verdict)]
    if host.error:
        lines.append(host.error)
        if all(it.why.startswith(host.error) or host.verdict is Verdict.NOT_STARTED for it in host.steps):
            return [*lines, *(f"{it.id}: {it.why.removeprefix(f'{host.error}; ')}" for it in host.steps if it.state)]
    lines += _findings_with_advice(host)
    for why, ids in grouped((it.why, it.id) for it in host.findings if it.status is Presence.UNKNOWN).items():
        lines.append(f"unknown: {', '.join(ids)}: {why}")
    planned = any(it.status is Status.WOULD_CHANGE for it in host.steps)
    changing = planned or any(it.planned for it in host.steps)
    for step in host.steps:
        if step.inapplicable and changing and step.phase is Phase.REMEDIATE:  # a restart that its author counts on
            lines.append(step_line(step))
        elif planned or step.status is not Status.SKIPPED or step.phase is Phase.DIAGNOSE:
            lines += step_lines(step)
    return lines


def cause(host: HostResult) -> str:
    """Why a host is not fine, in one line; never empty for one that is not."""
    if host.error:
        return host.error
    there = [it for it in host.findings if it.severity.drives and it.status is Presence.PRESENT]
    if host.verdict in (Verdict.UNRESOLVED, Verdict.PLANNED) and there:
        return "; ".join(f"{it.id}: {it.say or it.id}" for it in there)
    broken = (Status.FAILED, Status.UNKNOWN, Status.DRIFTED, Status.OWED)
    held_up = (Status.BLOCKED, Status.CANCELLED)
    ours = [it for it in host.steps if not it.ignored]
    steps = [step_line(it) for status in broken for it in ours if it.status is status]
    found = [f"{it.id}: {it.say or it.id}" for it in advised(host) if it.severity is not Severity.INFO]
    unknown = [f"{it.id} is not known: {it.why}" for it in host.findings if it.status is Presence.UNKNOWN]
    unknown = [*found, *unknown] if host.verdict is Verdict.UNKNOWN and unknown else unknown
    blocked = [step_line(it) for status in held_up for it in ours if it.status is status]
    ignored = [step_line(it) for status in (*broken, *held_up) for it in host.steps if it.status is status]
    return next(iter([*steps, *unknown, *blocked, *ignored]), "no step and no finding says why: see --output json")


def next_action(host: HostResult) -> str:
    """The first thing that a person can do about *host*; empty where nothing is advised.

    Where no error is found, which may be because something is not known, a warning has to do.
    """
    found = advised(host)
    return found[0].advise[0] if found and host.verdict in ADVISED else ""


def advised(host: HostResult) -> list[Finding]:
    """What is found on *host* and has advice: errors first, then warnings."""
    there = [it for it in host.findings if it.status is Presence.PRESENT and it.advise]
    return sorted(there, key=lambda it: (not it.severity.drives, it.severity is not Severity.WARNING))


def _findings_with_advice(host: HostResult) -> list[str]:
    """The findings of *host*: errors first, for they are the cause, each with what to do right below it."""
    order = sorted(host.findings, key=lambda it: not (it.severity.drives and it.status is Presence.PRESENT))
    lines: list[str] = []
    said: set[str] = set()
    for finding in order:
        wanted = finding.status is Presence.PRESENT and (not finding.severity.drives or host.verdict in ADVISED)
        advice = [it for it in dict.fromkeys(finding.advise) if it not in said] if wanted else []
        said.update(advice)
        lines += _finding_lines(finding, advice)
    return lines


def _finding_lines(finding: Finding, advice: Sequence[str] = ()) -> list[str]:
    if finding.status in (Presence.ABSENT, Presence.UNKNOWN):
        return []
    said = finding.say or finding.id
    if finding.status is Presence.GONE:
        return [f"gone: {finding.id} (was: {said})"]
    evidence = [line for name, value in finding.evidence.items() for line in evidence_lines(name, value)]
    return [f"{finding.severity} {finding.id}: {said}", *_advice_lines(finding, advice), *evidence]


def _advice_lines(finding: Finding, advice: Sequence[str]) -> list[str]:
    """What to do about *finding*: all of it for an error, the first lines for what only informs."""
    shown = [" ".join(it.split()) for it in (advice if finding.severity.drives else advice[:SHOWN_ADVICE])]
    if len(advice) == 1:
        return [f"  what to do: {shown[0]}"]
    more = [f"    ... {len(advice) - len(shown)} more: see --output json"] if len(shown) < len(advice) else []
    lines = [f"    {number}. {it}" for number, it in enumerate(shown, 1)]
    return ["  what to do:", *lines, *more] if advice else []


def step_lines(step: StepResult) -> list[str]:
    if step.id == "exec" and step.action == "command" and step.commands:
        head = [] if step.status in (Status.OK, Status.CHANGED) else [step_line(step)]
        return [*head, *_output_lines(step)]
    if step.phase is Phase.DIAGNOSE and step.status in (Status.OK, Status.SKIPPED):
        said = step.why and not step.why.startswith("when:") and not COUNTED.fullmatch(step.why)
        return [f"{step.id}: {step.why}"] if said else []
    if step.status is Status.SKIPPED and not step.condition:
        return []
    lines = [step_line(step)]
    lines += [f"  {it}" for it in _victims(step.victims)]
    lines += [f"  | {it}" for it in _diff_lines(step.diff or "")]
    if not step.victims and (step.status is Status.WOULD_CHANGE or step.condition):
        lines += [f"  {_shown(it)}" for it in step.commands if it.effect == "write" and it.exit_code is None]
    return lines


def _shown(command: SentCommand) -> str:
    """A command that would be sent: whole where it is to be pasted, unless it is endless."""
    most = LONGEST_LINE if command.shown.startswith("$ ") else LONGEST_SCRIPT
    line = command.shown or f"$ {command.line}"
    return line if len(line) <= most else f"{line[:most]}… ({len(line)} characters: see --output json)"


def _output_lines(step: StepResult) -> list[str]:
    """What the last command of a step printed, stderr after stdout."""
    sent = step.commands[-1]
    if step.status is Status.WOULD_CHANGE:
        return [f"$ {sent.line}"]
    text = sent.stdout + ("" if sent.stdout.endswith("\n") or not sent.stdout else "\n") + sent.stderr
    return [f"| {it}" for it in text.splitlines()]


def step_line(step: StepResult) -> str:
    """What became of a step, in one line."""
    word = {Status.WOULD_CHANGE: "would change"}.get(step.status, str(step.status))
    notes = [str(step.risk)] if step.risk and step.status is Status.WOULD_CHANGE else []
    notes += [step.condition] if step.condition and step.status in (Status.WOULD_CHANGE, Status.SKIPPED) else []
    notes += ["failure ignored"] if step.ignored else []
    notes += ["not verified"] if step.status is Status.CHANGED and not step.verified else []
    said = by_name(step)
    why = "" if said and notes and notes[0].startswith(said) else said
    return f"{word} {step.id}: {why}" + (f"{' ' if why else ''}[{'; '.join(notes)}]" if notes else "")


def by_name(step: StepResult) -> str:
    """Why a step ended as it did; a script of several commands is called what its author calls the step."""
    scripted = step.name and step.planned and step.planned.startswith("run ") and ";" in step.planned
    return step.why.replace(step.planned or "", step.name or "") if scripted else step.why


def _diff_lines(diff: str) -> list[str]:
    lines = diff.removesuffix("\n").split("\n") if diff else []
    most = SHOWN_NEW if diff.startswith("--- /dev/null") else SHOWN_DIFF
    if len(lines) <= most + 1:  # a line that says "1 more" takes its place
        return lines
    return [*lines[:most], f"... {len(lines) - most} more lines: --report or --output json has all"]


def _victims(victims: tuple[Victim, ...]) -> list[str]:
    lines = [f"pid {it.pid} ({it.user}) {short(it.command)}" for it in victims[:SHOWN_VICTIMS]]
    if len(victims) > SHOWN_VICTIMS:
        lines.append(f"... and {len(victims) - SHOWN_VICTIMS} more: see --output json")
    return lines


def plan_lines(plan: HostPlan) -> list[str]:
    """What is found on a host, and what would be done; nothing where nothing would be done."""
    planned = [
        line for it in plan.results if it.status is Status.WOULD_CHANGE or it.condition for line in step_lines(it)
    ]
    return [*(line for it in plan.findings for line in _finding_lines(it)), *planned] if planned else []
