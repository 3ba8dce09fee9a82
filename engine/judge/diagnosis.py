"""Take the looks of a playbook, the first time and again."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.codec import UNKNOWN, to_json
from engine.judge.items import NotTaken, Taking, takings
from engine.judge.looked import Blind, Looked, Request, Seen
from engine.judge.looking import look
from engine.judge.site import Site, States
from engine.lang.templates import is_template, names
from engine.values.playbook import Phase, Step
from engine.values.result import Fault, Status, StepResult
from engine.values.text import Json, Raw, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What every look of a playbook saw."""

    results: tuple[StepResult, ...]
    states: States
    taken: Mapping[str, tuple[Taking | NotTaken, ...]]
    """How each look was taken, by its id; one that could not be taken at all is not there."""


def diagnose(site: Site) -> Diagnosis:
    """Take every look, those that need nothing from each other together."""
    states: dict[str, Json | Unknown] = {}
    taken: dict[str, tuple[Taking | NotTaken, ...]] = {}
    results: dict[str, StepResult] = {}
    for wave in _waves(site.playbook.diagnose):
        ready: list[Step] = []
        for step in wave:
            match takings(step, site, states):
                case StepResult() as refused:
                    results[step.id], states[step.id] = refused, Unknown(why=f"{step.id}: {refused.why}")
                case times:
                    taken[step.id] = times
                    ready.append(step)
        for step, told in zip(ready, _told(ready, taken, site, anew=False), strict=True):
            results[step.id], states[step.id] = told
    ordered = tuple(results[it.id] for it in site.playbook.diagnose)
    return Diagnosis(results=ordered, states=states, taken=taken)


def look_again(site: Site, first: Diagnosis, wanted: Collection[str]) -> Diagnosis:
    """*first* with the looks named in *wanted* taken anew, with the arguments that they had then."""
    steps = [it for it in site.playbook.diagnose if it.id in wanted and it.id in first.taken]
    states = dict(first.states)
    results = {it.id: it for it in first.results}
    for step, (result, state) in zip(steps, _told(steps, first.taken, site, anew=True), strict=True):
        states[step.id] = state
        before = results[step.id]
        if result.status is not Status.OK or before.status is not Status.OK:
            results[step.id] = replace(result, commands=(*before.commands, *result.commands))
    return Diagnosis(results=tuple(results[it.id] for it in first.results), states=states, taken=first.taken)


Told = tuple[StepResult, Json | Unknown]
"""What is said of a look, and what expressions may know of it."""


def _told(
    steps: Sequence[Step], taken: Mapping[str, tuple[Taking | NotTaken, ...]], site: Site, *, anew: bool
) -> list[Told]:
    """Take *steps*, all their items side by side, and tell what each saw."""
    requests = [Request(step=step, args=it.args) for step in steps for it in taken[step.id] if isinstance(it, Taking)]
    looked = iter(patiently(requests, site, anew=anew))
    return [
        _told_of(step, [(it, next(looked) if isinstance(it, Taking) else None) for it in taken[step.id]])
        for step in steps
    ]


def _told_of(step: Step, times: Sequence[tuple[Taking | NotTaken, Looked | None]]) -> Told:
    each: list[Told] = []
    for taking, looked in times:
        match taking:
            case NotTaken(result=refused):
                each.append((refused, Unknown(why=f"{step.id}: {refused.why}")))
            case Taking():
                assert looked is not None
                each.append(reported(step, looked))
    if not step.each:
        return each[0]
    kept = [(it, told) for (it, _), told in zip(times, each, strict=True) if not _left_out(it)]
    items = [_with_item(taking.item, state) for taking, (_, state) in kept]
    bad = [(taking, result) for taking, (result, _) in kept if result.status not in (Status.OK, Status.SKIPPED)]
    counted = plural(len(kept), "item")
    why = "; ".join(f"{taking.item}: {result.why}" for taking, result in bad[:3])
    if len(bad) > 3:
        why += f"; and {len(bad) - 3} more"
    result = StepResult(
        id=step.id,
        name=step.name or None,
        phase=step.phase,
        action=step.action,
        status=Status.FAILED if bad else Status.OK,
        why=why if bad else counted,
        fault=Fault.LOOK if bad else Fault.NONE,
        ignored=bool(bad) and step.ignore_failure,
        verified=not bad,
        seconds=max((result.seconds for _, (result, _) in kept), default=0.0),
        state={"items": items},
        commands=tuple(command for _, (result, _) in kept for command in result.commands),
    )
    return result, items


