"""The commands ``runbook run`` and ``runbook exec``."""

from __future__ import annotations

import gc
import os
import shlex
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import SystemRandom
from typing import Any, Protocol

from runbook import transports
from runbook.actions import discover
from runbook.commands.history.recording import hosts_in_records, recording_of
from runbook.commands.history.remembering import past_of
from runbook.commands.history.run_origin import origin_of
from runbook.commands.input_files import (
    GivenInputs,
    find_playbook,
    places_of,
    read_inputs,
    read_playbook,
)
from runbook.commands.inventory_files.host_sources import inventory_for
from runbook.commands.one_run import Run
from runbook.commands.order import Order
from runbook.commands.outputs import outputs_for, verbosity_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.secret_sources.resolution import problems_with_references, resolved
from runbook.commands.step_resolution import only_diagnosing, with_places, with_tags, without_scratch
from runbook.errors import ConfigError, Problem
from runbook.executor import Consent
from runbook.facts.commands.mutating_programs import mutating_command
from runbook.fleet import Cancellation
from runbook.fleet.limit_options import given_limits, ordered, problems_with_variables, stricter
from runbook.inventory.host_patterns import select
from runbook.lang.includes import inputs_of_parts
from runbook.lang.static_arguments import problems_with_inputs_given
from runbook.protocols import ConnectOptions
from runbook.secrets.detection import masked_argv
from runbook.sessions.shared_password import SharedPassword
from runbook.values.inventory import Host, Inventory, Selection
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import HostPlan, Status
from runbook.values.run_origin import RunOrigin
from runbook.values.types import Json, plural
from runbook.values.units import duration, time_span
from runbook.wording.limits import limit_lines

LONGEST = 4096
"""Bytes of a password file that are read; its first line is the password."""


class Prompter(Protocol):
    """The user who started the program."""

    def is_there(self) -> bool:
        """Whether they can be asked."""
        ...

    def secret(self, prompt: str) -> str:
        """What they type without being seen."""
        ...


def become_password(file: str, ask: bool, person: Prompter) -> str:
    """Sudo's password, from *file* or from the person; empty where neither is wanted.  Raises ConfigError."""
    if file and ask:
        raise ConfigError("--ask-become-pass and --become-password-file exclude each other: give one of them")
    if file:
        return _first_line("--become-password-file", file)
    if not ask:
        return ""
    if not person.is_there():
        raise ConfigError("--ask-become-pass: there is no terminal to ask on; give --become-password-file FILE")
    return person.secret("Password for sudo on the hosts")


def passphrases(hosts: Sequence[Host], person: Prompter) -> Mapping[str, str]:
    """The passphrases of the encrypted keys that *hosts* need and no agent holds; none where nobody can be asked."""
    if not person.is_there():
        return {}
    used = {host.transport for host in hosts} & set(transports.names())
    paths = [path for name in sorted(used) for path in transports.locked(name, hosts)]
    given = {path: person.secret(f"Passphrase for {path} (Enter: continue without this key)") for path in paths}
    return {path: value for path, value in given.items() if value}


def _first_line(option: str, path: str) -> str:
    """The first line of a file that nobody else can read, or of a pipe."""
    try:
        number = os.open(os.path.expanduser(path), os.O_RDONLY)
        with open(number, "rb") as file:
            mode = os.fstat(number).st_mode
            if not stat.S_ISFIFO(mode) and stat.S_IMODE(mode) & 0o077:
                raise ConfigError(
                    f"{option}: others can read {path} (mode {stat.S_IMODE(mode):04o}); run chmod 600 {path}"
                )
            text = file.read(LONGEST).decode().split("\n")[0].removesuffix("\r")
    except OSError as error:
        raise ConfigError(f"{option} {path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option} {path}: its first line is not UTF-8 text") from error
    if not text or "\0" in text:
        raise ConfigError(f"{option} {path}: its first line is {'empty' if not text else 'not text'}")
    return text


ONLY_PLAN = "--dry-run"

Options = Mapping[str, Any]
"""The options of a command line, by name."""


