"""Carry out one shard: claim it, check its order, work on its hosts, and hand in what becomes of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from runbook.cluster.database import Database, NoDatabase, Refused
from runbook.cluster.past import PermittedPast
from runbook.cluster.runs import SILENCE
from runbook.cluster.shard import Claim, Shard, ShardId, SharedRollout
from runbook.cluster.shipper import Shipper
from runbook.commands.cluster.doubt import doubtful
from runbook.commands.cluster.site_order import SiteOrder, order_at_site, origin_at_site, read_order
from runbook.commands.history.recording import recording_of
from runbook.commands.nobody import Nobody
from runbook.commands.one_run import Part, Run
from runbook.commands.options import Connecting, Recording
from runbook.commands.order import Order
from runbook.commands.plans.narrowing import Narrowing
from runbook.commands.secret_masking import InternalError, SecretMasking
from runbook.commands.workspace import with_secrets_resolved
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, RunbookError
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.execution.fleet.rollout import BatchEnded
from runbook.reporting.collector import Collector
from runbook.values.event import HostFinished
from runbook.values.result import HostResult, Verdict
from runbook.values.types import plural

BEAT = 1.0
"""The seconds between two signs of life."""
CLAIM_WITHIN = 120.0
"""The seconds in which a shard is asked for; by then it is closed, or given on."""
SHIP_WITHIN = 600.0
"""The seconds in which a database that is away must be back, so that results can be handed in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """The things that all shards of a worker share."""

    database: Database
    site: str
    name: str
    signers: Path
    """The file of those whose orders are carried out."""
    connecting: Connecting
    records: Path
    """The directory of the records: one directory a shard."""
    say: Callable[[str], None]


def work_on(which: ShardId, place: Workplace) -> None:
    """Carry out the shard *which*, if it can still be claimed."""
    shard = Shard(place.database, which, place.name)
    claim = _claimed(shard, place)
    if claim is None:
        return
    stop = Cancellation()
    with _Heart(shard, stop):
        shipper = Shipper(shard)
        try:
            if wrong := place.database.wrong_clock():
                raise ConfigError(f"{place.name} begins nothing: {wrong}, and an order counts for a limited time")
            order, by = read_order(claim.content, claim.signature, place.site, place.signers)
            _check(claim, order, which)
            place.say(f"{which}: {plural(len(claim.hosts), 'host')}, {order.phase} {order.playbook}, signed by {by}")
            _work(claim, order, shard, shipper, stop, place)
            place.say(f"{which}: ended")
        except NoDatabase as error:
            place.say(f"{which}: {error}")
            return  # it is given on
        except RunbookError as error:
            place.say(f"{which}: refused: {error}")
            last = str(error).strip().splitlines()[-1]
            why = f"an error of runbook itself ({last}); the log of {place.name} says more"
            _refuse(why if isinstance(error, InternalError) else str(error), claim, shard, shipper)
        if not shipper.close(SHIP_WITHIN):
            why = shipper.refused or "the database is away"
            place.say(
                f"{which}: the results could not be handed in ({why}): the record is {place.records / str(which)}"
            )
            return
    try:
        shard.finish()
    except NoDatabase as error:
        place.say(f"{which}: {error}")


def _claimed(shard: Shard, place: Workplace) -> Claim | None:
    """Return the claim of *shard*; None: another worker has it, or it is too late.

    The queue hands a shard out once, so that a database that is busy or away is asked again.
    """
    deadline = time.monotonic() + CLAIM_WITHIN
    while True:
        try:
            return shard.claim()
        except NoDatabase as error:
            place.say(f"{shard.which}: {error}")
            if time.monotonic() > deadline:
                return None
            time.sleep(BEAT)


def _check(claim: Claim, order: SiteOrder, which: ShardId) -> None:
    """Raise ConfigError if the shard asks for what nobody has signed."""
    if order.run != which.run or order.phase != claim.phase:
        raise ConfigError(
            f"the order is for {order.phase} of run {order.run}, and the shard is {claim.phase} of {which.run}"
        )
    if foreign := sorted({*claim.hosts} - {*order.hosts}):
        raise ConfigError(f"the order does not have the hosts {', '.join(foreign[:5])}")


def _refuse(why: str, claim: Claim, shard: Shard, shipper: Shipper) -> None:
    with suppress(NoDatabase):
        shard.refuse(why[:500])
    error = f"refused at the site {claim.site}: {why}"
    for host in claim.hosts:
        if host in claim.ends:
            continue
        verdict = Verdict.UNKNOWN if host in claim.permitted else Verdict.NOT_STARTED
        shipper.on(HostFinished(result=HostResult(host=host, verdict=verdict, error=error, steps=())))


