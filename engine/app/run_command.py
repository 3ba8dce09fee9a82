"""What ``runbook run`` and ``runbook exec`` do."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from engine.actions import discover
from engine.app.credentials import become_password, passphrases
from engine.app.input_files import (
    GivenInputs,
    find_playbook,
    inventory_paths,
    places_of,
    read_inputs,
    read_inventory,
    read_playbook,
)
from engine.app.outputs import outputs_for
from engine.app.run import Order, Run
from engine.app.secret_masking import SecretMasking, secrets_on_command_line
from engine.app.step_resolution import with_places, with_tags
from engine.errors import ConfigError, Problem
from engine.executor import Consent
from engine.facts.commands.mutating_programs import mutating_command
from engine.fleet import Cancellation
from engine.inventory.host_patterns import select
from engine.lang.includes import inputs_of_parts
from engine.lang.static_arguments import problems_with_inputs_given
from engine.protocols import ConnectOptions
from engine.sessions.shared_password import SharedPassword
from engine.values.playbook import Phase, Playbook, Step
from engine.values.result import HostPlan, Status
from engine.values.types import Json
from engine.values.units import time_span

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

    def can_stop(self, stop: Cancellation) -> None:
        """Let them end the run."""
        ...

    def say(self, line: str) -> None:
        """Tell them something besides what the run says."""
        ...

    def speak_through(self, aside: Callable[[str], bool]) -> None:
        """Say things by *aside* where that takes them, as it does while the terminal is in use."""
        ...


def run_playbook(name: str, options: Options, person: Person) -> int:
    """Run a playbook.  Every mistake in what was given is found before anything is connected to."""
    with SecretMasking(lambda: secrets_on_command_line(name, options)) as hiding:
        return _run_playbook(name, options, person, hiding)


def _run_playbook(name: str, options: Options, person: Person, hiding: SecretMasking) -> int:
    problems: list[Problem] = []
    playbook = _or_problems(problems, lambda: read_playbook(find_playbook(name), discover()))
    inventory = _or_problems(problems, lambda: read_inventory(inventory_paths(options["inventory"])))
    _or_problems(problems, lambda: _times(options))
    pattern = _pattern(playbook, options, problems)
    given = GivenInputs(options=tuple(options["inputs"]), file=options["inputs_file"], below=options.get("below", {}))
    inputs = _or_problems(problems, lambda: read_inputs(given, playbook)) if playbook else None
    chosen = None
    if inventory and pattern.strip():
        chosen = _or_problems(problems, lambda: select(inventory, pattern, options["include_not_ready"]))
    if playbook is None or inventory is None or inputs is None or chosen is None or problems:
        raise ConfigError(*problems)
    if options["only"] == "diagnose":
        playbook = replace(playbook, remediate=(), verify=())
    parts = _or_problems(problems, lambda: inputs_of_parts(playbook, inputs)) or {}
    problems += problems_with_inputs_given(playbook, discover(), parts, places_of(given)) if parts else []
    playbook = _or_problems(problems, lambda: with_tags(playbook, options["tags"], options["skip_tags"])) or playbook
    if parts:
        playbook = _or_problems(problems, lambda: with_places(playbook, parts, inventory)) or playbook
    if problems:
        raise ConfigError(*problems)
    order = order_for(playbook, inputs, options, person, parts=parts, inventory=inventory, selection=chosen)
    return _perform(order, options, person, hiding, stops_before=options["plan_only"])


def _pattern(playbook: Playbook | None, options: Options, problems: list[Problem]) -> str:
    """The hosts that are meant: those of --hosts, else the playbook's own; mistakes go to *problems*."""
    given = options["hosts"]
    if given is not None:
        if not given.strip():
            problems.append(Problem(message="--hosts is empty: say which hosts, or leave it out"))
        return str(given)
    if playbook is None:
        return ""
    if not playbook.hosts:
        problems.append(Problem(message="no hosts: say which with --hosts PATTERN (the playbook names no default)"))
    elif not options["plan_only"] and _changing(playbook, options):
        words = f"{playbook.name} changes hosts, and none were given: add --hosts PATTERN"
        hint = f"--hosts {shlex.quote(playbook.hosts)} is its own; --dry-run needs none"
        problems.append(Problem(message=words, hint=hint))
    return playbook.hosts


def _changing(playbook: Playbook, options: Options) -> bool:
    """Whether a run of *playbook* with *options* may change a host."""
    actions = discover()
    return options["only"] != "diagnose" and any(actions[it.action].decide for it in playbook.remediate)


