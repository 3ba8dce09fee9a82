"""What a worker hands in: before each permit, in order, once."""

from __future__ import annotations

import pytest

from runbook.cluster.shipper import Shipper
from runbook.protocols import NotPermitted
from runbook.values.event import Waiting

pytestmark = pytest.mark.real("postgres")


def test_what_is_said_of_a_change_is_in_the_database_before_it_is_permitted(cluster):
    """A worker may be killed right after it.  Mutant: a permit that is asked for first."""
    cluster.begun(("berlin", ("a",)))
    shard = cluster.claimed()
    shipper = Shipper(shard)
    seen = []
    ask = shard.ask
    shard.ask = lambda *words, **keys: (
        seen.append(cluster.sql("SELECT max(number) FROM runbook.event")) or ask(*words, **keys)
    )
    for number in range(1, 6):
        shipper.on(Waiting(host="a", why=f"event {number}"))
        assert not isinstance(shipper.ask("a", "s", number, "x", seconds=1, owed=False), NotPermitted)
    assert seen == [[(number,)] for number in range(1, 6)]
    assert shipper.close(5)


def test_what_cannot_be_handed_in_permits_nothing_but_what_is_owed(cluster, monkeypatch):
    for name in ("GIVE_UP", "ANSWERS_WITHIN"):
        monkeypatch.setattr(f"runbook.cluster.shipper.{name}", 0.3)
    cluster.begun(("berlin", ("a",)))
    shard = cluster.claimed()
    shipper = Shipper(shard)
    with cluster.database("postgres").begin() as other:
        other.exec_driver_sql("LOCK TABLE runbook.event IN ACCESS EXCLUSIVE MODE")
        shipper.on(Waiting(host="a", why="x"))
        assert isinstance(shipper.ask("a", "s", 0, "x", seconds=1, owed=False), NotPermitted)
        assert shipper.ask("a", "s", 1, "x", seconds=1, owed=True) == 0.0
    assert shipper.close(5)
    assert cluster.sql("SELECT command FROM runbook.permit") == [(1,)]
