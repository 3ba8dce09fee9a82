"""A write is permitted once, for ever, and only to the worker that has the shard of a run that goes on."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runbook.cluster.database import Database, NoDatabase
from runbook.cluster.runs import SILENCE
from runbook.cluster.shard import PERMIT_LASTS, Shard, ShardId
from runbook.execution.executor import Consent, execute
from runbook.execution.planner import make_plan
from runbook.protocols import NotPermitted, seconds_since_boot
from tests.support.toy_actions import ToyHost, book, end, site, with_run

pytestmark = pytest.mark.real("postgres")


def asked(shard: Shard, host: str = "a", step: str = "s", command: int = 0, *, owed: bool = False) -> str:
    refused = shard.ask(host, step, command, "x", seconds=8, owed=owed)
    return (
        "yes"
        if not isinstance(refused, NotPermitted)
        else "doubt"
        if refused.in_doubt
        else "ended"
        if refused.ended
        else "no"
    )


def test_each_command_is_permitted_once(cluster):
    """Mutant: a permit without the command."""
    cluster.begun(("berlin", ("a", "b")))
    shard = cluster.claimed()
    assert [asked(shard), asked(shard), asked(shard, command=1), asked(shard, step="t"), asked(shard, "b")] == [
        "yes", "doubt", "yes", "yes", "yes",
    ]  # fmt: skip


def test_of_many_who_ask_at_once_one_is_permitted(cluster):
    cluster.begun(("berlin", ("a",)))
    shard = cluster.claimed()
    gate = threading.Barrier(8)

    def ask(_: int) -> str:
        gate.wait()
        return asked(shard)

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(ask, range(8))) == ["doubt"] * 7 + ["yes"]


def test_a_worker_whose_shard_was_given_on_is_permitted_nothing(cluster):
    """Two workers may have one name.  Mutant: a permit without the epoch."""
    cluster.begun(("berlin", ("a", "b")))
    old = cluster.claimed(worker="old")
    assert asked(old) == "yes"
    cluster.sql("UPDATE runbook.shard SET heartbeat = now() - interval '1 hour'")
    assert cluster.settled() == 1
    assert asked(old, "b") == "ended"
    assert old.lost
    new = cluster.claimed(epoch=1, worker="old")
    again = Shard(cluster.site("berlin"), ShardId(run="r1", shard=0, epoch=0), "old")  # which knows of no loss
    assert [asked(new), asked(new, "b"), asked(again, "b", "t")] == ["doubt", "yes", "ended"]


def test_after_a_stop_nothing_is_permitted_but_what_is_owed(cluster):
    """Mutant: a permit that does not look at the run."""
    runs = cluster.begun(("berlin", ("a",)))
    shard = cluster.claimed()
    runs.stop("r1", 1, "enough")
    assert [asked(shard), asked(shard, owed=True)] == ["ended", "yes"]
    assert shard.beat() == (1, "enough")
    assert cluster.sql("SELECT count(*) FROM runbook.permit") == [(0,)]


def test_a_stop_waits_for_a_permit_that_is_being_given_and_none_is_given_after_it(cluster):
    runs = cluster.begun(("berlin", tuple(f"h{number}" for number in range(400))))
    shard = cluster.claimed()
    given: list[str] = []

    def ask(number: int) -> None:
        if asked(shard, f"h{number}") == "yes":
            given.append(f"h{number}")

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(ask, number) for number in range(400)]
        jobs[20].result()
        runs.stop("r1", 1, "enough")
        (stopped,) = cluster.sql("SELECT clock_timestamp()")
        for job in jobs:
            job.result()
    rows = cluster.sql("SELECT host, at FROM runbook.permit")
    assert sorted(host for host, _ in rows) == sorted(given)
    assert all(at <= stopped[0] for _, at in rows)
    assert len(rows) < 400


def test_who_holds_the_row_of_a_run_does_not_hold_off_its_stop(cluster):
    """Mutant: a permit that looks at the row of the run alone."""
    runs = cluster.begun(("berlin", ("a", "b")), ("oslo", ("c",)))
    cluster.claimed()
    oslo = cluster.claimed(1, site="oslo")
    with cluster.site("berlin").begin() as held:
        assert held.exec_driver_sql("SELECT permit('r1', 0, 0, 'w', 'a', 's', 0, '', 8)").scalar() == ""
        runs.stop("r1", 1, "enough")
        assert asked(oslo, "c") == "ended"


@pytest.mark.parametrize("why", ["probe", "foreign host", "not claimed", "of another site", "of another name"])
def test_nobody_else_is_permitted_a_write(cluster, why):
    cluster.begun(("berlin", ("a",)), phase="probe" if why == "probe" else "apply")
    which = ShardId(run="r1", shard=0, epoch=0)
    if why != "not claimed":
        cluster.claimed()
    site = cluster.site("oslo" if why == "of another site" else "berlin")
    shard = Shard(site, which, "other" if why == "of another name" else "w")
    assert asked(shard, "z" if why == "foreign host" else "a") == "ended"
    assert cluster.sql("SELECT count(*) FROM runbook.permit") == [(0,)]


def test_without_the_database_nothing_is_permitted_but_what_is_owed():
    away = Database("postgresql://nobody@/none?host=/nonexistent")
    shard = Shard(away, ShardId(run="r", shard=0, epoch=0), "w")
    assert [asked(shard), asked(shard, owed=True)] == ["no", "yes"]
    with pytest.raises(NoDatabase, match="the cluster's PostgreSQL"):
        shard.beat()


class Asked:
    """Permits everything, and keeps what was asked for."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def ask(self, host: str, step: str, command: int, words: str, *, seconds: float, owed: bool) -> float:
        self.seconds.append(seconds)
        return 4711.0


def test_a_permitted_write_is_sent_soon_or_not_at_all():
    """Mutants: apply.py without ``send_before``; a permit that does not say how long the command may take."""
    permits, host = Asked(), ToyHost(procs={4: (1, "zombie")})
    context = with_run(site(book(end("zombie", "k", timeout=8)), host), permits=permits)
    plan, seen = make_plan(context)
    execute(context, plan, seen, Consent.YES)
    (sent,) = host.writes()
    assert (sent.send_before, permits.seconds) == (4711.0, [sent.timeout])


def test_a_permit_ends_before_the_shard_may_be_given_on(cluster):
    cluster.begun(("berlin", ("a",)))
    shard, began = cluster.claimed(), seconds_since_boot()
    until = shard.ask("a", "s", 0, "x", seconds=8, owed=False)
    assert began < until <= seconds_since_boot() + PERMIT_LASTS
    assert SILENCE - PERMIT_LASTS >= 5
    assert shard.ask("a", "s", 1, "x", seconds=8, owed=True) == 0.0
