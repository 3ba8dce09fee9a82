"""Why a container died, by the program itself: real containers that a real engine, a real kernel or they themselves ended."""

from __future__ import annotations

import os
import stat
import time

import pytest

from tests.support.program import runbook
from tests.support.waiting import until

pytestmark = [pytest.mark.real("docker")]

OOM = ("tail", "/dev/zero")


@pytest.fixture
def death(engine, tmp_path):
    """A function that runs the playbook on this machine."""
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts:\n  here: {transport: local}\n")

    def run(*argv, **env):
        where = ("-i", str(inventory), "--hosts", "here", "--output", "json", "-e", "full_above=100")
        said = runbook("run", "container-death", *where, *argv, **{"DOCKER_HOST": engine.host, **env})
        assert said.out, said.err
        assert said.writes() == []
        return said

    return run


def present(said, *, severities=("error", "critical", "warning")):
    """The ids of the findings that are there."""
    return {
        it["id"] for it in said.host("here")["findings"] if it["status"] == "present" and it["severity"] in severities
    }


def unknown(said):
    return {it["id"] for it in said.host("here")["findings"] if it["status"] == "unknown"}


def says(engine, text, code=1, **keys):
    """A container that prints *text* and ends with *code*."""
    return engine.dies("sh", "-c", f"echo '{text}'; exit {code}", **keys)


def test_a_lack_of_memory_is_proven_by_docker_and_kernel_and_every_remedy_is_named(engine, death):
    name = engine.dies("sh", "-c", "echo epoch 3; exec tail /dev/zero", options=("--memory", "20m"))
    said = death()
    assert said.host("here")["verdict"] == "unresolved"
    assert said.code == 1
    assert present(said, severities=("error",)) == {"out_of_memory"}
    found = said.finding("here", "out_of_memory")
    assert name in found["say"]
    assert "exit code 137" in found["say"]
    assert "OOMKilled" in found["say"]
    assert "its limit is 20 MiB; started 20" in found["say"]
    evidence = found["evidence"]
    assert evidence["container"]["oom_killed"] is True
    assert evidence["oom_event"] is True
    assert evidence["log"] == ["epoch 3"]
    words = "\n".join(found["advise"])
    for wanted in ("more memory", "batch size", "gradient accumulation", "gradient checkpointing", "runbook monitor",
                   "--memory=16g --memory-swap=16g"):  # fmt: skip
        assert wanted in words
    assert len(found["advise"]) == 6


@pytest.mark.parametrize(
    ("how", "words"),
    [(("kill",), "signal 9 (a kill)"), pytest.param(("stop", "-t", "1"), "15, then 9 (a stop", marks=pytest.mark.soak)],
)
def test_a_kill_by_hand_is_137_and_no_lack_of_memory(engine, death, how, words):
    """Mutants: the playbook calling every 137 a lack of memory; signals of any time counted."""
    name = engine.lives()
    engine(*how, name)
    said = death()
    assert present(said, severities=("error",)) == {"killed"}
    assert words in said.finding("here", "killed")["say"]
    assert said.finding("here", "out_of_memory")["status"] == "absent"


def test_a_container_that_ran_once_and_cannot_be_started_again_says_why(engine, death, tmp_path):
    """Its exit code is that of its last run.  Mutant: could_not_start of what was only created."""
    device = tmp_path / "nvidia-uvm-tools"
    os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    name = engine.dies("false", options=("--device", str(device)))
    device.unlink()
    assert engine.run("start", name, check=False).returncode
    says(engine, "Traceback (most recent call last):")
    said = death()
    words = said.finding("here", "could_not_start")["say"]
    assert (str(device) in words, "no such file" in words) == (True, True), words


@pytest.mark.soak
def test_a_sigkill_from_within_is_neither_docker_s_nor_memory_s(engine, death):
    engine.dies("sh", "-c", "sh -c 'kill -9 $$'; exit $?")
    said = death()
    assert present(said, severities=("error",)) == {"killed"}
    assert "Docker was not asked to" in said.finding("here", "killed")["say"]


def kernel(folder, *lines, code=0):
    """A dmesg of our own, and no journal."""
    folder.mkdir()
    (folder / "ring").write_text("".join(f"{it}\n" for it in lines))
    for name, text in (("dmesg", f"cat '{folder}/ring'\nexit {code}"), ("journalctl", "exit 1")):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def stamp(at):
    with open("/proc/uptime") as file:
        return f"[{float(file.read().split()[0]) - (time.time() - at):.6f}]"


