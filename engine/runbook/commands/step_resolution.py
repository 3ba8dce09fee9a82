"""Resolve the parts of steps that need inputs, inventory or command line: the hosts of ``on``, and tags."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from runbook.errors import ConfigError, Problem
from runbook.language.expressions.templates import Scope, render
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Playbook, Step
from runbook.values.types import Json

CONTROLLER = "controller"
"""The name of this machine in ``on``."""


def with_places(playbook: Playbook, inputs: Mapping[str, Mapping[str, Json]], inventory: Inventory) -> Playbook:
    """Return *playbook* with the name of one host in every ``on``.  Raises ConfigError with every unknown name."""
    problems: list[Problem] = []

    def placed(step: Step) -> Step:
        if not step.on:
            return step
        try:
            scope = Scope(inputs=inputs[step.part], let=playbook.let_of(step.part))
            return replace(step, on=_host(str(render(step.on, scope)), inventory))
        except ConfigError as error:
            where = step.where
            for problem in error.problems:
                message = f"on: {problem.message}"
                problems.append(
                    replace(problem, file=where.file, line=where.line, column=where.column, message=message)
                )
            return step

    made = _each_step(playbook, placed)
    if problems:
        raise ConfigError(*problems)
    return made


def _host(pattern: str, inventory: Inventory) -> str:
    if pattern == CONTROLLER:
        return pattern
    from runbook.inventory.host_patterns import select  # only where a step names another host

    found = select(inventory, pattern, include_not_ready=True).hosts
    if len(found) != 1:
        raise ConfigError(f"{pattern!r} must name one host, but names {len(found)}")
    return found[0].name


def place(name: str, inventory: Inventory) -> Host:
    """Return the host that ``on`` names.  Raises ConfigError if the inventory has no host *name*."""
    if name == CONTROLLER:
        return Host(name=CONTROLLER, transport="local")
    found = next((host for host in inventory.hosts if host.name == name), None)
    if found is None:
        raise ConfigError(Problem(message=f"on: no host is called {name!r}", hint=suggest(name, _names(inventory))))
    return found


def _names(inventory: Inventory) -> list[str]:
    return [CONTROLLER, *(host.name for host in inventory.hosts)]


def with_tags(playbook: Playbook, wanted: Sequence[str], skipped: Sequence[str]) -> Playbook:
    """Return *playbook* in which the steps that ``--tags`` (*wanted*) and ``--skip-tags`` (*skipped*) leave out are
    marked.

    Probes without tags always run; with ``--tags``, changes and assertions run only if they have one of these tags.
    Raises ConfigError for a tag that no step has.
    """
    wanted, skipped = _argument_words(wanted), _argument_words(skipped)
    known = sorted({tag for step in playbook.steps for tag in step.tags})
    problems = [_unknown(word, known) for word in (*wanted, *skipped) if word not in known]
    if problems:
        raise ConfigError(*problems)
    probes = {each.id for each in playbook.diagnose}

    def chosen(step: Step) -> Step:
        if out := [tag for tag in step.tags if tag in skipped]:
            return replace(step, left_out=f"left out by --skip-tags {','.join(out)}")
        free = not step.tags and step.id in probes
        if wanted and not free and not set(step.tags) & set(wanted):
            return replace(step, left_out=f"left out by --tags {','.join(wanted)}")
        return step

    return _each_step(playbook, chosen)


def only_diagnosing(playbook: Playbook, name: str) -> Playbook:
    """Return *playbook* without its changes; a finding that has a change advises a dry run of the playbook *name*."""
    called = shlex.quote(name).replace("{", "").replace("}", "")
    line = f"See what would be done about it: `runbook run {called} --hosts {{{{ host.name }}}} --dry-run`."
    treated = {name for step in playbook.remediate for name in step.for_}
    findings = (
        replace(rule, advise=(line, *rule.advise)) if rule.id in treated and rule.severity.drives else rule
        for rule in playbook.findings
    )
    return replace(playbook, remediate=(), verify=(), findings=tuple(findings))


def without_scratch(playbook: Playbook) -> Playbook:
    """Return *playbook* without the probes that write files of their own, which a dry run needs ``--scratch`` for."""
    why = "not measured in a dry run, because it writes files of its own (--scratch)"
    return _each_step(playbook, lambda step: replace(step, left_out=why) if step.scratch else step)


def _argument_words(given: Sequence[str]) -> list[str]:
    return [word for text in given for word in (part.strip() for part in text.split(",")) if word]


def _unknown(tag: str, known: Iterable[str]) -> Problem:
    return Problem(message=f"no step has the tag {tag!r}", hint=suggest(tag, known))


def _each_step(playbook: Playbook, change: Callable[[Step], Step]) -> Playbook:
    return replace(
        playbook,
        diagnose=tuple(map(change, playbook.diagnose)),
        remediate=tuple(map(change, playbook.remediate)),
        verify=tuple(map(change, playbook.verify)),
    )
