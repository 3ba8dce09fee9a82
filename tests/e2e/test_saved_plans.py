"""Saved plans on lab hosts, by SSH: what was shown is done, and a host that has changed since is left alone."""

from __future__ import annotations

import subprocess

import pytest

from runbook import lab
from tests.support.program import runbook
from tests.support.waiting import soon

pytestmark = [pytest.mark.real("namespaces"), pytest.mark.slow]

NEW = "./python3 sglang/launch_server.py --port 31000"


def begin(practice, host: str) -> None:
    """Start a further server on *host*, which holds a GPU and outlives its connection."""
    line = f"(exec -a '{NEW}' sleep 900) </dev/nvidia0 >/dev/null 2>&1 &"
    subprocess.run((*lab.shell_argv(practice.lab.directory, host), line), timeout=30, check=True)
    assert soon(lambda: any(it.startswith(NEW) for it in practice.commands(host)))


@pytest.mark.soak
def test_a_host_that_has_changed_since_its_plan_is_left_alone_and_the_others_are_done(practice, tmp_path):
    """Mutants: permitted.py ``difference`` without its new targets; narrowing.py ``_held_back`` that keeps ``seen``."""
    hosts = practice("gpu-01=leftovers", "gpu-02=leftovers", "gpu-03=leftovers")
    file, state = str(tmp_path / "plan.json"), {"XDG_STATE_HOME": str(tmp_path / "state")}
    where = ("-i", str(hosts.lab.inventory), "--hosts", "all")
    made = runbook("plan", "zombie-gpu", "-e", "older_than=0s", *where, "-o", file, "-v", **state)
    assert made.code == 0, made.err
    shown = runbook("show", file, **state)
    below = [it.out.partition("\n")[2] for it in (shown, made)]  # the first line of a run has where its files lie
    assert (shown.code, below[0].startswith(below[1])) == (0, True), shown.err
    begin(hosts, "gpu-02")
    before = hosts.commands("gpu-02")
    done = runbook("apply", file, "--yes", "--output", "json", **state)
    assert done.code == 6, done.err
    verdicts = {it["host"]: it["verdict"] for it in done.document["hosts"]}
    assert verdicts == {"gpu-01": "resolved", "gpu-02": "drifted", "gpu-03": "resolved"}
    error = done.host("gpu-02")["error"]
    assert error.startswith("not as planned: one process more would be ended (stop_leftovers): "), error
    assert f" {NEW} 900 (root)" in error
    assert {it for it in before if "python3" in it} <= hosts.commands("gpu-02")
    assert not any("python3" in it for it in hosts.commands("gpu-01"))
    again = runbook("apply", file, "--yes", **state)
    assert (again.code, "the plan was already applied: " in again.err) == (2, True), again.err