def killed_lines(at, key, constraint="CONSTRAINT_NONE"):
    group = f"/docker/{key}"
    return (
        f"{stamp(at - 400)} early: the log begins",
        f"{stamp(at)} oom-kill:constraint={constraint},nodemask=(null),cpuset=x,mems_allowed=0,global_oom,task_memcg={group},task=python,pid=77,uid=0",
        f"{stamp(at)} Out of memory: Killed process 77 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0",
    )


@pytest.mark.soak
def test_the_kernel_s_word_that_the_host_was_out_of_memory_counts_although_docker_knows_nothing(
    engine, death, tmp_path
):
    name = engine.dies("sh", "-c", "sh -c 'kill -9 $$'; exit $?")
    key = engine.inspect(name, "{{.Id}}")
    said = death(**kernel(tmp_path / "k", *killed_lines(time.time(), key)))
    assert present(said, severities=("error",)) == {"out_of_memory"}, said.out
    found = said.finding("here", "out_of_memory")
    assert "the kernel killed one of its processes" in found["say"]
    assert found["evidence"]["container"]["oom_killed"] is False
    assert found["evidence"]["killed_by_the_kernel"][0]["container"] == key


@pytest.mark.soak
def test_a_kill_of_another_container_or_at_another_time_is_no_evidence(engine, death, tmp_path):
    """Mutants: any kill in the kernel's log taken for this container's."""
    engine.dies("sh", "-c", "sh -c 'kill -9 $$'; exit $?")
    said = death(**kernel(tmp_path / "k", *killed_lines(time.time(), "ab" * 32)))
    assert present(said, severities=("error",)) == {"killed"}
    assert "killed_nearby" in present(said)
    old = death("-e", "around=5", **kernel(tmp_path / "old", *killed_lines(time.time() - 300, "ab" * 32)))
    assert present(old) == {"killed"}


@pytest.mark.soak
def test_without_the_kernel_s_messages_a_137_stays_unknown_and_says_so(engine, death, tmp_path):
    engine.dies("sh", "-c", "sh -c 'kill -9 $$'; exit $?")
    said = death(**kernel(tmp_path / "k", "dmesg: read kernel buffer failed: Operation not permitted", code=1))
    assert said.host("here")["verdict"] == "unknown"
    assert said.finding("here", "out_of_memory")["status"] == "unknown"
    assert "cannot be read" in said.finding("here", "out_of_memory")["why"]
    assert said.finding("here", "killed")["why"] == "not known whether out_of_memory explains it"


@pytest.mark.parametrize(
    ("text", "finding", "advice"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "gpu_out_of_memory",
         ("batch size", "mixed precision", "checkpointing", "smaller model", "torch.cuda.empty_cache()", "watch -n 1 nvidia-smi")),
        pytest.param("RuntimeError: CUDA error: an illegal memory access was encountered", "cuda_error", ("zombie-gpu",), marks=pytest.mark.soak),
        pytest.param("OSError: [Errno 28] No space left on device", "disk_full", ("disk-full", "old runs", "df -h"), marks=pytest.mark.soak),
        pytest.param("RuntimeError: unable to write to file </torch_1_2>: No space left on device (28)", "shared_memory", ("--shm-size",), marks=pytest.mark.soak),
        pytest.param("numpy.core._exceptions.MemoryError: Unable to allocate 9 GiB", "no_memory", ("batch size",), marks=pytest.mark.soak),
        pytest.param("ValueError: bad config", "unexplained", ("docker logs",), marks=pytest.mark.soak),
    ],
)  # fmt: skip
def test_what_the_log_says_is_the_cause_with_its_remedies(engine, death, text, finding, advice):
    says(engine, text)
    said = death()
    assert present(said, severities=("error",)) == {finding}, said.out
    found = said.finding("here", finding)
    assert any(text in it for it in found["evidence"]["log"])
    for wanted in advice:
        assert wanted in "\n".join(found["advise"])


