"""Locks as an operator sees them: who has a host, how long a run waits for it, and that none outlives its run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, runbook
from tests.support.waiting import appears, until

PLAYBOOK = """\
name: slow
about: A change that takes a while.
remediate:
  - {{id: nap, command: {{do: {{script: 'echo >{begun}; while [ ! -e {go} ]; do sleep 0.1; done'}}}}, timeout: 250s}}
"""


ORDER = ("gentle", "harsh")
"""The steps of a second run, of which the later one is never done without the first."""


@pytest.fixture
def place(tmp_path) -> Path:
    """Where the runs of a test have their locks, so that those of other tests are not in the way."""
    made = tmp_path / "locks"
    made.mkdir(mode=0o700)
    (made / ".runbook-locks").touch()
    return made


@pytest.fixture
def given(tmp_path, place):
    """The words and the environment of a run on this machine."""
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    (tmp_path / "slow.yaml").write_text(PLAYBOOK.format(begun=tmp_path / "begun", go=tmp_path / "go"))
    return ("-i", str(tmp_path / "hosts.yaml")), {"RUNBOOK_LOCK_PLACES": str(place)}


@pytest.fixture
def at_work(tmp_path, given):
    """A run that is changing the host, until `go` is there."""
    words, env = given
    argv = (*PROGRAM, "run", str(tmp_path / "slow.yaml"), *words, "--hosts", "all", "--yes")
    with subprocess.Popen(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as process:
        assert appears(tmp_path / "begun", within=60)
        yield process
        (tmp_path / "go").touch()


def test_who_changes_a_host_is_shown(at_work, given, tmp_path):
    """Mutants: lock.sh ``lock_list`` that shows nothing, or what is dead; locks_command.py without the login user's."""
    words, env = given
    said = runbook("locks", *words, **env)
    assert said.code in (0, 1), said.err
    (line,) = [it for it in said.out.splitlines() if "locked by" in it]
    assert line.startswith("here: locked by run ")
    assert " of slow, by " in line
    assert ", since 20" in line
    state = runbook("locks", *words, "--output", "json", **env).step("here", "login")["state"]
    assert [it in line for it in state["held"]] == [True]
    (tmp_path / "go").touch()
    at_work.wait(60)
    assert "locked by" not in runbook("locks", *words, **env).out


def test_a_second_run_does_not_wait_longer_than_it_is_told(at_work, given, tmp_path):
    """Mutants: run.py that drops --wait-lock; host_lock.py with a time of its own."""
    words, env = given
    again = ("run", str(tmp_path / "slow.yaml"), *words, "--hosts", "all", "--yes", "--output", "json")
    said = runbook(*again, "--wait-lock", "0s", **env)
    assert said.step("here", "nap")["status"] == "blocked"
    assert "another run is changing this host: run " in said.step("here", "nap")["why"]
    assert said.code == 1
    assert said.writes() == []
    assert runbook(*again, "--wait-lock", "soon", **env).code == 2
    (tmp_path / "go").touch()
    assert runbook(*again, **env).step("here", "nap")["status"] == "changed"


def test_no_later_step_overtakes_one_that_did_not_get_the_lock(at_work, given, tmp_path):
    """Mutants: host_steps.py ``_stopped_before_change`` without ``stopped_by``; host_lock.py with a wait for each step."""
    words, env = given
    done = tmp_path / "done"
    steps = "".join(f"  - {{id: {name}, command: {{do: {{script: 'echo {name} >>{done}'}}}}}}\n" for name in ORDER)
    (tmp_path / "ladder.yaml").write_text(f"name: ladder\nabout: Two steps in an order.\nremediate:\n{steps}")
    again = ("run", str(tmp_path / "ladder.yaml"), *words, "--hosts", "all", "--yes", "--wait-lock", "5s")
    argv = (*PROGRAM, *again, "--output", "jsonl")
    with subprocess.Popen(argv, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True) as second:
        told = []
        for line in second.stdout or ():
            told.append(json.loads(line))
            if told[-1]["kind"] == "step_finished" and told[-1]["result"]["id"] == ORDER[0]:
                (tmp_path / "go").touch()  # the lock becomes free once the first step was given up
    results = {it["result"]["id"]: it["result"] for it in told if it["kind"] == "step_finished"}
    assert [results[name]["status"] for name in ORDER] == ["blocked", "blocked"]
    assert results["harsh"]["why"] == "gentle was blocked; no later step runs"
    assert sum(it["kind"] == "waiting" for it in told) == 1
    assert not done.exists()


@pytest.mark.slow
def test_the_lock_of_a_run_that_was_killed_is_free_once_its_change_has_ended(at_work, given, tmp_path):
    """Mutants: lock.sh that takes the word of an entry whose processes are dead."""
    words, env = given
    os.kill(at_work.pid, signal.SIGKILL)
    at_work.wait(60)
    assert "locked by" in runbook("locks", *words, **env).out, "its change still runs"
    (tmp_path / "go").touch()
    until(lambda: "locked by" not in runbook("locks", *words, **env).out, "the lock to be free")


def test_hosts_of_which_the_same_is_to_be_said_share_a_line(tmp_path, place):
    """Mutants: locks_command.py with a line a host; without the reason why a host is not known."""
    hosts = "".join(f"  gpu-{number:02}: {{transport: local}}\n" for number in range(1, 10))
    (tmp_path / "hosts.yaml").write_text(f"hosts:\n{hosts}  down: {{ssh_host: 127.0.0.1, ssh_port: 9}}\n")
    said = runbook("locks", "-i", str(tmp_path / "hosts.yaml"), RUNBOOK_LOCK_PLACES=str(place))
    lines = said.out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("gpu-[01-09]: ")
    assert lines[1].startswith("down: unreachable: ")
    assert said.code in (1, 4)
