"""Limits that count earlier runs: `attempts`, `cooldown` and `breaker`, from the permits of everybody's runs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runbook.cluster.past import PermittedPast
from runbook.protocols import NotPermitted
from runbook.values.types import Unknown
from tests.cluster.made_cluster import Cluster
from tests.cluster.site_scene import Scene, verdicts

pytestmark = pytest.mark.real("postgres")


def changed(cluster: Cluster, run: str, *hosts: str, site: str = "berlin", ago: float = 0.0, **keys) -> None:
    """A run of the playbook toy that was permitted a write on each of *hosts*, so many seconds ago."""
    cluster.begun((site, hosts), run=run)
    shard = cluster.claimed(run=run, site=site)
    for host in hosts:
        assert not isinstance(shard.ask(host, "write[2]", 0, "x", seconds=1, owed=False), NotPermitted)
    cluster.sql(f"UPDATE runbook.permit SET at = at - interval '{ago} s' WHERE run = '{run}'")
    for column, value in keys.items():
        cluster.sql(f"UPDATE runbook.run SET {column} = '{value}' WHERE id = '{run}'")


def test_changes_are_those_of_other_runs_of_the_playbook(cluster):
    """Mutants: the run itself; another playbook; a host of the same run."""
    changed(cluster, "old", "a", ago=500)
    changed(cluster, "new", "a", "b", ago=20, attempt="old")
    changed(cluster, "other", "a", playbook="else")
    changed(cluster, "own", "a")
    past = PermittedPast(cluster.site("berlin"), "toy", "own")
    assert [(it.run, it.step, it.attempt, round(it.ago / 10)) for it in past.changes("a", 1000)] == [
        ("new", "write", "old", 2),
        ("old", "write", "old", 50),
    ]
    assert [it.run for it in past.changes("a", 100)] == ["new"]
    assert past.last_change("a").run == "new"
    assert past.last_change("z") is None
    assert past.attempt("a") == ""
    assert PermittedPast(cluster.site("berlin"), "toy", "x", ("old", "new")).attempt("b") == "old"
    assert isinstance(past.answer("a", "probe"), Unknown)


def test_a_site_learns_how_many_hosts_of_others_were_changed_and_not_which(cluster):
    changed(cluster, "r1", "a", "b")
    changed(cluster, "r2", "secret-1", "secret-2", site="oslo")
    assert PermittedPast(cluster.site("berlin"), "toy", "x").changed_hosts(60) == {"a", "b", "oslo 1", "oslo 2"}
    assert PermittedPast(cluster.database("alice"), "toy", "x").changed_hosts(60) == {"a", "b", "secret-1", "secret-2"}
    assert PermittedPast(cluster.database("alice"), "toy", "r1").changed_hosts(60) == {"secret-1", "secret-2"}


def test_a_database_that_is_away_makes_it_unknown():
    from runbook.cluster.database import Database

    past = PermittedPast(Database("postgresql://nobody@/none?host=/nonexistent"), "toy", "x", ("r",))
    assert isinstance(past.changes("a", 60), Unknown)
    assert isinstance(past.last_change("a"), Unknown)
    assert isinstance(past.changed_hosts(60), Unknown)
    assert past.attempt("a") == ""


def test_the_breaker_is_exact_over_all_who_ask_at_once(cluster):
    """Mutants: a breaker that counts without a lock; one that counts the run's own changes alone."""
    changed(cluster, "before", "x0", ago=10)
    hosts = tuple(f"h{number}" for number in range(12))
    cluster.begun(("berlin", hosts), run="r1")
    cluster.sql("UPDATE runbook.run SET breaker_hosts = 4, breaker_within = 600")
    shard = cluster.claimed(run="r1")
    gate = threading.Barrier(12)

    def ask(host: str) -> bool:
        gate.wait()
        return not isinstance(shard.ask(host, "s", 0, "x", seconds=1, owed=False), NotPermitted)

    with ThreadPoolExecutor(12) as pool:
        assert sum(pool.map(ask, hosts)) == 3
    given = cluster.sql("SELECT host FROM runbook.permit WHERE run = 'r1' LIMIT 1")[0][0]
    assert not isinstance(shard.ask(given, "s", 1, "x", seconds=1, owed=False), NotPermitted)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "why", "second"),
    [
        ("cooldown: 1h", "limits.cooldown: run", 0),
        ("attempts: {per_host: 1, within: 1h}", "limits.attempts: 1 run of this playbook changed the host", 0),
        ("breaker: {hosts: 50%, within: 1h}", "limits.breaker: this playbook changed 2 hosts within 60 min", 2),
    ],
)
def test_limits_over_runs_hold_through_workers(tmp_path, cluster, limits, why, second):
    """The second run is another person's, who has no record of the first."""
    scene = Scene(tmp_path, cluster, {"h0": "berlin", "h1": "oslo", "h2": "berlin", "h3": "oslo"}).made()
    book = scene.folder / "toy.yaml"
    book.write_text(book.read_text().replace("remediate:", f"limits: {{{limits}}}\nremediate:"))
    try:
        scene.worker("berlin")
        scene.worker("oslo")
        first = scene.run("--yes", hosts="h0,h1")
        assert verdicts(first) == {"h0": "resolved", "h1": "resolved"}, first.err
        for mark in ("h0", "h1"):
            (scene.folder / f"marks/{mark}.mark").unlink()
        said = scene.run("--yes", XDG_STATE_HOME=str(tmp_path / "elsewhere"))
        assert why in said.out, [step["why"] for it in said.document["hosts"] for step in it["steps"]]
        assert scene.marks() == (
            {"h2": 1, "h3": 1} if "breaker" not in limits else dict.fromkeys(("h0", "h1"), 1) if second else {}
        )
        assert verdicts(said)["h0"] == ("resolved" if "breaker" in limits else "unresolved")
    finally:
        scene.close()