@pytest.mark.soak
@pytest.mark.parametrize(
    ("line", "finding", "words"),
    [
        ("sh -c 'kill -s SEGV $$'; exit $?", "segfault", "corrupt memory"),
        ("exit 143", "ended_by_signal", "asked to terminate"),
    ],
)
def test_every_other_end_has_its_code_and_its_meaning(engine, death, line, finding, words):
    engine.dies("sh", "-c", f"echo x; {line}")
    said = death()
    assert present(said, severities=("error",)) == {finding}
    assert words in said.finding("here", finding)["say"]


@pytest.mark.soak
def test_the_last_that_died_is_looked_at_unless_one_is_named(engine, death):
    engine("create", "--name", "made-first", "--network", "none", "base:1", "sh", "-c", "echo last; exit 5")
    engine.dies("sh", "-c", "echo early; exit 6", name="made-last")
    engine("start", "-a", "made-first", check=False)
    assert "made-first died by itself: 5" in death().finding("here", "unexplained")["say"]
    assert "made-last died by itself: 6" in death("-e", "container=made-last").finding("here", "unexplained")["say"]
    missing = death("-e", "container=nobody")
    assert missing.code == 1
    assert "no container nobody" in missing.finding("here", "not_found")["say"]


@pytest.mark.soak
def test_one_that_died_of_memory_is_not_healthy_although_another_ended_well_later(engine, death):
    engine.dies(*OOM, name="short", options=("--memory", "20m"))
    engine.dies("true", name="well")
    said = death()
    assert present(said, severities=("error",)) == {"out_of_memory"}, said.out
    assert "short" in said.finding("here", "out_of_memory")["say"]


@pytest.mark.soak
def test_one_that_was_asked_for_and_never_started_is_told_with_docker_s_reason(engine, death):
    engine("create", "--name", "idle", "--network", "none", "base:1", "true")
    engine.run("run", "--name", "bad", "--network", "none", "base:1", "no-such-program", check=False)
    idle = death("-e", "container=idle")
    assert present(idle) == {"never_started"}, idle.out
    bad = death("-e", "container=bad")
    assert present(bad) == {"could_not_start"}
    assert "no-such-program" in bad.finding("here", "could_not_start")["evidence"]["errors"][0]


@pytest.mark.soak
def test_by_label(engine, death):
    says(engine, "one", 6, options=("--label", "run=1"))
    says(engine, "two", 7)
    said = death("-e", "labels=[run=1]")
    assert "6" in said.finding("here", "unexplained")["say"]
    assert said.finding("here", "unexplained")["evidence"]["log"] == ["one"]


@pytest.mark.soak
def test_nothing_that_died_and_what_ended_well_are_healthy(engine, death):
    said = death()
    assert said.host("here")["verdict"] == "healthy", said.out
    assert said.finding("here", "none_died")["status"] == "present"
    engine.lives(name="alive")
    engine.dies("echo", "done")
    said = death()
    assert said.host("here")["verdict"] == "healthy", said.out
    assert present(said) == set()
    assert said.finding("here", "ended_normally")["status"] == "present"
    named = death("-e", "container=alive")
    assert named.host("here")["verdict"] == "healthy", named.out
    assert named.finding("here", "lives")["status"] == "present"


@pytest.mark.soak
def test_a_container_that_hangs_or_fails_its_health_check_is_not_healthy(engine, death):
    """Mutants: warnings in place of errors; the age of the last line left out."""
    words = "echo 'torch.OutOfMemoryError: CUDA out of memory.'; exec sleep 1000"
    engine("run", "-d", "--name", "hung", "--network", "none", "base:1", "sh", "-c", words)
    until(lambda: "CUDA out of memory" in engine("logs", "hung"), "its log")
    said = death()
    assert present(said) == {"stuck"}
    late = death("-e", "stuck_after=0")
    assert present(late) == {"hangs"}
    assert late.host("here")["verdict"] == "unresolved"
    assert ": hung (hung uses " in late.finding("here", "hangs")["say"]
    engine("rm", "-f", "hung")
    check = ("--health-cmd", "false", "--health-interval", "1s", "--health-retries", "1")
    engine("run", "-d", "--name", "sick", "--network", "none", *check, "base:1", "sleep", "1000")
    until(lambda: engine.inspect("sick", "{{.State.Health.Status}}") == "unhealthy", "its health check to fail")
    said = death()
    assert present(said) == {"unhealthy"}
    assert said.host("here")["verdict"] == "unresolved"


