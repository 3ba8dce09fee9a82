"""Compare the plan that was shown with the present one, and permit no more than was shown (law 2); for all plans."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import assert_never

from runbook.codec import to_json
from runbook.dataclass import dataclass
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.protocols import Action
from runbook.text.shortened import first_few
from runbook.values.plan import Blocked, Change, Decision, Finding, PlannedStep, Presence, Risk, Target
from runbook.values.result import HostPlan, StepResult
from runbook.values.shown import LaterChange, ShownHost, ShownStep, short_digest, shown_lines
from runbook.values.types import Json, plural

MOST_NAMED = 10
"""The maximum number of targets that are named one by one."""
EDITED = frozenset({"file", "service"})
"""The kinds of targets whose diff shows what they will become."""
AGEING = frozenset({"container", "image", "volume", "build-cache"})
"""Kinds of targets that are named as ``NAME (age, size)``."""

_NUMBERS = re.compile(r"[0-9][0-9.,]*( ?[kKMGTP]?i?B\b)?")
_ASIDES = re.compile(r" ?\([^()]*\)")
_INERT_FIELDS = ("lock", "called", "stands_for")
"""The fields of a command that do not affect what it does."""


class Policy(StrEnum):
    """The rule for targets that were not shown; it also decides which fields of the other targets must be unchanged."""

    DROP_TARGETS = "drop-targets"
    """A run leaves these targets out.  It made the plan itself, and its own steps may have changed texts since: keys
    count.
    """
    HOLD_HOST = "hold-host"
    """``apply`` sends nothing to the host.

    The words of a plan file can be forged, and people approved them: they are compared, too.
    """


class Excess(StrEnum):
    """The way in which a step would do more than was shown."""

    RISK = "risk"
    COMMANDS = "commands"
    TARGETS = "targets"
    CONTENT = "content"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The difference between a present step and the step that was shown."""

    excess: Excess | None = None
    """The reason why the step is not allowed; None: the step is allowed, without its new targets."""
    new: tuple[Target, ...] = ()


def compare(shown: ShownStep, present: ShownStep, policy: Policy) -> Comparison:
    """Compare *present* with *shown*; report work, now or later in the run, that was not shown."""
    risk = _shown_risk(shown)
    if present.risk and risk and present.risk is not risk and present.risk.at_least(risk):
        return Comparison(excess=Excess.RISK)
    if not present.targets:
        announced = _announced(present, policy) <= _announced(shown, policy)
        true = announced and (policy is Policy.DROP_TARGETS or _says_the_same(shown, present))
        return Comparison(excess=None if true else Excess.COMMANDS)
    known = {_identity(target, policy) for target in shown.targets}
    if new := tuple(target for target in present.targets if _identity(target, policy) not in known):
        enough = policy is Policy.DROP_TARGETS and len(new) < len(present.targets)
        return Comparison(excess=None if enough else Excess.TARGETS, new=new)
    if policy is Policy.HOLD_HOST and not _says_the_same(shown, present):
        return Comparison(excess=Excess.CONTENT)
    both_change = present.decision == "change" and shown.decision == "change"
    otherwise = both_change and _becomes_something_else(shown, present, policy)
    return Comparison(excess=Excess.CONTENT if otherwise else None)


def _says_the_same(shown: ShownStep, present: ShownStep) -> bool:
    """Whether *present* still has the condition and the later change that *shown* has.

    Always true if the decisions or the targets differ: the rest of the comparison checks these.  The texts are
    compared,
    because a saved plan can be forged and people approved its text.
    """
    same = {target.key for target in shown.targets} == {target.key for target in present.targets}
    acts = present.decision == "change" or present.then is not None
    if shown.decision != present.decision or not same or not acts:
        return True  # less, or more, of which the rest of the comparison judges
    return _conditional(shown) == _conditional(present)


def _conditional(step: ShownStep) -> tuple[str, str, str]:
    """Return the condition of *step* and its later change, without numbers and other parts that vary from run to
    run.
    """
    policy = Policy.HOLD_HOST
    later = (step.then.commands, _compared_words(step.then.summary, policy)) if step.then else ("", "")
    return (_compared_words(step.condition or "", policy), *later)


def _shown_risk(shown: ShownStep) -> Risk | None:
    return shown.risk or (shown.then.risk if shown.then else None)


def _announced(step: ShownStep, policy: Policy) -> set[tuple[str, str, str]]:
    """Return the commands, lines and text of *step* that concern no single target, for now and for later in the run."""
    sent = [(step.commands, step.summary)] if step.decision == "change" and not step.targets else []
    sent += [(step.then.commands, step.then.summary)] if step.then else []
    return {(commands, step.lines, _compared_words(summary, policy)) for commands, summary in sent}


def _compared_words(summary: str, policy: Policy) -> str:
    """Return *summary* without numbers, sizes and text in parentheses, which vary from run to run.

    Empty under the policy that drops targets, which does not compare texts.
    """
    return "" if policy is Policy.DROP_TARGETS else _NUMBERS.sub("#", _ASIDES.sub("", summary))