class Person(Protocol):
    """The user who started the program."""

    def is_there(self) -> bool:
        """Whether they can be asked."""
        ...

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        """Show them plans for *count* hosts, and ask."""
        ...

    def confirms(self, question: str) -> bool:
        """Whether they say yes to *question*."""
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
    sources = read_sources(name, options, problems)
    if sources and not options["plan_only"] and options["only"] != "diagnose":
        problems += unapproved(name, sources.playbook, options)
    order = order_from(sources, options, person, problems)
    order = with_secrets_resolved(replace(order, keeps_owed=True), hiding, changes=not options["plan_only"])
    if options.get("settle") and (code := _settled(order, options, person, hiding)):
        return code
    order = replace(order, origin=origin_of_playbook(order, options, "run"))
    return perform(order, options, person, hiding, stops_before=options["plan_only"])


def origin_of_playbook(order: Order, options: Options, command: str) -> RunOrigin:
    """Where a run of a playbook comes from that *command* starts with *options*."""
    tags, skipped = (
        tuple(part for text in options[name] for part in text.split(",")) for name in ("tags", "skip_tags")
    )
    origin = origin_of(order, command, reason=options["reason"], diagnose_only=options["only"] == "diagnose")
    return replace(origin, tags=tags, skip_tags=skipped)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What a command line names, read: the files, the inputs and the hosts."""

    name: str
    """What the playbook was called by: a name, or a path."""
    playbook: Playbook
    inventory: Inventory
    inputs: Mapping[str, Json]
    given: GivenInputs
    selection: Selection


def read_sources(name: str, options: Options, problems: list[Problem]) -> Sources | None:
    """What *options* name for the playbook *name*; None, with every mistake in *problems*, where that cannot be had."""
    playbook = _or_problems(problems, lambda: read_playbook(find_playbook(name), discover()))
    inventory = _or_problems(problems, lambda: inventory_for(options, options["hosts"] or ""))
    _or_problems(problems, lambda: _times(options))
    _or_problems(problems, lambda: given_limits(options))
    pattern = _pattern(playbook, options, problems)
    given = GivenInputs(options=tuple(options["inputs"]), file=options["inputs_file"], below=options.get("below", {}))
    inputs = _or_problems(problems, lambda: read_inputs(given, playbook)) if playbook else None
    chosen = None
    if inventory and pattern.strip():
        chosen = _or_problems(problems, lambda: _selected(inventory, pattern, options))
    if playbook and chosen:
        problems += problems_with_variables(playbook.limits, chosen.hosts)
    if playbook is None or inventory is None or inputs is None or chosen is None:
        return None
    return Sources(name=name, playbook=playbook, inventory=inventory, inputs=inputs, given=given, selection=chosen)


def order_from(sources: Sources | None, options: Options, person: Person, problems: list[Problem]) -> Order:
    """The run that *options* ask for.  Raises ConfigError with *problems*, and with those found now."""
    if sources is None or problems:
        raise ConfigError(*problems)
    playbook, inputs = sources.playbook, sources.inputs
    if options["only"] == "diagnose":
        if options.get("settle") and not options["plan_only"]:
            raise ConfigError("--only diagnose changes nothing, and --settle may: give one of them")
        playbook = only_diagnosing(playbook, sources.name)
    parts = _or_problems(problems, lambda: inputs_of_parts(playbook, inputs)) or {}
    problems += problems_with_references(playbook, sources.inventory, sources.selection.hosts)
    problems += problems_with_inputs_given(playbook, discover(), parts, places_of(sources.given)) if parts else []
    playbook = _or_problems(problems, lambda: with_tags(playbook, options["tags"], options["skip_tags"])) or playbook
    if options["plan_only"] and not options["scratch"]:
        playbook = without_scratch(playbook)
    if parts:
        playbook = _or_problems(problems, lambda: with_places(playbook, parts, sources.inventory)) or playbook
    if problems:
        raise ConfigError(*problems)
    return order_for(
        playbook,
        inputs,
        options,
        person,
        parts=parts,
        inventory=sources.inventory,
        selection=sources.selection,
    )


def unapproved(name: str, playbook: Playbook, options: Options) -> list[Problem]:
    """Why *playbook* cannot be run without a saved plan, where its limits ask for approvals."""
    count = playbook.limits.approvals
    if not count or not _changing(playbook, options):
        return []
    words = f"{playbook.name} changes nothing without {plural(count, 'approval')} (limits.approvals)"
    hint = (
        f"make a plan: `runbook plan {shlex.quote(name)} --hosts PATTERN -o plan.json`, have it approved: "
        "`runbook approve plan.json`, and apply it: `runbook apply plan.json`; --dry-run only shows what would be done"
    )
    return [Problem(message=words, hint=hint)]


def _settled(order: Order, options: Options, person: Person, hiding: SecretMasking) -> int:
    """Settle what is owed to the hosts of *order*; the exit code of a run that must not begin, or 0."""
    from runbook.commands.settle import settle_first

    if code := settle_first(order, options, person, hiding):
        person.say(f"{order.playbook.name} was not begun: something may still be owed to its hosts")
    return code


def _selected(inventory: Inventory, pattern: str, options: Options) -> Selection:
    """The hosts that *pattern* chooses, also those of a recorded run.  Raises ConfigError."""

    recorded = hosts_in_records(options["records"])
    return select(inventory, pattern, options["include_not_ready"], recorded=recorded)


def _pattern(playbook: Playbook | None, options: Options, problems: list[Problem]) -> str:
    """The hosts that are meant: those of --hosts, else the playbook's own; mistakes go to *problems*."""
    given = options["hosts"]
    if given is not None:
        if not given.strip():
            problems.append(Problem(message="--hosts is empty: name hosts, or leave the option out"))
        return str(given)
    if playbook is None:
        return ""
    if not playbook.hosts:
        problems.append(Problem(message="no hosts: name them with --hosts PATTERN (the playbook has no default)"))
    elif not options["plan_only"] and _changing(playbook, options):
        words = f"{playbook.name} changes hosts, and no hosts were given: add --hosts PATTERN"
        hint = f"--hosts {shlex.quote(playbook.hosts)} is the playbook's default; --dry-run uses it without --hosts"
        problems.append(Problem(message=words, hint=hint))
    return playbook.hosts


