"""The parts of a pipeline, started, inspected and ended over real SSH."""

from __future__ import annotations

import json
import os

import pytest

from runbook.lab import SHARED

pytestmark = pytest.mark.real("lab", "sshd")

TOKEN = "s3cret-of-a-part"
FOR_EVER = "while :; do sleep 0.2; done"


def part(folder, name, script, **keys):
    return {"name": name, "log": f"{folder}/{name}.log", "argv": ["sh", "-c", script, f"part-{name}"], **keys}


def options(folder, *parts, **keys):
    given = {"components": json.dumps(parts), "records": f"{folder}/records", "watch": "1s", **keys}
    return tuple(word for key, it in given.items() for word in ("-e", f"{key}={it}"))


def parts_on(made, host):
    return sorted(it.rsplit("part-", 1)[1] for it in made.commands(host) if it.startswith("sh -c") and "part-" in it)


@pytest.mark.soak
def test_parts_are_started_once_and_the_first_that_died_is_named(practice):
    made = practice("gpu-01=healthy")
    says = f'echo "on $GPUS, $(echo "$HF_TOKEN" | wc -c)"; {FOR_EVER}'
    chosen = (
        part(SHARED, "inference", says, env={"GPUS": "2,3", "HF_TOKEN": TOKEN}),
        part(SHARED, "orchestrator", FOR_EVER, delay="300ms", pattern="part-orchestrator$"),
        {"name": "broker", "pattern": "part-broker$", "log": f"{SHARED}/broker.log"},
    )
    made.exec("gpu-01", f"setsid sh -c '{FOR_EVER}' part-broker </dev/null >{SHARED}/broker.log 2>&1 &")
    plan = made.run("component-logs", "--dry-run", *options(SHARED, *chosen, start="true"), output="console")
    assert "environment: GPUS, HF_TOKEN" in plan.out
    assert TOKEN not in plan.out
    assert (parts_on(made, "gpu-01"), os.listdir(made.lab.shared)) == (["broker"], ["broker.log"])
    said = made.run("component-logs", "--yes", *options(SHARED, *chosen, start="true"))
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert TOKEN not in said.out
    assert parts_on(made, "gpu-01") == ["broker", "inference", "orchestrator"]
    assert f"[inference] on 2,3, {len(TOKEN) + 1}" in said.finding("gpu-01", "said")["say"]
    again = made.run("component-logs", "--yes", *options(SHARED, *chosen, start="true"))
    assert (again.host("gpu-01")["verdict"], again.writes()) == ("healthy", []), again.out
    made.exec("gpu-01", "pkill -KILL -f part-inference$")
    said = made.run("component-logs", *options(SHARED, *chosen))
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    died = said.finding("gpu-01", "died")
    assert died["say"].startswith("inference ended after ")
    assert died["say"].endswith("with exit code 137 (SIGKILL: killed); still running: orchestrator and broker")
    assert died["evidence"]["last"][0]["text"].startswith("on 2,3")
    said = made.run("component-logs", "--yes", *options(SHARED, *chosen, end_others="true"))
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert (said.step("gpu-01", "end_started")["status"], said.step("gpu-01", "end")["status"]) == (
        "changed",
        "changed",
    )
    assert parts_on(made, "gpu-01") == []


@pytest.mark.soak
def test_a_part_that_dies_right_after_its_start_ends_the_others(practice):
    made = practice("gpu-01=healthy")
    chosen = (part(SHARED, "stays", FOR_EVER), part(SHARED, "dies", "echo no GPU here; sleep 0.3; exit 9"))
    given = options(SHARED, *chosen, start="true", end_others="true", watch="10s")
    said = made.run("component-logs", "--yes", *given)
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    why = said.step("gpu-01", "start")["why"]
    assert "died first: dies ended after " in why
    assert "with exit code 9" in why
    assert "[dies] no GPU here" in why
    assert "ended because of that: stays" in why
    assert parts_on(made, "gpu-01") == []
    said = made.run("component-logs", *options(SHARED, *chosen))
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    ended = said.finding("gpu-01", "all_ended")
    assert ended["say"].startswith("no part runs any more, dies died first: dies ended after ")
    assert "with exit code 9" in ended["say"]
    assert ended["evidence"]["last"][0]["text"] == "no GPU here"
    assert made.run("component-logs", *options(SHARED, chosen[0])).host("gpu-01")["verdict"] == "healthy"
    assert made.run("component-logs", "--yes", *options(SHARED, chosen[0], start="true")).code == 0
    assert parts_on(made, "gpu-01") == ["stays"]
    said = made.run("component-logs", "--yes", *options(SHARED, chosen[0], end="true"))
    assert (said.host("gpu-01")["verdict"], parts_on(made, "gpu-01")) == ("resolved", []), said.out
