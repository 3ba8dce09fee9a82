"""A shard is one worker's at a time; what it tells counts as long as it is; the silent ones are given on."""

from __future__ import annotations

import json

import pytest

from runbook.cluster.database import NoDatabase
from runbook.cluster.runs import Runs
from runbook.cluster.shard import Shard, ShardId
from runbook.commands.cluster.shard_work import Workplace, work_on
from runbook.commands.options import Connecting

pytestmark = pytest.mark.real("postgres")


def told(number: int, host: str = "", word: str = "") -> str:
    result = {"host": host, "verdict": word} if host else None
    return json.dumps({"n": number, "event": None if host else {"kind": "waiting", "n": number}, "result": result})


def silent(cluster) -> None:
    cluster.sql("UPDATE runbook.shard SET heartbeat = now() - interval '1 hour'")


def test_it_is_claimed_once(cluster):
    """Mutant: a claim without the state."""
    cluster.begun(("berlin", ("a",)))
    which = ShardId(run="r1", shard=0, epoch=0)
    first, second = (Shard(cluster.site("berlin"), which, name) for name in ("one", "two"))
    claim = first.claim()
    assert claim
    assert (claim.hosts, claim.phase, claim.site, claim.ends, claim.permitted) == (("a",), "apply", "berlin", {}, {})
    assert second.claim() is None
    assert first.beat() == (0, "")
    assert second.beat()[0] == 1


@pytest.mark.parametrize("why", ["too late", "stopped", "ended", "of another site"])
def test_what_must_not_begin_is_not_claimed(cluster, why):
    runs = cluster.begun(("berlin", ("a",)), within=-1 if why == "too late" else 60)
    if why == "stopped":
        runs.stop("r1", 1, "enough")
    if why == "ended":
        runs.end("r1")
    site = "oslo" if why == "of another site" else "berlin"
    assert Shard(cluster.site(site), ShardId(run="r1", shard=0, epoch=0), "w").claim() is None


def test_what_is_told_twice_counts_once_and_stays_in_order(cluster):
    runs = cluster.begun(("berlin", ("a", "b")))
    shard = cluster.claimed()
    assert shard.ship([told(1), told(2)])
    assert shard.ship([told(1), told(2), told(3, "a", "healthy")])
    assert shard.ship([told(3, "a", "failed")])
    news = runs.news("r1", "apply", {})
    assert [(it.shard, it.event and it.event["n"], it.result) for it in news.rows] == [
        (0, 1, None),
        (0, 2, None),
        (0, None, {"host": "a", "verdict": "healthy"}),
    ]
    assert news.whole
    assert runs.news("r1", "apply", news.read).rows == ()
    shard.ship([told(4)])
    assert [it.event["n"] for it in runs.news("r1", "apply", news.read).rows] == [4]


def test_news_does_not_wait_for_transactions_of_others_and_passes_nothing_over(cluster):
    """Mutant: one number for the news of all shards."""
    runs = cluster.begun(("berlin", ("a",)), ("berlin", ("b",)))
    shards = [cluster.claimed(number) for number in (0, 1)]
    with cluster.site("berlin").begin() as slow:
        slow.exec_driver_sql("""SELECT ship('r1', 0, 0, '[{"n": 1, "event": {"kind": "first"}}]')""")
        assert shards[1].ship([told(1), told(2)])
        news = runs.news("r1", "apply", {})
        assert [(it.shard, it.event["n"]) for it in news.rows] == [(1, 1), (1, 2)]
    later = runs.news("r1", "apply", news.read)
    assert [(it.shard, it.event["kind"]) for it in later.rows] == [(0, "first")]


def test_news_in_pieces_is_whole(cluster, monkeypatch):
    """Mutant: a piece that takes the shards in another order than it says."""
    monkeypatch.setattr("runbook.cluster.runs.MOST_ROWS", 3)
    runs = cluster.begun(("berlin", ("a",)), ("berlin", ("b",)))
    for shard in (cluster.claimed(0), cluster.claimed(1)):
        shard.ship([told(number) for number in range(1, 6)])
    read, rows = {}, []
    while not (news := runs.news("r1", "apply", read)).whole:
        read, rows = news.read, [*rows, *news.rows]
    rows += news.rows
    assert [(it.shard, it.event["n"]) for it in rows] == [(shard, n) for shard in (0, 1) for n in range(1, 6)]


def test_what_a_silent_worker_tells_later_is_evidence_and_no_result(cluster):
    """Mutant: a verdict without the epoch."""
    runs = cluster.begun(("berlin", ("a", "b")))
    old = cluster.claimed(worker="old")
    old.ship([told(1, "a", "healthy")])
    silent(cluster)
    assert (cluster.settled(), cluster.settled()) == (1, 0)
    assert not old.ship([told(2), told(3, "b", "resolved")])
    assert old.lost
    old.finish()
    new = Shard(cluster.site("berlin"), ShardId(run="r1", shard=0, epoch=1), "new")
    claim = new.claim()
    assert claim
    assert {host: str(word) for host, word in claim.ends.items()} == {"a": "healthy"}
    again = Shard(cluster.site("berlin"), ShardId(run="r1", shard=0, epoch=0), "old")
    assert not again.ship([told(4, "b", "resolved")])  # while the new one is at work
    new.ship([told(1, "b", "failed")])
    new.finish()
    assert [it.result["verdict"] for it in runs.news("r1", "apply", {}).rows if it.result] == ["healthy", "failed"]
    assert [(it.state, it.epoch, it.worker) for it in runs.shards("r1")] == [("done", 1, "new")]


