"""The rollout that the workers of several sites share: in the order of the run, and without places that nobody gives back."""

from __future__ import annotations

import json

import pytest

from runbook.cluster.shard import SharedRollout
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.rollout import Rollout
from runbook.values.result import Verdict
from tests.support.toy_actions import ToyClock

pytestmark = pytest.mark.real("postgres")

ORDER = ("zebra", "m", "aa", "canary")


def shared(cluster, bounds, *shards):
    """A run of ORDER with a rollout, and the rollout as each of *shards* (site, hosts) has it."""
    begun = cluster.begun(*shards)
    state = Rollout(ORDER, bounds, ToyClock(), lambda *_: None).kept()

    with cluster.database("alice").begin() as connection:
        connection.exec_driver_sql("INSERT INTO runbook.rollout (run, state) VALUES ('r1', %s)", (json.dumps(state),))
    claimed = [cluster.claimed(number, site=site) for number, (site, _) in enumerate(shards)]
    made = [
        SharedRollout(cluster.site(site), shard.which, hosts, bounds, lambda *_: None)
        for shard, (site, hosts) in zip(claimed, shards, strict=True)
    ]
    return begun, claimed, made


TWO = (("berlin", ("zebra", "canary")), ("oslo", ("m", "aa")))


@pytest.mark.parametrize(
    "bounds", [Bounds(total=4, batches=(1,)), Bounds(total=4, max_unavailable=1)], ids=["batches", "max_unavailable"]
)
def test_hosts_are_changed_in_the_order_of_the_run(cluster, bounds):
    """Mutants: a rollout kept as ``jsonb``, which sorts its keys; a place that goes to whoever asks first."""
    _, _, (berlin, oslo) = shared(cluster, bounds, *TWO)
    for rollout, hosts in ((oslo, ("m", "aa")), (berlin, ("zebra", "canary"))):
        for host in hosts:
            rollout.waits(host)
    changed = []
    for _ in range(20):
        for rollout, hosts in ((oslo, ("aa", "m")), (berlin, ("canary", "zebra"))):
            left = [host for host in hosts if host not in changed]
            if left and (host := rollout.next(left)):
                changed.append(host)
                rollout.ended(host, Verdict.RESOLVED, touched=True)
    assert changed == list(ORDER)


def test_who_was_begun_by_nobody_keeps_no_place(cluster):
    """Mutant: a rollout without ``gone``."""
    bounds = Bounds(total=4, batches=(1, 3))
    _, _, (_, oslo) = shared(cluster, bounds, *TWO)
    for host in ("m", "aa"):
        oslo.waits(host)
    assert oslo.next(["m", "aa"]) is None  # zebra and canary may need the first place
    cluster.sql("UPDATE runbook.shard SET state = 'done' WHERE number = 0")
    assert oslo.next(["m", "aa"]) == "m"


@pytest.mark.parametrize("how", ["done", "given on"])
def test_who_may_still_be_changed_by_a_dead_workers_command_keeps_its_place(cluster, how):
    """Mutant: an end that is recorded as soon as somebody else has the shard."""
    bounds = Bounds(total=4, most={"rack": 1}, groups=dict.fromkeys(ORDER, (("rack", "r1"),)))
    _, claimed, (berlin, oslo) = shared(cluster, bounds, *TWO)
    assert berlin.ask("zebra")
    assert claimed[0].ask("zebra", "write", 0, "x", seconds=8, owed=False) > 0
    oslo.waits("m")
    change = "state = 'done'" if how == "done" else "epoch = epoch + 1, state = 'waiting'"
    cluster.sql(f"UPDATE runbook.shard SET {change} WHERE number = 0")
    assert oslo.next(["m"]) is None
    cluster.sql("UPDATE runbook.permit SET at = at - interval '37 s'")
    assert oslo.next(["m"]) is None
    cluster.sql("UPDATE runbook.permit SET at = at - interval '2 s'")
    assert oslo.next(["m"]) == "m"


def test_who_has_its_verdict_keeps_no_place(cluster):
    bounds = Bounds(total=4, most={"rack": 1}, groups=dict.fromkeys(ORDER, (("rack", "r1"),)))
    _, claimed, (berlin, oslo) = shared(cluster, bounds, *TWO)
    assert berlin.ask("zebra")
    assert claimed[0].ask("zebra", "write", 0, "x", seconds=600, owed=False) > 0
    oslo.waits("m")
    claimed[0].ship(['{"n": 1, "result": {"host": "zebra", "verdict": "resolved"}}'])
    assert oslo.next(["m"]) is None  # its worker says so itself
    cluster.sql("UPDATE runbook.shard SET epoch = epoch + 1, state = 'waiting' WHERE number = 0")
    assert oslo.next(["m"]) == "m"
