"""The keys of a step, and the limits of a run, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from engine.errors import ConfigError
from engine.values.command import shown_variable
from engine.values.playbook import Limits, Phase, Step
from engine.values.types import Json, plural, seconds


def conditions(step: Step, *, found: bool, items: str = "") -> list[str]:
    """When *step* is taken, and how; *found*: the playbook has findings; *items*: those of its ``each``."""
    return [f"{it[0].upper()}{it[1:]}." for it in (*_when(step, found, items), *_how(step)) if it]


def _when(step: Step, found: bool, items: str) -> Iterator[str]:
    if step.each:
        known = f" ({items})" if items and items != step.each.strip("[]") else ""
        yield f"once for every item of {step.each}{known}; ITEM stands for it"
    if step.when:
        yield f"only when {step.when}"
    if step.phase is Phase.REMEDIATE:
        yield _what_for(step, found)
    if step.after:
        yield f"after {_all(step.after)}, and not if that broke"
    if step.if_changed:
        yield f"only if {_any(step.if_changed)} changed something"
    if step.if_failed:
        yield f"only if {_any(step.if_failed)} failed, even if that stopped everything else"
    if step.always:
        yield "always, whatever happened before; it is reported as owed if the host cannot be reached"
    if step.confirm:
        yield "ask a person first (without a terminal: --yes)"
    if step.tags:
        yield f"tagged {', '.join(step.tags)} (see --tags and --skip-tags)"


def _what_for(step: Step, found: bool) -> str:
    if step.for_:
        return f"only while {_any(step.for_)} is found"
    if step.if_changed or step.if_failed or not found:
        return ""
    return "only while an error is found"


def _how(step: Step) -> Iterator[str]:
    if step.once:
        yield "taken once, and the answer is shared by all hosts"
    if step.on:
        yield "on the controller, which is this machine" if step.on == "controller" else f"on the host {step.on}"
    if step.become:
        yield f"as {step.become}"
    if step.cwd:
        yield f"in the folder {step.cwd}"
    if step.env:
        variables = ", ".join(f"{name}={shown_variable(name, value)}" for name, value in step.env)
        yield f"with {variables} in the environment"
    if step.timeout:
        yield f"each command may take {seconds(step.timeout)}"
    if step.within:
        how_long = f"for {seconds(step.within)} at most"
        again = f"probe again every {seconds(step.every)} until it"
        match step.phase:
            case Phase.DIAGNOSE:
                yield f"{again} answers, {how_long}"
            case Phase.REMEDIATE:
                yield f"after the change, {again} shows, {how_long}"
            case Phase.VERIFY:
                yield f"{again} is true, {how_long}"
    if step.retry.times:
        yield f"if the probe itself fails, repeat it {_times(step.retry.times)}, every {seconds(step.retry.every)}"
    if step.samples:
        yield _samples(step)
    if step.scratch:
        yield "it makes something of its own on the host, and takes it away again"
    if step.ignore_failure:
        yield "a failure is shown, and changes no verdict"


def _samples(step: Step) -> str:
    written = step.samples
    pace = f"one every {_long(written.get('every', 2))}"
    often = f"{written['times']} samples" if "times" in written else f"samples for {_long(written['for'])}"
    if step.phase is Phase.VERIFY:
        return f"take {often}, {pace}; it must be true in every one"
    return f"take {often}, {pace}" + (f", as long as {written['while']}" if "while" in written else "")


def _long(value: Json) -> str:
    """A duration in words; a template as it stands."""
    from engine.values.units import duration

    try:
        return seconds(duration(str(value)))
    except ConfigError:
        return str(value)


def _times(number: int) -> str:
    return "once" if number == 1 else f"up to {plural(number, 'time')}"


def _any(names: Sequence[str]) -> str:
    return " or ".join(names)


def _all(names: Sequence[str]) -> str:
    return " and ".join(names)


def limits(given: Limits) -> str:
    """What a run may cost, in sentences; empty where there are no limits."""
    words = [f"The whole run ends after {seconds(given.deadline)}."] if given.deadline else []
    if given.batches:
        *first, last = map(str, given.batches)
        shares = "; then ".join([*first, f"{last} at a time" if last != "100%" else "all the others"])
        words.append(f"Hosts are changed in batches, each begun when the one before has ended: {shares}.")
    if given.stop_after:
        many = given.stop_after.percent or given.stop_after.number > 1
        them = "of the hosts have" if given.stop_after.percent else "hosts have" if many else "host has"
        words.append(f"Once {given.stop_after} {them} not come out well, no further host is begun.")
    return " ".join(words)