def _changing(playbook: Playbook, options: Options) -> bool:
    """Whether a run of *playbook* with *options* may change a host."""
    actions = discover()
    changing = any(actions[step.action].decide for step in playbook.remediate)
    return bool(options.get("settle")) or (options["only"] != "diagnose" and changing)


def exec_command(pattern: str, argv: Sequence[str], options: Options, person: Person) -> int:
    """Run one command: a playbook with one step."""
    with SecretMasking(lambda: secrets_on_command_line("", options)) as hiding:
        return _exec_command(pattern, argv, options, person, hiding)


def _exec_command(pattern: str, argv: Sequence[str], options: Options, person: Person, hiding: SecretMasking) -> int:
    if not argv[0]:
        raise ConfigError("no command: the first word after -- is empty")
    if len(argv) == 1 and " " in argv[0].strip() and "/" not in argv[0].split()[0]:
        hint = f"leave the quotes out, or let a shell read it: -- sh -c {shlex.quote(argv[0])}"
        raise ConfigError(Problem(message=f"{argv[0]!r} is one word, the name of a program", hint=hint))
    inventory = inventory_for(options, pattern)
    limit = _times(options)["timeout"]
    if options["read"]:
        if found := mutating_command(argv):
            words = f"--read is for commands that change nothing, but `{found.words}` does ({found.risk})"
            raise ConfigError(Problem(message=words, hint="leave out --read"))
        step = Step(id="exec", phase=Phase.DIAGNOSE, action="command", args={"argv": _raw(list(argv))})
        playbook = Playbook(name="exec", diagnose=(step,))
    else:
        step = Step(
            id="exec", phase=Phase.REMEDIATE, action="command", args={"do": {"argv": _raw(list(argv))}}, timeout=limit
        )
        playbook = Playbook(name="exec", remediate=(step,))
    chosen = _selected(inventory, pattern, options)
    order = order_for(playbook, {}, options, person, inventory=inventory, selection=chosen)
    order = with_secrets_resolved(order, hiding, changes=not options["read"])
    order = replace(order, origin=origin_of(order, "exec", reason=options["reason"]))
    return perform(order, options, person, hiding)


