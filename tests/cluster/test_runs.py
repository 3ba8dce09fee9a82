"""`runbook run --via cluster`: real workers, a real PostgreSQL, and toy hosts of two sites on this machine."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter

import pytest

from tests.cluster.site_scene import Scene, verdicts
from tests.support.program import runbook
from tests.support.waiting import LIMIT, until

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]

SITES = {f"h{number}": ("berlin" if number < 4 else "oslo") for number in range(6)}


@pytest.fixture
def scene(tmp_path, cluster):
    made = Scene(tmp_path, cluster, dict(SITES)).made()
    yield made
    made.close()


@pytest.fixture
def staffed(scene):
    scene.worker("berlin")
    scene.worker("oslo")
    return scene


TIMES = ("at", "run", "started_at", "seconds", "origin", "scripts", "ago")


def without_times(value):
    """*value* without what differs from run to run."""
    if isinstance(value, dict):
        return {key: without_times(it) for key, it in value.items() if key not in TIMES}
    return [without_times(it) for it in value] if isinstance(value, list) else value


@pytest.mark.parametrize("words", [("--dry-run",), ("--yes",), ("--only", "diagnose")])
def test_the_same_result_as_without_workers(staffed, words):
    """Mutants: a host of one site alone; results of the wrong phase; a step that is not reported."""
    here = staffed.run(*words, via="local")
    for path in (staffed.folder / "marks").glob("*"):
        path.unlink()
    there = staffed.run(*words)
    assert there.code == here.code, there.err
    assert without_times(there.document) == without_times(here.document)
    assert staffed.marks() == (dict.fromkeys(SITES, 1) if words == ("--yes",) else {})


def test_a_second_run_changes_nothing(staffed):
    assert verdicts(staffed.run("--yes")) == dict.fromkeys(SITES, "resolved")
    again = staffed.run("--yes")
    assert verdicts(again) == dict.fromkeys(SITES, "healthy")
    assert staffed.marks() == dict.fromkeys(SITES, 1)


def test_the_events_of_workers_are_the_record_here(staffed):
    done = staffed.run("--yes")
    shown = runbook("history", "show", done.document["run"], cwd=staffed.folder, **staffed.environment)
    assert shown.code == 0, shown.err
    assert "h5" in shown.out
    assert runbook("history", "verify", cwd=staffed.folder, **staffed.environment).code == 0


def test_a_site_without_a_worker_is_named_and_never_run_late(scene):
    """Mutant: a claim that does not look at the time."""
    scene.worker("berlin")
    said = scene.run("--yes", "--start-within", "3s")
    found = Counter(verdicts(said).values())
    assert found == {"resolved": 4, "not_started": 2}
    assert "no worker at oslo began it within 3 s" in said.host("h5")["error"]
    assert [step["status"] for step in said.host("h5")["steps"]] == ["blocked", "blocked"]
    assert said.code == 5
    late = scene.worker("oslo")
    assert verdicts(scene.run("--yes", hosts="h4")) == {"h4": "resolved"}
    assert "h5" not in scene.marks()
    late.kill()


def test_a_worker_that_is_killed_costs_no_host_its_verdict_and_no_host_a_second_write(scene):
    """Mutants: a permit that is given again; a shard that is begun from its beginning."""
    first = scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=1.5", hosts="h0,h1,h2,h3")
    until(lambda: scene.marks().get("h1"))
    first.kill()
    scene.worker("berlin")
    out, err = process.communicate(timeout=LIMIT)
    hosts = {it["host"]: it for it in json.loads(out)["hosts"]}
    assert set(hosts) == {"h0", "h1", "h2", "h3"}, err
    assert scene.marks() == dict.fromkeys(hosts, 1)
    doubt = [name for name, it in hosts.items() if it["verdict"] == "unknown"]
    assert "h1" in doubt
    (step,) = [it for it in hosts["h1"]["steps"] if it["id"] == "write"]
    assert (step["status"], "not sent a second time" in step["why"]) == ("unknown", True)
    assert {it["verdict"] for name, it in hosts.items() if name not in doubt} <= {"resolved", "healthy"}
    assert {it["status"] for it in hosts["h1"]["findings"]} == {"absent"}  # it was probed again


def test_a_host_that_may_have_been_changed_is_unknown_also_where_the_next_worker_refuses(scene):
    """Mutant: ``_refuse`` that calls every host not started."""
    first = scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=2", hosts="h0,h1,h2,h3")
    until(lambda: scene.marks().get("h0"))
    first.kill()
    scene.signers.write_text(
        "bob@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFakeFakeFakeFakeFakeFakeFakeFakeFakeFakeFake\n"
    )
    scene.worker("berlin")
    out, err = process.communicate(timeout=LIMIT)
    found = {it["host"]: it for it in json.loads(out)["hosts"]}
    changed = set(scene.marks())
    assert {name for name, it in found.items() if it["verdict"] == "unknown"} >= changed, err
    assert all(it["verdict"] == "not_started" for name, it in found.items() if name not in changed | {"h1"})
    assert {step["status"] for step in found["h0"]["steps"] if step["id"] == "write"} == {"unknown"}


def test_a_transaction_of_others_that_is_open_costs_no_verdict(staffed):
    """Mutant: results that are read as far as the news alone."""
    with staffed.cluster.database("postgres").begin() as other:
        other.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        other.exec_driver_sql("SELECT pg_current_xact_id()")
        said = staffed.run("--yes")
    assert verdicts(said) == dict.fromkeys(SITES, "resolved")


def test_a_worker_that_is_stopped_for_too_long_sends_nothing_when_it_goes_on(scene):
    first = scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=1", hosts="h0,h1,h2,h3")
    until(lambda: scene.marks().get("h0"))
    first.send(signal.SIGSTOP)
    scene.worker("berlin")
    out, _ = process.communicate(timeout=LIMIT)
    before = scene.marks()
    first.send(signal.SIGCONT)
    until(lambda: "ended" in first.said or "another worker's" in first.said or first.process.poll() is None)
    again = scene.run("--dry-run", hosts="h0,h1,h2,h3")
    assert scene.marks() == before
    assert max(before.values()) == 1
    assert len(json.loads(out)["hosts"]) == 4
    assert set(verdicts(again).values()) <= {"healthy", "planned"}


def test_ctrl_c_ends_the_run_at_its_sites(scene):
    """Mutant: a stop that closes nothing."""
    scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=2", hosts="h0,h1,h2,h3")
    until(lambda: scene.marks().get("h0"))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, err
    found = {it["host"]: it["verdict"] for it in json.loads(out)["hosts"]}
    assert len(found) == 4
    assert found["h3"] in ("not_started", "cancelled")
    assert "h3" not in scene.marks()


def test_while_the_database_is_away_nothing_is_written_and_the_run_goes_on_afterwards(scene):
    """In a server of its own, which others do not miss."""
    scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=1", hosts="h0,h1,h2,h3")
    until(lambda: scene.marks().get("h0"))
    scene.cluster.server.stop("immediate")
    before = scene.marks()
    scene.cluster.server.start()
    out, err = process.communicate(timeout=LIMIT)
    found = {it["host"]: it["verdict"] for it in json.loads(out)["hosts"]}
    assert len(found) == 4, err
    assert max(scene.marks().values()) == 1
    assert len(before) <= 2
    assert all(
        (host in scene.marks()) or word in ("failed", "cancelled", "unknown", "unresolved", "not_started")
        for host, word in found.items()
    )


def test_a_run_that_nobody_waits_for_is_followed_from_elsewhere(staffed):
    said = staffed.run("--yes", "--detach")
    run = said.out.split()[0]
    assert "attach" in said.err
    until(lambda: len(staffed.marks()) == len(SITES))
    followed = runbook("attach", run, "--output", "json", cwd=staffed.folder, **staffed.environment)
    assert followed.code == 0, followed.err
    assert verdicts(followed) == dict.fromkeys(SITES, "resolved")
    assert followed.document["run"] == run
    shown = runbook("history", "show", run, cwd=staffed.folder, **staffed.environment)
    assert shown.code == 0, shown.err


def test_the_client_is_killed_and_the_run_goes_on(staffed):
    process = staffed.start("--yes", "-e", "takes=1")
    until(lambda: len(staffed.marks()) >= 1)
    process.kill()
    process.communicate()
    until(lambda: staffed.marks() == dict.fromkeys(SITES, 1))


def test_an_order_that_nobody_there_believes_is_refused(staffed):
    """Mutant: a worker that does not check the signature."""
    foreign = staffed.folder / "home/.ssh/other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(foreign)], check=True)
    said = staffed.run("--yes", "--sign-with", str(foreign))
    assert verdicts(said) == dict.fromkeys(SITES, "not_started")
    assert "nobody whom this site believes has signed the order" in said.host("h0")["error"]
    assert staffed.marks() == {}
    sites = runbook("sites", cwd=staffed.folder, **staffed.environment)
    assert "nobody whom this site believes" in sites.out
    assert sites.code == 0


def test_a_forged_host_or_text_is_refused(staffed):
    """What lies in the database is believed as far as it is signed."""
    process = staffed.start("--dry-run")
    process.communicate(timeout=LIMIT)
    sql = staffed.cluster.sql
    sql("UPDATE runbook.document SET content = replace(content, 'echo done', 'echo evil')")
    sql("UPDATE runbook.shard SET state = 'waiting', epoch = epoch + 1, start_before = now() + interval '1 hour'")
    sql("UPDATE runbook.run SET ended = NULL")
    sql("DELETE FROM runbook.result")
    sql("SELECT runbook.procrastinate_defer_jobs_v1(array_agg(runbook.task_of(s))) FROM runbook.shard s")
    until(lambda: sql("SELECT count(*) FROM runbook.refusal")[0][0] >= 2)
    assert "not a good signature of this order" in sql("SELECT why FROM runbook.refusal")[0][0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hosts.yaml": ("site: oslo, ", "")}, "no site, so that no worker can reach it"),
        ({"hosts.yaml": ("site: oslo", "site: paris")}, "the cluster has no site 'paris'"),
        ({"toy.yaml": ("type: number, default: 0", "type: number, default: 0, secret: true")}, "is secret, and would be written"),
    ],
)  # fmt: skip
def test_what_cannot_go_through_workers_is_a_mistake_before_anything_is_ordered(scene, change, words):
    for name, (old, new) in change.items():
        (scene.folder / name).write_text((scene.folder / name).read_text().replace(old, new))
    said = scene.run("--yes", *(["-e", "takes=1"] if "secret" in words else []))
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert scene.cluster.sql("SELECT count(*) FROM runbook.run") == [(0,)]


def test_a_cluster_that_cannot_be_reached_is_said_without_its_password(scene):
    said = scene.run("--yes", RUNBOOK_CLUSTER="postgresql://alice:hunter2secret@127.0.0.1:1/x")
    assert said.code == 2
    assert "the cluster's PostgreSQL" in said.err
    assert "hunter2secret" not in said.err


def test_a_site_that_does_not_begin_gives_its_places_to_others(scene):
    """Mutant: a client that does not record in the rollout the ends of hosts of which no worker says anything."""
    text = (scene.folder / "toy.yaml").read_text()
    (scene.folder / "toy.yaml").write_text(text.replace("remediate:", "limits: {batches: [1, 2]}\nremediate:"))
    rows = (scene.folder / "hosts.yaml").read_text().splitlines()
    (scene.folder / "hosts.yaml").write_text("\n".join([rows[0], *reversed(rows[1:]), ""]))  # those of oslo first
    scene.worker("berlin")
    said = scene.run("--yes", "--start-within", "3s")
    assert Counter(verdicts(said).values()) == {"resolved": 4, "not_started": 2}


@pytest.mark.parametrize(
    "limit", ["max_unavailable: 1", "batches: [1, 2]", "stop_after: 1", "max_concurrent_per: {rack: 1}"]
)
def test_limits_hold_over_all_workers(staffed, limit):
    text = (staffed.folder / "toy.yaml").read_text()
    (staffed.folder / "toy.yaml").write_text(text.replace("remediate:", f"limits: {{{limit}}}\nremediate:"))
    said = staffed.run("--yes", "-e", "takes=0.3")
    assert verdicts(said) == dict.fromkeys(SITES, "resolved"), said.err
    assert staffed.marks() == dict.fromkeys(SITES, 1)


def test_a_limited_run_that_nobody_waits_for_comes_to_its_end(staffed):
    text = (staffed.folder / "toy.yaml").read_text()
    (staffed.folder / "toy.yaml").write_text(text.replace("remediate:", "limits: {batches: [1, 2]}\nremediate:"))
    run = staffed.run("--yes", "--detach").out.split()[0]
    until(lambda: staffed.marks() == dict.fromkeys(SITES, 1))
    followed = runbook("attach", run, "--output", "json", cwd=staffed.folder, **staffed.environment)
    assert [it["host"] for it in followed.document["hosts"]] == list(SITES)
    assert verdicts(followed) == dict.fromkeys(SITES, "resolved")
