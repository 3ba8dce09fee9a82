"""The parts of a pipeline, started and inspected one by one, over real SSH and in real tmux sessions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from runbook import lab
from runbook.lab.scenarios import PIPELINE
from tests.support.program import Practice, Said, runbook, scene

pytestmark = pytest.mark.real("lab", "sshd", "tmux")

ALONE = scene("isolate-with-fake-data")
CONFIGS = f"cat {PIPELINE}/train.toml; ls {PIPELINE}/train.toml*"


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict:
    """What was said of hosts whose pipelines are ended, at work, or lack a part; three rows of runs beside each other."""
    folder = tmp_path_factory.mktemp("parts") / "lab"
    hosts = ("works=pipeline_ended", "fails=pipeline_ended+trainer_died", "whole=pipeline", "bare=healthy")
    lacking = ("to-start=orchestrator_died", "to-end=inference_died")
    made = Practice(lab.up(lab.LabOptions(directory=folder, faults=(*hosts, *lacking))))

    def alone() -> dict:
        known = {"config": made.exec("works", f"cat {PIPELINE}/train.toml"), "configs": made.exec("works", CONFIGS)}
        plan = made.run("isolate-with-fake-data", "--dry-run", *ALONE, hosts="works")
        known |= {
            "plan": plan,
            "config planned": made.exec("works", f"cat {PIPELINE}/train.toml; ls {PIPELINE}/logs/alone.log"),
        }
        known["alone"] = made.run("isolate-with-fake-data", "--yes", *ALONE, hosts="works,fails,whole,bare")
        undo = runbook("undo", known["alone"].document["run"], "--hosts", "works", "--yes", "--output", "json")
        known |= {"undone": undo, "config undone": made.exec("works", f"cat {PIPELINE}/train.toml")}
        known["configs after"] = {it: made.exec(it, CONFIGS) for it in ("works", "fails")}
        return {**known, "again": made.run("isolate-with-fake-data", "--yes", *ALONE, hosts="works")}

    def started() -> dict:
        known = {"probed": made.run("component-logs", *scene("component-logs"), hosts="to-start,whole,bare")}
        known["before"] = made.commands("to-start")
        known["started"] = made.run("component-logs", "--yes", *scene("component-logs", start="true"), hosts="to-start")
        return {**known, "after": made.commands("to-start")}

    def ended() -> dict:
        said = made.run("component-logs", "--yes", *scene("component-logs", end_others="true"), hosts="to-end")
        return {"ended": said, "left": made.commands("to-end")}

    try:
        with ThreadPoolExecutor(3) as pool:
            rows = [pool.submit(it) for it in (alone, started, ended)]
            yield {name: it for row in rows for name, it in row.result().items()}
    finally:
        lab.down(folder)


def verdicts(said: Said) -> dict[str, str]:
    return {it["host"]: it["verdict"] for it in said.document["hosts"]}


@pytest.mark.soak
def test_a_plan_to_test_the_trainer_alone_changes_nothing(seen):
    assert verdicts(seen["plan"]) == {"works": "planned"}, seen["plan"].out
    assert seen["config planned"] == seen["config"]


@pytest.mark.soak
def test_a_trainer_alone_tells_where_the_fault_is(seen):
    said = seen["alone"]
    found = {"works": "trainer_works", "fails": "trainer_fails", "whole": "in_the_way", "bare": "no_config"}
    assert verdicts(said) == {it: "resolved" if it == "works" else "unresolved" for it in found}, said.out
    assert {said.finding(host, it)["status"] for host, it in found.items()} == {"present"}
    assert "config.json" in said.finding("fails", "trainer_fails")["evidence"]["last"][0]["text"]


def test_an_undo_finds_the_old_configuration_back_and_names_what_it_cannot_end(seen):
    said = seen["undone"]
    assert said.code == 0, said.out + said.err
    assert [it["status"] for it in said.host("works")["steps"]] == ["ok"]
    assert seen["config undone"] == seen["config"]
    assert "not undone: start (tmux)" in said.err


def test_the_old_configuration_is_back_whatever_came_of_the_test(seen):
    for host in ("works", "fails"):
        assert seen["alone"].step(host, "made_up_data")["status"] == "changed"
        assert seen["alone"].step(host, "put_back")["status"] == "changed"
        assert seen["configs after"][host] == seen["configs"]
    assert seen["alone"].finding("works", "left_in")["status"] in ("absent", "gone")


def test_a_plan_says_that_the_old_configuration_comes_back_whatever_happens(seen):
    step = seen["plan"].step("works", "put_back")
    assert step["condition"] == "whatever happened before"
    assert any("mv -f" in it["line"] for it in step["commands"])


def test_no_trainer_is_tested_beside_its_pipeline_or_without_its_configuration(seen):
    steps = [step for host in ("whole", "bare") for step in seen["alone"].host(host)["steps"]]
    assert "write" not in {it["effect"] for step in steps for it in step["commands"]}


def test_a_trainer_that_was_tested_is_not_started_again(seen):
    assert (verdicts(seen["again"]), seen["again"].writes()) == ({"works": "healthy"}, []), seen["again"].out


def test_the_first_part_that_died_is_named_with_its_last_line(seen):
    said = seen["probed"]
    assert verdicts(said) == {"to-start": "unresolved", "whole": "healthy", "bare": "healthy"}, said.out
    assert said.finding("to-start", "died")["say"] == "orchestrator does not run, and inference and trainer do"
    assert "IndexError" in said.finding("to-start", "died")["evidence"]["last"][0]["text"]
    assert said.writes() == []


def test_only_what_does_not_run_is_started(seen):
    said = seen["started"]
    assert verdicts(said) == {"to-start": "resolved"}, said.out
    assert len(said.writes()) == 1
    assert "Wrote rollouts" in said.finding("to-start", "said")["say"]
    parts = {it for it in seen["before"] if " @ " in it}
    assert len(parts) == 2
    assert parts < seen["after"]


def test_the_others_of_a_part_that_died_are_ended(seen):
    assert verdicts(seen["ended"]) == {"to-end": "resolved"}, seen["ended"].out
    assert seen["ended"].step("to-end", "end")["status"] == "changed"
    assert not [it for it in seen["left"] if " @ " in it]