def exec_command(pattern: str, argv: Sequence[str], options: Options, person: Person) -> int:
    """Run one command: a playbook with one step."""
    with SecretMasking(lambda: secrets_on_command_line("", options)) as hiding:
        return _exec_command(pattern, argv, options, person, hiding)


def _exec_command(pattern: str, argv: Sequence[str], options: Options, person: Person, hiding: SecretMasking) -> int:
    if not argv[0]:
        raise ConfigError("no command: the first word after -- is empty")
    inventory = read_inventory(inventory_paths(options["inventory"]))
    limit = _times(options)["timeout"]
    if options["read"]:
        if found := mutating_command(argv):
            words = f"--read promises that nothing is changed, and `{found.words}` does ({found.risk})"
            raise ConfigError(Problem(message=words, hint="leave out --read"))
        step = Step(id="exec", phase=Phase.DIAGNOSE, action="command", args={"argv": _raw(list(argv))})
        playbook = Playbook(name="exec", diagnose=(step,))
    else:
        step = Step(
            id="exec", phase=Phase.REMEDIATE, action="command", args={"do": {"argv": _raw(list(argv))}}, timeout=limit
        )
        playbook = Playbook(name="exec", remediate=(step,))
    chosen = select(inventory, pattern, options["include_not_ready"])
    order = order_for(playbook, {}, options, person, inventory=inventory, selection=chosen)
    return _perform(order, options, person, hiding)


def _raw(value: Json) -> Any:
    from engine.values.types import Raw

    return Raw(value)


def _or_problems(problems: list[Problem], work: Any) -> Any:
    """What *work* gives; where it raises a ConfigError, its problems are kept and nothing is given."""
    try:
        return work()
    except ConfigError as error:
        problems.extend(error.problems)
        return None


def _times(options: Options) -> Mapping[str, float]:
    """The seconds of every option that is a time; 0 for one that was not given.  Raises ConfigError."""
    problems: list[Problem] = []
    found = {}
    for name in ("timeout", "deadline", "connect_timeout", "shell_timeout"):
        try:
            found[name] = time_span(options[name]) if options.get(name) else 0.0
        except ConfigError as error:
            problems.append(Problem(message=f"--{name.replace('_', '-')}: {error}"))
    if problems:
        raise ConfigError(*problems)
    return found


def order_for(playbook: Playbook, inputs: Mapping[str, Json], options: Options, person: Person, **rest: Any) -> Order:
    """What is to be run, from the options of a command line; asks for passwords.  Raises ConfigError."""
    times = _times(options)
    for warning in rest["selection"].warnings:
        person.say(warning)
    password = become_password(options["become_password_file"], options["ask_become_pass"], person)
    connecting = ConnectOptions(
        connect_timeout=times["connect_timeout"] or ConnectOptions().connect_timeout,
        answered_within=times["shell_timeout"] or ConnectOptions().answered_within,
        shell_within=times["shell_timeout"],
        strict_host_keys=options["strict_host_keys"],
        become_password=SharedPassword(password) if password else None,
        passphrases=passphrases(rest["selection"].hosts, person),
    )
    return Order(
        playbook=playbook,
        inputs=inputs,
        parallel=options["parallel"],
        force=bool(options.get("force")),
        detailed_exit_code=bool(options.get("detailed_exitcode")),
        options=connecting,
        timeout=times["timeout"],
        deadline=times["deadline"],
        **rest,
    )


def _perform(
    order: Order, options: Options, person: Person, hiding: SecretMasking, *, stops_before: bool = False
) -> int:
    stop = Cancellation()
    outputs = outputs_for(options["output"], sys.stdout, options["report"], person.say, stop)
    run = Run(order, (outputs,), stop)
    hiding.learn(run.secrets)
    person.speak_through(outputs.aside)
    person.can_stop(stop)
    with outputs:
        code = _go(run, options, person, stops_before=stops_before)
    return outputs.code(code)


def _go(run: Run, options: Options, person: Person, *, stops_before: bool) -> int:
    if stops_before:
        return run.plan_only()
    if options["yes"]:
        return run.go(Consent.YES)
    if person.is_there():
        return run.ask_and_go(lambda plans: person.ask(plans, sum(map(_changes, plans))))
    return run.go(Consent.NONE)


def _changes(plan: HostPlan) -> bool:
    return any(it.status is Status.WOULD_CHANGE for it in plan.results)