def test_a_shard_over_which_three_workers_fall_silent_is_given_to_nobody(cluster):
    runs = cluster.begun(("berlin", ("a",)))
    for epoch in range(3):
        cluster.claimed(epoch=epoch)
        silent(cluster)
        assert cluster.settled() == 1
    assert [(it.state, it.epoch) for it in runs.shards("r1")] == [("done", 3)]
    assert Shard(cluster.site("berlin"), ShardId(run="r1", shard=0, epoch=3), "w").claim() is None


def test_what_nobody_begins_is_closed_in_time_and_each_site_settles_its_own(cluster):
    runs = cluster.begun(("berlin", ("a",)), ("oslo", ("b",)), within=-1)
    with cluster.site("oslo").begin() as connection:
        assert connection.exec_driver_sql("SELECT settle(15, 60, 3)").scalar() == 1
    assert [it.state for it in runs.shards("r1")] == ["waiting", "done"]
    assert cluster.settled() == 1
    assert [it.state for it in runs.shards("r1")] == ["done", "done"]


def test_a_shard_waits_for_the_others_of_its_run_at_its_site(cluster):
    """A worker that has begun a run begins its other shards later than ``--start-within``.  Mutant: a claim, or a settle,
    that looks at the time alone."""
    runs = cluster.begun(("berlin", ("a",)), ("berlin", ("b",)), ("oslo", ("c",)), within=1)
    first = cluster.claimed()
    cluster.sql("UPDATE runbook.shard SET start_before = now() - interval '1 s'")
    assert runs.settle() == 1
    assert [it.state for it in runs.shards("r1")] == ["working", "waiting", "done"]
    first.finish()
    second = Shard(cluster.site("berlin"), ShardId(run="r1", shard=1, epoch=0), "w")
    assert second.claim()
    cluster.sql("UPDATE runbook.shard SET state = 'waiting' WHERE number = 1")
    cluster.sql("UPDATE runbook.shard SET heartbeat = now() - interval '61 s'")
    assert second.claim() is None
    assert runs.settle() == 1


def test_a_site_settles_other_sites_for_the_runs_that_it_works_on(cluster):
    """Mutant: a site that settles its own alone."""
    runs = cluster.begun(("berlin", ("a",)), ("oslo", ("b",)), within=1)
    cluster.claimed()
    cluster.sql("UPDATE runbook.shard SET start_before = now() - interval '1 s'")
    with cluster.site("berlin").begin() as connection:
        assert connection.exec_driver_sql("SELECT settle(15, 60, 3)").scalar() == 1
    assert [it.state for it in runs.shards("r1")] == ["working", "done"]


def test_who_could_not_say_that_he_lives_is_not_silent(cluster):
    """PostgreSQL hung for a minute: nobody was heard, whoever looked.  Mutant: a settle without ``since``."""
    cluster.begun(("berlin", ("a",)))
    cluster.claimed()
    silent(cluster)
    cluster.sql("UPDATE runbook.settling SET at = now() - interval '1 min'")
    runs = Runs(cluster.database("postgres"))
    assert runs.settle(0.5) == 0
    cluster.sql("UPDATE runbook.settling SET since = now() - interval '1 s'")
    assert runs.settle(0.5) == 1


def test_a_task_is_made_for_every_shard_and_for_each_that_is_given_on(cluster):
    cluster.begun(("berlin", ("a",)), ("oslo", ("b",)))
    tasks = "SELECT queue_name, task_name, args->>'shard', args->>'epoch' FROM runbook.procrastinate_jobs ORDER BY id"
    assert cluster.sql(tasks) == [("berlin", "apply", "0", "0"), ("oslo", "apply", "1", "0")]
    cluster.claimed(1, site="oslo")
    silent(cluster)
    assert cluster.settled() == 1
    assert cluster.sql(tasks)[2:] == [("oslo", "apply", "1", "1")]


def test_a_shard_that_is_handed_out_while_the_database_is_busy_is_asked_for_again(cluster, tmp_path, monkeypatch):
    """The queue hands it out once.  Mutant: ``work_on`` that gives up at the first error."""
    cluster.begun(("berlin", ("a",)))
    place = Workplace(
        database=cluster.site("berlin"), site="berlin", name="w", signers=tmp_path / "signers", connecting=Connecting(),
        records=tmp_path, say=lambda _: None,
    )  # fmt: skip
    answers = [NoDatabase("busy"), NoDatabase("busy")]
    claim = Shard.claim

    def busy_at_first(shard):
        if answers:
            raise answers.pop()
        return claim(shard)

    monkeypatch.setattr(Shard, "claim", busy_at_first)
    (tmp_path / "signers").write_text("")
    work_on(ShardId(run="r1", shard=0, epoch=0), place)
    assert [it.state for it in cluster.runs.shards("r1")] == ["done"]  # it was refused, as nobody had signed it
    assert cluster.sql("SELECT worker FROM runbook.refusal") == [("w",)]
