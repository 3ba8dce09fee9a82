"""Compare the saved plan of a host with a fresh one: what is more, and what is less, in words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from runbook.text.shortened import first_few
from runbook.values.plan import Finding, Presence, Target
from runbook.values.shown import ShownHost, ShownStep
from runbook.values.types import plural

MOST_NAMED = 10
"""Targets that are named one by one."""
EDITED = frozenset({"file", "service"})
"""Kinds of targets whose diff says what they will be."""
AGEING = frozenset({"container", "image", "volume", "build-cache"})
"""Kinds of targets that are named as ``NAME (age, size)``."""


Announced = tuple[str, str, str]
"""The digests of commands and of the lines that show them, and the words for them."""

_NUMBERS = re.compile(r"[0-9][0-9.,]*( ?[kKMGTP]?i?B\b)?")
_ASIDES = re.compile(r" ?\([^()]*\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """Something that would be done now, or that is the matter now, and that the saved plan did not show."""

    step: str
    """Its id; empty for a finding."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a host differs from its saved plan."""

    more: tuple[More, ...]
    """Any of it makes the host ``drifted``."""
    less: tuple[str, ...]


def difference(saved: ShownHost, fresh: ShownHost, findings: Sequence[Finding], now: Sequence[Finding]) -> Difference:
    """What *fresh* and the findings *now* have that *saved* and *findings* have not, and the other way round."""
    before = {step.id: step for step in saved.steps}
    more = [More(step="", words=words) for words in _new_findings(findings, now)]
    less: list[str] = []
    for step in fresh.steps:
        shown = before.get(step.id) or ShownStep(id=step.id, decision="skip", summary="nothing of that kind")
        more += [More(step=step.id, words=words) for words in _more(shown, step)]
        less += _less(shown, step)
    there = {step.id for step in fresh.steps}
    less += [
        f"{saved_step.id}: no longer needed"
        for saved_step in saved.steps
        if saved_step.id not in there and saved_step.decision == "change"
    ]
    return Difference(more=tuple(more), less=tuple(less))


def _new_findings(then: Sequence[Finding], now: Sequence[Finding]) -> Iterator[str]:
    """The errors that are found now and were not when the plan was made."""
    present = {each.id for each in then if each.status is Presence.PRESENT}
    for finding in now:
        if finding.severity.drives and finding.status is Presence.PRESENT and finding.id not in present:
            yield f"found now, and not when the plan was made: {finding.id}: {finding.say}"


def _more(shown: ShownStep, fresh: ShownStep) -> Iterator[str]:
    """What *fresh* would do, now or at its turn, that *shown* did not show."""
    least = shown.risk or (shown.then.risk if shown.then else None)
    if fresh.risk and least and fresh.risk is not least and fresh.risk.at_least(least):
        yield f"{fresh.id} would now {fresh.summary} (risk: {fresh.risk}); the plan showed the risk {least}"
        return
    if fresh.decision == "change" and not fresh.targets:
        if _as_announced(fresh.commands, fresh.lines, fresh.summary) not in _announced(shown):
            yield f"{fresh.id} would now {fresh.summary}; the plan showed: {shown.summary}"
        return
    known = set(map(_as_shown, shown.targets))
    if new := [target for target in fresh.targets if _as_shown(target) not in known]:
        yield from _named(fresh, shown, new)
    elif fresh.decision == "change" and shown.decision == "change" and _otherwise(shown, fresh):
        yield f"{fresh.id} would now do something else to what the plan showed: {fresh.summary}"
    if _later(fresh) and not fresh.targets and not _later(fresh) <= _announced(shown):
        assert fresh.then
        yield f"{fresh.id} might now {fresh.then.summary}; the plan did not show that"


def _announced(step: ShownStep) -> frozenset[Announced]:
    """The digests of the commands that *step* showed, and its words, for now or for its turn."""
    now = step.decision == "change" and not step.targets
    own = {_as_announced(step.commands, step.lines, step.summary)} if now else set()
    return frozenset(own) | _later(step)


