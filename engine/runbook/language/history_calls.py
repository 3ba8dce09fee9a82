"""Check the uses of ``history`` in expressions: methods, steps, probes with their fields, and durations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.language.expressions.parsed_template import HistoryCall
from runbook.language.expressions.templates import history_calls, is_template
from runbook.values.playbook import Let, Playbook
from runbook.values.units import time_span

Near = Callable[[str, Iterable[str]], str]
"""A function that proposes a similar name for a wrong name."""

Mistake = tuple[str, str]
"""The message of a mistake, and a hint."""

FORMS: Mapping[str, str] = {
    "runs": "history.runs('7d')",
    "changed": "history.changed('STEP', '7d')",
    "previous": "history.previous('PROBE.field')",
    "previous_at": "history.previous_at('PROBE')",
    "last": "history.last('changed')",
}
"""Every method of ``history``, with its form in an expression."""

WHERE = "it is for `when` of steps and for findings (when, say, evidence, advise)"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastNames:
    """The names from earlier runs that an expression may use."""

    steps: tuple[str, ...]
    """The steps that change something."""
    probes: Mapping[str, tuple[str, ...]]
    """The probes, each with the fields of its state."""
    lists: frozenset[str] = frozenset()
    """The probes that have ``each``."""


def mistakes_in_history(text: str, let: Let, past: PastNames | None, near: Near) -> Iterator[Mistake]:
    """Yield the mistakes in every use of ``history`` in *text*; *past* is None if ``history`` is not allowed there."""
    for call in history_calls(text, let):
        if past is None:
            yield "`history` cannot be used here", WHERE
        else:
            yield from _mistakes(call, past, near)


def _mistakes(call: HistoryCall, past: PastNames, near: Near) -> Iterator[Mistake]:
    if call.method not in FORMS:
        what = f"`history` has no {call.method!r}" if call.method else "`history` is no value"
        hint = near(call.method, FORMS) if call.method else ""
        yield what, hint if hint.startswith("did you mean") else f"there are: {', '.join(FORMS.values())}"
        return
    form = FORMS[call.method]
    if call.given is None or len(call.given) != form.count("'") // 2:
        yield f"`history.{call.method}` needs its arguments written out, in quotes", form
        return
    match call.method:
        case "runs":
            yield from _time(call.given[0])
        case "changed":
            if call.given[0] not in past.steps:
                yield f"no step under remediate is called {call.given[0]!r}", near(call.given[0], past.steps)
            yield from _time(call.given[1])
        case "previous":
            yield from _path(call.given[0], past, near)
        case "previous_at":
            yield from _probe(call.given[0], past, near)
        case "last" if call.given[0] != "changed":
            yield f"`history.last` does not know {call.given[0]!r}", form


def _time(text: str) -> Iterator[Mistake]:
    try:
        time_span(text)
    except ConfigError as error:
        yield f"history: {error}", ""


def _probe(name: str, past: PastNames, near: Near) -> Iterator[Mistake]:
    if name not in past.probes:
        yield f"no probe is called {name!r}", near(name, past.probes)
    elif name in past.lists:
        yield f"the probe {name!r} is a list (it has `each`): its history cannot be asked for", ""


def _path(path: str, past: PastNames, near: Near) -> Iterator[Mistake]:
    probe, dot, inner = path.partition(".")
    if wrong := list(_probe(probe, past, near)):
        yield from wrong
        return
    field = inner.partition(".")[0]
    if not dot or not inner or not all(inner.split(".")):
        yield f"`history.previous` needs a field of the probe {probe!r}", FORMS["previous"]
    elif field not in past.probes[probe]:
        yield f"the probe {probe!r} has no field {field!r}", near(field, past.probes[probe])


def probes_remembered(playbook: Playbook) -> frozenset[str]:
    """Return the probes whose earlier answers are used by expressions of *playbook* or of the playbooks that it
    includes.
    """
    return frozenset(
        f"{part}_{name}" if part else name
        for part, text in _texts(playbook)
        for call in history_calls(text, playbook.let_of(part))
        if call.method in ("previous", "previous_at") and call.given
        for name in [call.given[0].partition(".")[0]]
    )


def _texts(playbook: Playbook) -> Iterator[tuple[str, str]]:
    """Yield every text in which ``history`` may be used, with the part (included playbook) that contains the text."""
    for step in playbook.steps:
        if step.when:
            yield step.part, step.when
    for rule in playbook.findings:
        compared = (rule.across.value, rule.across.by) if rule.across else ()
        yield from ((rule.part, text) for text in (rule.when, *compared) if text)
        yield from ((rule.part, text) for text in rule.evidence.values())
        yield from ((rule.part, text) for text in (rule.say, *rule.advise) if is_template(text))
