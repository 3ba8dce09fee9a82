"""The command ``runbook monitor``."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live

from runbook.actions import discover
from runbook.app.history.recording import hosts_in_records
from runbook.app.input_files import (
    GivenInputs,
    find_playbook,
    read_inputs,
    read_playbook,
)
from runbook.app.inventory_files.host_sources import inventory_for
from runbook.app.monitor.table import WIDEST, HostView, line, view
from runbook.app.monitor.watch import Monitor, Show
from runbook.app.order import Order
from runbook.app.outputs import outputs_for
from runbook.app.run import Run
from runbook.app.run_command import Options, Person, order_for, with_secrets_resolved
from runbook.app.secret_masking import SecretMasking, secrets_on_command_line
from runbook.app.secret_sources.resolution import problems_with_references
from runbook.errors import ConfigError, Problem
from runbook.fleet import Cancellation
from runbook.inventory.host_patterns import select
from runbook.lang.includes import inputs_of_parts
from runbook.reporters.console.terminal import can_redraw, terminal_size
from runbook.values.playbook import Playbook
from runbook.values.types import plural
from runbook.values.units import duration

PLAYBOOK = "monitor"


def monitor_hosts(options: Options, person: Person) -> int:
    """Watch hosts until interrupted; or probe once, and report.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line(PLAYBOOK, options)) as hiding:
        return _monitor_hosts(options, person, hiding)


def _monitor_hosts(options: Options, person: Person, hiding: SecretMasking) -> int:
    book = read_playbook(find_playbook(PLAYBOOK), discover())
    if book.remediate or book.verify:
        raise ConfigError(f"the playbook {PLAYBOOK!r} may only probe: it has remediate or verify")
    if book.comparisons:
        words = f"the playbook {PLAYBOOK!r} may not compare hosts (across): each is probed at its own pace"
        raise ConfigError(Problem(message=words, hint="name such a playbook to `runbook run`"))
    inventory = inventory_for(options, options["hosts"] or "")
    pattern = options["hosts"] if options["hosts"] is not None else book.hosts or "all"
    if not pattern.strip():
        raise ConfigError("--hosts is empty: name hosts, or leave the option out")
    inputs = read_inputs(GivenInputs(options=tuple(options["inputs"])), book)
    every = duration(options["every"])
    if every < 1:
        raise ConfigError("--every must be at least 1s")
    chosen = select(inventory, pattern, options["include_not_ready"], recorded=hosts_in_records())
    if problems := problems_with_references(book, inventory, chosen.hosts):
        raise ConfigError(*problems)
    parts = inputs_of_parts(book, inputs)
    order = order_for(book, inputs, options, person, parts=parts, inventory=inventory, selection=chosen)
    order = with_secrets_resolved(order, hiding, changes=False)
    stop = Cancellation()
    person.can_stop(stop)
    if options["once"] or options["output"] != "console":
        return _once(order, options, stop, person)
    _watch(book, Monitor(order, stop, every), every)
    return 0


def _once(order: Order, options: Options, stop: Cancellation, person: Person) -> int:
    if options["output"] != "console":
        with outputs_for(options["output"], sys.stdout, (), person.say, stop) as outputs:
            code = Run(order, (outputs,), stop).plan_only()
        return outputs.code(code)
    code, results = Run(order, (), stop).probed()
    sights = [HostView(host=result.host, result=result, at=time.monotonic()) for result in results]
    print("\n".join(_lines(order.playbook, sights, _console())))
    return code


def _watch(book: Playbook, monitor: Monitor, every: float) -> None:
    console, began = _console(), time.strftime("%H:%M:%S")
    if not console.is_terminal:
        monitor.watch(_appended(book, console))
        return
    with Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:

        def show(sights: Sequence[HostView]) -> None:
            console.size = _, height = terminal_size(sys.stdout)
            hosts = plural(len(sights), "host")
            title = line(f"runbook monitor: {hosts}, each every {every:g} s, since {began} (Ctrl-C ends)")
            live.update(Group(title, view(book, sights, console, height - 2)), refresh=True)

        monitor.watch(show)


def _appended(book: Playbook, console: Console) -> Show:
    """A function that prints a line for each host that was seen since it was called last."""
    last: Sequence[HostView] = ()

    def show(sights: Sequence[HostView]) -> None:
        nonlocal last
        fresh = [sight for sight in sights if sight.result is not None and sight not in last]
        last = sights
        for row in _lines(book, fresh, console)[1:]:
            if row:
                print(time.strftime("%H:%M:%S"), row, flush=True)

    return show


def _console() -> Console:
    """What is printed on; where it is no terminal, every line is whole."""
    console = Console(force_terminal=can_redraw(sys.stdout))
    console.size = terminal_size(sys.stdout) if console.is_terminal else (WIDEST, 1)
    return console


def _lines(book: Playbook, sights: Sequence[HostView], console: Console) -> list[str]:
    with console.capture() as captured:
        console.print(view(book, sights, console))
    return [row.rstrip() for row in captured.get().splitlines()]
