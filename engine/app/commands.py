"""What ``runbook run`` and ``runbook exec`` do."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from engine.actions import discover
from engine.app.files import GivenInputs, find_playbook, inventory_paths, read_inputs, read_inventory, read_playbook
from engine.app.resolving import with_places, with_tags
from engine.app.running import Order, Run, reporters_for
from engine.app.secrets import become_password, passphrases
from engine.errors import ConfigError, Problem
from engine.executor import Consent
from engine.fleet import Stop
from engine.inventory.patterns import select
from engine.lang.including import inputs_of_parts
from engine.lang.quantities import duration
from engine.ports import ConnectOptions
from engine.values.playbook import Phase, Playbook, Step
from engine.values.result import HostPlan, Status
from engine.values.text import Json

Options = Mapping[str, Any]
"""The options of a command line, by name."""


class Person(Protocol):
    """Whoever started the program."""

    def is_there(self) -> bool:
        """Whether they can be asked."""
        ...

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        """Show them plans for *count* hosts, and ask."""
        ...

    def secret(self, prompt: str) -> str:
        """What they type without being seen."""
        ...

    def can_stop(self, stop: Stop) -> None:
        """Let them end the run."""
        ...


def run_playbook(name: str, options: Options, person: Person) -> int:
    """Run a playbook.  Every mistake in what was given is found before anything is connected to."""
    problems: list[Problem] = []
    playbook = _or_problems(problems, lambda: read_playbook(find_playbook(name), discover()))
    inventory = _or_problems(problems, lambda: read_inventory(inventory_paths(options["inventory"])))
    pattern = options["hosts"] or (playbook.hosts if playbook else "")
    if playbook and not pattern:
        problems.append(Problem(message="no hosts: say which with --hosts PATTERN (the playbook names no default)"))
    given = GivenInputs(options=tuple(options["inputs"]), file=options["inputs_file"])
    inputs = _or_problems(problems, lambda: read_inputs(given, playbook)) if playbook else None
    chosen = None
    if inventory and pattern:
        chosen = _or_problems(problems, lambda: select(inventory, pattern, options["include_not_ready"]))
    if playbook is None or inventory is None or inputs is None or chosen is None or problems:
        raise ConfigError(*problems)
    if options["only"] == "diagnose":
        playbook = replace(playbook, remediate=(), verify=())
    parts = _or_problems(problems, lambda: inputs_of_parts(playbook, inputs)) or {}
    playbook = _or_problems(problems, lambda: with_tags(playbook, options["tags"], options["skip_tags"])) or playbook
    if parts:
        playbook = _or_problems(problems, lambda: with_places(playbook, parts, inventory)) or playbook
    if problems:
        raise ConfigError(*problems)
    order = _order(playbook, inputs, options, person, parts=parts, inventory=inventory, selection=chosen)
    return _perform(order, options, person, stops_before=options["dry_run"])


def exec_command(pattern: str, argv: Sequence[str], options: Options, person: Person) -> int:
    """Run one command: a playbook with one step."""
    inventory = read_inventory(inventory_paths(options["inventory"]))
    words: Json = list(argv)
    if options["read"]:
        step = Step(id="exec", phase=Phase.DIAGNOSE, action="command", args={"argv": _raw(words)})
        playbook = Playbook(name="exec", diagnose=(step,))
    else:
        step = Step(id="exec", phase=Phase.REMEDIATE, action="command", args={"do": {"argv": _raw(words)}})
        playbook = Playbook(name="exec", remediate=(step,))
    chosen = select(inventory, pattern, options["include_not_ready"])
    return _perform(_order(playbook, {}, options, person, inventory=inventory, selection=chosen), options, person)


def _raw(value: Json) -> Any:
    from engine.values.text import Raw

    return Raw(value)


def _or_problems(problems: list[Problem], work: Any) -> Any:
    """What *work* gives; where it raises a ConfigError, its problems are kept and nothing is given."""
    try:
        return work()
    except ConfigError as error:
        problems.extend(error.problems)
        return None


def _order(playbook: Playbook, inputs: Mapping[str, Json], options: Options, person: Person, **rest: Any) -> Order:
    timeout, deadline = (duration(options[it]) if options[it] else 0.0 for it in ("timeout", "deadline"))
    connecting = ConnectOptions(
        connect_timeout=duration(options["connect_timeout"]),
        strict_host_keys=options["strict_host_keys"],
        become_password=become_password(options["become_password_file"], options["ask_become_pass"], person),
        passphrases=passphrases(rest["selection"].hosts, person),
    )
    return Order(
        playbook=playbook,
        inputs=inputs,
        parallel=options["parallel"],
        force=bool(options.get("force")),
        detailed_exit_code=bool(options.get("detailed_exitcode")),
        options=connecting,
        timeout=timeout,
        deadline=deadline,
        **rest,
    )


def _perform(order: Order, options: Options, person: Person, *, stops_before: bool = False) -> int:
    stop = Stop()
    run = Run(order, reporters_for(options["output"], sys.stdout, options["report"]), stop)
    person.can_stop(stop)
    if stops_before:
        return run.plan_only()
    if options["yes"]:
        return run.go(Consent.YES)
    if person.is_there():
        return run.ask_and_go(lambda plans: person.ask(plans, sum(map(_changes, plans))))
    return run.go(Consent.NONE)


def _changes(plan: HostPlan) -> bool:
    return any(it.status is Status.WOULD_CHANGE for it in plan.results)
