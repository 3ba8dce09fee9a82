"""``runbook run --via cluster`` and ``runbook attach``: the side of the person who begins a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from runbook.cluster.database import Database, place_of_cluster
from runbook.cluster.past import PermittedPast
from runbook.cluster.runs import Runs
from runbook.codec import from_json
from runbook.commands.cluster.remote_fleet import (
    RemoteFleet,
    Workers,
    options_at_sites,
    refuse_unfit,
    sites_of,
)
from runbook.commands.cluster.site_order import SiteOrder, order_at_site, origin_at_site
from runbook.commands.history.recording import recording_of, records_folder
from runbook.commands.one_run import Part, Run
from runbook.commands.options import Connecting, FleetOptions, Output, Recording, RunOptions, Through
from runbook.commands.order import Order, no_record
from runbook.commands.plans.approvals import default_key
from runbook.commands.secret_masking import SecretMasking
from runbook.commands.workspace import Person, outputs_of
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation, Fleet
from runbook.protocols import NotPermitted
from runbook.records.journal import ENDING
from runbook.values.inventory import Host, Inventory, Selection
from runbook.values.units import time_span

START_WITHIN = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """The options of ``runbook attach``."""

    cluster: str = ""
    output: Output
    recording: Recording


def through_cluster(order: Order, options: FleetOptions) -> Order:
    """Return *order* with its hosts worked on by the workers of their sites.  Raises ConfigError."""
    refuse_unfit(order)
    database = database_for(order.selection.hosts, options.connecting, options.through)
    given = options.through
    workers = Workers(
        runs=Runs(database),
        key=given.sign_with or _own_key(),
        start_within=time_span(given.start_within or START_WITHIN),
        options=options_at_sites(options),
    )

    def remote(fleet: Fleet, of_order: Order, run: str, started: datetime) -> Fleet:
        return RemoteFleet.of(fleet, of_order, workers, run, started)

    name = order.playbook.name

    def past(run: str, resumes: str) -> PermittedPast:
        return PermittedPast(database, name, run, (resumes,) if resumes else ())

    return replace(order, remote=remote, keeps_owed=False, past=past)


def database_for(hosts: Sequence[Host], connecting: Connecting, through: Through) -> Database:
    """Return the database through which the workers of *hosts* are reached.  Raises ConfigError if they cannot be."""
    if connecting.ask_become_pass or connecting.become_password_file:
        raise ConfigError("a password for sudo does not travel to a site: give it to `runbook worker` there")
    database = Database(place_of_cluster(through.cluster))
    if wrong := database.wrong_clock():
        words = f"this machine orders nothing: {wrong}, and an order counts for a limited time"
        raise ConfigError(Problem(message=words, hint="set the clocks (NTP)"))
    sites_of(hosts, Runs(database).sites())
    return database


def _own_key() -> str:
    try:
        return default_key()
    except ConfigError:
        hint = "--sign-with FILE names one (a .pub file: the agent has the key)"
        raise ConfigError(Problem(message="no SSH key in ~/.ssh to sign what is ordered with", hint=hint)) from None


def begin_and_leave(order: Order, options: RunOptions, person: Person) -> int:
    """Order a run, and leave its workers to it.  Returns the exit code; raises ConfigError."""
    if not (options.yes or options.plan_only):
        raise ConfigError(Problem(message="--detach: nobody is here to be asked", hint="add --yes, or --dry-run"))
    run = Run(order, (), Cancellation(), no_record)
    fleet = run.fleet
    assert isinstance(fleet, RemoteFleet)
    fleet.order_only("probe" if options.plan_only else "apply", order.selection.hosts, Consent.YES)
    print(run.id)
    person.say(f"`runbook attach {run.id}` follows it, from any machine; Ctrl-C there ends it")
    return 0


def attach(run: str, options: AttachOptions, person: Person) -> int:
    """Follow the run *run* to its end.  Returns its exit code; raises ConfigError."""
    runs = Runs(Database(place_of_cluster(options.cluster)))
    with SecretMasking(tuple) as hiding:
        ordered, order = _ordered(run, runs)
        workers = Workers(runs=runs, key="", start_within=0.0, options={}, ordered=True)
        order = replace(
            order,
            remote=lambda fleet, of_order, name, at: RemoteFleet.of(fleet, of_order, workers, name, at),
        )
        order = replace(order, origin=origin_at_site(ordered, order, "attach"))
        recording = options.recording
        folder = records_folder(recording.records or "")
        if f"{run}{ENDING}" in folder.names(ENDING):
            person.say(f"the records here have run {run} already, so that this is not recorded")
            recording = replace(recording, no_record=True)
        stop = Cancellation()
        outputs = outputs_of(options.output, sys.stdout, person.say, stop)
        person.speak_through(outputs.aside)
        person.can_stop(stop)
        part = Part(started_at=ordered.started_at, by=ordered.by, attempt="", permits=_Nothing(), rollout=None)
        with outputs:
            followed = Run(
                order,
                (outputs,),
                stop,
                lambda name: recording_of(name, recording, person.say, changing=False),
                called=run,
                part=part,
            )
            hiding.learn(followed.secrets)
            code = followed.plan_only() if ordered.phase == "probe" else followed.go(Consent.YES)
        return outputs.code(code)


class _Nothing:
    """Permits nothing: who follows a run sends nothing."""

    def ask(self, host: str, step: str, command: int, words: str, *, seconds: float, owed: bool) -> NotPermitted:
        return NotPermitted(why="this process only follows the run", ended=True)


def _ordered(run: str, runs: Runs) -> tuple[SiteOrder, Order]:
    """Return the last phase of the run *run* as it was ordered, over all sites.  Raises ConfigError."""
    found = [from_json(SiteOrder, _tree(content)) for _, content in runs.orders(run)]
    if not found:
        raise ConfigError(f"the cluster has no run {run!r}")
    phase = "apply" if any(each.phase == "apply" for each in found) else "probe"
    mine = [each for each in found if each.phase == phase]
    whole = replace(
        mine[0],
        inventory=_joined([each.inventory for each in mine]),
        profile_inputs={name: given for each in mine for name, given in each.profile_inputs.items()},
        undo={name: steps for each in mine for name, steps in each.undo.items()},
    )
    order = order_at_site(whole, tuple(host for each in mine for host in each.hosts), Connecting())
    places = {name: place for place, name in enumerate(runs.hosts(run))}
    hosts = tuple(sorted(order.selection.hosts, key=lambda host: places.get(host.name, 0)))
    return whole, replace(order, selection=Selection(hosts=hosts))


def _tree(content: str) -> Mapping[str, object]:
    tree: Mapping[str, object] = json.loads(content)
    return tree


def _joined(inventories: list[Inventory]) -> Inventory:
    hosts = {host.name: host for each in inventories for host in each.hosts}
    return replace(inventories[0], hosts=tuple(hosts.values()), groups={}, profiles=())
