"""Describe keys of a step in sentences, if the description needs more than one line of the table (``keys``)."""

from __future__ import annotations

from collections.abc import Callable

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.values.command import shown_variable
from runbook.values.playbook import Phase, Step
from runbook.values.types import Json, plural
from runbook.values.types import seconds as in_seconds
from runbook.values.units import duration


@dataclass(frozen=True, slots=True)
class Around:
    """The values outside of a step that a sentence about the step may need."""

    has_findings: bool
    items: str = ""
    """The items of the step's ``each`` as text, if the inputs determine them."""


Sentence = Callable[[Step, Around], str]
"""A function that describes one key of a step, without capital and full stop; it returns an empty text if there is
nothing to describe.
"""


def each(step: Step, around: Around) -> str:
    """Describe the items of the step, and the name that stands for an item."""
    if not step.each:
        return ""
    known = f" ({around.items})" if around.items and around.items != step.each.strip("[]") else ""
    return f"once for every item of {step.each}{known}; the commands show it as ITEM"


def what_for(step: Step, around: Around) -> str:
    """Describe the findings for which the step makes a change, also if the step names none."""
    if step.phase is not Phase.REMEDIATE:
        return ""
    if step.for_:
        return f"only while {' or '.join(step.for_)} is present"
    if step.if_changed or step.if_failed or not around.has_findings:
        return ""
    return "only while an error finding is present"


def if_failed(step: Step, _: Around) -> str:
    """Describe the steps that must have failed before."""
    some = " or ".join(step.if_failed)
    return f"only if {some} failed, even if the failure stopped the other steps" if some else ""


def always(step: Step, _: Around) -> str:
    """Say what happens to a clean-up whose host is away."""
    words = "always, whatever happened before; reported as owed (pending) if the host cannot be reached"
    return words if step.always else ""


def on(step: Step, _: Around) -> str:
    """Describe the machine on which the commands run."""
    if step.on == "controller":
        return "on the controller, which is this machine"
    return f"on the host {step.on}" if step.on else ""


def env(step: Step, _: Around) -> str:
    """Describe the environment variables; secrets are masked."""
    variables = ", ".join(f"{name}={shown_variable(name, value)}" for name, value in step.env)
    return f"with {variables} in the environment" if variables else ""


def within(step: Step, _: Around) -> str:
    """Describe the state that the step waits for."""
    if not step.within:
        return ""
    how_long = f"for {in_seconds(step.within)} at most"
    again = f"probe again every {in_seconds(step.every)} until it"
    match step.phase:
        case Phase.DIAGNOSE:
            return f"{again} answers, {how_long}"
        case Phase.REMEDIATE:
            return f"after the change, {again} shows, {how_long}"
        case Phase.VERIFY:
            return f"{again} is true, {how_long}"


def retry(step: Step, _: Around) -> str:
    """Say how often a probe that fails is repeated."""
    if not (times := step.retry.times):
        return ""
    often = "once" if times == 1 else f"up to {plural(times, 'time')}"
    return f"if the probe itself fails, repeat it {often}, every {in_seconds(step.retry.every)}"


def samples(step: Step, _: Around) -> str:
    """Describe how often, how long, and under which condition samples are taken."""
    if not (written := step.samples):
        return ""
    pace = f"one every {_long(written.get('every', 2))}"
    often = f"{written['times']} samples" if "times" in written else f"samples for {_long(written['for'])}"
    if step.phase is Phase.VERIFY:
        return f"take {often}, {pace}; it must be true in every sample"
    return f"take {often}, {pace}" + (f", as long as {written['while']}" if "while" in written else "")


def _long(value: Json) -> str:
    """Return the duration *value* in words; a template is returned unchanged."""
    try:
        return in_seconds(duration(str(value)))
    except ConfigError:
        return str(value)
