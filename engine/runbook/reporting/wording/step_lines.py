"""Describe findings and steps in lines for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from runbook.reporting.wording.evidence import evidence_lines, short
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase
from runbook.values.result import Sent, SentCommand, Status, StepResult, Victim

K = TypeVar("K")
V = TypeVar("V")

COUNTED = re.compile(r"\d+ items?")
"""Matches the result of a probe with ``each`` that is no news."""

EXPRESSION = re.compile(r" \(in: `[^`]*`\)")
"""Matches the expression after the words about an unknown value; authors find the expression in the JSON output."""

SHOWN_VICTIMS = 20
SHOWN_ADVICE = 3
"""The maximum number of lines of advice for a warning or an info; an error has all lines."""
SHOWN_DIFF = 60
"""The maximum number of lines of a step's diff."""
LONGEST_LINE = 2000
"""The maximum number of characters of a command line that is shown in full, so that it can be pasted."""
LONGEST_SCRIPT = 300
"""The maximum number of characters of a script's name and arguments."""
SHOWN_NEW = 12
"""The maximum number of lines of the diff of a new file, whose content its author knows."""


def grouped(pairs: Iterable[tuple[K, V]]) -> Mapping[K, list[V]]:
    """Return the values of each key, in the order of *pairs*."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


CANCELLED_AFTER = {Sent.NOTHING: "not sent", Sent.PART: "perhaps half done", Sent.ALL: "done, and not probed again"}


def outcome_notes(step: StepResult) -> list[str]:
    """Return further notes about the result of *step*; for a cancelled step, the extent of its change."""
    cancelled = step.status is Status.CANCELLED and step.phase is Phase.REMEDIATE and step.sent is not Sent.UNSAID
    return [
        *(["failure ignored"] if step.ignored else []),
        *([CANCELLED_AFTER[step.sent]] if cancelled else []),
        *(["not verified"] if step.status is Status.CHANGED and not step.verified else []),
    ]


def in_short(result: Finding | StepResult, failed: Sequence[StepResult]) -> str:
    """Return a short reason of *result*; if it depends on one of the *failed* probes, their names."""
    why = EXPRESSION.sub("", result.why or "")
    causes = [step for step in failed if step.id in result.rests_on or (why and step.why == why)]
    return " and ".join(f"{step.id} {step.status}" for step in causes) or why


def finding_lines(finding: Finding, shown: set[str], advice: Sequence[str] = ()) -> list[str]:
    """Return a finding with its evidence as lines; a process in *shown* was described before, and is only named."""
    if finding.status in (Presence.ABSENT, Presence.UNKNOWN):
        return []
    if finding.status is Presence.GONE:
        return [f"gone: {finding.id} (was: {finding.say or finding.id})"]
    evidence = [line for name, value in finding.evidence.items() for line in evidence_lines(name, value, shown)]
    return [finding_line(finding), *_advice_lines(finding, advice), *evidence]


def named(finding: Finding) -> str:
    """Return the id and the text of *finding*."""
    return f"{finding.id}: {finding.say or finding.id}"


def finding_line(finding: Finding) -> str:
    """Return the severity, the id and the text of *finding*."""
    return f"{finding.severity} {named(finding)}"


def _advice_lines(finding: Finding, advice: Sequence[str]) -> list[str]:
    """Return the advice on *finding*: all of it for an error, the first lines for mere information."""
    shown = [" ".join(word.split()) for word in (advice if finding.severity.drives else advice[:SHOWN_ADVICE])]
    if len(advice) == 1:
        return [f"  next: {shown[0]}"]
    more = [f"    ... {len(advice) - len(shown)} more: see --output json"] if len(shown) < len(advice) else []
    lines = [f"    {number}. {it}" for number, it in enumerate(shown, 1)]
    return ["  next:", *lines, *more] if advice else []


def step_lines(step: StepResult) -> list[str]:
    """Return the lines about a step that a person should read; none if it has no news."""
    if is_exec(step):
        head = [] if step.status in (Status.OK, Status.CHANGED) else [step_line(step)]
        return [*head, *output_lines(step)]
    if step.phase is Phase.DIAGNOSE and step.status.is_idle:
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
    """Whether this is the step of ``runbook exec``, so that its output is shown."""
    return step.id == "exec" and step.action == "command" and bool(step.commands)


def _is_news(why: str) -> bool:
    """Whether *why*, the result of a probe, is more than a condition that was false, or a number of items."""
    return bool(why) and not why.startswith("when:") and not COUNTED.fullmatch(why)


def _planned_commands(step: StepResult) -> list[str]:
    """Return the commands that the step would send; none if its victims are shown, which describe it."""
    if step.victims or not (step.status is Status.WOULD_CHANGE or step.condition):
        return []
    return [_shown(command) for command in step.commands if command.effect == "write" and command.exit_code is None]


def _shown(command: SentCommand) -> str:
    """Return a command that would be sent: in full if a person may paste it, unless it is very long."""
    most = LONGEST_LINE if command.shown.startswith("$ ") else LONGEST_SCRIPT
    line = command.shown or f"$ {command.line}"
    return line if len(line) <= most else f"{line[:most]}… ({len(line)} characters: see --output json)"


def output_lines(step: StepResult) -> list[str]:
    """Return the output of the last command of a step, stderr after stdout."""
    sent = step.commands[-1]
    if step.status is Status.WOULD_CHANGE:
        return [f"$ {sent.line}"]
    text = sent.stdout + ("" if sent.stdout.endswith("\n") or not sent.stdout else "\n") + sent.stderr
    return [f"| {line}" for line in text.splitlines()]


def step_line(step: StepResult) -> str:
    """Describe the outcome of a step, in one line."""
    word = {Status.WOULD_CHANGE: "would change"}.get(step.status, str(step.status))
    notes = [str(step.risk)] if step.risk and step.status is Status.WOULD_CHANGE else []
    notes += [step.condition] if step.condition and step.status in (Status.WOULD_CHANGE, Status.SKIPPED) else []
    notes += outcome_notes(step)
    said = by_name(step)
    why = "" if said and notes and notes[0].startswith(said) else said
    return f"{word} {step.id}: {why}" + (f"{' ' if why else ''}[{'; '.join(notes)}]" if notes else "")


def by_name(step: StepResult) -> str:
    """Return the reason of a step's result; for a script of several commands, the name of the step is used instead."""
    scripted = step.name and step.planned and step.planned.startswith("run ") and ";" in step.planned
    return EXPRESSION.sub("", step.why.replace(step.planned or "", step.name or "") if scripted else step.why)


def _diff_lines(diff: str) -> list[str]:
    """Return the lines of *diff* that fit on a screen; for a new script, only its path and its number of lines."""
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
