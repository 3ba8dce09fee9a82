"""The role of a site can neither read, claim, move nor make another site's work, nor write but through the functions."""

from __future__ import annotations

import pytest

from runbook.cluster.database import SITE, Refused, add_site, remove_runs
from runbook.cluster.shard import Shard, ShardId
from runbook.errors import ConfigError
from tests.support.program import runbook

pytestmark = pytest.mark.real("postgres")

TABLES = ("document", "shard", "permit", "event", "result", "procrastinate_jobs")
FORBIDDEN = [
    "INSERT INTO run (id, playbook, by) VALUES ('x', 'x', 'x')",
    "UPDATE run SET ended = NULL",
    "SELECT hosts FROM run",
    "UPDATE settling SET at = now()",
    "INSERT INTO document (run, phase, site, content, signature) VALUES ('r1', 'apply', 'berlin', '', '')",
    "UPDATE document SET content = ''",
    "UPDATE shard SET state = 'waiting', epoch = 0",
    "INSERT INTO shard (run, number, phase, site, hosts, start_before) VALUES ('r1', 9, 'apply', 'berlin', '{a}', now())",
    "INSERT INTO permit (run, host, step, command, shard, site, epoch, worker) VALUES ('r1', 'a', 's', 0, 0, 'berlin', 0, '')",
    "DELETE FROM permit",
    "DELETE FROM event",
    "UPDATE result SET content = '{}'",
    "UPDATE rollout SET state = '{}'",
    "SELECT state FROM rollout",
    "UPDATE site SET role = session_user",
    "SELECT ask_stop('r1', 1, '')",
    "SELECT complete_stop('r1')",
    "SELECT end_run('r1')",
    "DELETE FROM stop",
    "INSERT INTO procrastinate_jobs (queue_name, task_name) VALUES ('oslo', 'apply')",
    "SELECT procrastinate_defer_jobs_v1(ARRAY[ROW('oslo', 'apply', 0, NULL, NULL, '{}', NULL)::procrastinate_job_to_defer_v1])",
    "UPDATE procrastinate_jobs SET queue_name = 'oslo'",
]


@pytest.fixture
def begun(cluster):
    cluster.begun(("berlin", ("a",)), ("oslo", ("b",)))
    oslo = cluster.claimed(1, site="oslo")
    assert oslo.ask("b", "s", 0, "x", seconds=1, owed=False) > 0
    oslo.ship(['{"n": 1, "event": {"kind": "x"}, "result": {"host": "b", "verdict": "healthy"}}'])
    return cluster


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_a_site_cannot(begun, statement):
    """Mutants: a table without row security; a grant too many."""
    with (
        pytest.raises(Refused, match=r"permission denied|row-level security"),
        begun.site("berlin").begin() as connection,
    ):
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runbook.run SET ended = NULL",
        "DELETE FROM runbook.stop",
        "UPDATE runbook.stop SET level = 0",
        "DELETE FROM runbook.permit",
        "UPDATE runbook.shard SET state = 'waiting'",
        "UPDATE runbook.document SET content = ''",
        "SELECT runbook.permit('r1', 0, 0, 'w', 'a', 's', 0, '', 1)",
    ],
)
def test_a_client_cannot(begun, statement):
    """Mutant: a grant with which a run that was stopped goes on."""
    with pytest.raises(Refused, match=r"permission denied"), begun.database("alice").begin() as connection:
        connection.exec_driver_sql(statement)


def test_a_level_of_a_stop_never_goes_down_and_no_living_worker_loses_its_shard_to_a_client(begun):
    runs = begun.runs
    runs.stop("r1", 2, "enough")
    runs.stop("r1", 1, "less")
    assert begun.sql("SELECT level, why FROM runbook.stop") == [(2, "enough")]
    assert runs.settle(-5) == 0
    assert [it.state for it in runs.shards("r1")] == ["done", "working"]


@pytest.mark.parametrize("table", TABLES)
def test_a_site_does_not_see_what_is_of_another(begun, table):
    column = "queue_name" if table == "procrastinate_jobs" else "site"
    there = f"SELECT count(*) FROM runbook.{table} WHERE {column} = 'oslo'"
    assert begun.sql(there)[0][0] > 0
    with begun.site("berlin").begin() as connection:
        assert connection.exec_driver_sql(there).scalar() == 0


def test_a_site_cannot_work_on_the_shard_of_another(begun):
    foreign = Shard(begun.site("berlin"), ShardId(run="r1", shard=1, epoch=0), "w")
    assert foreign.claim() is None
    assert not foreign.ship(['{"n": 5, "event": {}, "result": null}'])
    assert foreign.beat()[0] == 1
    with begun.site("berlin").begin() as connection:
        one = connection.exec_driver_sql("SELECT (procrastinate_fetch_job_v2(NULL, NULL)).queue_name")
        assert [row[0] for row in one] == ["berlin"]
        assert [row[0] for row in connection.exec_driver_sql("SELECT (procrastinate_fetch_job_v2(NULL, NULL)).id")] == [
            None
        ]
        moved = connection.exec_driver_sql("UPDATE procrastinate_jobs SET status = 'todo' WHERE queue_name = 'oslo'")
        assert moved.rowcount == 0


def test_who_is_neither_a_site_nor_a_client_has_nothing(cluster):
    cluster.sql("DO $$ BEGIN CREATE ROLE stranger LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    with pytest.raises(Refused, match="permission denied"), cluster.database("stranger").begin() as connection:
        connection.exec_driver_sql("SELECT runbook.my_site()")


@pytest.mark.parametrize("name", ["", "Berlin", "a b", 'a"; DROP ROLE alice; --', "1a", "a" * 60])
def test_a_name_that_is_no_name_of_a_site_is_a_mistake(cluster, name):
    assert not SITE.fullmatch(name)
    with pytest.raises(ConfigError, match="small letters"):
        add_site(cluster.database("postgres"), name)


def test_old_runs_are_removed_and_those_that_go_on_are_kept(begun):
    """Mutants: a prune that takes runs at work; one that leaves permits behind."""
    cluster = begun
    owner = cluster.database("postgres")
    cluster.begun(("berlin", ("a",)), run="r2")
    done = cluster.claimed(run="r2")
    assert done.ask("a", "s", 0, "x", seconds=1, owed=False) > 0
    done.ship(['{"n": 1, "result": {"host": "a", "verdict": "healthy"}}'])
    done.finish()
    cluster.sql("UPDATE runbook.run SET at = now() - interval '10 days'")
    cluster.sql(
        "INSERT INTO runbook.worker (site, name, version, heartbeat) VALUES ('oslo', 'gone', '0', now() - interval '9 days')"
    )
    assert remove_runs(owner, 20 * 86400) == (0, 0)
    assert remove_runs(owner, 2 * 86400) == (1, 1)
    assert cluster.sql("SELECT id FROM runbook.run") == [("r1",)]
    assert cluster.sql("SELECT count(*) FROM runbook.permit WHERE run = 'r2'") == [(0,)]
    assert cluster.sql("SELECT count(*) FROM runbook.procrastinate_jobs WHERE args->>'run' = 'r2'") == [(0,)]


def test_a_prune_keeps_what_an_order_may_still_need(cluster):
    place = {"RUNBOOK_CLUSTER": cluster.place("postgres")}
    assert "at least 24 h" in runbook("cluster", "prune", "--older-than", "2h", **place).err
    assert "removed 0 runs" in runbook("cluster", "prune", "--older-than", "7d", **place).out
