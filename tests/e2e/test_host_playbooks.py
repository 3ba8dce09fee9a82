"""Playbooks for what hosts and their containers lack, on lab hosts: shown first, done, and found well afterwards."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.program import Practice, scene

pytestmark = [pytest.mark.real("docker", "lab", "sshd")]

HOSTS = (
    "lost=lost_gpu+at_work",
    "dead=docker_dead",
    "bare=docker_dead+unbounded_logs",
    "short=died_of_memory",
    "full=oom",
)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts") / "lab"
    yield Practice(lab.up(lab.LabOptions(directory=folder, faults=HOSTS)))
    lab.down(folder)


def cured(hosts, playbook: str, host: str, finding: str, *inputs: str, step: str) -> None:
    """Nothing is changed without being asked for; a run that may change it resolves it; a second one sends no write."""
    alone = hosts.run(playbook, "--yes", hosts=host)
    assert (alone.host(host)["verdict"], alone.writes()) == ("unresolved", []), alone.out
    plan = hosts.run(playbook, *inputs, "--dry-run", hosts=host)
    assert (plan.host(host)["verdict"], plan.writes()) == ("planned", []), plan.out
    assert plan.finding(host, finding)["advise"]
    said = hosts.run(playbook, *inputs, "--yes", hosts=host)
    assert said.host(host)["verdict"] == "resolved", said.out
    assert said.finding(host, finding)["status"] == "gone"
    assert said.step(host, step)["status"] == "changed"
    again = hosts.run(playbook, *inputs, "--yes", hosts=host)
    assert (again.host(host)["verdict"], again.writes()) == ("healthy", []), again.out


def started(hosts, host: str, name: str) -> str:
    return hosts.exec(host, f"docker inspect --format '{{{{.State.StartedAt}}}} {{{{.State.Running}}}}' {name}")


@pytest.mark.soak
def test_a_container_that_lost_its_gpus_is_restarted_only_by_name_and_no_other(hosts):
    """Mutants: every container that lost them restarted; `not_lost` ignored and run-at-work restarted."""
    other, lost = started(hosts, "lost", "run-at-work"), started(hosts, "lost", "run-lost")
    told = hosts.run("container-lost-gpu", "-e", "restart=[run-at-work]", "--yes", hosts="lost")
    assert (told.host("lost")["verdict"], told.writes()) == ("unresolved", [])
    assert "run-lost (Failed to initialize NVML: Unknown Error)" in told.finding("lost", "lost")["say"]
    assert started(hosts, "lost", "run-lost") == lost
    cured(hosts, "container-lost-gpu", "lost", "lost", *scene("container-lost-gpu"), step="restart[0]")
    assert started(hosts, "lost", "run-at-work") == other
    assert started(hosts, "lost", "run-lost") != lost


@pytest.mark.soak
def test_a_dead_docker_is_started_and_its_container_goes_on(hosts):
    """Mutants: the exit code of `docker version` not looked at; a daemon that does not answer called healthy."""
    before = hosts.exec("dead", "pgrep -f 'Training step'")
    plan = hosts.run("docker-recover", "--dry-run", hosts="dead")
    assert (plan.host("dead")["verdict"], plan.writes()) == ("planned", []), plan.out
    assert "Cannot connect to the Docker daemon" in plan.finding("dead", "dead")["say"]
    assert "1 container still runs" in plan.finding("dead", "dead")["say"]
    said = hosts.run("docker-recover", "--yes", hosts="dead")
    assert (said.host("dead")["verdict"], said.finding("dead", "dead")["status"]) == ("resolved", "gone"), said.out
    assert before
    assert hosts.exec("dead", "pgrep -f 'Training step'") == before
    again = hosts.run("docker-recover", "--yes", hosts="dead")
    assert (again.host("dead")["verdict"], again.writes()) == ("healthy", []), again.out


@pytest.mark.soak
def test_without_live_restore_docker_is_started_only_where_containers_may_end(hosts):
    """Mutant: a start that does not ask what still runs."""
    said = hosts.run("docker-recover", "--yes", hosts="bare")
    assert (said.host("bare")["verdict"], said.writes()) == ("unresolved", []), said.out
    assert said.finding("bare", "would_end")["status"] == "present"
    said = hosts.run("docker-recover", "--yes", "-e", "end_containers=true", hosts="bare")
    assert said.host("bare")["verdict"] == "resolved", said.out


@pytest.mark.soak
def test_a_docker_that_hangs_is_not_called_dead_and_not_restarted_unasked(hosts):
    """Mutants: a timeout taken for a daemon that does not run; a start sent to one that hangs."""
    hosts.exec("lost", "kill -STOP $(cat /run/docker.pid)")
    try:
        said = hosts.run("docker-recover", "--yes", hosts="lost")
    finally:
        hosts.exec("lost", "kill -CONT $(cat /run/docker.pid)")
    assert (said.host("lost")["verdict"], said.writes()) == ("unresolved", []), said.out
    assert "state T" in said.finding("lost", "hung")["say"]
    assert said.finding("lost", "dead")["status"] == "absent"
    assert hosts.run("docker-recover", "--yes", hosts="lost").host("lost")["verdict"] == "healthy"


@pytest.mark.soak
def test_whose_memory_it_was_is_told_and_a_limit_is_raised_only_where_the_host_has_room(hosts):
    """Mutants: a host's lack taken for a container's; `leave` not kept free."""
    said = hosts.run("host-oom", "--yes", hosts="full")
    assert (said.host("full")["verdict"], said.writes()) == ("unresolved", []), said.out
    assert "killed python3 (pid 4242)" in said.finding("full", "host_out")["say"]
    assert said.finding("full", "container_out")["status"] == "absent"
    named = ("-e", "container=run-memory", "-e", "raise_to=40")
    said = hosts.run("host-oom", *named, "-e", "leave=100000000", "--yes", hosts="short")
    assert (said.host("short")["verdict"], said.writes()) == ("unresolved", []), said.out
    assert said.finding("short", "no_room")["status"] == "present"
    cured(hosts, "host-oom", "short", "container_out", *named, "-e", "leave=1", step="raise")
    assert hosts.exec("short", "docker inspect --format '{{.HostConfig.Memory}}' run-memory") == f"{40 << 20}\n"


@pytest.mark.soak
def test_a_container_without_shared_memory_is_named_with_its_size_and_nothing_is_removed(hosts):
    """Mutant: only the host's /dev/shm looked at."""
    hosts.exec("lost", "docker exec run-at-work sh -c 'head -c 66000000 /dev/zero >/dev/shm/torch_1'")
    said = hosts.run("shm-full", "--yes", hosts="lost")
    hosts.exec("lost", "docker exec run-at-work sh -c ': >/dev/shm/torch_1'")
    assert (said.host("lost")["verdict"], said.writes()) == ("unresolved", []), said.out
    assert said.finding("lost", "container_full")["say"] == "/dev/shm is full in run-at-work (98.4 % of 64 MiB)"
    assert hosts.run("shm-full", "--yes", hosts="lost").host("lost")["verdict"] == "healthy"
