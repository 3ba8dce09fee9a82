"""How components are described to people."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from runbook.actions.processes.components.component import Component
from runbook.actions.processes.components.supervision import ComponentStatus, Remains
from runbook.values.types import Unknown, plural, seconds


def first_dead(parts: Iterable[ComponentStatus]) -> tuple[ComponentStatus, ...]:
    """Those that have died, the first to die first; those whose end nobody saw last."""
    return tuple(sorted((part for part in parts if part.dead), key=lambda part: (not part.died, part.died)))


def end_of(part: ComponentStatus) -> str:
    """How *part* ended, for people."""
    if isinstance(part.exit_code, Unknown):
        return f"{part.name} has ended, and its exit code is not known ({part.exit_code.why})"
    lived = "" if isinstance(part.seconds, Unknown) else f" after {seconds(part.seconds)}"
    return f"{part.name} ended{lived} with exit code {part.exit_code} ({part.meaning})"


def last_words(part: ComponentStatus) -> str:
    """What its log ends with, for people."""
    lines = " | ".join(word for word in part.last if word.strip())
    return f"; its log {part.log} ends with: {lines}" if lines else f"; its log {part.log} is empty"


def in_order(down: Sequence[Component]) -> str:
    """In which order, and with which delays, *down* are started."""
    later = [
        f"{component.name} {seconds(component.delay)} later" if component.delay else component.name
        for component in down[1:]
    ]
    return ", then ".join([down[0].name, *later])


def how_started(component: Component) -> Iterator[str]:
    """What is started, for people: of the environment, only the names."""
    yield f"{component.name}: {shlex.join(component.argv)}"
    names = f"; environment: {', '.join(component.env)}" if component.env else ""
    yield f"  in {component.cwd}; log: {component.log}{names}"


def named(status: ComponentStatus) -> str:
    """*status* and all that goes with it, for people."""
    return f"pid {status.pid} ({status.user}), the component {status.name}, with all processes that it has started"


def left_behind(left: tuple[Remains, ...]) -> str:
    """The first of *left*, and how many more there are."""
    said = [f"pid {remains.pid} ({remains.command}) of {remains.component}" for remains in left[:5]]
    more = f" and {plural(len(left) - 5, 'other')}" if len(left) > 5 else ""
    return f"left behind: {', '.join(said)}{more}"


def not_ended(strays: tuple[Remains, ...]) -> str:
    """What is said of *strays*."""
    which = left_behind(strays).removeprefix("left behind: ")
    return (
        f"left behind in a component's session, but without its mark: {which}; find out what it is, and end it by hand"
    )


def what_remains(left: tuple[Remains, ...] | Unknown, strays: tuple[Remains, ...]) -> list[str]:
    """What lives on of those that are gone, for people."""
    said = [left.why] if isinstance(left, Unknown) else [left_behind(left)] if left else []
    return [*said, not_ended(strays)] if strays else said


def with_pids(parts: Iterable[ComponentStatus]) -> str:
    """Which of *parts* run, and where."""
    return ", ".join(f"{part.name} (pid {part.pid})" for part in parts if part.runs)


def of_others(parts: Iterable[ComponentStatus]) -> str:
    """Which of *parts* run without having been started from here; empty: none."""
    found = with_pids(part for part in parts if not part.ours)
    return f"another program has started {found}" if found else ""
