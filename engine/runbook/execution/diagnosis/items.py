"""Fill in the arguments of a step: once, or once for every item of its ``each``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.execution.diagnosis.host_context import HostContext, States
from runbook.language.expressions.sampling import sampling
from runbook.language.expressions.templates import Scope, evaluate, is_template, names, render, value_of
from runbook.language.expressions.views import UnknownTouched
from runbook.language.lenient_read import scalar
from runbook.values.plan import Blocked, Skip
from runbook.values.playbook import Step
from runbook.values.sampling import Series
from runbook.values.types import Json, Unknown

Args = Mapping[str, Json]

MAX_ITEMS = 1000
"""The maximum number of items of an ``each``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepInstance:
    """One execution of a step: the item of ``each`` and the arguments."""

    item: Json = None
    args: Args
    series: Series | None = None
    """The samples, if the probe has ``samples``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedInstance:
    """One item of a step for which the step does not run, and the reason."""

    item: Json = None
    refusal: Skip | Blocked


def step_instances(
    step: Step, context: HostContext, states: States
) -> tuple[StepInstance | SkippedInstance, ...] | Skip | Blocked:
    """Return every instance of *step*, in the order of its items; or the reason why *step* has no instance."""
    scope = context.scope(states, step.part)
    if step.left_out:
        return Skip(why=step.left_out)
    if not step.each:
        return (_taking(step, scope, None),)
    items = _items(step, scope)
    if isinstance(items, Skip | Blocked):
        return items
    return tuple(_taking(step, context.scope(states, step.part, item), item) for item in items)


def _items(step: Step, scope: Scope) -> list[Json] | Skip | Blocked:
    try:
        found = value_of(step.each, scope)
    except ConfigError as error:
        return Blocked(why=f"each: {error}")
    match found:
        case Unknown(why=why) as unknown:
            of_each = step.when and any(root == "item" for root, _ in names(step.when, scope.let))
            off = None if of_each else _guarded(step, scope)
            return off if isinstance(off, Skip) else _blocked_by(unknown, f"`each` is unknown: {why}")
        case list() if len(found) <= MAX_ITEMS:
            return found
        case list():
            return Blocked(why=f"`each` has {len(found)} items; at most {MAX_ITEMS} are allowed")
    return Blocked(why=f"`each` needs a list, but {step.each} is {type(found).__name__}")


def _taking(step: Step, scope: Scope, item: Json) -> StepInstance | SkippedInstance:
    prepared = prepare(step, scope)
    if isinstance(prepared, Skip | Blocked):
        return SkippedInstance(item=item, refusal=prepared)
    return StepInstance(item=item, args=prepared)


def skipped_now(step: Step, item: Json, context: HostContext, states: States) -> Skip | Blocked | None:
    """Return the reason why *step*, planned for *item*, no longer runs; None if it still runs.

    Only an item that is a text or a number is looked up in the list of items.  An item with fields may have changed:
    then the step's own probe reports whether the thing still exists.
    """
    if step.each:
        items = _items(step, context.scope(states, step.part))
        if isinstance(items, Skip | Blocked):
            return items
        if isinstance(item, str | int) and item not in items:
            return Skip(why=f"{item} is not in {step.each} any more")
    return _guarded(step, context.scope(states, step.part, item))


def _guarded(step: Step, scope: Scope) -> Skip | Blocked | None:
    """Return the reason why the condition ``when`` does not allow *step* to run; None if it may run."""
    if not step.when:
        return None
    try:
        truth = evaluate(step.when, scope)
    except ConfigError as error:
        return Blocked(why=f"`when`: {error}")
    match truth:
        case Unknown(why=why) as unknown:
            return _blocked_by(unknown, f"`when` is unknown: {why}")
        case False:
            return Skip(why=f"when: {step.when}")
    return None


def _with_words(written: Json, rendered: Json) -> Json:
    """Return *rendered* with each number of an ``argv`` that came from a template as text; programs take only text."""
    if isinstance(rendered, Mapping):
        inner = written if isinstance(written, Mapping) else {}
        return {
            key: _argv(inner.get(key), value) if key == "argv" else _with_words(inner.get(key), value)
            for key, value in rendered.items()
        }
    return rendered


def _argv(written: Json, rendered: Json) -> Json:
    if not isinstance(rendered, list | tuple):
        return rendered
    literal = written if isinstance(written, list | tuple) else [""] * len(rendered)
    return [
        str(word) if isinstance(word, int | float) and not isinstance(word, bool) and isinstance(source, str) else word
        for word, source in zip(rendered, literal, strict=True)
    ]


def prepare(step: Step, scope: Scope) -> Args | Skip | Blocked:
    """Return the rendered arguments of *step*, or the reason why the step cannot run now."""
    if refused := _guarded(step, scope):
        return refused
    try:
        rendered = render(step.args, scope)
    except UnknownTouched as error:
        return _blocked_by(error.unknown, f"its arguments depend on an unknown value: {error}")
    except ConfigError as error:
        return Blocked(why=f"its arguments: {error}", malformed=True)
    rendered = _with_words(step.args, rendered)
    assert isinstance(rendered, Mapping)
    try:
        if step.samples:
            sampling(step.samples, scope)
    except ConfigError as error:
        return Blocked(why=f"samples: {error}")
    try:
        with_environment(step, scope)
    except ConfigError as error:
        return Blocked(why=str(error))
    return rendered


def with_environment(step: Step, scope: Scope) -> Step:
    """Return *step* with the templates in its ``env`` and ``cwd`` filled in.  Raises ConfigError."""
    if not (is_template(step.cwd) or any(is_template(text) for _, text in step.env)):
        return step
    env = tuple((name, _filled(f"env: {name}", text, scope)) for name, text in step.env)
    return replace(step, env=env, cwd=_filled("cwd", step.cwd, scope))


def _filled(what: str, text: str, scope: Scope) -> str:
    try:
        value = render(text, scope)
    except (ConfigError, UnknownTouched) as error:
        raise ConfigError(f"{what}: {error}") from error
    if isinstance(value, str | int | float):
        return scalar(value)
    raise ConfigError(f"{what}: {text} is not text, but {'nothing' if value is None else 'a list or a mapping'}")


def _blocked_by(unknown: Unknown, why: str) -> Blocked:
    """Return the refusal of a step that needs the value of *unknown*."""
    return Blocked(why=why, rests_on=(unknown.probe,) if unknown.probe else ())
