"""What the findings let a step do."""

from __future__ import annotations

from engine.values.plan import Blocked, Finding, Presence, Skip, Target
from engine.values.playbook import Step
from engine.values.result import Victim


def gate_of(step: Step, findings: tuple[Finding, ...], *, force: bool) -> Skip | Blocked | None:
    """Why the findings keep *step* from running now; None when they do not."""
    if not findings:
        return None
    wanted = [it for it in findings if (it.id in step.for_ if step.for_ else it.severity.drives)]
    if any(it.status is Presence.PRESENT for it in wanted):
        return None
    blind = [it for it in wanted if it.status is Presence.UNKNOWN]
    if blind and force:
        return None
    if blind:
        return Blocked(why="; ".join(f"{it.id} is unknown: {it.why}" for it in blind))
    if not step.for_:
        return Skip(why="no finding calls for it")
    gone = [it.id for it in wanted if it.status is Presence.GONE]
    return Skip(why=" and ".join(f"{it.id} is {'gone' if it.id in gone else 'not there'}" for it in wanted))


def victims_of(targets: tuple[Target, ...]) -> tuple[Victim, ...]:
    """The processes among *targets*."""
    return tuple(Victim(pid=it.pid, user=it.user, command=it.command) for it in targets if it.kind == "process")