@pytest.mark.soak
def test_a_restart_loop_is_named_before_all_with_the_code_that_it_ends_with(engine, death):
    engine("run", "-d", "--name", "loop", "--restart", "always", "--network", "none", "base:1",
           "sh", "-c", "echo 'fatal: destination path exists'; sleep 0.3; exit 128")  # fmt: skip
    engine.dies("echo", "other")
    until(
        lambda: int(engine.inspect("loop", "{{.RestartCount}}")) >= 6, "six restarts"
    )  # between two lives for seconds

    def between_two_lives():
        said = death()
        return said.finding("here", "restarting")["status"] == "present" and said

    said = until(between_two_lives)
    found = said.finding("here", "restarting")
    assert found["status"] == "present"
    assert "loop" in found["say"]
    assert "docker update --restart=no loop" in found["advise"][0]
    assert "fatal: destination path exists" in found["evidence"]["log"]
    assert found["evidence"]["policies"] == ["always"]
    assert said.host("here")["verdict"] == "unresolved"


def test_what_could_not_be_started_is_no_container_that_died(engine, death):
    engine.run("run", "--name", "bad", "--network", "none", "base:1", "no-such-program", check=False)
    said = death()
    assert present(said, severities=("error",)) == {"could_not_start"}
    assert "no-such-program" in said.finding("here", "could_not_start")["evidence"]["errors"][0]


@pytest.mark.soak
def test_an_empty_log_and_a_driver_without_one_lead_to_the_set_up_of_logging(engine, death):
    engine.dies("false")
    said = death()
    assert "nothing was written" in said.finding("here", "no_log")["say"]
    engine.dies("sh", "-c", "echo CUDA out of memory; exit 1", options=("--log-driver", "none"))
    said = death()
    assert "driver none keeps none" in said.finding("here", "no_log")["say"]
    assert "docker-logging-setup" in said.finding("here", "no_log")["advise"][0]
    assert present(said, severities=("error",)) == {"unexplained"}
    assert said.host("here")["verdict"] == "unresolved"


@pytest.mark.soak
def test_one_that_still_runs_after_a_lack_of_gpu_memory_may_be_stuck(engine, death):
    engine(
        "run",
        "-d",
        "--name",
        "stuck",
        "--network",
        "none",
        "base:1",
        "sh",
        "-c",
        "echo CUDA out of memory; exec sleep 900",
    )
    until(lambda: "CUDA out of memory" in engine("logs", "stuck"), "its log")
    said = death()
    assert present(said) == {"stuck"}
    assert "docker stats" in said.finding("here", "stuck")["advise"][0]
    (usage,) = (it for it in said.finding("here", "stuck")["evidence"]["usage"] if it["name"] == "stuck")
    assert isinstance(usage["cpu_percent"], float)
    assert usage["processes"] >= 1


@pytest.mark.soak
def test_high_memory_without_a_kill_points_at_the_other_causes(engine, death):
    says(engine, "request timed out", 3)
    said = death("-e", "memory_high=0")
    found = said.finding("here", "high_memory_without_kill")
    assert found["status"] == "present"
    assert found["evidence"]["timeouts_in_the_log"] == 1
    assert "time limit" in found["advise"][0]


@pytest.mark.soak
def test_a_disk_that_is_full_now_is_told(engine, death):
    said = death("-e", "full_above=1")
    assert said.finding("here", "full_now")["status"] == "present"
    assert str(engine.root) in said.finding("here", "full_now")["evidence"]["disks"][-1]["path"]


def test_a_docker_that_is_down_is_unknown_and_nothing_is_called_healthy(death, tmp_path):
    said = death(DOCKER_HOST=f"unix://{tmp_path}/none.sock")
    assert said.host("here")["verdict"] == "unknown"
    assert said.code == 1
    assert "the Docker daemon is not running" in said.step("here", "containers")["why"]
    assert present(said, severities=("error",)) == set()


def test_a_wrapper_that_swallows_the_code_of_its_child_is_not_healthy(engine, death):
    """Mutant: `ended_normally` by the exit code alone."""
    engine.dies("sh", "-c", "sh -c 'kill -9 $$'; echo \"Job exited with error code $?\"; exit 0", name="wrapper")
    said = death()
    assert said.host("here")["verdict"] == "unresolved", said.out
    assert present(said) == {"work_failed"}
    assert "error code 137" in said.finding("here", "work_failed")["say"]
    assert said.finding("here", "ended_normally")["status"] != "present"
