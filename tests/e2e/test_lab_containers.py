"""Containers that died on lab hosts with a Docker engine of their own: every playbook for them, by plain SSH."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from runbook import lab
from runbook.lab.docker_engine import group_of
from tests.support.program import Practice

pytestmark = [pytest.mark.real("docker", "lab", "sshd", "git"), pytest.mark.soak]

DEATHS = {
    "memory": ("died_of_memory+at_work", "out_of_memory"),
    "kill": ("died_of_kill+no_gpu", "killed"),
    "segfault": ("died_of_segfault", "segfault"),
    "cuda": ("died_of_gpu_memory+hung", "gpu_out_of_memory"),
    "disk": ("died_of_disk", "disk_full"),
    "itself": ("died_of_itself+at_work+unbounded_logs", "unexplained"),
    "silent": ("died_silently", "unexplained"),
    "calm": ("at_work", None),
}
"""Host to its faults, and the one error that is to be found on it."""

OTHERS = ("again=dies_again", "full=docker_full+at_work", "refused=unbounded_logs+at_work")
WORK = "/run/lab/workspace"
LOOP = ("-e", "container=areal", "-e", f"directory={WORK}/AReaL", "-e", f"allowed_roots=[{WORK}]")
READY = ("-e", "disk_free=1MiB", "-e", "disks=[/run]", "-e", "memory_below=100", "-e", "memory_free=1MiB")
AFRESH = """docker restart -t 0 areal
until [ "$(docker inspect --format '{{.RestartCount}}' areal)" -ge 3 ]; do sleep 0.1; done"""  # Docker waits longer every time
AT_WORK = "docker inspect --format '{{.State.StartedAt}} {{.State.Running}}' run-at-work"


def this_machine():
    """What this machine's own Docker has, and when it was changed; key.json is made by any first dockerd on it."""
    places = [
        Path(name) for name in ("/etc/docker/daemon.json", "/var/lib/docker", "/run/docker.pid", "/run/docker.sock")
    ]
    return [(path, path.stat().st_mtime_ns) for place in places if place.exists() for path in (place, *place.glob("*"))]


def groups(folder):
    return [it for it in Path("/sys/fs/cgroup").glob("**/runbook-lab-*") if it.name == group_of(folder)]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder, before = tmp_path_factory.mktemp("boxes") / "lab", this_machine()
    faults = [f"{name}={it}" for name, (it, _) in DEATHS.items()]
    made = lab.up(lab.LabOptions(directory=folder, faults=(*OTHERS, *faults)))
    assert groups(folder)
    yield Practice(made)
    lab.down(folder)
    assert not groups(folder)
    assert str(folder) not in Path("/proc/self/mounts").read_text()
    assert this_machine() == before


def errors(said, host):
    return {it["id"] for it in said.host(host)["findings"] if (it["status"], it["severity"]) == ("present", "error")}


def test_a_loop_of_a_real_container_is_told_and_ends_when_its_directory_is_cleared(hosts):
    """Mutants: what the container wrote before Docker noted its start taken for the life before."""
    hosts.exec("again", AFRESH)
    told = hosts.run("container-death", hosts="again")
    for _ in range(20):  # it may be met while it lives for a moment, and then nothing is said of its death
        if told.finding("again", "lives")["status"] != "present":
            break
        told = hosts.run("container-death", hosts="again")
    assert errors(told, "again") == {"restarting", "clones_over"}, told.out
    assert "restart-loop --hosts again -e container=areal" in told.finding("again", "clones_over")["advise"][0]
    said = hosts.run("restart-loop", *LOOP, "--yes", hosts="again", timeout=240)
    assert said.host("again")["verdict"] == "resolved", said.out
    assert said.step("again", "came_through")["status"] == "ok"
    found = said.finding("again", "clone_over")
    assert (found["status"], found["evidence"]["since_the_last_start"][0][21:]) == ("gone", "Docker starts areal")
    assert "Training step 1 of 250" in hosts.exec("again", "docker logs areal 2>&1")
    again = hosts.run("restart-loop", *LOOP, "--yes", hosts="again")
    assert (again.host("again")["verdict"], again.writes()) == ("healthy", []), again.out


def test_every_death_has_its_cause_with_its_evidence_and_what_is_at_work_is_left_alone(hosts):
    before = hosts.exec("memory", AT_WORK)
    said = hosts.run("container-death", "-e", "stuck_after=10000", hosts=",".join(DEATHS))
    assert said.writes() == []
    for name, (_, wanted) in DEATHS.items():
        assert errors(said, name) == ({wanted} if wanted else set()), name
        assert said.host(name)["verdict"] == ("unresolved" if wanted else "healthy"), (
            name,
            [
                (it["id"], it["status"], it["why"])
                for it in said.host(name)["findings"]
                if it["status"] not in ("absent", "present")
            ],
        )
        if wanted and name != "silent":
            assert "Training step 57 of 250" in said.finding(name, wanted)["evidence"]["log"]
    short = said.finding("memory", "out_of_memory")["evidence"]
    assert (short["container"]["name"], short["container"]["memory"]) == ("run-memory", 20 << 20)
    assert len(said.finding("memory", "out_of_memory")["advise"]) == 6
    assert "nothing was written to it" in said.finding("silent", "no_log")["say"]
    assert "still running" in said.finding("cuda", "stuck")["say"]
    assert "run-hung" in said.finding("cuda", "stuck")["say"]
    assert "was asked to send it signal 9" in said.finding("kill", "killed")["say"]
    assert any("ValueError: batch_size" in it for it in said.finding("itself", "unexplained")["evidence"]["log"])
    assert "no NVIDIA GPU" in said.step("kill", "gpus")["why"]
    if subprocess.run(["dmesg"], capture_output=True, check=False).returncode == 0:
        (killed,) = short["killed_by_the_kernel"]
        assert (killed["name"], killed["container"]) == ("tail", short["container"]["id"])
        (fault,) = said.finding("segfault", "segfault")["evidence"]["segfaults"]
        assert "segfault at" in fault["text"]
        assert said.finding("disk", "disk_full")["evidence"]["killed_by_the_kernel"] == []
    assert hosts.exec("memory", AT_WORK) == before
    assert before.endswith(" true\n")


