"""Include a playbook in another playbook: the ids of the included playbook get a prefix; its inputs keep their
names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from runbook.codec import to_json
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.expressions.templates import Scope, fault_in, names, render
from runbook.language.inputs import faults
from runbook.language.lenient_read import mapping, texts_in, unraw
from runbook.language.yaml_source import Document, Path
from runbook.values.plan import Risk
from runbook.values.playbook import FindingRule, IncludedPlaybook, Input, Let, Limits, Playbook, Step
from runbook.values.types import Json

Open = Callable[[str, str], tuple[str, str]]
"""A function from the name of a playbook and the file that includes it to its file and its text.  Raises ConfigError.
"""

DEEPEST = 8
"""The maximum depth of playbooks within each other."""

MOST = 100
"""The maximum number of includes in a playbook, the includes of its included playbooks counted, too."""


def counted(opened: Open) -> Open:
    """Return *opened* with a limit: it raises ConfigError after ``MOST`` calls."""
    left = iter(range(MOST))

    def within(name: str, file: str) -> tuple[str, str]:
        if next(left, None) is None:
            raise ConfigError(f"more than {MOST} includes, with those of what is included")
        return opened(name, file)

    return within


def nothing_to_open(name: str, file: str) -> tuple[str, str]:
    """Raise ConfigError, because no playbook can be included here."""
    raise ConfigError(f"no playbook {name!r} can be found from here")


@dataclass(frozen=True, slots=True)
class Included:
    """An included playbook, ready to become a part of the including playbook."""

    book: Playbook
    """The included playbook; all its ids have the prefix."""
    part: str


def prefixed(inner: Playbook, part: str, given: Mapping[str, Json], document: Document, path: Path) -> Included:
    """Return *inner* as a part of the playbook in *document*; the ``include`` at *path* has the id *part*."""
    errors = tuple(_joined(part, finding.id) for finding in inner.findings if finding.severity.drives)
    own = IncludedPlaybook(
        id=part,
        playbook=inner.name,
        inputs=inner.inputs,
        given=given,
        secrets=inner.secrets,
        where=document.where(path),
    )
    parts = [
        own,
        *(
            replace(playbook, id=_joined(part, playbook.id), parent=_joined(part, playbook.parent))
            for playbook in inner.parts
        ),
    ]
    return Included(
        replace(
            inner,
            diagnose=tuple(_step(step, part, ()) for step in inner.diagnose),
            findings=tuple(_rule(finding, part) for finding in inner.findings),
            remediate=tuple(_step(step, part, errors) for step in inner.remediate),
            verify=tuple(_step(step, part, ()) for step in inner.verify),
            parts=tuple(parts),
            let={_joined(part, name) if name else part: let for name, let in inner.let.items()},
        ),
        part,
    )


def _joined(part: str, inner: str) -> str:
    return f"{part}_{inner}" if inner else part


def _step(step: Step, part: str, errors: tuple[str, ...]) -> Step:
    """Return *step* with the prefix of *part*.  If *step* was for any error, it is now for the errors (*errors*) of
    its own playbook.
    """

    def ids(given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_joined(part, word) for word in given)

    follows = step.if_changed or step.if_failed  # what happened to another step, not a finding: as in its own file
    return replace(
        step,
        id=_joined(part, step.id),
        part=_joined(part, step.part),
        for_=ids(step.for_) or (() if follows else errors),
        after=ids(step.after),
        if_changed=ids(step.if_changed),
        if_failed=ids(step.if_failed),
    )


def _rule(rule: FindingRule, part: str) -> FindingRule:
    return replace(
        rule,
        id=_joined(part, rule.id),
        part=_joined(part, rule.part),
        unless=tuple(_joined(part, word) for word in rule.unless),
        probes=tuple(_joined(part, probe) for probe in rule.probes),
    )


def problems_with_inputs(
    inner: Playbook, tree: Any, document: Document, path: Path, own: tuple[str, ...], let: Let
) -> Iterator[Problem]:
    """Yield the mistakes in the ``inputs:`` of an include; *own* are the inputs of the including playbook."""
    declared = {each.name: each for each in inner.inputs}
    for name, value in mapping(tree).items():
        place = (*path, "inputs", name)
        if name not in declared:
            known = ", ".join(declared) or "none"
            yield document.problem(place, f"{inner.name} has no input {name!r}", f"there are: {known}")
        elif late := [text for text in texts_in(value) if fault_in(text, let) or _foreign(text, let)]:
            yield document.problem(place, f"{name}: only inputs can be used here", f"in: {late[0][:80]}")
        elif unknown := [
            named for text in texts_in(value) for _, named in names(text, let) if named and named not in own
        ]:
            yield document.problem(place, f"there is no input {unknown[0]!r}", f"there are: {', '.join(own) or 'none'}")
        elif not texts_in(value):
            for words in faults(declared[name], unraw(value)):
                yield document.problem(place, f"input {name} of {inner.name}: {words}")
    for inner_input in inner.inputs:
        if inner_input.required and inner_input.name not in mapping(tree):
            yield document.problem(path, f"{inner.name} requires the input {inner_input.name!r}", inner_input.about)


def _foreign(text: str, let: Let) -> bool:
    return any(root != "inputs" for root, _ in names(text, let))


NO_DEFAULTS: Mapping[str, Mapping[str, Json]] = {}


def inputs_of_parts(
    playbook: Playbook, inputs: Mapping[str, Json], defaults: Mapping[str, Mapping[str, Json]] = NO_DEFAULTS
) -> Mapping[str, Mapping[str, Json]]:
    """Return the inputs of every part of *playbook*; the keys are the ids of the parts, and ``""`` is the playbook
    itself.

    *defaults*: values in place of the defaults of included playbooks, by the name of the playbook.  Raises ConfigError
    if a value that an include passes on does not match the schema of the input.
    """
    values: dict[str, Mapping[str, Json]] = {"": inputs}
    problems: list[Problem] = []
    for part in playbook.parts:
        given = render(part.given, Scope(inputs=values[part.parent], let=playbook.let_of(part.parent)))
        assert isinstance(given, Mapping)
        own = {**{each.name: each.default for each in part.inputs}, **defaults.get(part.playbook, {})}
        values[part.id] = {each.name: given.get(each.name, own[each.name]) for each in part.inputs}
        problems += [
            problem for one in part.inputs if one.name in given for problem in _wrong(part, one, given[one.name])
        ]
    if problems:
        raise ConfigError(*problems)
    return values


def _wrong(part: IncludedPlaybook, declared: Input, value: Json) -> Iterator[Problem]:
    at = part.where
    if json.dumps(to_json(value)) == json.dumps(to_json(declared.default)):
        return  # it was checked with the playbook; what checks values takes long to import
    for words in faults(declared, value):
        yield Problem(
            file=at.file, line=at.line, column=at.column, message=f"input {declared.name} of {part.id}: {words}"
        )


def as_careful(limits: Limits, books: list[Playbook]) -> Limits:
    """Return *limits*, made as strict as the limits of the included *books* in confirmations and approvals."""
    every = [limits, *(book.limits for book in books)]
    risks = [each.confirm_from for each in every if each.confirm_from]
    return replace(
        limits,
        confirm_from=min(risks, key=[risk.value for risk in Risk].index, default=""),
        approvals=max(each.approvals for each in every),
    )