def _work(
    claim: Claim, signed: SiteOrder, shard: Shard, shipper: Shipper, stop: Cancellation, place: Workplace
) -> None:
    """Work on the hosts that have no result: those that an earlier worker was permitted to change are only probed."""
    doubt = tuple(host for host in claim.hosts if host in claim.permitted and host not in claim.ends)
    rest = tuple(host for host in claim.hosts if host not in claim.permitted and host not in claim.ends)
    folder = place.records / str(shard.which)
    with SecretMasking(tuple) as hiding:
        bounds = signed.bounds if signed.phase == "apply" else None
        shared = shard.rollout(signed.hosts, bounds) if bounds else None
        if doubt:
            _probe_again(doubt, claim, signed, shard, shipper, stop, place, hiding)
        if not rest:
            return
        made = list[SharedRollout]()
        order = _order(signed, rest, place, hiding, changes=signed.phase == "apply")
        part = Part(
            started_at=signed.started_at,
            by=signed.by,
            attempt=f"{shard.which.shard}.{shard.which.epoch}",
            permits=shipper,
            rollout=_kept(shared, made) if shared else None,
        )
        recording = Recording(records=str(folder), no_record=False)
        run = Run(
            order,
            (shipper,),
            stop,
            lambda name: recording_of(name, recording, place.say, changing=signed.phase == "apply"),
            called=signed.run,
            part=part,
        )
        _go(run, signed, place)
        _record_ends(made, shard, stop)


def _kept(
    shared: Callable[[BatchEnded], SharedRollout], made: list[SharedRollout]
) -> Callable[[BatchEnded], SharedRollout]:
    """Return *shared*, and note in *made* what it makes."""

    def make(ended: BatchEnded) -> SharedRollout:
        made.append(shared(ended))
        return made[-1]

    return make


def _record_ends(made: Sequence[SharedRollout], shard: Shard, stop: Cancellation) -> None:
    """Wait until the ends of all hosts are in the shared rollout, so that others get their places."""
    deadline = time.monotonic() + SHIP_WITHIN
    while made and not all(each.all_ended() for each in made):
        if shard.lost or stop.level() > 1 or time.monotonic() > deadline:
            return
        time.sleep(BEAT)


def _go(run: Run, signed: SiteOrder, place: Workplace) -> None:
    if signed.phase == "probe":
        run.plan_only()
    elif signed.consent == "shown":
        narrowing = Narrowing(signed.shown, signed.seen, signed.started_at, run, _Log(place.say), replans=False)
        run.apply(narrowing.narrowed, (), Consent.SHOWN)
    else:
        run.go(Consent.YES if signed.consent == "yes" else Consent.NONE)


class _Log(Nobody):
    """A person who is absent; what would be said is logged."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__()
        self._log = log

    def say(self, line: str) -> None:
        self._log(line)


def _order(
    signed: SiteOrder, hosts: tuple[str, ...], place: Workplace, hiding: SecretMasking, *, changes: bool
) -> Order:
    order = order_at_site(signed, hosts, place.connecting)
    left = _left(signed)
    past = PermittedPast(place.database, order.playbook.name, signed.run, signed.chain)
    order = replace(order, keeps_owed=True, deadline=left, reason=signed.reason, past=lambda *_: past)
    order = with_secrets_resolved(order, hiding, changes=changes)
    return replace(order, origin=origin_at_site(signed, order, "worker"))


def _left(signed: SiteOrder) -> float:
    """Return the seconds until the deadline of the run; 0: it has none."""
    if not signed.deadline:
        return 0.0
    return max(0.001, (datetime.fromisoformat(signed.deadline) - datetime.now(UTC)).total_seconds())


def _probe_again(
    hosts: tuple[str, ...],
    claim: Claim,
    signed: SiteOrder,
    shard: Shard,
    shipper: Shipper,
    stop: Cancellation,
    place: Workplace,
    hiding: SecretMasking,
) -> None:
    """Hand in ``unknown`` for hosts that may have been changed, with what a probe finds on them now."""
    order = replace(_order(signed, hosts, place, hiding, changes=False), origin=None, reads_only=True)
    found = Collector()
    run = Run(order, (found,), stop, called=signed.run)
    run.plan_only()
    fresh: Mapping[str, HostResult] = {each.host: each for each in found.result.hosts} if found.result else {}
    why = "an earlier worker fell silent after it was permitted to change this host"
    for host in hosts:
        playbook = run.fleet.playbook_of(host)
        shipper.on(
            HostFinished(result=run.hidden(doubtful(playbook, host, claim.permitted[host], why, fresh.get(host))))
        )


class _Heart:
    """A thread that says that the worker lives, and hears when the run is to end."""

    def __init__(self, shard: Shard, stop: Cancellation) -> None:
        self._shard, self._stop, self._ended = shard, stop, threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._heard = time.monotonic()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            try:
                level, why = self._shard.beat()
                self._heard = time.monotonic()
            except Refused:
                if time.monotonic() - self._heard < SILENCE or self._stop.level():
                    continue
                level, why = 1, f"the cluster's database has been away for {SILENCE:.0f} s"
            if level > self._stop.level():
                self._stop.ask(why or "the run was asked to end", level=level)
