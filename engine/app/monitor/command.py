"""The command ``runbook monitor``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence

from engine.actions import discover
from engine.app.history.recording import hosts_in_records
from engine.app.input_files import (
    GivenInputs,
    find_playbook,
    read_inputs,
    read_playbook,
)
from engine.app.inventory_files.host_sources import inventory_for
from engine.app.monitor.table import HostView, view
from engine.app.monitor.watch import Monitor
from engine.app.order import Order
from engine.app.outputs import outputs_for
from engine.app.run import Run
from engine.app.run_command import Options, Person, order_for, with_secrets_resolved
from engine.app.secret_masking import SecretMasking, secrets_on_command_line
from engine.app.secret_sources.resolution import problems_with_references
from engine.errors import ConfigError, Problem
from engine.fleet import Cancellation
from engine.inventory.host_patterns import select
from engine.lang.includes import inputs_of_parts
from engine.values.playbook import Playbook
from engine.values.types import plural
from engine.values.units import duration

PLAYBOOK = "monitor"
CLEAR, HOME, HIDE, SHOW_CURSOR, TO_END = "\x1b[2J", "\x1b[H", "\x1b[?25l", "\x1b[?25h", "\x1b[J"
ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"


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
    run = Run(order, (), stop)
    code, results = run.probed()
    sights = [HostView(host=result.host, result=result, at=time.monotonic()) for result in results]
    tty = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if tty else 10_000
    print("\n".join(view(order.playbook, sights, width, 0, colours=_colours())))
    return code


def _watch(book: Playbook, monitor: Monitor, every: float) -> None:
    tty = sys.stdout.isatty() and os.environ.get("TERM") not in ("dumb", "", None)
    began = time.strftime("%H:%M:%S")
    try:
        if tty:
            _write(ALTERNATE + HIDE + CLEAR)
        last: Sequence[HostView] = ()

        def show(sights: Sequence[HostView]) -> None:
            nonlocal last
            if not tty:
                fresh = [sight for sight in sights if sight.result is not None and sight not in last]
                last = sights
                lines = view(book, fresh, 10_000, 0, colours=False)[1:] if fresh else []
                _write("".join(f"{time.strftime('%H:%M:%S')} {line}\n" for line in lines if line))
                return
            size = shutil.get_terminal_size()
            title = (
                f"runbook monitor: {plural(len(sights), 'host')}, each every {every:g} s, since {began} (Ctrl-C ends)"
            )
            lines = [title[: size.columns], *view(book, sights, size.columns, size.lines - 2, colours=_colours())]
            _write(HOME + "".join(f"{line}\x1b[K\n" for line in lines[: size.lines - 1]) + TO_END)

        monitor.watch(show)
    finally:
        if tty:
            _write(SHOW_CURSOR + BACK)


def _colours() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
