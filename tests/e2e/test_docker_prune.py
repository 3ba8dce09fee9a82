"""The disk that Docker filled, by the program itself on a real engine with a small disk of its own."""

from __future__ import annotations

import pytest

from tests.support.program import runbook
from tests.support.waiting import until

pytestmark = [pytest.mark.real("docker")]


@pytest.fixture
def prune(engine, tmp_path):
    """A function that runs the playbook on this machine."""
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts:\n  here: {transport: local}\n")

    def run(*argv, playbook="docker-prune"):
        where = ("-i", str(inventory), "--hosts", "here", "--output", "json", "-e", "older_than=0s")
        return runbook("run", playbook, *where, *argv, DOCKER_HOST=engine.host)

    return run


def fill(engine, megabytes=40):
    return engine.dies("sh", "-c", f"dd if=/dev/zero of=/q bs=1000000 count={megabytes} 2>/dev/null")


def used(engine):
    import os

    found = os.statvfs(engine.root)
    return 100 * (1 - found.f_bavail / found.f_blocks)


def test_a_full_disk_is_cleaned_up_as_far_as_needed_and_no_further(engine, prune):
    keep = engine.import_image("unused:1", "LABEL u=1")
    names = [fill(engine) for _ in range(8)]
    engine.lives(name="alive")
    assert used(engine) > 75
    plan = prune("-e", "full_above=60", "--dry-run")
    assert plan.code == 0, plan.err
    assert plan.host("here")["verdict"] == "planned"
    assert all(engine.inspect(it, "{{.Id}}") in plan.step("here", "dead_and_dangling")["diff"] for it in names[:5])
    assert "frees 200 MB" in plan.step("here", "dead_and_dangling")["planned"], plan.step("here", "dead_and_dangling")[
        "planned"
    ]
    assert plan.writes() == []
    assert engine.names() == {*names, "alive"}
    said = prune("-e", "full_above=60", "--yes")
    assert said.code == 0, said.out
    assert said.host("here")["verdict"] == "resolved"
    assert said.finding("here", "full")["status"] == "gone"
    assert said.step("here", "dead_and_dangling")["status"] == "changed"
    assert said.step("here", "unused_images")["status"] == "skipped"
    assert engine.names() == {*names[5:], "alive"}
    assert keep in engine.images()
    again = prune("-e", "full_above=60", "--yes")
    assert again.host("here")["verdict"] == "healthy"
    assert again.writes() == []


@pytest.mark.soak
def test_deleting_asks_first(engine, prune):
    fill(engine)
    said = prune("-e", "full_above=0", "-e", "keep_dead=0")
    assert said.code == 1
    assert said.step("here", "dead_and_dangling")["status"] == "blocked"
    assert "needs --yes" in said.step("here", "dead_and_dangling")["why"]
    assert len(engine.names()) == 1


@pytest.mark.soak
def test_the_next_rung_takes_unused_images_and_what_is_left_is_advice(engine, prune):
    engine.import_image("big:1", megabytes=30)
    engine.lives(name="alive")
    said = prune("-e", "full_above=0", "-e", "keep_dead=0", "--yes")
    assert said.step("here", "unused_images")["status"] == "changed", said.out
    assert engine.images() == {engine.base}
    assert said.host("here")["verdict"] == "unresolved"
    left = said.finding("here", "full_of_other_things")
    assert left["status"] == "present"
    assert any("docker volume rm" in it for it in left["advise"])


@pytest.mark.soak
def test_volumes_go_only_by_request(engine, prune):
    engine.dies("sh", "-c", "dd if=/dev/zero of=/data/q bs=1000000 count=5", name="vol", options=("-v", "/data"))
    engine("rm", "vol")
    prune("-e", "full_above=0", "--yes")
    assert engine("volume", "ls", "-q")
    said = prune("-e", "full_above=0", "-e", "volumes=true", "--yes")
    assert said.step("here", "anonymous_volumes")["status"] == "changed", said.out
    assert not engine("volume", "ls", "-q")


def test_layers_that_docker_does_not_know_are_told_and_left_alone(engine, prune):
    """Mutants: orphans without the ids of images, or of containers."""
    engine.lives(name="alive")
    assert prune("-e", "full_above=99").finding("here", "orphaned_layers")["status"] == "absent"
    for at in range(3):
        (engine.root / "overlay2" / (f"{at}" * 64)).mkdir()
    said = prune("-e", "full_above=99")
    assert "3 directories" in said.finding("here", "orphaned_layers")["say"]
    assert said.writes() == []
    for at in range(3):
        (engine.root / "overlay2" / (f"{at}" * 64)).rmdir()


@pytest.mark.soak
def test_a_disk_with_room_is_left_alone(engine, prune):
    fill(engine, 1)
    said = prune("-e", "full_above=90", "-e", "keep_dead=0", "--yes")
    assert said.host("here")["verdict"] == "healthy"
    assert said.finding("here", "reclaimable")["status"] == "present"
    assert said.writes() == []


@pytest.mark.soak
def test_a_host_whose_docker_is_down_is_unknown(tmp_path):
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json")
    said = runbook("run", "docker-prune", *where, "--yes", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert said.code == 1
    assert said.host("here")["verdict"] == "unknown"
    assert "the Docker daemon is not running" in said.step("here", "docker")["why"]


def test_the_containers_that_take_the_most_space_are_named_with_what_they_wrote_and_their_logs(engine, prune):
    """Mutants: only the sum of the logs; only what may go; the smallest first."""
    line = "seq 1 200000; dd if=/dev/zero of=/q bs=1000000 count=3 2>/dev/null; exec sleep 900"
    engine("run", "-d", "--name", "talks", "--network", "none", "base:1", "sh", "-c", line)
    fill(engine, 40)
    soon = [{}]

    def both() -> bool:
        found = prune("-e", "full_above=99", "--dry-run").finding("here", "largest")
        soon[0] = found
        return found["status"] == "present" and "talks (3 MB written, log 1" in found["say"]

    until(both)
    assert soon[0]["evidence"]["largest"][0]["written"] == 40_000_000
