"""A full disk is cleaned up by the program itself: old runs on a lab host's small disk, and Docker's on a real engine."""

from __future__ import annotations

import pytest

from tests.support.program import runbook

PLANT = r"""
mkdir -p /mnt && mount -t tmpfs -o size=20m none /mnt && mkdir /mnt/runs && echo keep >/mnt/notes
for it in 1 2 3 '4 with a space'; do
    mkdir "/mnt/runs/run-$it"; dd if=/dev/zero of="/mnt/runs/run-$it/model" bs=1M count=4 2>/dev/null; sleep 0.05
done
touch -d '3 hours ago' /mnt/runs/run-1
"""
RUNS = ("-e", "disks=[/mnt]", "-e", "runs=[/mnt/runs/*]", "-e", "runs_roots=[/mnt/runs]", "-e", "runs_older_than=0s",
        "-e", "full_above=75")  # fmt: skip


def runs(lab):
    return lab.exec("cpu-01", "ls /mnt/runs").splitlines()


@pytest.mark.real("lab", "sshd")
@pytest.mark.soak
def test_old_runs_go_and_the_newest_really_stays(practice):
    """Mutants: `keep_newest` dropped, so that all go; a probe that counts on the order of names."""
    lab = practice("cpu-01=no_gpu")
    lab.exec("cpu-01", PLANT)
    plan = lab.run("disk-full", *RUNS, "--dry-run")
    assert plan.host("cpu-01")["verdict"] == "planned", plan.out
    shown = plan.step("cpu-01", "remove_old_runs")
    assert "/mnt/runs/run-2" in str(shown["diff"]) + str(plan.finding("cpu-01", "many_runs")["evidence"])
    assert plan.finding("cpu-01", "many_runs")["evidence"]["stay"][0]["path"] == "/mnt/runs/run-4 with a space"
    assert len(runs(lab)) == 4
    asked = lab.run("disk-full", *RUNS)
    assert "needs --yes" in asked.step("cpu-01", "remove_old_runs")["why"]
    assert len(runs(lab)) == 4
    said = lab.run("disk-full", *RUNS, "--yes", "-e", "keep_runs=2")
    assert said.host("cpu-01")["verdict"] == "resolved", said.out
    assert runs(lab) == ["run-3", "run-4 with a space"]
    assert lab.exec("cpu-01", "cat /mnt/notes") == "keep\n"
    again = lab.run("disk-full", *RUNS, "--yes", "-e", "keep_runs=2")
    assert again.host("cpu-01")["verdict"] == "healthy", again.out
    assert again.writes() == []
    lab.exec("cpu-01", "dd if=/dev/zero of=/mnt/more bs=1M count=12")
    left = lab.run("disk-full", *RUNS, "--yes")
    assert left.host("cpu-01")["verdict"] == "unresolved", left.out
    assert runs(lab) == ["run-4 with a space"]
    assert any("du -xh" in it for it in left.finding("cpu-01", "runs_full")["advise"])
    spared = lab.run("disk-full", *RUNS[:-4], "-e", "full_above=75", "--yes")
    assert runs(lab) == ["run-4 with a space"]
    assert spared.writes() == []


@pytest.mark.real("lab", "sshd")
@pytest.mark.soak
def test_a_host_with_room_is_healthy_and_one_without_docker_is_told_so(practice):
    lab = practice("cpu-01=no_gpu")
    said = lab.run("disk-full", "--yes", "-e", "full_above=99")
    assert said.host("cpu-01")["verdict"] == "healthy", said.out
    assert said.writes() == []
    assert "no Docker on this host" in said.step("cpu-01", "docker_docker")["why"]
    lab.exec(
        "cpu-01",
        "mkdir -p /mnt; mount -t tmpfs -o size=9m,nr_inodes=20 none /mnt; cd /mnt; for i in $(seq 1 19); do : >f$i; done",
    )
    inodes = lab.run("disk-full", "--yes", "-e", "disks=[/mnt, /no/such/place]")
    assert inodes.host("cpu-01")["verdict"] == "unresolved"
    assert "100.0 % of the inodes" in inodes.finding("cpu-01", "full")["say"]
    assert any("df -i" in it for it in inodes.finding("cpu-01", "full")["advise"])
    assert "/no/such/place" in inodes.finding("cpu-01", "no_such_place")["say"]


@pytest.mark.real("docker")
def test_what_docker_does_not_need_goes_first_and_only_as_far_as_needed(engine, tmp_path):
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json", "--yes")
    disks = ("-e", f"disks=[{engine.root}]", "-e", "full_above=60", "-e", "docker_older_than=0s")
    names = [engine.dies("sh", "-c", "dd if=/dev/zero of=/q bs=1000000 count=40 2>/dev/null") for _ in range(7)]
    engine.lives(name="alive")
    said = runbook("run", "disk-full", *where, *disks, DOCKER_HOST=engine.host)
    assert said.host("here")["verdict"] == "resolved", said.out
    assert said.step("here", "docker_dead_and_dangling")["status"] == "changed"
    assert engine.names() == {*names[-3:], "alive"}
    again = runbook("run", "disk-full", *where, *disks, DOCKER_HOST=engine.host)
    assert again.host("here")["verdict"] == "healthy", again.out
    assert again.writes() == []
