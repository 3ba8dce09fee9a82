"""A node that is stuck, a node at work, and a leader that counts their jobs: over real SSH and real HTTP."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from runbook import lab
from tests.support.program import Practice, Said
from tests.support.waiting import soon

pytestmark = pytest.mark.real("lab", "sshd", "curl")

QUICK = ("-e", "older_than=0", "-e", "lag=0s", "-e", "settle=1500ms")


def leading(made: Practice, leader: str = "leader", **settings: object) -> None:
    """Make *leader* behave."""
    (made.lab.state(leader) / "leader.json").write_text(json.dumps({"cached": 1, **settings}))


def asking(made: Practice, leader: str = "leader", port: int = 8770) -> tuple[str, ...]:
    """The options by which *leader* is asked."""
    address = next(it.address for it in made.lab.hosts if it.name == leader)
    return ("-e", f"leader={leader}", "-e", f"url=http://{address}:{port}")


def at_once(made: Practice, leader: str = "leader", port: int = 8770) -> tuple[str, ...]:
    """The same for `stuck-node`, where the GPUs are watched for seconds instead of ten minutes."""
    return (*asking(made, leader, port), "-e", "watch=0.05")


def peers(made: Practice, leader: str = "leader") -> dict:
    return json.loads((made.lab.state(leader) / "peers.json").read_text())


def requests(made: Practice, verb: str, leader: str = "leader") -> list[str]:
    lines = (made.lab.state(leader) / "requests").read_text().splitlines()
    return [it for it in lines if it.startswith(verb)]


def selfplay(made: Practice, host: str) -> int:
    return sum("selfplay.py" in it for it in made.commands(host))


def forget_when_gone(made: Practice, host: str) -> threading.Thread:
    """Let *host* report by itself that its jobs are gone, when the leader was asked once since they are."""

    def watch() -> None:
        asked = 0

        def jobs_are_gone() -> bool:
            nonlocal asked
            asked = len(requests(made, "GET"))  # counted first: the leader may be asked as soon as the jobs are gone
            return not selfplay(made, host)

        soon(jobs_are_gone)
        soon(lambda: len(requests(made, "GET")) > asked)
        known = peers(made)
        known[host]["selfplay_jobs"] = 0
        (made.lab.state("leader") / "peers.json").write_text(json.dumps(known))

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.soak
def test_a_stuck_node_is_freed_and_its_count_corrected_once_and_no_other_node_is_touched(practice):
    made = practice(
        *("leader=leader+no_gpu", "gpu-01=stuck", "gpu-02=selfplay", "gpu-03=healthy", "gpu-04=unlisted+stuck"),
        *("gpu-05=unmeasured", "gpu-06=miscounted", "gpu-07=leftovers+busy"),
    )
    leading(made)
    said = made.run("stuck-node", "--yes", *at_once(made), *QUICK)
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]} == {
        "leader": "healthy",
        "gpu-01": "resolved",
        "gpu-02": "healthy",
        "gpu-03": "healthy",
        "gpu-04": "unknown",
        "gpu-05": "unknown",
        "gpu-06": "unresolved",
        "gpu-07": "healthy",
    }, said.out
    assert requests(made, "POST") == ['POST /admin/reset_node_jobs {"node_id": "gpu-01"}']
    assert (selfplay(made, "gpu-01"), selfplay(made, "gpu-02"), selfplay(made, "gpu-04")) == (0, 1, 2)
    assert peers(made)["gpu-01"]["selfplay_jobs"] == 0
    assert said.finding("gpu-01", "stuck")["status"] == "gone"
    assert said.step("gpu-01", "reset_count")["verified"] is True
    assert said.step("gpu-01", "idle")["status"] == "ok"
    assert said.finding("gpu-04", "dead")["status"] == "present"
    assert said.finding("gpu-05", "unmeasured")["status"] == "present"
    assert said.finding("gpu-06", "inflated")["status"] == "present"
    again = made.run("stuck-node", "--yes", *at_once(made), *QUICK, hosts="gpu-01")
    assert again.host("gpu-01")["verdict"] == "healthy", again.out
    assert again.writes() == []


def test_one_look_and_a_second_one_end_nothing_and_the_leaders_own_report_does(practice):
    """Mutants: `watch: 0` taken for enough; the record of the first run counted as ten minutes."""
    made = practice("leader=leader+no_gpu", "gpu-01=stuck")
    leading(made)
    for _ in range(2):
        said = made.run("stuck-node", "--yes", *asking(made), *QUICK, "-e", "watch=0", hosts="gpu-01")
        assert said.finding("gpu-01", "one_look")["status"] == "present", said.out
        assert (said.finding("gpu-01", "stuck")["status"], said.writes()) == ("absent", [])
        assert selfplay(made, "gpu-01") == 2
    leading(made, zombie_nodes=["gpu-01"])
    said = made.run("stuck-node", "--yes", *asking(made), *QUICK, "-e", "watch=0", hosts="gpu-01")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert said.step("gpu-01", "watched")["status"] == "skipped"
    assert selfplay(made, "gpu-01") == 0


@pytest.mark.soak
def test_a_count_that_the_node_corrects_itself_is_left_alone(practice):
    made = practice("leader=leader+no_gpu", "gpu-01=stuck")
    leading(made)
    thread = forget_when_gone(made, "gpu-01")
    said = made.run("stuck-node", "--yes", *at_once(made), "-e", "older_than=0", "-e", "lag=30s", hosts="gpu-01")
    thread.join()
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert selfplay(made, "gpu-01") == 0
    assert said.step("gpu-01", "heard")["status"] == "ok"
    assert said.step("gpu-01", "reset_count")["status"] in ("ok", "skipped")
    assert requests(made, "POST") == []


@pytest.mark.soak
def test_on_the_word_of_a_node_that_does_not_say_that_it_leads_nothing_is_ended(practice):
    made = practice("leader=leader+no_gpu", "gpu-01=stuck")
    leading(made, role="follower", leader_id="cpu-09", quiet=True)
    said = made.run("stuck-node", "--yes", *at_once(made), *QUICK, hosts="gpu-01")
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    assert any("-e leader=cpu-09" in it for it in said.finding("gpu-01", "not_leader")["advise"])
    assert (said.writes(), requests(made, "POST")) == ([], [])
    assert selfplay(made, "gpu-01") == 2


@pytest.fixture(scope="module")
def looked(tmp_path_factory) -> dict[str, tuple[Practice, Said]]:
    """Runs that must change nothing, side by side on one lab, by name."""
    folder = tmp_path_factory.mktemp("lab") / "lab"
    faults = ("leader=leader+no_gpu", "sick=leader+no_gpu", "other=leader+no_gpu", "gpu-01=stuck", "gpu-02=selfplay")
    made = Practice(lab.up(lab.LabOptions(directory=folder, faults=(*faults, "gpu-03=healthy"))))
    leading(made, cached=60)
    leading(made, "sick", fails=503)
    leading(made, "other", role="follower", leader_id="leader", zombie_nodes=["gpu-01"])
    wrong = peers(made, "other")
    wrong["gpu-02"]["gpu_percent"] = 1.0
    wrong["gpu-03"] |= {"gpu_percent": 5.0, "selfplay_jobs": 1}
    (made.lab.state("other") / "peers.json").write_text(json.dumps(wrong))
    old = (*at_once(made), "-e", "older_than=0", "--yes")
    (made.lab.shared / "record").touch()
    record = ("-e", f"record={lab.SHARED}/record")
    asked = {
        "young": ("stuck-node", *at_once(made), "--yes"),
        "plan": ("stuck-node", *at_once(made), "-e", "older_than=0", "-e", "watch=0.1", "--dry-run"),
        "sick": ("stuck-node", *at_once(made, "sick"), "-e", "older_than=0", "--yes"),
        "down": ("stuck-node", *at_once(made, port=9), "-e", "older_than=0", "--yes"),
        "other": ("stuck-node", *at_once(made, "other"), "-e", "older_than=0", "--dry-run"),
        "one look": ("stuck-node", *old, "-e", "watch=0"),
        "keep": ("stuck-node", *old, "-e", "keep=2"),
        "cooldown": ("stuck-node", *old, "-e", "cooldown=60", *record),
        "count": ("reset-node-jobs", *asking(made), "--yes"),
        "list": ("cleanup-stuck-nodes", *asking(made)[2:], "--yes"),
    }
    before = len(requests(made, "GET"))
    hosts = {"list": "leader"}
    try:
        first = made.run("stuck-node", *at_once(made), "--yes", hosts="gpu-02,gpu-03")
        assert len(requests(made, "GET")) == before + 1, "one request for all hosts"
        with ThreadPoolExecutor(4) as pool:
            runs = {
                name: pool.submit(made.run, *it, hosts=hosts.get(name, "gpu-[01-03]")) for name, it in asked.items()
            }
        said = {name: (made, it.result()) for name, it in runs.items()}
        yield {**said, "healthy": (made, first)}
    finally:
        lab.down(folder)


def verdicts(said: Said) -> list[str]:
    return [it["verdict"] for it in said.document["hosts"]]


@pytest.mark.soak
def test_none_of_these_runs_sends_a_write_or_ends_a_process(looked):
    for name, (_, said) in looked.items():
        assert said.writes() == [], name
    made = looked["young"][0]
    assert [selfplay(made, it) for it in ("gpu-01", "gpu-02")] == [2, 1]
    assert [requests(made, "POST", it) for it in ("leader", "sick", "other")] == [[], [], []]


@pytest.mark.soak
def test_nodes_at_work_or_without_jobs_are_healthy(looked):
    assert verdicts(looked["healthy"][1]) == ["healthy", "healthy"], looked["healthy"][1].out


def test_jobs_that_have_just_begun_are_given_time(looked):
    said = looked["young"][1]
    assert verdicts(said) == ["unresolved", "healthy", "healthy"], said.out
    assert said.finding("gpu-01", "young")["status"] == "present"


def test_one_look_is_told_as_what_it_is(looked):
    said = looked["one look"][1]
    assert verdicts(said) == ["unresolved", "healthy", "healthy"], said.out
    assert "in this one look" in said.finding("gpu-01", "one_look")["say"]
    assert said.finding("gpu-01", "stuck")["status"] == "absent"


def test_a_plan_names_the_processes_and_the_correction_that_may_follow(looked):
    said = looked["plan"][1]
    assert verdicts(said) == ["planned", "healthy", "healthy"], said.out
    assert sorted(it["command"] for it in said.step("gpu-01", "end_jobs")["victims"]) == [
        "./python3 selfplay.py --board hex8 --rank 0",
        "./python3 selfplay.py --board hex8 --rank 1",
    ]
    assert "after end_jobs" in said.step("gpu-01", "reset_count")["condition"]
    first, last = (sample["at"] for sample in said.step("gpu-01", "watched")["state"]["samples"])
    assert last - first >= 4, "two probes, six seconds apart"
    assert said.step("gpu-02", "watched")["status"] == "skipped", "nothing there is left over"
    evidence = said.finding("gpu-01", "stuck")["evidence"]
    assert (evidence["node"], evidence["jobs"], evidence["gpu"]) == ("gpu-01", 2, 0.0)


@pytest.mark.parametrize(("name", "words"), [("sick", "503"), ("down", "refused|connect")])
def test_without_a_leader_nothing_is_known_of_any_node(looked, name, words):
    said = looked[name][1]
    assert verdicts(said) == ["unknown"] * 3, said.out
    for host in ("gpu-01", "gpu-02", "gpu-03"):
        assert said.finding(host, "no_status")["status"] == "present"
        assert any(it in said.finding(host, "no_status")["say"] for it in words.split("|"))


def test_what_the_leader_says_is_looked_at_again_on_the_node(looked):
    said = looked["other"][1]
    assert said.finding("gpu-02", "at_work")["status"] == "present"
    assert said.finding("gpu-02", "stuck")["status"] == "absent"
    assert said.finding("gpu-03", "inflated")["status"] == "absent", "5 % is not less than 5 %"
    assert said.finding("gpu-01", "not_leader")["status"] == "present"
    assert said.step("gpu-01", "reset_count")["status"] == "skipped"


def test_nothing_is_ended_on_the_word_of_a_node_that_does_not_lead(looked):
    said = looked["other"][1]
    stuck = said.finding("gpu-01", "stuck")
    assert (stuck["status"], stuck["why"]) == ("absent", "explained by not_leader"), "it says that it is, for long"
    assert said.step("gpu-01", "end_jobs")["status"] == "skipped"
    assert verdicts(said) == ["unresolved"] * 3, said.out


def test_some_nodes_are_kept_and_a_node_is_not_freed_again_and_again(looked):
    assert looked["keep"][1].finding("gpu-01", "last_ones")["status"] == "present", looked["keep"][1].out
    assert looked["cooldown"][1].finding("gpu-01", "cooling")["status"] == "present", looked["cooldown"][1].out
    assert verdicts(looked["keep"][1]) == verdicts(looked["cooldown"][1]) == ["unresolved", "healthy", "healthy"]


def test_a_count_stays_while_selfplay_runs(looked):
    said = looked["count"][1]
    assert verdicts(said) == ["healthy"] * 3, said.out
    assert said.finding("gpu-01", "running")["status"] == "present"


def test_the_coordinator_lists_every_stuck_node(looked):
    said = looked["list"][1]
    assert verdicts(said) == ["unresolved"], said.out
    assert (
        said.finding("leader", "stuck")["say"]
        == "jobs are counted on nodes whose GPUs are idle: gpu-01: 2 jobs, GPU 0.0 % busy"
    )


@pytest.mark.soak
def test_games_that_grow_and_games_that_do_not(practice):
    import sqlite3

    made = practice("leader=leader+no_gpu", "gpu-01=selfplay")
    leading(made)
    path = made.lab.shared / "selfplay.db"
    for each, rows in ((path, 1), (made.lab.shared / "gauntlet.db", 3)):
        with sqlite3.connect(each) as base:
            base.execute("CREATE TABLE games (id INTEGER)")
            base.executemany("INSERT INTO games VALUES (?)", [(it,) for it in range(rows)])
    watched = (*at_once(made), "-e", f"games={lab.SHARED}/*.db", "-e", "games_within=5s")
    said = made.run("stuck-node", "--yes", *watched, hosts="gpu-01")
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    evidence = said.finding("gpu-01", "no_games")["evidence"]
    assert dict(zip(evidence["databases"], evidence["games"], strict=True)) == {
        f"{lab.SHARED}/selfplay.db": 1,
        f"{lab.SHARED}/gauntlet.db": 3,
    }
    stop = threading.Event()

    def play() -> None:
        while not stop.wait(0.3):
            with sqlite3.connect(path) as base:
                base.execute("INSERT INTO games VALUES (1)")

    player = threading.Thread(target=play)
    player.start()
    said = made.run("stuck-node", "--yes", *watched, hosts="gpu-01")
    stop.set()
    player.join()
    assert said.host("gpu-01")["verdict"] == "healthy", said.out


def test_a_count_without_a_process_is_corrected_on_demand_and_only_once(practice):
    made = practice("leader=leader+no_gpu", "gpu-01=miscounted")
    leading(made)
    said = made.run("reset-node-jobs", "--yes", *asking(made), "-e", "settle=1500ms", hosts="gpu-01")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    again = made.run("reset-node-jobs", "--yes", *asking(made), hosts="gpu-01")
    assert again.host("gpu-01")["verdict"] == "healthy", again.out
    assert len(requests(made, "POST")) == 1