def _left_out(taking: Taking | NotTaken) -> bool:
    """Whether the item is not in the list: its ``when`` is false."""
    return isinstance(taking, NotTaken) and taking.result.status is Status.SKIPPED


def _with_item(item: Json, state: Json | Unknown) -> Json:
    match state:
        case Unknown(why=why):
            return {UNKNOWN: why}
        case Mapping():
            return {**state, "item": item}
    return {"value": state, "item": item}


def reported(step: Step, looked: Looked) -> tuple[StepResult, Json | Unknown]:
    """The result of a look, and what expressions may know of it."""
    match looked.outcome:
        case Blind(why=why):
            result = StepResult(
                id=step.id,
                name=step.name or None,
                phase=step.phase,
                action=step.action,
                status=Status.FAILED,
                why=why,
                fault=Fault.LOOK,
                ignored=step.ignore_failure,
                seconds=looked.seconds,
                commands=looked.commands,
            )
            return result, Unknown(why=f"{step.id}: {why}")
        case Seen(state=state, absent=absent):
            seen = to_json(state)
            result = StepResult(
                id=step.id,
                name=step.name or None,
                phase=step.phase,
                action=step.action,
                status=Status.SKIPPED if absent else Status.OK,
                why=absent,
                verified=True,
                seconds=looked.seconds,
                state=seen if isinstance(seen, Mapping) else {"value": seen},
                commands=looked.commands,
            )
            return result, seen


def patiently(requests: Sequence[Request], site: Site, *, anew: bool = False) -> tuple[Looked, ...]:
    """Look; a step with ``within`` looks again until it answers, one with ``retry`` so many times.

    *anew*: something was changed; what other hosts saw before is of no use, and nobody waits (``within``).
    """
    began = site.clock.now()
    looked = list(_shared_or_own(requests, site, anew=anew))
    tries = 0
    while True:
        spent, tries = site.clock.now() - began, tries + 1
        again = [
            number
            for number, it in enumerate(looked)
            if isinstance(it.outcome, Blind) and _may_repeat(requests[number].step, spent, tries, anew=anew)
        ]
        if not again:
            return tuple(looked)
        site.clock.sleep(min(_pause(requests[it].step, tries) for it in again))
        for number, it in zip(again, _shared_or_own([requests[it] for it in again], site, anew=True), strict=True):
            looked[number] = replace(it, commands=(*looked[number].commands, *it.commands))


def _may_repeat(step: Step, spent: float, tries: int, *, anew: bool) -> bool:
    return tries <= step.retry.times or (spent < step.within and not anew)


def _pause(step: Step, tries: int) -> float:
    return step.retry.every if tries <= step.retry.times else step.every


def _shared_or_own(requests: Sequence[Request], site: Site, *, anew: bool) -> tuple[Looked, ...]:
    """Take the looks of this host in one go, and each that all hosts share once for all of them."""
    own = [it for it in requests if not (it.step.once and site.once)]
    seen = dict(zip(map(id, own), look(own, site), strict=True))
    for it in requests:
        if id(it) not in seen:
            assert site.once is not None
            key = json.dumps([it.step.id, it.args], sort_keys=True, default=str)
            seen[id(it)] = site.once.look(key, lambda it=it: look([it], site)[0], anew=anew)  # type: ignore[misc]
    return tuple(seen[id(it)] for it in requests)


def _waves(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in groups, each of which needs only what the groups before it saw."""
    level: dict[str, int] = {}
    for step in steps:
        needs = named(step) & level.keys()
        level[step.id] = 1 + max((level[it] for it in needs), default=-1)
    count = max(level.values(), default=-1) + 1
    assert all(it.phase is Phase.DIAGNOSE for it in steps)
    return [[it for it in steps if level[it.id] == number] for number in range(count)]


def named(step: Step) -> set[str]:
    """The roots of every name that *step* uses in ``when`` and in its arguments."""
    texts = [it for it in (step.when, step.each) if it]
    found = {root for it in texts for root, _ in names(it)} | _named_in(step.args)
    return {f"{step.part}_{it}" for it in found} if step.part else found


def _named_in(tree: object) -> set[str]:
    match tree:
        case Raw():
            return set()
        case str():
            return {root for root, _ in names(tree)} if is_template(tree) else set()
        case Mapping():
            return set().union(*map(_named_in, tree.values()))
        case list() | tuple():
            return set().union(*map(_named_in, tree))
    return set()
