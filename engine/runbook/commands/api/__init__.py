"""Use runbook from Python: load a playbook, plan it, run it, and query the records; with the same options as the
commands.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from runbook.commands.history.listing import checked_query
from runbook.commands.history.recording import recording_of, records_folder
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.commands.nobody import Nobody
from runbook.commands.one_run import Run
from runbook.commands.options import RunOptions, made_from, option_names
from runbook.commands.playbook_order import order_from, origin_of_playbook
from runbook.commands.secret_masking import SecretMasking
from runbook.commands.workspace import with_secrets_resolved
from runbook.errors import ConfigError, Problem
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.plugins import discover
from runbook.records.finding_runs import load_run
from runbook.records.index import Index, RunRow
from runbook.records.recorded_run import RecordedRun
from runbook.reporting.collector import Collector
from runbook.text.suggestions import suggest
from runbook.values.event import Event
from runbook.values.playbook import HostOrder, Playbook
from runbook.values.result import RunResult
from runbook.values.types import Json

OnEvent = Callable[[Event], None]
"""Receives each event of a run as it happens, in a thread of the run, one at a time; secrets are masked."""

NOT_ACCEPTED = frozenset(
    [
        *("hosts", "inventory", "inputs", "below", "of_profiles", "only_addresses"),
        *("settle", "plan_only", "yes", "report", "debug"),
        *("via", "cluster", "start_within", "sign_with", "detach"),
    ]
)
"""The options of `runbook run` that have an argument of their own here, or no meaning here."""

OPTIONS = frozenset(option_names(RunOptions)) - NOT_ACCEPTED - {"output", "verbosity", "typed"}
"""The options of `runbook run` that a caller may give, keyed by parameter name; their texts are as on a command line.
"""


CHOICES = {"only": ("diagnose",), "order": tuple(order.value for order in HostOrder)}
"""The options that allow only a few values."""


def load(playbook: str | Path) -> Playbook:
    """Load the playbook with the name or file *playbook*.  Raises ConfigError with every mistake in it."""
    return read_playbook(find_playbook(str(playbook)), discover())


def plan(
    playbook: str | Path,
    *,
    hosts: str,
    inventory: Sequence[str | Path] = (),
    inputs: Mapping[str, Json] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> RunResult:
    """Plan a run: probes, findings and planned steps for each host.  Changes nothing.

    *hosts* is a pattern.  *inventory* names files; without it, the files are found as on the command line.  *options*
    are
    the options in ``OPTIONS``.  Raises ConfigError with every mistake, before any connection is made.
    """
    return _Call(playbook, hosts, inventory, inputs, options, plans=True).result(on_event, changes=False)


def run(
    playbook: str | Path,
    *,
    hosts: str,
    yes: bool,
    inventory: Sequence[str | Path] = (),
    inputs: Mapping[str, Json] | None = None,
    on_event: OnEvent | None = None,
    **options: Any,
) -> RunResult:
    """Diagnose the hosts and change them.  Without *yes* nothing is changed: steps that would change something are
    ``blocked``.

    Arguments as for ``plan``.  Raises ConfigError with every mistake, before any connection is made, and RecordLost
    if the run cannot be recorded (``no_record=True`` runs without a record).
    """
    return _Call(playbook, hosts, inventory, inputs, options, plans=False).result(on_event, changes=yes)


def history(*, records: str = "", limit: int = 0, **query: Any) -> list[RunRow]:
    """Return the recorded runs, the newest first; *query* has the fields of ``runbook.records.index.RunQuery``.

    Times are seconds since 1970, or texts as on the command line (``7d``, ``yesterday``).  Raises ConfigError.
    """
    asked = checked_query(query, limit=limit)
    index = Index(records_folder(records))
    try:
        return index.runs(asked)
    finally:
        index.close()


def recorded(name: str, *, records: str = "") -> RecordedRun:
    """Return the recorded run with the id *name*, or with an id that begins with *name*; ``last`` is the latest run.

    Raises ConfigError.  ``.hosts`` are the results of all hosts (``HostResult``), ``.result_of(host)`` is the result of
    one host or None, ``.events`` are all events of the run.
    """
    return load_run(records_folder(records), name)


class _Listener(Collector):
    """Keeps the result of a run, and passes the run's events on."""

    def __init__(self, on_event: OnEvent | None) -> None:
        super().__init__()
        self._on_event, self._lock = on_event, threading.Lock()

    def on(self, event: Event) -> None:
        super().on(event)
        if self._on_event:
            with self._lock:
                self._on_event(event)


class _Call:
    """One call of ``plan`` or ``run``, with its arguments as options of a command line."""

    def __init__(
        self,
        playbook: str | Path,
        hosts: str,
        inventory: Sequence[str | Path],
        inputs: Mapping[str, Json] | None,
        options: Mapping[str, Any],
        *,
        plans: bool,
    ) -> None:
        if unknown := [option for option in options if option not in OPTIONS]:
            known = ", ".join(sorted(OPTIONS))
            raise ConfigError(
                *(Problem(message=f"there is no option {word!r}", hint=f"there are: {known}") for word in unknown)
            )
        for name, choices in CHOICES.items():
            if (given := options.get(name)) is not None and given not in choices:
                raise ConfigError(Problem(message=f"{name}: {given!r} is none", hint=suggest(str(given), choices)))
        self._playbook, self._person = str(playbook), Nobody()
        made = made_from(RunOptions, {"records": "", "no_record": False, "wait_lock": "1m", **options})
        self._options = replace(
            made,
            choosing=replace(made.choosing, hosts=hosts, inventory=tuple(map(str, inventory))),
            given=replace(made.given, below=dict(inputs or {})),
            plan_only=plans,
        )

    def result(self, on_event: OnEvent | None, *, changes: bool) -> RunResult:
        """Carry out the call, and return the result of its run."""
        options = self._options
        with SecretMasking(lambda: ()) as hiding:
            order = order_from(self._playbook, options, self._person)
            order = with_secrets_resolved(order, hiding, changes=not options.plan_only)
            order = replace(order, origin=origin_of_playbook(order, options, "api"))
            changing = changes and bool(order.playbook.remediate)
            listener, recording, say = _Listener(on_event), options.recording, self._person.say
            run = Run(
                order, (listener,), Cancellation(), lambda name: recording_of(name, recording, say, changing=changing)
            )
            hiding.learn(run.secrets)
            run.plan_only() if options.plan_only else run.go(Consent.YES if changes else Consent.NONE)
        assert listener.result
        return listener.result
