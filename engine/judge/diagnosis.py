"""Take the looks of a playbook, the first time and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.codec import to_json
from engine.errors import ConfigError
from engine.judge.looking import Blind, Looked, Request, Seen, look
from engine.judge.site import Site, States
from engine.lang.templates import Scope, evaluate, is_template, names, render
from engine.lang.views import UnknownTouched
from engine.values.playbook import Phase, Step
from engine.values.result import Fault, Status, StepResult
from engine.values.text import Json, Raw, Unknown

Args = Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What every look of a playbook saw."""

    results: tuple[StepResult, ...]
    states: States
    args: Mapping[str, Args]
    """The arguments that were rendered, by look id; a look that could not be taken has none."""


def diagnose(site: Site) -> Diagnosis:
    """Take every look, those that need nothing from each other together."""
    states: dict[str, Json | Unknown] = {}
    args: dict[str, Args] = {}
    results: dict[str, StepResult] = {}
    for wave in _waves(site.playbook.diagnose):
        ready: list[Request] = []
        for step in wave:
            match prepare(step, site.scope(states)):
                case StepResult() as refused:
                    results[step.id], states[step.id] = refused, Unknown(why=f"{step.id}: {refused.why}")
                case rendered:
                    args[step.id] = rendered
                    ready.append(Request(step=step, args=rendered))
        for request, looked in zip(ready, _patiently(ready, site), strict=True):
            results[request.step.id], states[request.step.id] = reported(request.step, looked)
    ordered = tuple(results[it.id] for it in site.playbook.diagnose)
    return Diagnosis(results=ordered, states=states, args=args)


def look_again(site: Site, first: Diagnosis, wanted: Sequence[str]) -> Diagnosis:
    """*first* with the looks named in *wanted* taken anew, with the arguments that they had then."""
    steps = [it for it in site.playbook.diagnose if it.id in wanted and it.id in first.args]
    requests = [Request(step=it, args=first.args[it.id]) for it in steps]
    states = dict(first.states)
    results = {it.id: it for it in first.results}
    for request, looked in zip(requests, look(requests, site), strict=True):
        result, states[request.step.id] = reported(request.step, looked)
        before = results[request.step.id]
        if result.status is not Status.OK or before.status is not Status.OK:
            results[request.step.id] = replace(result, commands=(*before.commands, *result.commands))
    return Diagnosis(results=tuple(results[it.id] for it in first.results), states=states, args=first.args)


def prepare(step: Step, scope: Scope) -> Args | StepResult:
    """The rendered arguments of *step*, or why it cannot be taken now."""
    if step.when:
        match evaluate(step.when, scope):
            case Unknown(why=why):
                return _not_taken(step, Status.BLOCKED, f"`when` is unknown: {why}", Fault.LOOK)
            case False:
                return _not_taken(step, Status.SKIPPED, f"when: {step.when}")
            case _:
                pass
    try:
        rendered = render(step.args, scope)
    except UnknownTouched as error:
        return _not_taken(step, Status.BLOCKED, f"its arguments rest on what is unknown: {error}", Fault.LOOK)
    except ConfigError as error:
        return _not_taken(step, Status.BLOCKED, f"its arguments: {error}", Fault.LOOK)
    assert isinstance(rendered, Mapping)
    return rendered


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


def _not_taken(step: Step, status: Status, why: str, fault: Fault = Fault.NONE) -> StepResult:
    return StepResult(
        id=step.id,
        name=step.name or None,
        phase=step.phase,
        action=step.action,
        status=status,
        why=why,
        fault=fault,
        ignored=step.ignore_failure and status is Status.BLOCKED,
    )


def _patiently(requests: Sequence[Request], site: Site) -> tuple[Looked, ...]:
    """Look; a step with ``within`` looks again until it answers or its time is up."""
    began = site.clock.now()
    looked = list(look(requests, site))
    while True:
        spent = site.clock.now() - began
        again = [
            number
            for number, it in enumerate(looked)
            if isinstance(it.outcome, Blind) and spent < requests[number].step.within
        ]
        if not again:
            return tuple(looked)
        site.clock.sleep(min(requests[it].step.every for it in again))
        for number, it in zip(again, look([requests[it] for it in again], site), strict=True):
            looked[number] = replace(it, commands=(*looked[number].commands, *it.commands))


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
    found = {root for root, _ in names(step.when)} if step.when else set()
    return found | _named_in(step.args)


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
