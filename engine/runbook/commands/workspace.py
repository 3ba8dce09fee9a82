"""Open the things that every command needs: files, inputs, hosts, passwords, secrets, outputs, and the record."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import SystemRandom
from types import TracebackType
from typing import Protocol, TextIO, TypeVar

from runbook.commands.credentials import become_password, passphrases
from runbook.commands.history.recording import recording_of
from runbook.commands.history.remembering import past_of
from runbook.commands.limit_options import ordered, stricter
from runbook.commands.one_run import Run
from runbook.commands.options import Connecting, FleetOptions, Limits, Output
from runbook.commands.order import Order
from runbook.commands.profiles import assignments
from runbook.commands.secret_masking import SecretMasking
from runbook.commands.sources import times
from runbook.commands.step_resolution import with_places
from runbook.connections.sessions.shared_password import SharedPassword
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.plugins import discover
from runbook.protocols import ConnectOptions, Reporter
from runbook.reporting.debug_log import debug_lines
from runbook.reporting.outputs import Outputs, outputs_for
from runbook.reporting.wording.limits import limit_lines
from runbook.reporting.wording.profile_inputs import profile_limit_lines, profile_lines
from runbook.secret_sources.resolution import resolved
from runbook.values.inventory import Host, Inventory, Selection
from runbook.values.playbook import Playbook
from runbook.values.result import HostPlan, Status
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import Json

T = TypeVar("T")


class Person(Protocol):
    """The user who started the program."""

    def is_there(self) -> bool:
        """Whether the person can be asked."""
        ...

    def ask(self, plans: tuple[HostPlan, ...], count: int) -> bool:
        """Show the person the plans for *count* hosts, and ask for consent."""
        ...

    def confirms(self, question: str) -> bool:
        """Whether the person says yes to *question*."""
        ...

    def secret(self, prompt: str) -> str:
        """Ask with *prompt*, and read the answer without showing it."""
        ...

    def can_stop(self, stop: Cancellation) -> None:
        """Let the person end the run through *stop*."""
        ...

    def say(self, line: str) -> None:
        """Print a line that is no event of the run."""
        ...

    def speak_through(self, aside: Callable[[str], bool]) -> None:
        """Print lines with *aside* while it accepts them, as it does while a display uses the terminal."""
        ...


def connect_options(connecting: Connecting, hosts: Sequence[Host], limits: Limits, person: Person) -> ConnectOptions:
    """Return the options for connecting to *hosts*; asks for passwords.  Raises ConfigError."""
    seconds = times(connecting, limits)
    password = become_password(connecting.become_password_file, connecting.ask_become_pass, person)
    return ConnectOptions(
        connect_timeout=seconds["connect_timeout"] or ConnectOptions().connect_timeout,
        shell_within=seconds["shell_timeout"],
        strict_host_keys=connecting.strict_host_keys,
        become_password=SharedPassword(password) if password else None,
        passphrases=passphrases(hosts, person),
    )


def order_for(
    playbook: Playbook,
    options: FleetOptions,
    person: Person,
    *,
    inventory: Inventory,
    selection: Selection,
    inputs: Mapping[str, Json] | None = None,
    parts: Mapping[str, Mapping[str, Json]] | None = None,
    profile_inputs: Mapping[str, InputsByPlaybook] | None = None,
    connecting: ConnectOptions | None = None,
) -> Order:
    """Return the order for *options*, with the name of one host in every ``on``.

    *profile_inputs*: the inputs that profiles give hosts in place of *inputs*, by host.  *connecting*: the connection
    options; None: they are made from *options*, and passwords are asked for.  Raises ConfigError.
    """
    seconds = times(options.connecting, options.limits)
    own, unplaced = profile_inputs or {}, playbook
    if parts:
        playbook = with_places(playbook, parts, inventory)
    limits = stricter(playbook.limits, options.limits, len(selection.hosts))
    playbook, unplaced = replace(playbook, limits=limits), replace(unplaced, limits=limits)
    hosts = ordered(selection.hosts, playbook.limits.order, SystemRandom().shuffle)
    for warning in selection.warnings:
        person.say(warning)
    limited = profile_limit_lines(inventory.profiles, [host.name for host in hosts]) if playbook.remediate else []
    for line in (*profile_lines(own), *limited):
        person.say(f"by profile: {line}")
    return Order(
        playbook=playbook,
        inputs=inputs or {},
        parts=parts or {},
        profile_inputs=own,
        assignments=assignments(unplaced, inputs or {}, inventory, hosts, own)
        if parts and (inventory.profiles or own)
        else {},
        inventory=inventory,
        selection=replace(selection, hosts=hosts),
        parallel=options.connecting.parallel,
        force=options.force,
        detailed_exit_code=options.output.detailed_exitcode,
        options=connecting or connect_options(options.connecting, hosts, options.limits, person),
        timeout=seconds["timeout"],
        deadline=seconds["deadline"],
        wait_lock=seconds["wait_lock"],
        reason=options.recording.reason,
        debug=debug_lines(options.output.debug, person.say),
        past=past_of(playbook, inventory, options.recording.records),
    )


def with_secrets_resolved(order: Order, hiding: SecretMasking, *, changes: bool) -> Order:
    """Return *order* with the values of its secrets, which *hiding* masks from now on.  Raises ConfigError."""
    values = resolved(order.playbook, order.inventory, order.selection.hosts, discover(), changes=changes)
    hiding.learn(values.masked)
    return replace(order, secret_values=values)


def outputs_of(wanted: Output, stdout: TextIO, complain: Callable[[str], None], stop: Cancellation) -> Outputs:
    """Open the outputs that *wanted* names.  Raises ConfigError."""
    return outputs_for(wanted.output, stdout, complain, stop, reports=wanted.report, verbosity=wanted.verbosity)


class OpenRun:
    """A context with a run whose outputs and record are open, and which the person can stop."""

    def __init__(
        self,
        order: Order,
        options: FleetOptions,
        person: Person,
        hiding: SecretMasking,
        *,
        changing: bool,
        listeners: Sequence[Reporter] = (),
        stdout: TextIO | None = None,
    ) -> None:
        """Open the run.  *changing*: do not begin it if it cannot be recorded.  Raises ConfigError, RecordLost."""
        self.stop, recording = Cancellation(), options.recording
        self.outputs = outputs_of(options.output, stdout or sys.stdout, person.say, self.stop)
        self.run = Run(
            order,
            (self.outputs, *listeners),
            self.stop,
            lambda run: recording_of(run, recording, person.say, changing=changing),
        )
        hiding.learn(self.run.secrets)
        person.speak_through(self.outputs.aside)
        person.can_stop(self.stop)
        gc.freeze()  # what is imported and read by now stays to the end, and is not to be gone through again and again
        gc.set_threshold(20_000, 50, 100)

    def __enter__(self) -> OpenRun:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.outputs.__exit__(kind, error, at)

    def code(self, code: int) -> int:
        """Return the exit code of the run; *code*: the exit code from its hosts.  An incomplete output turns 0 into
        1.
        """
        return self.outputs.code(code)


def perform(order: Order, options: FleetOptions, person: Person, hiding: SecretMasking) -> int:
    """Carry out *order* with the outputs and the record of *options*.  Returns the exit code."""
    changing = not options.plan_only and bool(order.playbook.remediate)
    with OpenRun(order, options, person, hiding, changing=changing) as open_run:
        code = go(open_run.run, options, person)
    return open_run.code(code)


def go(run: Run, options: FleetOptions, person: Person) -> int:
    """Carry out *run* as far as *options* and the person permit.  Returns the exit code."""
    if options.plan_only:
        return run.plan_only()
    if options.yes:
        return run.go(Consent.YES)
    if person.is_there():
        return run.ask_and_go(lambda plans: _is_agreed(run, plans, person))
    return run.go(Consent.NONE)


def _is_agreed(run: Run, plans: tuple[HostPlan, ...], person: Person) -> bool:
    """Show the limits and the plans, and ask the person for consent."""
    changed = [plan.host for plan in plans if _has_changes(plan)]
    for line in limit_lines(run.limits(changed)):
        person.say(line)
    return person.ask(plans, len(changed))


def _has_changes(plan: HostPlan) -> bool:
    return any(result.status is Status.WOULD_CHANGE for result in plan.results)
