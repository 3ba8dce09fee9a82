"""The main job on lab hosts of the lab's own SSH server: what a machine without sshd can see of it, as any user."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.real("namespaces"), pytest.mark.longest]


def test_the_main_job_is_planned_done_proven_and_not_done_twice(practice):
    made = practice("gpu-01=leftovers+busy", "cpu-01=no_gpu", embedded=True)
    planned = made.run("zombie-gpu", "-e", "older_than=0s", "--dry-run")
    assert (planned.code, planned.writes()) == (0, []), planned.err
    assert planned.host("gpu-01")["verdict"] == "planned"
    victims = {it["pid"] for it in planned.step("gpu-01", "stop_leftovers")["victims"]}
    assert len(victims) == 4
    done = made.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert (done.code, done.host("gpu-01")["verdict"]) == (0, "resolved"), done.err
    assert {it["pid"] for it in done.step("gpu-01", "stop_leftovers")["victims"]} == victims
    assert done.finding("gpu-01", "in_use")["status"] == "present", "the job at work is spared"
    again = made.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert (again.code, again.writes()) == (0, [])
    assert [it["verdict"] for it in again.document["hosts"]] == ["healthy", "healthy"]