def _raw(value: Json) -> Any:
    from runbook.values.types import Raw

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
    for name in ("timeout", "deadline", "connect_timeout", "shell_timeout", "wait_lock"):
        try:
            read = duration if name == "wait_lock" else time_span  # which may be 0
            found[name] = read(options[name]) if options.get(name) else 0.0
        except ConfigError as error:
            problems.append(Problem(message=f"--{name.replace('_', '-')}: {error}"))
    if problems:
        raise ConfigError(*problems)
    return found


def order_for(
    playbook: Playbook,
    inputs: Mapping[str, Json],
    options: Options,
    person: Person,
    *,
    connecting: ConnectOptions | None = None,
    **rest: Any,
) -> Order:
    """What is to be run, from the options of a command line, with every ``on`` as the name of a host.

    Raises ConfigError.  Asks for passwords, unless *connecting* says how to connect.
    """
    times = _times(options)
    if parts := rest.get("parts"):
        playbook = with_places(playbook, parts, rest["inventory"])
    hosts = rest["selection"].hosts
    playbook = replace(playbook, limits=stricter(playbook.limits, options, len(hosts)))
    rest["selection"] = replace(rest["selection"], hosts=ordered(hosts, playbook.limits.order, SystemRandom().shuffle))
    for warning in rest["selection"].warnings:
        person.say(warning)
    if connecting is None:
        password = become_password(options["become_password_file"], options["ask_become_pass"], person)
        connecting = ConnectOptions(
            connect_timeout=times["connect_timeout"] or ConnectOptions().connect_timeout,
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
        wait_lock=times["wait_lock"],
        past=past_of(playbook, rest["inventory"], options),
        **rest,
    )


def with_secrets_resolved(order: Order, hiding: SecretMasking, *, changes: bool) -> Order:
    """*order* with the values of its secrets, which *hiding* knows from now on.  Raises ConfigError."""
    values = resolved(order.playbook, order.inventory, order.selection.hosts, discover(), changes=changes)
    hiding.learn(values.masked)
    return replace(order, secret_values=values)


def perform(
    order: Order, options: Options, person: Person, hiding: SecretMasking, *, stops_before: bool = False
) -> int:
    """Carry out *order*, with the outputs and the record that *options* ask for.  Returns the exit code."""
    stop = Cancellation()
    outputs = outputs_for(options["output"], sys.stdout, options["report"], person.say, stop, verbosity_of(options))
    changing = not stops_before and bool(order.playbook.remediate)
    run = Run(order, (outputs,), stop, lambda it: recording_of(it, options, person.say, changing=changing))
    hiding.learn(run.secrets)
    person.speak_through(outputs.aside)
    person.can_stop(stop)
    gc.freeze()  # what is imported and read by now stays to the end, and is not to be gone through again and again
    gc.set_threshold(20_000, 50, 100)
    with outputs:
        code = go(run, options, person, stops_before=stops_before)
    if stops_before and run.waiting and options["output"] == "console" and options.get("typed"):
        person.say(
            f"to do it, after a yes: {run.masked_value(_typed_to_do_it(options['typed'], options, order.playbook))}"
        )
    return outputs.code(code)


def _typed_to_do_it(typed: Sequence[str], options: Options, playbook: Playbook) -> str:
    """The command line *typed* as it is typed to do what the plan shows, without the secrets in it."""
    words = [word for word in masked_argv(typed) if word != ONLY_PLAN]
    words += [] if options["hosts"] else ["--hosts", playbook.hosts]  # a change takes no hosts that nobody has named
    return shlex.join(["runbook", *words])


def go(run: Run, options: Options, person: Person, *, stops_before: bool) -> int:
    """Carry out *run* as far as *options* and the person have it.  Returns the exit code."""
    if stops_before:
        return run.plan_only()
    if options["yes"]:
        return run.go(Consent.YES)
    if person.is_there():
        return run.ask_and_go(lambda plans: _asked(run, plans, person))
    return run.go(Consent.NONE)


def _asked(run: Run, plans: tuple[HostPlan, ...], person: Person) -> bool:
    """Show the limits and the plans, and ask."""
    changed = [plan.host for plan in plans if _changes(plan)]
    for line in limit_lines(run.limits(changed)):
        person.say(line)
    return person.ask(plans, len(changed))


def _changes(plan: HostPlan) -> bool:
    return any(result.status is Status.WOULD_CHANGE for result in plan.results)
