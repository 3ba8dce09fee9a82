"""What ``runbook monitor`` does."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence

from engine.actions import discover
from engine.app.input_files import (
    GivenInputs,
    find_playbook,
    inventory_paths,
    read_inputs,
    read_inventory,
    read_playbook,
)
from engine.app.monitor import Monitor
from engine.app.monitor_table import HostView, view
from engine.app.outputs import outputs_for
from engine.app.run import Order, Run
from engine.app.run_command import Options, Person, order_for
from engine.app.secret_masking import SecretMasking, secrets_on_command_line
from engine.errors import ConfigError
from engine.fleet import Cancellation
from engine.inventory.host_patterns import select
from engine.values.playbook import Playbook
from engine.values.types import plural
from engine.values.units import duration

PLAYBOOK = "monitor"
CLEAR, HOME, HIDE, SHOW_CURSOR, TO_END = "\x1b[2J", "\x1b[H", "\x1b[?25l", "\x1b[?25h", "\x1b[J"
ALTERNATE, BACK = "\x1b[?1049h", "\x1b[?1049l"


def monitor_hosts(options: Options, person: Person) -> int:
    """Watch hosts until the person has seen enough; or look once, and tell.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line(PLAYBOOK, options)):
        return _monitor_hosts(options, person)


def _monitor_hosts(options: Options, person: Person) -> int:
    book = read_playbook(find_playbook(PLAYBOOK), discover())
    if book.remediate or book.verify:
        raise ConfigError(f"the playbook {PLAYBOOK!r} may only probe: it has remediate or verify")
    inventory = read_inventory(inventory_paths(options["inventory"]))
    pattern = options["hosts"] if options["hosts"] is not None else book.hosts or "all"
    if not pattern.strip():
        raise ConfigError("--hosts is empty: say which hosts, or leave it out")
    inputs = read_inputs(GivenInputs(options=tuple(options["inputs"])), book)
    every = duration(options["every"])
    if every < 1:
        raise ConfigError("--every: at least a second lies between two probes of a host")
    chosen = select(inventory, pattern, options["include_not_ready"])
    order = order_for(book, inputs, options, person, inventory=inventory, selection=chosen)
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
    sights = [HostView(host=it.host, result=it, at=time.monotonic()) for it in results]
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
                fresh = [it for it in sights if it.result is not None and it not in last]
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
