"""Before a run, and on hosts that have next to nothing: what is not known is said, and nothing of it is called healthy."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from tests.support.program import runbook
from tests.support.unprivileged import ordinary_user

ROOMY = (
    "-e",
    "disk_free=1MiB",
    "-e",
    "disk_below=100",
    "-e",
    "memory_below=100",
    "-e",
    "memory_free=1MiB",
    "-e",
    "faults_since=1s",
)  # of a real machine the kernel may keep no more
ALL = ("container-death", "docker-logging-setup", "disk-full", "runner-preflight", "runner-monitor")


def present(said, host, severity="error"):
    return {it["id"] for it in said.host(host)["findings"] if it["status"] == "present" and it["severity"] == severity}


@pytest.mark.real("lab", "sshd")
@pytest.mark.soak
def test_every_fault_of_a_runner_is_found_and_a_good_one_is_ready(practice):
    """Mutants: a GPU that nvidia-smi cannot tell of counted as idle; a missing GPU passed over."""
    lab = practice("good", "used=busy", "left=leftovers", "deaf=smi_hangs", "none=no_gpu", "ill=resettable")
    asked = ("runner-preflight", *ROOMY, "-e", "need_docker=false", "-e", "expect_gpus=2")
    said, deaf = lab.run(*asked, hosts="good,used,left,none,ill"), lab.run(*asked, "--timeout", "5s", hosts="deaf")
    verdicts = {it["host"]: it["verdict"] for it in said.document["hosts"]}
    assert verdicts == {"good": "healthy", "used": "unresolved", "left": "unresolved", "none": "unresolved",
                        "ill": "unresolved"}, said.out  # fmt: skip
    assert deaf.host("deaf")["verdict"] == "unknown", deaf.out
    assert present(said, "used") == {"gpu_in_use"}
    assert present(said, "left") == {"gpu_memory_taken"}
    assert present(said, "none") == {"too_few_gpus"}
    assert "gpu_needs_reset" in present(said, "ill")
    assert deaf.finding("deaf", "too_few_gpus")["status"] == "unknown"
    assert (said.writes(), deaf.writes()) == ([], [])
    tight = lab.run(
        "runner-preflight", "-e", "disk_below=1", "-e", "memory_free=100TiB", "-e", "disks=[/, /no/such]", hosts="good"
    )
    assert present(tight, "good") == {"no_docker", "no_room", "little_memory", "no_such_place"}
    assert "disk-full" in tight.finding("good", "no_room")["advise"][0]


@pytest.mark.real("lab", "sshd", "tmux")
@pytest.mark.soak
def test_the_monitor_is_started_where_it_is_asked_for(practice):
    """Mutants: steps of the monitor without being asked; an include of its probes alone."""
    lab = practice("gpu-01=healthy")
    asked = ("runner-preflight", "--yes", *ROOMY, "-e", "need_docker=false")
    silent = lab.run(*asked)
    assert silent.step("gpu-01", "monitor_script")["status"] == "skipped"
    assert (silent.writes(), present(silent, "gpu-01", "warning")) == ([], {"not_watched"})
    said = lab.run(*asked, "-e", "start_monitor=true")
    assert said.step("gpu-01", "monitor_start_session")["status"] == "changed", said.out
    assert said.host("gpu-01")["verdict"] == "resolved"
    assert lab.run(*asked, "-e", "start_monitor=true").writes() == []


@pytest.mark.real("docker")
@pytest.mark.soak
def test_docker_must_answer_and_containers_must_get_the_gpus(engine, tmp_path):
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json", *ROOMY)
    ready = runbook("run", "runner-preflight", *where, "-e", "expect_gpus=0", DOCKER_HOST=engine.host)
    assert ready.host("here")["verdict"] == "healthy", ready.out
    small = runbook(
        "run", "runner-preflight", *where, "-e", "expect_gpus=0", "-e", "disk_free=1TiB", DOCKER_HOST=engine.host
    )
    assert str(engine.root) in small.finding("here", "no_room")["say"]
    wanting = runbook("run", "runner-preflight", *where, DOCKER_HOST=engine.host)
    assert {"no_toolkit", "too_few_gpus"} <= present(wanting, "here") or "toolkit_not_configured" in present(
        wanting, "here", "warning"
    )
    down = runbook("run", "runner-preflight", *where, "-e", "expect_gpus=0", DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert down.host("here")["verdict"] == "unknown"
    assert "Cannot connect" in down.step("here", "docker")["why"]


@pytest.mark.real("lab", "sshd")
def test_without_docker_systemd_and_gpu_nothing_crashes_and_each_part_says_so(practice):
    lab = practice("bare=no_gpu")
    for name, more in (
        ("container-death", ("-e", "full_above=100")),
        ("disk-full", ("-e", "full_above=100")),
        ("docker-logging-setup", ()),
        ("runner-preflight", (*ROOMY, "-e", "need_docker=false", "-e", "expect_gpus=0")),
    ):
        said = lab.run(name, "--yes", *more)
        lacking = name in ("container-death", "docker-logging-setup")  # without Docker they have nothing to tell
        assert said.host("bare")["verdict"] == ("unresolved" if lacking else "healthy"), said.out
        if lacking:
            assert said.finding("bare", "no_docker")["status"] == "present"
        assert said.writes() == []
        skipped = {it["id"]: it["why"] for it in said.host("bare")["steps"] if it["status"] == "skipped"}
        assert all(skipped.values())
        if name == "container-death":
            assert "no Docker on this host" in skipped["containers"]
            assert "no NVIDIA GPU" in skipped["gpus"]


@pytest.mark.real("busybox")
@pytest.mark.parametrize("name", ALL)
def test_a_host_with_a_busybox_alone_never_crashes_a_playbook(name, tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    subprocess.run(["busybox", "--install", "-s", str(tools)], check=True)
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
    where = ("-i", str(tmp_path / "hosts.yaml"), "--hosts", "here", "--output", "json")
    said = runbook("run", name, *where, "--dry-run", PATH=str(tools), HOME=str(tmp_path))
    assert said.code in (0, 1), said.err
    assert "internal error:" not in said.out
    assert "Traceback" not in said.err
    for it in said.host("here")["steps"]:
        assert it["status"] in ("ok", "would_change") or it["why"], it


@pytest.mark.real("docker", "setpriv", "lab")
def test_without_root_it_is_said_that_docker_and_kernel_could_not_be_asked(engine):
    engine.folder.chmod(0o755)
    engine.dies("sh", "-c", "exit 3")
    with ordinary_user() as user:
        (user.home / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
        words = user.words("run", "container-death", "-i", "hosts.yaml", "--hosts", "here", "--output", "json")
        env = {**os.environ, "DOCKER_HOST": engine.host}
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=env, timeout=90, stdin=subprocess.DEVNULL
        )
    assert done.stdout, done.stderr
    (host,) = json.loads(done.stdout)["hosts"]
    assert host["verdict"] == "unknown", done.stdout
    why = next(it["why"] for it in host["steps"] if it["id"] == "containers")
    assert "sudo" in why or "permission" in why