def _identity(target: Target, policy: Policy) -> tuple[str | int, ...]:
    """Return the values that identify *target*; the age and size of Docker objects vary, and do not count."""
    say = target.say.partition(" (")[0] if target.kind in AGEING else target.say
    words = (say, target.pid, target.user, target.command, target.owner)
    return target.kind, target.key, *(() if policy is Policy.DROP_TARGETS else words)


def _becomes_something_else(shown: ShownStep, present: ShownStep, policy: Policy) -> bool:
    """Whether the step would do something else to its targets: with another diff, command or argument.

    The diff of a saved plan is always compared, because a diff is of one file.
    """
    same = {target.key for target in shown.targets} == {target.key for target in present.targets}
    kinds = {target.kind for target in present.targets}
    if shown.args != present.args and shown.commands != present.commands:
        return True
    in_full = policy is Policy.HOLD_HOST
    if shown.diff != present.diff and ((same and kinds <= EDITED) or (in_full and present.diff)):
        return True
    summaries = {_compared_words(step.summary, policy) for step in (shown, present)}
    said = len(summaries) > 1 and not kinds & {"process", *AGEING}
    return in_full and same and (shown.lines != present.lines or said)


@dataclass(frozen=True, slots=True)
class PermittedDecision:
    """The part of a decision that the plan showed; Blocked if the plan showed nothing of it."""

    decision: Decision
    left_alone: tuple[Target, ...] = ()
    """The targets that the plan did not show."""


def permitted_decision(change: Change, planned: PlannedStep, fresh: ProbeAnswer, action: Action) -> PermittedDecision:
    """Return *change* without the targets that *planned* did not show; Blocked if it differs in another way."""
    shown = shown_step(planned)
    found = _compare_change(shown, change, planned)
    if found.excess is None and not found.new:
        return PermittedDecision(change)
    if found.excess or action.without is None or action.decide is None:
        return _drifted(change, _not_shown(found, shown, change))
    less = action.decide(fresh.args, action.without(fresh.state, frozenset(target.key for target in found.new)))
    if isinstance(less, Change) and _compare_change(shown, less, planned) != Comparison():
        return _drifted(less, "; the plan did not show that")
    return PermittedDecision(less, found.new)


def _compare_change(shown: ShownStep, change: Change, planned: PlannedStep) -> Comparison:
    return compare(shown, shown_step(replace(planned, decision=change)), Policy.DROP_TARGETS)


def _drifted(change: Change, why: str) -> PermittedDecision:
    return PermittedDecision(Blocked(why=f"would now {change.summary}{why}", drifted=True))


