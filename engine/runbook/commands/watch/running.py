"""The command ``watch run``: carry out the rules until asked to end."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from runbook.commands.placed import lacking
from runbook.commands.sources import inventory_for
from runbook.commands.watch.event_store import Stored, only_watcher, watch_folder
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.rule_files import read_rules
from runbook.commands.watch.watcher import Watcher
from runbook.commands.watch.wording import event_line
from runbook.errors import ConfigError
from runbook.text.printable import on_one_line
from runbook.values.types import plural


@contextmanager
def running(options: ServeOptions, say: Callable[[str], None]) -> Iterator[Watcher]:
    """Let the only watcher with this state run.  Raises ConfigError with every mistake in the rules."""
    if options.connecting.ask_become_pass:
        raise ConfigError("--ask-become-pass: nobody can be asked later; give --become-password-file FILE")
    folder = watch_folder(options.state)
    with only_watcher(folder):
        watcher = Watcher(read_rules(options.rules), folder, options, say)
        _refuse_without_workers(watcher, options)
        for name, hosts in sorted(watcher.hosts.items()):
            rule = watcher.known.rules[name]
            say(f"rule {name}: {plural(len(hosts), 'host')}; then {rule.then} {rule.playbook}")
        watcher.start()
        try:
            yield watcher
        finally:
            watcher.end()


def _refuse_without_workers(watcher: Watcher, options: ServeOptions) -> None:
    """Raise ConfigError if workers are to do the work, and some host has none that it could get."""
    if not options.through.workers:
        return
    names = frozenset(name for hosts in watcher.hosts.values() for name in hosts)
    hosts = [host for host in inventory_for(options.choosing, "").hosts if host.name in names]
    try:
        from runbook.commands.cluster.client import database_for
    except ModuleNotFoundError as error:
        raise lacking(error) from None
    database_for(hosts, options.connecting, options.through)


def watch(options: ServeOptions) -> int:
    """Carry out the rules, and print what is heard, seen, decided and done.  Returns the exit code."""
    asked = asked_to_end()
    with running(options, complain) as watcher:
        with watcher.lock:
            watcher.listeners.append(show)
        asked.wait()
        complain("ending: probes are ended, a run that changes a host goes on by itself")
    return 0


def show(stored: Stored) -> None:
    """Print *stored*, if it says something to people, on stdout."""
    if line := event_line(stored.event):
        sys.stdout.write(f"{on_one_line(line)}\n")
        sys.stdout.flush()


def complain(line: str) -> None:
    """Print *line* on stderr."""
    sys.stderr.write(f"runbook: {on_one_line(line)}\n")
    sys.stderr.flush()


def asked_to_end() -> threading.Event:
    """Return an event that is set by SIGINT and SIGTERM."""
    event = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        event.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return event