def test_room_is_made_and_the_last_evidence_and_what_is_in_use_stay(hosts):
    before = hosts.exec("full", AT_WORK)
    plan = hosts.run("docker-prune", "--dry-run", hosts="full,calm")
    assert plan.host("full")["verdict"] == "planned", plan.out
    assert plan.host("calm")["verdict"] == "healthy"
    assert "5 dead containers, 2 images" in plan.step("full", "dead_and_dangling")["planned"]
    assert len(hosts.exec("full", "docker ps -aq; docker images -aq").split()) == 12
    said = hosts.run("disk-full", "--yes", hosts="full")
    assert said.host("full")["verdict"] == "resolved", said.out
    assert said.step("full", "docker_unused_images")["status"] == "skipped"
    left = hosts.exec("full", "docker ps -a --format '{{.Names}}'; docker images -a --format '{{.Repository}}'").split()
    assert len(left) == 5
    assert {"run-at-work", "lab/areal"} < {*left}
    assert hosts.exec("full", AT_WORK) == before
    again = hosts.run("docker-prune", "--yes", hosts="full")
    assert (again.host("full")["verdict"], again.writes()) == ("healthy", [])


def test_logs_are_bounded_by_the_init_script_where_no_systemd_runs_and_containers_go_on(hosts):
    """Mutants: a restart without live-restore; a second restart; the restart of a host that has it all."""
    before, started = hosts.exec("itself", AT_WORK), hosts.exec("itself", "cat /run/docker.pid")
    said = hosts.run("docker-logging-setup", "--yes", hosts="itself,calm")
    assert said.host("itself")["verdict"] == "resolved", said.out
    assert said.step("itself", "restart")["status"] == "skipped"
    assert said.step("itself", "restart_by_script")["status"] == "changed"
    assert said.host("calm")["verdict"] == "healthy"
    assert {it for it in said.writes() if "init.d" in it} == {
        it["line"] for it in said.step("itself", "restart_by_script")["commands"] if it["effect"] == "write"
    }
    assert '"runtimes": {"nvidia"' in hosts.exec("itself", "cat /etc/docker/daemon.json")
    assert hosts.exec("itself", "cat /run/docker.pid") != started
    assert hosts.exec("itself", AT_WORK) == before
    again = hosts.run("docker-logging-setup", "--yes", hosts="itself,calm")
    assert ({it["verdict"] for it in again.document["hosts"]}, again.writes()) == ({"healthy"}, [])


def test_a_restart_that_docker_refuses_is_taken_back_and_containers_go_on(hosts):
    """Mutants: the old file put back without live-restore."""
    before = hosts.exec("refused", AT_WORK)
    bad = 'settings={"live-restore": true, "log-opts": {"nonsense": "1"}}'
    before_it = hosts.run("docker-logging-setup", "--yes", "-e", bad, hosts="refused")
    assert before_it.finding("refused", "docker_would_not_start")["status"] == "present", before_it.out
    assert before_it.writes() == []
    said = hosts.run("docker-logging-setup", "--yes", "-e", bad, "-e", 'allow_options=["nonsense"]', hosts="refused")
    assert said.host("refused")["verdict"] == "failed", said.out
    assert "unknown log opt 'nonsense'" in said.step("refused", "restart_by_script")["why"]
    assert said.step("refused", "start_by_script_again")["status"] == "changed"
    kept = json.loads(hosts.exec("refused", "cat /etc/docker/daemon.json"))
    assert (kept["live-restore"], set(kept)) == (True, {"live-restore", "runtimes"})
    assert hosts.exec("refused", AT_WORK) == before


def test_before_a_run_and_while_it_runs(hosts):
    said = hosts.run("runner-preflight", *READY, hosts="memory,kill")
    assert said.host("memory")["verdict"] == "healthy", said.out
    assert errors(said, "kill") == {"too_few_gpus", "no_toolkit"}
    watched = hosts.run("monitor", hosts="memory,segfault,disk")
    assert watched.finding("memory", "containers_died")["say"].endswith(": run-memory")
    assert watched.finding("segfault", "containers_died")["say"].endswith(": run-segfault")
    if subprocess.run(["dmesg"], capture_output=True, check=False).returncode == 0:
        assert errors(watched, "memory") >= {"killed"}
    assert errors(watched, "disk") <= {"disk_full", "memory_short"}, "what this machine is short of"
    assert said.writes() == watched.writes() == []
