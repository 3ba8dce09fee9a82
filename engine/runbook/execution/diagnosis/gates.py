"""Decide from the findings whether a step may run."""

from __future__ import annotations

from runbook.values.plan import Blocked, Change, Decision, Finding, Presence, Skip, Target
from runbook.values.playbook import Step
from runbook.values.result import Victim


def gate_of(step: Step, findings: tuple[Finding, ...], *, force: bool) -> Skip | Blocked | None:
    """Return the reason why the findings do not allow *step* to run now; None if they allow it.

    An unknown finding permits no change (law 6), unless *force* is given.
    """
    if not findings:
        return None
    wanted = [finding for finding in findings if (finding.id in step.for_ if step.for_ else finding.severity.drives)]
    if any(each.status is Presence.PRESENT for each in wanted):
        return None
    blind = [each for each in wanted if each.status is Presence.UNKNOWN]
    if blind and force:
        return None
    if blind:
        rests_on = tuple(dict.fromkeys(probe for each in blind for probe in each.rests_on))
        return Blocked(why="; ".join(f"{each.id} is unknown: {each.why}" for each in blind), rests_on=rests_on)
    if not step.for_:
        return Skip(why="no finding calls for this step")
    gone = [each.id for each in wanted if each.status is Presence.GONE]
    return Skip(why=" and ".join(f"{each.id} is {'gone' if each.id in gone else 'absent'}" for each in wanted))


def is_cleanup(step: Step) -> bool:
    """Whether *step* is clean-up: it has ``if_failed`` or ``if_changed``, and no ``for``."""
    return bool(step.if_failed or step.if_changed) and not step.for_


def within(gate: Skip | Blocked | None, decision: Decision) -> Decision:
    """Return *gate* if it forbids the change of *decision*; otherwise *decision*.

    A decision that changes nothing, or that is in doubt because of an earlier run, is returned unchanged.
    """
    wants = isinstance(decision, Change) or (isinstance(decision, Blocked) and not decision.in_doubt)
    return gate if gate is not None and wants else decision


def victims_of(targets: tuple[Target, ...]) -> tuple[Victim, ...]:
    """Return the processes among *targets*."""
    return tuple(
        Victim(pid=target.pid, user=target.user, command=target.command, owner=target.owner)
        for target in targets
        if target.kind == "process"
    )