def _not_shown(found: Comparison, shown: ShownStep, change: Change) -> str:
    """Return the part of *change* that was not shown, as the end of a sentence."""
    if found.excess is Excess.RISK:
        return f" (risk: {change.risk}); the plan showed the risk {_shown_risk(shown)}"
    return f"; the plan did not show {', '.join(target.say for target in found.new) or 'that'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class More:
    """Work or an error that exists now and that the saved plan did not show."""

    step: str
    """The id of the step; empty for a finding."""
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference between the present plan of a host and its saved plan."""

    more: tuple[More, ...]
    """The work that was not shown; any of it makes the host ``drifted``."""
    less: tuple[str, ...]


def difference(shown: ShownHost, present: ShownHost, then: Sequence[Finding], now: Sequence[Finding]) -> Difference:
    """Compare a host with its saved plan: *shown* and the findings *then* with *present* and the findings *now*."""
    before = {step.id: step for step in shown.steps}
    more = [More(step="", words=words) for words in _new_findings(then, now)]
    less: list[str] = []
    for step in present.steps:
        saved = before.pop(step.id, None) or ShownStep(id=step.id, decision="skip", summary="nothing of that kind")
        more += [More(step=step.id, words=words) for words in _unplanned(saved, step)]
        less += _no_longer_done(saved, step)
    less += [f"{step.id}: no longer needed" for step in before.values() if step.decision == "change"]
    return Difference(more=tuple(more), less=tuple(less))


def _new_findings(then: Sequence[Finding], now: Sequence[Finding]) -> Iterator[str]:
    """Yield the errors that are present now and were not present when the plan was made."""
    present = {finding.id for finding in then if finding.status is Presence.PRESENT}
    for finding in now:
        if finding.severity.drives and finding.status is Presence.PRESENT and finding.id not in present:
            yield f"found now, and not when the plan was made: {finding.id}: {finding.say}"


def _unplanned(shown: ShownStep, present: ShownStep) -> Iterator[str]:
    """Yield the work of *present*, now or later in the run, that *shown* did not show."""
    found = compare(shown, present, Policy.HOLD_HOST)
    would = f"{present.id} would now"
    match found.excess:
        case None:
            return
        case Excess.RISK:
            yield f"{would} {present.summary} (risk: {present.risk}); the plan showed the risk {_shown_risk(shown)}"
        case Excess.COMMANDS if present.decision == "change":
            yield f"{would} {present.summary}; the plan showed: {shown.summary}"
        case Excess.COMMANDS:
            assert present.then
            yield f"{present.id} might now {present.then.summary}; the plan did not show that"
        case Excess.TARGETS:
            yield from _unplanned_targets(present, shown, found.new)
        case Excess.CONTENT:
            yield f"{would} do something else to what the plan showed: {present.summary}"
        case _:
            assert_never(found.excess)


def _unplanned_targets(present: ShownStep, shown: ShownStep, new: Sequence[Target]) -> Iterator[str]:
    """Yield texts about the *new* targets; a file with a known name that is a new target has new content."""
    names = {(target.kind, target.say) for target in shown.targets}
    before = {(target.kind, target.key): target for target in shown.targets}
    others = [each for each in new if (each.kind, each.key) in before]
    for target in others:
        was = _who(before[target.kind, target.key])
        yield f"{target.kind} {_who(target)} is not what the plan showed: {was} ({present.id} would {present.summary})"
    new = [each for each in new if each not in others]
    changed = [each for each in new if each.kind == "file" and (each.kind, each.say) in names]
    for target in changed:
        yield f"{target.say} has changed since the plan was made ({present.id} would {present.summary})"
    for kind in dict.fromkeys(target.kind for target in new):
        if rest := [each for each in new if each.kind == kind and each not in changed]:
            several = f"one {kind} more" if len(rest) == 1 else f"{len(rest)} {_plural_of(kind)} more"
            verb = "ended" if kind == "process" else "touched"
            yield f"{several} would be {verb} ({present.id}): {_some(rest)}"


def _plural_of(kind: str) -> str:
    return {"process": "processes", "build-cache": "parts of the build cache"}.get(kind, f"{kind}s")


def _some(several: Sequence[Target]) -> str:
    return first_few(map(_who, several), MOST_NAMED)


def _who(target: Target) -> str:
    if target.kind != "process" or not target.command:
        return target.say
    return f"{target.pid} {target.command} ({target.user})"


def _no_longer_done(shown: ShownStep, present: ShownStep) -> Iterator[str]:
    """Yield the work of *shown* that *present* no longer does."""
    if shown.decision != "change":
        return
    if present.decision != "change":
        yield f"{present.id}: no longer done: {present.summary}"
        return
    now = {(target.kind, target.key) for target in present.targets}
    names = {(target.kind, target.say) for target in present.targets}
    gone = [each for each in shown.targets if (each.kind, each.key) not in now and (each.kind, each.say) not in names]
    if gone:
        what = plural(len(gone), gone[0].kind) if gone[0].kind != "process" else f"{len(gone)} of the processes"
        are = "is" if len(gone) == 1 else "are"
        yield f"{present.id}: {what} of the plan {are} gone, or left alone now: {_some(gone)}"


def shown_host(plan: HostPlan) -> ShownHost:
    """Return the part of *plan* that is saved, with secrets masked."""
    results = {result.id: result for result in plan.results}
    steps = [shown_step(step, results.get(step.id)) for step in plan.steps]
    # the words for a step that finds all in order do not name what it might reach: nobody was shown that
    return ShownHost(
        host=plan.host,
        steps=tuple(replace(step, targets=()) if step.decision == "no_change" else step for step in steps),
    )


def shown_step(planned: PlannedStep, result: StepResult | None = None) -> ShownStep:
    """Return *planned* in the form that is compared later, with digests of its commands; *result*: its reported
    result.
    """
    args = {name: short_digest(value) for name, value in _tree(planned.args).items() if not isinstance(value, list)}
    decision, would = planned.decision, planned.would
    plain = ShownStep(
        id=planned.id,
        decision=decision.kind,
        summary="",
        condition=planned.condition,
        lines=shown_lines(result) if result else "",
        args=args,
    )
    if isinstance(decision, Change):
        return replace(
            plain,
            summary=decision.summary,
            risk=decision.risk,
            targets=decision.targets,
            diff=decision.diff,
            commands=_digest(decision),
        )
    if planned.condition is None or isinstance(decision, Blocked):
        return replace(plain, summary=decision.why)
    then = LaterChange(summary=would.summary, risk=would.risk, commands=_digest(would)) if would else None
    return replace(plain, summary=decision.why, targets=planned.reach, then=then)


def _digest(change: Change) -> str:
    """Return a digest of the commands of *change*, without the fields that do not affect the host."""
    trees = [_tree(command) for command in (*change.commands, *change.finally_)]
    return short_digest([{name: value for name, value in tree.items() if name not in _INERT_FIELDS} for tree in trees])


def _tree(value: object) -> dict[str, Json]:
    tree = to_json(value)
    assert isinstance(tree, dict)
    return tree
