"""A container that clones over its own directory again and again: real git, real files, real time."""

from __future__ import annotations

import json
import time

import pytest

from e2e.conftest import Practice
from engine import lab

pytestmark = pytest.mark.real("lab", "sshd", "git")

WORK = "/run/lab/workspace"
CLONE = f"{WORK}/AReaL"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loop") / "lab"
    faults = ("plain=restart_loop", "work=restart_loop+unsaved", "broken=restart_loop+broken_clone", "over=trained")
    made = lab.up(lab.LabOptions(directory=folder, faults=(*faults, "none=healthy", "kept=restart_loop")))
    time.sleep(3)  # three starts
    yield Practice(made)
    lab.down(folder)


def run(hosts, which, *more, **inputs):
    values = {"logs": [f"{WORK}/container.log"], "directory": CLONE, "allowed_roots": [WORK], **inputs}
    given = [
        word
        for name, value in values.items()
        for word in ("-e", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    ]
    return hosts.run("restart-loop", *given, *more, hosts=which)


def test_the_directory_is_taken_away_and_the_next_start_comes_through(hosts):
    plan = run(hosts, "plain", "--dry-run")
    assert plan.host("plain")["verdict"] == "planned", plan.out + plan.err
    assert plan.step("plain", "clear")["risk"] == "deletes-data"
    assert hosts.exec("plain", f"test -e {CLONE}/.git && echo there") == "there\n"
    finding = plan.finding("plain", "clone_over")
    assert 0.5 <= finding["evidence"]["median_gap"] <= 5
    assert "already exists and is not an empty directory" in finding["evidence"]["since_the_last_start"][-1]
    said = run(hosts, "plain", "--yes")
    assert said.host("plain")["verdict"] == "resolved", said.out + said.err
    assert said.finding("plain", "clone_over")["status"] == "gone"
    assert said.step("plain", "came_through")["status"] == "ok"
    assert hosts.exec("plain", f"cat {CLONE}/train.py") == 'print("better training")\n'
    assert "Training step" in hosts.exec("plain", f"tail -n 1 {WORK}/container.log")
    again = run(hosts, "plain", "--yes")
    assert again.host("plain")["verdict"] == "healthy", again.out
    assert again.writes() == []


@pytest.mark.parametrize(("host", "lost"), [("work", "!! outputs/"), ("broken", f"{CLONE}/train.py")])
def test_what_git_does_not_have_is_spared(hosts, host, lost):
    said = run(hosts, host, "--yes")
    assert said.code == 1
    assert said.host(host)["verdict"] == "unresolved", said.out
    assert lost in said.finding(host, "clone_over")["evidence"]["not_in_git"]
    assert "left alone" in said.finding(host, "has_work")["say"]
    assert said.step(host, "clear")["status"] == "skipped"
    assert said.writes() == []
    assert hosts.exec(host, f"test -e {CLONE}/train.py && echo there") == "there\n"
    advise = " ".join(said.finding(host, "clone_over")["advise"])
    assert "(rm -rf AReaL || true) && git clone" in advise
    assert "if [ -d AReaL/.git ]; then git -C AReaL fetch" in advise


def test_nothing_outside_of_the_allowed_roots_goes(hosts):
    said = run(hosts, "kept", "--yes", allowed_roots=["/var/lib/runbook-elsewhere"])
    assert said.host("kept")["verdict"] == "unresolved", said.out
    assert said.step("kept", "clear")["status"] == "blocked"
    assert said.writes() == []


def test_without_yes_and_without_a_terminal_nothing_is_deleted(hosts):
    said = run(hosts, "kept")
    assert said.step("kept", "clear")["status"] == "blocked"
    assert "--yes" in said.step("kept", "clear")["why"]
    assert hosts.exec("kept", f"test -e {CLONE}/.git && echo there") == "there\n"


def test_thresholds_decide_what_a_loop_is(hosts):
    said = run(hosts, "kept", at_least=100000)
    assert said.host("kept")["verdict"] == "healthy", said.out
    assert said.finding("kept", "other_loop")["status"] == "absent"
    other = run(hosts, "kept", never=["no such line"])
    assert other.finding("kept", "other_loop")["status"] == "present"
    assert other.step("kept", "clear")["status"] == "skipped"


def test_a_loop_of_yesterday_is_healthy_and_no_log_is_unknown(hosts):
    said = run(hosts, "over,none", "--yes")
    assert said.host("over")["verdict"] == "healthy", said.out
    assert said.host("none")["verdict"] == "unknown"
    assert "no file matches" in said.finding("none", "clone_over")["why"]
    assert said.writes() == []


def test_a_log_from_elsewhere_is_searched_too(hosts):
    lines = [
        f"2026-01-31T12:00:{it:02}Z start container\nfatal: destination path 'AReaL' already exists and is not an empty directory."
        for it in (0, 17, 34)
    ]
    said = run(hosts, "over", log_text="\n".join(lines), mend="nothing")
    assert said.host("over")["verdict"] == "unresolved", said.out
    assert said.finding("over", "clone_over")["evidence"]["median_gap"] == 17