def _later(step: ShownStep) -> frozenset[Announced]:
    return frozenset({_as_announced(step.then.commands, step.lines, step.then.summary)} if step.then else ())


def _as_announced(commands: str, lines: str, summary: str) -> Announced:
    return commands, lines, _folded(summary)


def _folded(summary: str) -> str:
    """*summary* without what changes by itself: numbers, sizes, and what stands in parentheses."""
    return _NUMBERS.sub("#", _ASIDES.sub("", summary))


def _as_shown(target: Target) -> Target:
    """*target* as people were shown it; of what Docker keeps, without its age and size, which change by themselves."""
    return replace(target, say=target.say.partition(" (")[0]) if target.kind in AGEING else target


def _otherwise(shown: ShownStep, fresh: ShownStep) -> bool:
    """Whether the same targets would become something else: another diff, command, or argument with its command.

    A diff is of one file, so that it is compared also where the plan showed more targets.
    """
    same = {target.key for target in shown.targets} == {target.key for target in fresh.targets}
    kinds = {target.kind for target in fresh.targets}
    if same and shown.lines != fresh.lines:
        return True
    if same and not kinds & {"process", *AGEING} and _folded(shown.summary) != _folded(fresh.summary):
        return True
    if shown.diff != fresh.diff and (fresh.diff or (same and kinds <= EDITED)):
        return True
    return shown.args != fresh.args and shown.commands != fresh.commands


def _named(fresh: ShownStep, shown: ShownStep, new: Sequence[Target]) -> Iterator[str]:
    """The targets *new* in words; a file that is there again under the same name has another content."""
    names = {(target.kind, target.say) for target in shown.targets}
    before = {(target.kind, target.key): target for target in shown.targets}
    others = [each for each in new if (each.kind, each.key) in before]
    for target in others:
        was = _who(before[target.kind, target.key])
        yield f"{target.kind} {_who(target)} is not what the plan showed: {was} ({fresh.id} would {fresh.summary})"
    new = [each for each in new if each not in others]
    changed = [each for each in new if each.kind == "file" and (each.kind, each.say) in names]
    for target in changed:
        yield f"{target.say} has changed since the plan was made ({fresh.id} would {fresh.summary})"
    for kind in dict.fromkeys(target.kind for target in new):
        if rest := [each for each in new if each.kind == kind and each not in changed]:
            several = f"one {kind} more" if len(rest) == 1 else f"{len(rest)} {_plural_of(kind)} more"
            verb = "ended" if kind == "process" else "touched"
            yield f"{several} would be {verb} ({fresh.id}): {_some(rest)}"


def _plural_of(kind: str) -> str:
    return {"process": "processes", "build-cache": "parts of the build cache"}.get(kind, f"{kind}s")


def _some(several: Sequence[Target]) -> str:
    return first_few(map(_who, several), MOST_NAMED)


def _who(target: Target) -> str:
    if target.kind != "process" or not target.command:
        return target.say
    return f"{target.pid} {target.command} ({target.user})"


def _less(shown: ShownStep, fresh: ShownStep) -> Iterator[str]:
    """What *shown* would have done and *fresh* need not."""
    if shown.decision != "change":
        return
    if fresh.decision != "change":
        yield f"{fresh.id}: no longer done: {fresh.summary}"
        return
    now = {(target.kind, target.key) for target in fresh.targets}
    names = {(target.kind, target.say) for target in fresh.targets}
    gone = [each for each in shown.targets if (each.kind, each.key) not in now and (each.kind, each.say) not in names]
    if gone:
        what = plural(len(gone), gone[0].kind) if gone[0].kind != "process" else f"{len(gone)} of the processes"
        are = "is" if len(gone) == 1 else "are"
        yield f"{fresh.id}: {what} of the plan {are} gone, or left alone now: {_some(gone)}"
