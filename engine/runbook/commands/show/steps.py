"""Describe the keys of a step, and the limits of a run, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runbook.errors import ConfigError
from runbook.values.command import shown_variable
from runbook.values.playbook import HostOrder, Limits, Phase, Share, Step
from runbook.values.types import Json, plural, seconds
from runbook.values.units import duration


def conditions(step: Step, *, found: bool, items: str = "") -> list[str]:
    """When *step* is taken, and how; *found*: the playbook has findings; *items*: those of its ``each``."""
    return [f"{word[0].upper()}{word[1:]}." for word in (*_when(step, found, items), *_how(step)) if word]


def _when(step: Step, found: bool, items: str) -> Iterator[str]:
    if step.each:
        known = f" ({items})" if items and items != step.each.strip("[]") else ""
        yield f"once for every item of {step.each}{known}; the commands show it as ITEM"
    if step.when:
        yield f"only when {step.when}"
    if step.phase is Phase.REMEDIATE:
        yield _what_for(step, found)
    if step.after:
        yield f"after {_all(step.after)}, and not if that broke"
    if step.if_changed:
        yield f"only if {_any(step.if_changed)} changed something"
    if step.if_failed:
        yield f"only if {_any(step.if_failed)} failed, even if the failure stopped the other steps"
    if step.always:
        yield "always, whatever happened before; reported as owed (pending) if the host cannot be reached"
    if step.confirm:
        yield "asks for a yes first (without a terminal: give --yes)"
    if step.tags:
        yield f"tagged {', '.join(step.tags)} (see --tags and --skip-tags)"


def _what_for(step: Step, found: bool) -> str:
    if step.for_:
        return f"only while {_any(step.for_)} is present"
    if step.if_changed or step.if_failed or not found:
        return ""
    return "only while an error finding is present"


def _how(step: Step) -> Iterator[str]:
    if step.once:
        yield "probed once; all hosts share the answer"
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
        yield "creates temporary files of its own on the host, and removes them"
    if step.ignore_failure:
        yield "a failure is shown, but does not change the verdict"


def _samples(step: Step) -> str:
    written = step.samples
    pace = f"one every {_long(written.get('every', 2))}"
    often = f"{written['times']} samples" if "times" in written else f"samples for {_long(written['for'])}"
    if step.phase is Phase.VERIFY:
        return f"take {often}, {pace}; it must be true in every sample"
    return f"take {often}, {pace}" + (f", as long as {written['while']}" if "while" in written else "")


def _long(value: Json) -> str:
    """A duration in words; a template as it stands."""
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
        words.append(f"Hosts are changed in batches, each started when the one before has ended: {shares}.")
        if given.pause_between:
            words.append(f"Between two batches it waits {seconds(given.pause_between)}.")
        words.append("A batch in which every host is unwell is the last one.")
    if given.host_deadline:
        words.append(f"The work on one host ends after {seconds(given.host_deadline)}.")
    if given.stop_after:
        words.append(f"Once {_hosts(given.stop_after)} {UNWELL}, no further host is started.")
    if given.max_unavailable:
        words.append(f"Never more than {_hosts(given.max_unavailable)} being changed, or {UNWELL}.")
    for limit in given.max_concurrent_per:
        words.append(f"At most {plural(limit.most, 'host')} with the same {limit.variable} at once.")
    if given.order is not HostOrder.INVENTORY:
        words.append(f"Hosts are taken in this order: {given.order}.")
    if given.confirm_from:
        words.append(f"From the risk {given.confirm_from} on, a person on a terminal or a saved plan must say yes.")
    if given.approvals:
        words.append(f"It changes hosts only by a saved plan with {plural(given.approvals, 'approval')} of others.")
    if most := given.attempts:
        words.append(f"At most {plural(most.per_host, 'run')} may change the same host within {seconds(most.within)}.")
    if given.cooldown:
        words.append(f"A host is not changed again within {seconds(given.cooldown)} of its last change.")
    if breaker := given.breaker:
        most_hosts = (
            f"{breaker.hosts} of the hosts" if breaker.hosts.percent else plural(int(breaker.hosts.number), "host")
        )
        words.append(f"All runs together change at most {most_hosts} within {seconds(breaker.within)}.")
    return " ".join(words)


UNWELL = "failed, unresolved, unknown, unreachable or cancelled"


def _hosts(share: Share) -> str:
    """``10% of the hosts are``, ``3 hosts are``, ``1 host is``."""
    them = "of the hosts are" if share.percent else "hosts are" if share.number > 1 else "host is"
    return f"{share} {them}"
